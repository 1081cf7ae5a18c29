"""Every setting of the system, with its one default: the paper's value.

Four frozen dataclasses (model, data, training, decoding) make up a `Config`; a fifth is of the server. `presets.py` has the
ready-made ones; a model folder keeps the one it was trained with in `config.json`.
"""

import dataclasses
import json
import re

from tf_transformer.atomic_io import atomic_write
from tf_transformer.errors import UserError

WORDS, TREES = "words", "trees"  # the "languages" of a treebank (Sec. 6.3)


def check_model_name(name):
    """Raises: UserError for a name that would not do in an address."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise UserError(f"--name is {name!r}: give letters, digits, '_', '.' and '-' only")


def setting(default, meaning, least=None, below=None, choices=None):
    """A field with its default, its meaning (unit included) and its range or choices; the command line makes a flag of it."""
    return dataclasses.field(
        default=default,
        metadata={"meaning": meaning, "least": least, "below": below, "choices": choices},
    )


class Settings:
    """The base class of the four parts: refuses values out of range."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least, below, choices = (field.metadata[name] for name in ("least", "below", "choices"))
            if least is not None and not value >= least:
                raise UserError(f"{field.name} is {value}: give at least {least}")
            if below is not None and not value < below:
                raise UserError(f"{field.name} is {value}: give less than {below}")
            if choices is not None and value not in choices:
                raise UserError(
                    f"{field.name} is {value!r}: give {', '.join(choices[:-1])} or {choices[-1]}"
                )


@dataclasses.dataclass(frozen=True)
class ModelConfig(Settings):
    """Sizes of the Transformer, named as in the reference code; the defaults are the base model of Table 3."""

    num_layers: int = setting(6, "N, layers of the encoder and of the decoder", least=1)
    d_model: int = setting(512, "width of every sub-layer's output", least=1)
    num_heads: int = setting(8, "h", least=1)
    dff: int = setting(2048, "d_ff, inner width of the feed-forward network", least=1)
    dropout_rate: float = setting(0.1, "P_drop, share of values dropped", least=0, below=1)
    input_vocab_size: int = setting(37000, "source sub-words", least=1)
    target_vocab_size: int = setting(37000, "target sub-words", least=1)
    pe_input: int = setting(1024, "longest source, sub-words", least=1)
    pe_target: int = setting(1024, "longest target, sub-words", least=1)
    key_dim: int = setting(0, "d_k of a head; 0 means d_model / num_heads", least=0)
    value_dim: int = setting(0, "d_v of a head; 0 means d_model / num_heads", least=0)
    positional_encoding: str = setting(
        "sinusoidal", "sinusoidal or learned (Table 3, row E)", choices=("sinusoidal", "learned")
    )
    shared_embeddings: bool = setting(
        True, "one matrix for both embeddings and the softmax (Sec. 3.4)"
    )

    def __post_init__(self):
        super().__post_init__()
        if self.d_model % self.num_heads and not (self.key_dim and self.value_dim):
            raise UserError(
                f"d_model {self.d_model} is not divisible by num_heads {self.num_heads}: change one of them, or give key_dim and value_dim"
            )
        if self.shared_embeddings and self.input_vocab_size != self.target_vocab_size:
            raise UserError(
                f"shared embeddings need one vocabulary, not {self.input_vocab_size} and {self.target_vocab_size} sub-words"
            )

    @property
    def depth(self):
        """d_k of a head."""
        return self.key_dim or self.d_model // self.num_heads

    @property
    def value_depth(self):
        """d_v of a head."""
        return self.value_dim or self.d_model // self.num_heads

    def parameters(self):
        """The number of weights, by the closed formula.

        base with 37,000 shared sub-words has 63.1 million and big 214.2. Table 3 prints 65 and 213: no one vocabulary gives both (they
        would need about 40,700 and 35,800 rows), so the paper's are rounded counts of a code whose vocabulary size it does not tell.
        """
        d, f = self.d_model, self.dff
        keys = self.num_heads * self.depth
        values = self.num_heads * self.value_depth
        attention = 2 * (d * keys + keys)  # W^Q and W^K with their biases
        attention += (d * values + values) + (values * d + d)  # W^V and W^O
        feed_forward = (d * f + f) + (f * d + d)
        encoder_layer = attention + feed_forward + 2 * 2 * d  # a layer norm has two vectors
        decoder_layer = 2 * attention + feed_forward + 3 * 2 * d
        embeddings = self.input_vocab_size * d
        if not self.shared_embeddings:  # the target's own, and the projection with its bias
            embeddings += self.target_vocab_size * d + (d + 1) * self.target_vocab_size
        if self.positional_encoding == "learned":
            embeddings += (self.pe_input + self.pe_target) * d
        return self.num_layers * (encoder_layer + decoder_layer) + embeddings


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """Which sentence pairs, and how they become batches (Sec. 5.1)."""

    data: str = setting(
        "pocket",
        "pocket, a folder, a TSV file, SOURCE_FILE,TARGET_FILE, a TFDS name like wmt14_translate/de-en; for trees pocket-trees or a folder",
    )
    source: str = setting("en", "language code of the source, or words (of trees)")
    target: str = setting("de", "language code of the target, or trees")
    vocab_size: int = setting(37000, "sub-words in a vocabulary", least=8)
    shared_vocab: bool = setting(True, "one vocabulary for both languages")
    max_length: int = setting(
        256, "pairs with a longer side are dropped, sub-words with the end symbol", least=2
    )
    max_length_ratio: float = setting(
        9.0, "pairs whose sides differ by a larger factor are dropped, sub-words", least=1
    )
    batch_tokens: int = setting(
        25000, "source tokens, and target tokens, in one batch, padding included", least=1
    )

    def __post_init__(self):
        super().__post_init__()
        if self.batch_tokens < self.max_length:
            raise UserError(
                f"batch_tokens {self.batch_tokens} is less than max_length {self.max_length}: "
                "a batch must hold at least one longest sentence"
            )


