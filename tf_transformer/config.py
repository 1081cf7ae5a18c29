"""All settings and their defaults, which are the paper's values.

A `Config` consists of a `ModelConfig`, a `DataConfig`, a `TrainConfig` and a `DecodeConfig`.
`presets.py` has complete configurations. A model folder contains the `Config` of its run in
`config.json`.
"""

import dataclasses
import functools
import json
import logging
from collections.abc import Collection, Sequence
from typing import Any

from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write

logger = logging.getLogger(__name__)
_warn_once = functools.cache(logger.warning)  # of each message: a command reads files again

MICRO_BATCH_TOKENS = 4096  # of a CPU
MAX_INTEGER = 2**31 - 1  # TensorFlow computes steps, lengths and ids in int32

# The type of a setting -> what its values are.
_VALUES: dict[Any, str] = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false",
}  # fmt: skip


def setting(
    default: Any,
    meaning: str,
    minimum: float = 0,
    maximum: float = MAX_INTEGER,
    choices: Sequence[str] = (),
) -> Any:
    """Defines a field of a `Settings` class; `meaning`, with the unit, is the help of its flag."""
    limits = {"minimum": minimum, "maximum": maximum, "choices": choices}
    return dataclasses.field(default=default, metadata={"meaning": meaning, **limits})


@dataclasses.dataclass(frozen=True)
class Settings:
    """The base class of the settings. Raises: UserError for a value of another type or range."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            name, value, kind = field.name, getattr(self, field.name), field.type
            types: Any = (int, float) if kind is float else kind
            is_kind = isinstance(value, types) and isinstance(value, bool) == (kind is bool)
            if not is_kind or value != value:  # NaN
                raise UserError(f"{name} is {value!r}: give {_VALUES[kind]}")
            low, high = field.metadata["minimum"], field.metadata["maximum"]
            if kind in (int, float) and value < low:
                raise UserError(f"{name} is {value}: give at least {low}")
            if kind in (int, float) and value > high:
                raise UserError(f"{name} is {value}: give at most {high:,}")
            choices = field.metadata["choices"]
            if choices and value not in choices:
                raise UserError(f"{name} is {value!r}: give {listed(choices)}")


def listed(choices: Sequence[str]) -> str:
    """Returns "a, b or c" for the choices a, b and c."""
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


# The "languages" of a treebank (Sec. 6.3).
WORDS = "words"
TREES = "trees"


@dataclasses.dataclass(frozen=True)
class ModelConfig(Settings):
    """Sizes of the Transformer, named as in the reference code; by default base of Table 3."""

    num_layers: int = setting(6, "N, layers of the encoder and of the decoder", 1)
    d_model: int = setting(512, "width of the output of every sub-layer", 1)
    num_heads: int = setting(8, "h, attention heads of each layer", 1)
    dff: int = setting(2048, "d_ff, inner width of the feed-forward network", 1)
    dropout_rate: float = setting(0.1, "P_drop, fraction of values that are dropped", 0, 0.999)
    input_vocab_size: int = setting(37000, "sub-words of the source vocabulary", 1)
    target_vocab_size: int = setting(37000, "sub-words of the target vocabulary", 1)
    pe_input: int = setting(1024, "maximum length of a source, sub-words", 1)
    pe_target: int = setting(1024, "maximum length of a target, sub-words", 1)
    num_encoder_layers: int = setting(0, "layers of the encoder; 0 means num_layers")
    num_decoder_layers: int = setting(0, "layers of the decoder; 0 means num_layers")
    key_dim: int = setting(0, "d_k of a head; 0 means d_model / num_heads")
    value_dim: int = setting(0, "d_v of a head; 0 means d_model / num_heads")
    positional_encoding: str = setting(
        "sinusoidal", "Sec. 3.5, or learned (row E of Table 3)", choices=("sinusoidal", "learned")
    )
    activation: str = setting(
        "relu", "of the feed-forward networks (Eq. 2); swish: OPUS-MT", choices=("relu", "swish")
    )
    norm: str = setting(
        "post", "layer norm after each sub-layer (Sec. 3.1), or before it", choices=("post", "pre")
    )
    shared_embeddings: bool = setting(True, "one matrix for embeddings and projection (Sec. 3.4)")
    architecture: str = setting("transformer", "a name in ARCHITECTURES of checkpoints/loading.py")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % self.num_heads and not (self.key_dim and self.value_dim):
            raise UserError(
                f"d_model {self.d_model} is not divisible by num_heads {self.num_heads}: "
                "change one of them, or give key_dim and value_dim"
            )
        if self.shared_embeddings and self.input_vocab_size != self.target_vocab_size:
            raise UserError(
                f"shared embeddings need one vocabulary, not {self.input_vocab_size} and "
                f"{self.target_vocab_size} sub-words"
            )

    @property
    def encoder_layers(self) -> int:
        """N of the encoder."""
        return self.num_encoder_layers or self.num_layers

    @property
    def decoder_layers(self) -> int:
        """N of the decoder."""
        return self.num_decoder_layers or self.num_layers

    @property
    def depth(self) -> int:
        """d_k of a head."""
        return self.key_dim or self.d_model // self.num_heads

    @property
    def value_depth(self) -> int:
        """d_v of a head."""
        return self.value_dim or self.d_model // self.num_heads

    def parameters(self) -> int:
        """Computes the number of weights by a closed formula.

        With 37,000 shared sub-words, base has 63.1 million weights and big has 214.2 million.
        Table 3 prints 65 and 213 million, and the paper does not give the vocabulary size of these.
        """
        width, sources, targets = self.d_model, self.input_vocab_size, self.target_vocab_size
        keys, values = self.num_heads * self.depth, self.num_heads * self.value_depth
        attention = 2 * (width * keys + keys)  # W^Q and W^K with their biases
        attention += (width * values + values) + (values * width + width)  # W^V and W^O
        feed_forward = (width * self.dff + self.dff) + (self.dff * width + width)
        layer_norm = 2 * width  # gamma and beta
        encoder_layer = attention + feed_forward + 2 * layer_norm
        decoder_layer = 2 * attention + feed_forward + 3 * layer_norm
        layers = self.encoder_layers * encoder_layer + self.decoder_layers * decoder_layer
        if self.norm == "pre":
            layers += 2 * layer_norm  # one after each stack
        embeddings = sources * width
        if not self.shared_embeddings:
            embeddings += targets * width + (width + 1) * targets  # the projection with its bias
        if self.positional_encoding == "learned":
            embeddings += (self.pe_input + self.pe_target) * width
        return layers + embeddings


SUBWORD_MODELS = ("bpe", "unigram")
# The rules of SentencePiece by which text is normalised before it is divided into sub-words.
NORMALIZATIONS = ("identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf")
HOLD_OUT_SOURCES, HOLD_OUT_END = "sources", "end"


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """The sentence pairs and their batches (Sec. 5.1)."""

    data: str = setting("pocket", "the sentence pairs")  # `describe_data` adds what it can name
    data_weights: str = setting("", "several corpora: weights in an epoch, separated by commas")
    data_temperature: float = setting(
        1.0, "several corpora: T, where the share of each is its number of pairs ^ (1 / T)", 1
    )
    tag: str = setting("", "token before each source, such as <2de>; with commas: of each corpus")
    source: str = setting("en", "language code of the source; words for trees")
    target: str = setting("de", "language code of the target; trees for trees")
    hold_out: str = setting(
        HOLD_OUT_SOURCES,
        "what to validate on where there is no text for it: some sources, by a hash, or the end",
        choices=(HOLD_OUT_SOURCES, HOLD_OUT_END),
    )
    vocab_size: int = setting(37000, "sub-words of a vocabulary", 8)
    subword_model: str = setting(
        "bpe", "byte-pair encoding, as in the paper, or unigram: Kudo 2018", choices=SUBWORD_MODELS
    )
    shared_vocab: bool = setting(True, "one vocabulary for both languages")
    vocab_model: str = setting(
        "", "a SentencePiece model in place of a learned one; or two, separated by a comma"
    )
    source_normalization: str = setting(
        "nmt_nfkc", f"rule for sources: {listed(NORMALIZATIONS)}, or a file RULES.tsv"
    )
    target_normalization: str = setting("identity", "rule for targets; identity: as they are")
    max_length: int = setting(256, "most sub-words of a side; longer pairs are dropped", 2)
    max_length_ratio: float = setting(9.0, "largest ratio of both lengths; others are dropped", 1)
    batch_tokens: int = setting(25000, "tokens of a batch on each side, padding included", 1)
    max_shapes: int = setting(
        0,
        "most shapes of batches; 0: as many as save padding, but where XLA compiles them 3 to 12, "
        "by the length of the run",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data_weights and self.data_temperature != 1:
            raise UserError("data_weights and data_temperature: give one of them")
        if "," not in self.data and (self.data_weights or self.data_temperature != 1):
            raise UserError("data_weights and data_temperature are for several corpora in data")
        for rule in self.normalization:
            if rule not in NORMALIZATIONS and not rule.endswith(".tsv"):
                raise UserError(
                    f"no rule of normalization {rule!r}: give {listed(NORMALIZATIONS)}, or a file "
                    "of rules, whose name ends with .tsv"
                )
        if self.batch_tokens < self.max_length:
            sizes = f"batch_tokens {self.batch_tokens} is less than max_length {self.max_length}"
            raise UserError(f"{sizes}: a batch must be able to hold one sentence of that length")

    @property
    def normalization(self) -> tuple[str, str]:
        """The rules of the sources and of the targets."""
        return self.source_normalization, self.target_normalization


NOAM, INVERSE_SQRT = "noam", "inverse_sqrt"  # the names in tensor2tensor and fairseq
CONSTANT, LINEAR, COSINE = "constant", "linear", "cosine"
# The schedules that `training/schedule.py` makes -> the learning rate after its linear warm-up.
SCHEDULES = {
    NOAM: "Eq. 3",
    INVERSE_SQRT: "the same curve, with its peak given",
    CONSTANT: "stays at its peak",
    LINEAR: "falls linearly to 0 at train_steps",
    COSINE: "falls to 0 at train_steps along a cosine",
}
DECAY_TO_0 = (LINEAR, COSINE)  # those that end at train_steps
BLEU_TOKENIZERS = (
    "auto", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200",
    "none",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TrainConfig(Settings):
    """Training (Sec. 5.3, 5.4), validation, checkpoints and logs."""

    train_steps: int = setting(100_000, "updates of the weights", 1)
    train_minutes: float = setting(0.0, "most minutes of training from each start; 0: no limit")
    learning_rate_schedule: str = setting(
        NOAM,
        "the learning rate after its linear warm-up: "
        + ", ".join(f"{name} ({meaning})" for name, meaning in SCHEDULES.items()),
        choices=tuple(SCHEDULES),
    )
    warmup_steps: int = setting(4000, "updates while the learning rate rises (Eq. 3)", 1)
    learning_rate: float = setting(0.0, "peak of the schedules other than noam")
    learning_rate_scale: float = setting(1.0, "factor on Eq. 3 (noam); less for small batches")
    dropout_warmup_steps: int = setting(0, "updates while the dropout rate rises from 0")
    label_smoothing: float = setting(0.1, "epsilon_ls of label smoothing", 0, 0.999)
    # In float32, 1 - beta and epsilon must not round to 0: they are divisors.
    beta_1: float = setting(0.9, "Adam's decay rate of the mean gradient", 0, 0.999999)
    beta_2: float = setting(0.98, "Adam's decay rate of the mean squared gradient", 0, 0.999999)
    epsilon: float = setting(1e-9, "Adam's epsilon", 1e-30, 1)
    seed: int = setting(1, "seed of the weights, the order of the data and dropout", 0, 2**21 - 1)
    clip_norm: float = setting(0.0, "maximum global norm of the gradients; 0 means no limit")
    init_from: str = setting("", "fine-tuning: the model, or its folder, with which a run starts")
    micro_batch_tokens: int = setting(
        0,
        "tokens on each side that a device computes at a time (gradient accumulation); 0: as many "
        f"as fit into the memory of GPUs, {MICRO_BATCH_TOKENS:,} on CPUs",
    )
    precision: str = setting(
        "auto",
        "auto: bfloat16 where the device has matrix units for it",
        choices=("auto", "float32", "mixed_bfloat16", "mixed_float16"),
    )
    decode_length_coverage: float = setting(
        0.999, "part of the training targets for which extra_decode_length is raised; 0: no", 0, 1
    )
    jit_compile: str = setting(
        "auto", "whether XLA compiles; auto: on GPUs", choices=("auto", "on", "off")
    )
    logical_devices: int = setting(0, "replicas on the CPU; 0: all GPUs, or two on the CPU", 0, 256)
    worker_minutes: float = setting(10.0, "most minutes to wait for the other workers of TF_CONFIG")
    save_steps: int = setting(1500, "updates between checkpoints (Sec. 6.1: 10 minutes)", 1)
    max_checkpoints: int = setting(5, "newest checkpoints to keep, and to average (big: 20)", 1)
    eval_steps: int = setting(1000, "updates between validations", 1)
    early_stopping_patience: int = setting(
        0,
        "stop after so many validations since the warm-up in which neither the loss nor BLEU or "
        "chrF has improved; 0: no limit",
    )
    validation: str = setting(
        "", "further texts to validate on, as for data: NAME=DATA, separated by semicolons"
    )
    max_skipped_steps: int = setting(20, "stop after so many updates without finite gradients", 1)
    bleu_tokenizer: str = setting(
        "auto",
        "sacreBLEU's tokenizer; auto: words, or characters for languages without blanks",
        choices=BLEU_TOKENIZERS,
    )
    bleu_sentences: int = setting(500, "validation sentences to translate for BLEU; 0 means none")
    log_steps: int = setting(50, "updates between log lines", 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        schedule = self.learning_rate_schedule
        if schedule == NOAM and self.learning_rate:
            raise UserError(
                f"learning_rate {self.learning_rate:g} has no effect on the schedule noam: give "
                f"learning_rate_scale, or learning_rate_schedule {listed(list(SCHEDULES)[1:])}"
            )
        if schedule != NOAM and not self.learning_rate:
            raise UserError(f"learning_rate_schedule {schedule} needs a peak: give learning_rate")
        self.validation_texts()  # of the right form

    def validation_texts(self) -> dict[str, str]:
        """The further texts of `validation`: name -> what `--data` can name."""
        texts = {}
        for part in filter(None, self.validation.split(";")):
            name, _, data = part.partition("=")
            if not name.strip() or not data or "/" in name or name in texts:
                raise UserError(
                    f"validation {part!r}: give NAME=DATA, such as news=data/news, each name once"
                )
            texts[name] = data
        return texts


@dataclasses.dataclass(frozen=True)
class DecodeConfig(Settings):
    """Beam search (Sec. 6.1)."""

    beam_size: int = setting(4, "hypotheses kept for each sentence; 1 means greedy search", 1, 1000)
    length_penalty: float = setting(0.6, "alpha of the length penalty ((5 + L) / 6) ^ alpha", 0, 10)
    extra_decode_length: int = setting(50, "most sub-words of output beyond the input", 1, 100_000)
    decode_batch_tokens: int = setting(
        4096,
        "source tokens times hypotheses of one batch on a CPU; on a GPU eight times as many, or "
        "what fits into its memory",
        1,
    )


@dataclasses.dataclass(frozen=True)
class ComputeConfig(Settings):
    """How a trained model computes translations; not in `Config`."""

    precision: str = setting(
        "float32", "type of the weights and of products", choices=("float32", "bfloat16")
    )
    jit_compile: str = setting(
        "auto", "whether XLA compiles; auto: on GPUs, for long texts", choices=("auto", "on", "off")
    )


@dataclasses.dataclass(frozen=True)
class SamplingConfig(Settings):
    """From which tokens the next one is drawn, where translations are sampled; not in `Config`."""

    temperature: float = setting(1.0, "divides the logits: below 1, more probable samples", 0.01)
    top_k: int = setting(0, "draw each sub-word from this many most probable ones; 0 means all")
    top_p: float = setting(1.0, "draw from the most probable ones that sum to this", 0, 1)


@dataclasses.dataclass(frozen=True)
class GenerationConfig(Settings):
    """Generation settings: changes of the probabilities of the next token; not in `Config`."""

    no_repeat_ngram_size: int = setting(0, "no n sub-words in a row occur twice; 0: no limit")
    repetition_penalty: float = setting(
        1.0, "factor on the log-probability of what has occurred; above 1: less repetition", 0.01
    )
    min_length: int = setting(0, "fewest sub-words of a translation; 1: none is empty")


DEFAULT_GENERATION = GenerationConfig()

# Settings that format 2 added, as the runs of earlier formats were, by the parts of a `Config`.
_RULES = {"source_normalization": "nmt_nfkc", "target_normalization": "nmt_nfkc"}
BEFORE_FORMAT_2: dict[str, dict[str, Any]] = {"data": {**_RULES, "hold_out": HOLD_OUT_END}}

# Settings of versions before 0.3 that have gone -> the value with which they had no effect.
GONE: dict[str, Any] = {
    "bpe_dropout": 0, "sentencepiece_alpha": 0, "extend_vocab": 0, "init_optimizer": False,
    "freeze": "", "r_drop": 0, "ema_decay": 0, "plateau_steps": 0, "early_stopping_metric": "",
}  # fmt: skip
GONE_SINCE = "is gone since 0.3 (docs/upgrade.md)"


@dataclasses.dataclass(frozen=True)
class Config:
    """All settings of a run."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    def __post_init__(self) -> None:
        if self.data.vocab_model and self.train.init_from:
            reason = "a run keeps the vocabulary of the model with which it starts"
            raise UserError(f"vocab_model and init_from: give one of them; {reason}")
        max_length, tokens = self.data.max_length, self.train.micro_batch_tokens
        if 0 < tokens < max_length:
            raise UserError(
                f"max_length {max_length} is more than micro_batch_tokens {tokens}: a micro-batch "
                "must be able to hold one sentence of that length"
            )
        for name in ("pe_input", "pe_target"):
            if max_length > getattr(self.model, name):
                raise UserError(
                    f"max_length {max_length} is more than the {getattr(self.model, name)} "
                    f"positions of {name}: give a smaller max_length or a larger {name}"
                )

    def replace(self, **settings: Any) -> "Config":
        """Returns a copy with changed settings of any part.

        Raises: UserError for a value out of range; KeyError for an unknown name.
        """
        parts = {}
        for part_name, part in vars(self).items():
            names = [field.name for field in dataclasses.fields(part)]
            changes = {name: settings.pop(name) for name in names if name in settings}
            parts[part_name] = dataclasses.replace(part, **changes)
        if settings:
            raise KeyError(f"no such setting: {', '.join(settings)}")
        return Config(**parts)

    def values(self) -> dict[str, Any]:
        """The settings of all parts, by their names."""
        return {name: value for part in vars(self).values() for name, value in vars(part).items()}

    def differences(self, other: "Config", names: Collection[str]) -> str:
        """Returns "NAME VALUE (now VALUE OF THE OTHER), ..." for the names that differ."""
        after = other.values()
        return ", ".join(
            f"{name} {str(old) or 'none'} (now {str(after[name]) or 'none'})"
            for name, old in self.values().items()
            if name in names and after[name] != old
        )

    def with_vocabularies(self, source: int, target: int) -> "Config":
        """Returns a copy with other vocabulary sizes, and one embedding only for one vocabulary."""
        shared = self.model.shared_embeddings and self.data.shared_vocab
        return self.replace(
            input_vocab_size=source, target_vocab_size=target, shared_embeddings=shared
        )

    def save(self, path: str) -> None:
        """Writes the settings and the version of their format as JSON, atomically."""
        with atomic_write(path) as file:
            parts = {"format_version": FORMAT_VERSION, **dataclasses.asdict(self)}
            json.dump(parts, file, indent=2)
            file.write("\n")

    @classmethod
    def from_dict(cls, parts: dict[str, dict[str, Any]]) -> "Config":
        """The inverse of `dataclasses.asdict`. Raises: TypeError or KeyError for other names."""
        return cls(**{name: type(part)(**parts[name]) for name, part in vars(cls()).items()})

    @classmethod
    def load(cls, path: str) -> "Config":
        """Reads the settings that `save` wrote, also in an earlier version.

        Raises: UserError when the file is damaged or was written by a later version.
        """
        try:
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
            version = values.pop("format_version", 0)
            known = dataclasses.asdict(cls()).items()
            names = {name for part, old in known for name in values[part].keys() - old.keys()}
            new = sorted(names - GONE.keys())
            if version > FORMAT_VERSION or new:
                settings = f", with the settings {', '.join(new)}" if new else ""
                raise UserError(
                    "the folder was written by a later version of tf-transformer, in format "
                    f"{version}{settings}: install the later version"
                )
            if version < 2:
                values |= {part: old | values[part] for part, old in BEFORE_FORMAT_2.items()}
            for part in values.values():
                for name in GONE.keys() & part.keys():
                    if (value := part.pop(name)) != GONE[name]:
                        _warn_once(f"{path}: {name} {value} has no effect: it {GONE_SINCE}")
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UserError(
                f"{path}: not a configuration of tf-transformer ({error}): restore it from a backup"
            ) from None