@dataclasses.dataclass(frozen=True)
class TrainConfig(Settings):
    """The recipe (Sec. 5.3, 5.4) and the housekeeping of a run."""

    train_steps: int = setting(100_000, "updates of the weights", least=1)
    train_minutes: float = setting(
        0.0,
        "stop after so many minutes of wall-clock, counted from each start; 0 means no limit",
        least=0,
    )
    warmup_steps: int = setting(4000, "updates over which the learning rate rises (Eq. 3)", least=1)
    learning_rate_scale: float = setting(
        1.0, "factor on Eq. 3, for batches much smaller than the paper's", least=0
    )
    dropout_warmup_steps: int = setting(
        0, "updates over which the dropout rate rises from 0; 0 means it is constant", least=0
    )
    label_smoothing: float = setting(0.1, "epsilon_ls", least=0, below=1)
    beta_1: float = setting(0.9, "Adam's decay of the mean gradient")
    beta_2: float = setting(0.98, "Adam's decay of the mean squared gradient")
    epsilon: float = setting(1e-9, "Adam's epsilon")
    seed: int = setting(
        1, "of the weights, the order of the data and the dropout masks", least=0, below=2**21
    )
    clip_norm: float = setting(
        0.0, "longest gradient, the norm of all its parts; 0 means no limit (the paper)", least=0
    )
    micro_batch_tokens: int = setting(
        4096, "source tokens, and target tokens, that a device computes at a time, padding included; a larger share of a batch is "
        "computed in several micro-steps, whose gradients are added up", least=1,
    )  # fmt: skip
    precision: str = setting(
        "auto", "auto (bfloat16 where the device multiplies matrices in it), float32, mixed_bfloat16 or mixed_float16",
        choices=("auto", "float32", "mixed_bfloat16", "mixed_float16"),
    )  # fmt: skip
    jit_compile: str = setting(
        "auto",
        "whether XLA compiles the gradients: auto (on GPUs), on or off",
        choices=("auto", "on", "off"),
    )
    logical_devices: int = setting(
        0,
        "replicas on the processor; 0 means one on each GPU, or where there is none, two",
        least=0,
    )
    save_steps: int = setting(
        1500, "updates between checkpoints (Sec. 6.1: 10 minutes, 1,500 of base)", least=1
    )
    max_checkpoints: int = setting(
        5,
        "newest checkpoints kept, and averaged at the end (Sec. 6.1: 5 for base, 20 for big)",
        least=1,
    )
    eval_steps: int = setting(1000, "updates between validations", least=1)
    early_stopping_patience: int = setting(
        0, "validations without a better score after which training stops; 0 means never", least=0
    )
    max_skipped_steps: int = setting(
        20, "updates in a row without finite gradients after which training stops", least=1
    )
    bleu_sentences: int = setting(
        500, "validation sentences translated for the BLEU score; 0 means none", least=0
    )
    log_steps: int = setting(50, "updates between log lines", least=1)


@dataclasses.dataclass(frozen=True)
class DecodeConfig(Settings):
    """Beam search as in Sec. 6.1."""

    beam_size: int = setting(4, "hypotheses kept for each sentence; 1 means greedy search", least=1)
    length_penalty: float = setting(0.6, "length penalty ((5 + L) / 6) ^ alpha", least=0)
    extra_decode_length: int = setting(
        50, "longest output: input length + so many sub-words", least=1
    )
    decode_batch_tokens: int = setting(
        4096, "source tokens times hypotheses in one batch, padding included", least=1
    )


@dataclasses.dataclass(frozen=True)
class ServeConfig(Settings):
    """A server of our own, for machines without TensorFlow Serving; no part of a run."""

    host: str = setting("127.0.0.1", "address to listen at; 0.0.0.0 is all the world")
    port: int = setting(8501, "port to listen at", least=0, below=65536)
    max_batch_size: int = setting(
        32,
        "most texts of different requests that are computed together; 0 means each request alone",
        least=0,
    )
    concurrent_batches: int = setting(1, "batches that are computed at a time", least=1)
    max_queue: int = setting(
        100,
        "requests in waiting, for each signature, beyond which new ones get status 503",
        least=1,
    )
    max_rows: int = setting(256, "most texts in one request; more get status 400", least=1)
    max_rows_alone: int = setting(
        8, "the same for score and alignments, whose answers can be large", least=1
    )
    max_request_bytes: int = setting(
        2**20, "largest request; a larger one gets status 413", least=1
    )
    max_connections: int = setting(
        1000, "open connections beyond which requests get status 503", least=1
    )
    timeout: float = setting(
        60.0,
        "seconds for a request to come in (else status 408), and for its answer (else 504)",
        least=0.1,
    )
    reload_seconds: float = setting(2.0, "seconds between looks for a newer version", least=0.1)


@dataclasses.dataclass(frozen=True)
class Config:
    """All settings of one run."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    def __post_init__(self):
        if self.data.max_length > self.train.micro_batch_tokens:
            raise UserError(
                f"max_length {self.data.max_length} is more than micro_batch_tokens {self.train.micro_batch_tokens}: "
                "a micro-step must hold at least one longest sentence"
            )
        for name in ("pe_input", "pe_target"):
            if self.data.max_length > getattr(self.model, name):
                raise UserError(
                    f"max_length {self.data.max_length} is beyond the table of {getattr(self.model, name)} positions: "
                    f"give a smaller max_length or a larger {name}"
                )

    def replace(self, **settings):
        """Returns a copy with some settings changed, each named by its field, whichever part it is in.

        Raises: UserError for a value that its part refuses; KeyError for a name that is no setting.
        """
        parts = {}
        for part in dataclasses.fields(self):
            names = [f.name for f in dataclasses.fields(part.type) if f.name in settings]
            changes = {name: settings.pop(name) for name in names}
            parts[part.name] = dataclasses.replace(getattr(self, part.name), **changes)
        if settings:
            raise KeyError(f"no such setting: {', '.join(settings)}")
        return Config(**parts)

    def with_vocabularies(self, source, target):
        """Returns a copy for vocabularies of so many sub-words, which share a matrix only where they are one."""
        shared = self.model.shared_embeddings and self.data.shared_vocab
        return self.replace(
            input_vocab_size=source, target_vocab_size=target, shared_embeddings=shared
        )

    def save(self, path):
        """Writes the settings as JSON, whole or not at all."""
        with atomic_write(path) as file:
            json.dump(dataclasses.asdict(self), file, indent=2)
            file.write("\n")

    @classmethod
    def from_dict(cls, parts):
        """The settings of which `dataclasses.asdict` made a dict. Raises: TypeError and KeyError for another one."""
        return cls(**{part.name: part.type(**parts[part.name]) for part in dataclasses.fields(cls)})

    @classmethod
    def load(cls, path):
        """Reads what `save` wrote. Raises: UserError when the file is damaged or of another version."""
        try:
            with open(path, encoding="utf-8") as file:
                return cls.from_dict(json.load(file))
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{path}: not a configuration of this version ({error}): train the model again"
            ) from None