# The format of `config.json`: a new setting raises it, and one that goes stays in `GONE`. Versions
# before 0.3 wrote no number, or 1 or 2.
FORMAT_VERSION = len(Config().values()) + len(GONE)


@dataclasses.dataclass(frozen=True)
class ServeConfig(Settings):
    """The REST server, for hosts without TensorFlow Serving; not in `Config`."""

    host: str = setting("127.0.0.1", "address to listen on; 0.0.0.0 accepts all networks")
    port: int = setting(8501, "port to listen on", 0, 65_535)
    max_batch_size: int = setting(32, "most texts of different requests in one batch", 1)
    max_batch_tokens: int = setting(1024, "most tokens of a batch: texts x the longest source", 1)
    concurrent_batches: int = setting(
        1, "batches of short texts, and as many of longer ones, computed at a time", 1, 256
    )
    max_queue: int = setting(100, "maximum number of waiting requests; others get status 503", 1)
    max_rows: int = setting(256, "most texts in a request; larger requests get status 413", 1)
    max_rows_alone: int = setting(8, "the same for score and alignments, with large answers", 1)
    max_request_tokens: int = setting(16_384, "most sub-words of a request; more get 413", 1)
    max_request_bytes: int = setting(2**20, "most bytes of a request, unpacked; more get 413", 1)
    timeout: float = setting(
        60.0, "seconds to receive a request (else 408) and to answer it (else 504)", 0.1, 86_400
    )
    grace_seconds: float = setting(
        20.0, "seconds to answer pending requests after SIGTERM; others get status 503", 0, 86_400
    )
    reload_seconds: float = setting(2.0, "seconds between checks for a new version", 0.1, 86_400)
