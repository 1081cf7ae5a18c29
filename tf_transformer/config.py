"""All settings and their defaults, which are the paper's values.

A `Config` consists of a `ModelConfig`, a `DataConfig`, a `TrainConfig` and a `DecodeConfig`.
`presets.py` has complete configurations. A model folder contains the `Config` of its run in
`config.json`. The settings of the server are in `serving/serve_config.py`.
"""

import dataclasses
import json
from typing import Any

from tf_transformer.atomic_io import atomic_write
from tf_transformer.errors import UserError
from tf_transformer.setting import Settings, setting
from tf_transformer.train_config import TrainConfig

# The "languages" of a treebank (Sec. 6.3).
WORDS = "words"
TREES = "trees"


@dataclasses.dataclass(frozen=True)
class ModelConfig(Settings):
    """Sizes of the Transformer, named as in the reference code.

    The defaults are the base model of Table 3.
    """

    num_layers: int = setting(
        6, "N, layers of the encoder and of the decoder", minimum=1, maximum=1000
    )
    d_model: int = setting(512, "width of the output of every sub-layer", minimum=1, maximum=65_536)
    num_heads: int = setting(8, "h, attention heads of each layer", minimum=1, maximum=4096)
    dff: int = setting(
        2048, "d_ff, inner width of the feed-forward network", minimum=1, maximum=1_048_576
    )
    dropout_rate: float = setting(
        0.1, "P_drop, fraction of values that are dropped", minimum=0, maximum=0.999
    )
    input_vocab_size: int = setting(
        37000, "sub-words of the source vocabulary", minimum=1, maximum=10_000_000
    )
    target_vocab_size: int = setting(
        37000, "sub-words of the target vocabulary", minimum=1, maximum=10_000_000
    )
    pe_input: int = setting(
        1024, "maximum length of a source, sub-words", minimum=1, maximum=100_000
    )
    pe_target: int = setting(
        1024, "maximum length of a target, sub-words", minimum=1, maximum=100_000
    )
    key_dim: int = setting(
        0, "d_k of a head; 0 means d_model / num_heads", minimum=0, maximum=65_536
    )
    value_dim: int = setting(
        0, "d_v of a head; 0 means d_model / num_heads", minimum=0, maximum=65_536
    )
    positional_encoding: str = setting(
        "sinusoidal", "sinusoidal or learned (Table 3, row E)", choices=("sinusoidal", "learned")
    )
    activation: str = setting(
        "relu",
        "of the feed-forward networks: relu (Eq. 2), or swish (OPUS-MT)",
        choices=("relu", "swish"),
    )
    shared_embeddings: bool = setting(
        True, "one matrix for both embeddings and the output projection (Sec. 3.4)"
    )

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
        Table 3 prints 65 and 213 million. No single vocabulary size gives both: they need about
        40,700 and 35,800 rows. The paper does not give the vocabulary size of these counts.
        """
        width = self.d_model
        keys = self.num_heads * self.depth
        values = self.num_heads * self.value_depth
        attention = 2 * (width * keys + keys)  # W^Q and W^K with their biases
        attention += (width * values + values) + (values * width + width)  # W^V and W^O
        feed_forward = (width * self.dff + self.dff) + (self.dff * width + width)
        layer_norm = 2 * width  # gamma and beta
        encoder_layer = attention + feed_forward + 2 * layer_norm
        decoder_layer = 2 * attention + feed_forward + 3 * layer_norm
        embeddings = self.input_vocab_size * width
        if not self.shared_embeddings:
            embeddings += self.target_vocab_size * width
            embeddings += (width + 1) * self.target_vocab_size  # the projection with its bias
        if self.positional_encoding == "learned":
            embeddings += (self.pe_input + self.pe_target) * width
        return self.num_layers * (encoder_layer + decoder_layer) + embeddings


# For each kind of vocabulary, the setting that draws the segmentations of its words.
SAMPLING = {"bpe": "bpe_dropout", "unigram": "sentencepiece_alpha"}


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """The sentence pairs and their batches (Sec. 5.1)."""

    data: str = setting(
        "pocket",
        "pocket, a folder, a file (TSV or JSON lines), SOURCE_FILE,TARGET_FILE, or a TFDS name "
        "such as wmt14_translate/de-en; for trees pocket-trees or a folder; several, separated by "
        "commas, are trained on together",
    )
    data_weights: str = setting(
        "",
        "several corpora: their weights, such as 4,1: an epoch has four times as many pairs of the "
        "first as of the second, repeated or drawn at random",
    )
    data_temperature: float = setting(
        1.0,
        "several corpora: T of the share of each in an epoch, proportional to its number of "
        "pairs ^ (1 / T)",
        minimum=1,
        maximum=1000,
    )
    tag: str = setting(
        "",
        "a token before each source of a corpus, such as <2de>, the language to translate to; with "
        "several corpora one for each, separated by commas",
    )
    source: str = setting("en", "language code of the source; words for trees")
    target: str = setting("de", "language code of the target; trees for trees")
    vocab_size: int = setting(37000, "sub-words of a vocabulary", minimum=8, maximum=10_000_000)
    subword_model: str = setting(
        "bpe",
        "how a vocabulary is learned, and words are split: byte-pair encoding (Sennrich et al. "
        "2016), as in the paper, or a unigram language model (Kudo 2018)",
        choices=tuple(SAMPLING),
    )
    shared_vocab: bool = setting(True, "one vocabulary for both languages")
    max_length: int = setting(
        256,
        "maximum length of a side, sub-words with the end token; longer pairs are dropped",
        minimum=2,
        maximum=100_000,
    )
    max_length_ratio: float = setting(
        9.0,
        "maximum ratio of the lengths of the two sides; pairs above it are dropped",
        minimum=1,
    )
    batch_tokens: int = setting(
        25000,
        "source tokens, and target tokens, of one batch, padding included",
        minimum=1,
        maximum=100_000_000,
    )
    max_shapes: int = setting(
        0,
        "most shapes of batches, each of which XLA compiles; with fewer there is more padding; 0 "
        "means as many as save padding",
        minimum=0,
        maximum=100_000,
    )
    bpe_dropout: float = setting(
        0.0,
        "BPE-dropout (Provilkov et al. 2020): probability of leaving out a merge, such as 0.1; the "
        "training text is encoded anew for each epoch; 0 means none",
        minimum=0,
        below=1,
    )
    sentencepiece_alpha: float = setting(
        0.0,
        "the same for a unigram vocabulary (Kudo 2018): each segmentation is drawn with its "
        "probability ^ alpha; 0 means the most probable one",
        minimum=0,
        maximum=100,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data_weights and self.data_temperature != 1:
            raise UserError("data_weights and data_temperature: give one of them")
        if self.batch_tokens < self.max_length:
            raise UserError(
                f"batch_tokens {self.batch_tokens} is less than max_length {self.max_length}: "
                "a batch must be able to hold one sentence of that length"
            )


@dataclasses.dataclass(frozen=True)
class DecodeConfig(Settings):
    """Beam search (Sec. 6.1)."""

    beam_size: int = setting(
        4, "hypotheses kept for each sentence; 1 means greedy search", minimum=1, maximum=1000
    )
    length_penalty: float = setting(
        0.6, "alpha of the length penalty ((5 + L) / 6) ^ alpha", minimum=0, maximum=10
    )
    extra_decode_length: int = setting(
        50,
        "maximum number of sub-words by which the output is longer than the input",
        minimum=1,
        maximum=100_000,
    )
    decode_batch_tokens: int = setting(
        4096,
        "source tokens times hypotheses of one batch, padding included",
        minimum=1,
        maximum=100_000_000,
    )


@dataclasses.dataclass(frozen=True)
class SamplingConfig(Settings):
    """From which tokens the next one is drawn, where translations are sampled; not in `Config`."""

    temperature: float = setting(
        1.0,
        "logits are divided by it: below 1 the samples are more probable ones",
        minimum=0.01,
        maximum=100,
    )
    top_k: int = setting(
        0, "number of most probable sub-words from which each is drawn; 0 means all", minimum=0
    )
    top_p: float = setting(
        1.0,
        "draw each sub-word from the fewest most probable ones whose probabilities sum to this",
        minimum=0,
        maximum=1,
    )


@dataclasses.dataclass(frozen=True)
class ControlConfig(Settings):
    """Changes of the probabilities during a search or sampling; not in `Config`."""

    no_repeat_ngram_size: int = setting(
        0, "no n sub-words in a row occur twice in a translation; 0 means no limit", minimum=0
    )
    repetition_penalty: float = setting(
        1.0,
        "the log-probability of a sub-word that has occurred is multiplied by it; above 1 avoids "
        "repetitions",
        minimum=0.01,
        maximum=100,
    )
    diverse_groups: int = setting(
        1,
        "diverse beam search: groups of the beam that avoid each other's sub-words, a divisor of "
        "the beam size",
        minimum=1,
        maximum=1000,
    )
    diversity_strength: float = setting(
        0.5,
        "diverse beam search: by how much a sub-word's log-probability falls for each hypothesis "
        "of earlier groups that has taken it",
        minimum=0,
        maximum=1000,
    )


NO_CONTROLS = ControlConfig()


@dataclasses.dataclass(frozen=True)
class Config:
    """All settings of a run."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    def __post_init__(self) -> None:
        if self.train.r_drop and not self.model.dropout_rate:
            raise UserError(
                "r_drop compares two dropout masks, but dropout_rate is 0: give a larger "
                "dropout_rate, or r_drop 0"
            )
        kind = self.data.subword_model
        for needed, name in SAMPLING.items():
            if getattr(self.data, name) and needed != kind:
                raise UserError(
                    f"{name} is for {needed} vocabularies, and this one is {kind}: leave it "
                    f"out, or give subword_model {needed}"
                )
        max_length = self.data.max_length
        if max_length > self.train.micro_batch_tokens:
            raise UserError(
                f"max_length {max_length} is more than micro_batch_tokens "
                f"{self.train.micro_batch_tokens}: a micro-batch must be able to hold one sentence "
                "of that length"
            )
        for name in ("pe_input", "pe_target"):
            positions = getattr(self.model, name)
            if max_length > positions:
                raise UserError(
                    f"max_length {max_length} is more than the {positions} positions of {name}: "
                    f"give a smaller max_length or a larger {name}"
                )

    def replace(self, **settings: Any) -> "Config":
        """Returns a copy with changed settings.

        Args:
          **settings: new values by the names of fields, of any part.
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

    def with_vocabularies(self, source: int, target: int) -> "Config":
        """Returns a copy with other vocabulary sizes.

        The embeddings stay shared only where the vocabulary is shared.

        Args:
          source, target: numbers of sub-words.
        """
        shared = self.model.shared_embeddings and self.data.shared_vocab
        return self.replace(
            input_vocab_size=source, target_vocab_size=target, shared_embeddings=shared
        )

    def save(self, path: str) -> None:
        """Writes the settings as JSON, atomically."""
        with atomic_write(path) as file:
            json.dump(dataclasses.asdict(self), file, indent=2)
            file.write("\n")

    @classmethod
    def from_dict(cls, parts: dict[str, dict[str, Any]]) -> "Config":
        """Makes a `Config` of a dict, the inverse of `dataclasses.asdict`.

        Raises: TypeError or KeyError when the dict has other names.
        """
        return cls(
            model=ModelConfig(**parts["model"]),
            data=DataConfig(**parts["data"]),
            train=TrainConfig(**parts["train"]),
            decode=DecodeConfig(**parts["decode"]),
        )

    @classmethod
    def load(cls, path: str) -> "Config":
        """Reads the settings that `save` wrote.

        Raises: UserError when the file is damaged or was written by another version.
        """
        try:
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
            if isinstance(values, dict) and "model_type" in values:
                raise UserError(
                    "this is a model of Hugging Face: make a model folder of it with "
                    "`tf-transformer import`"
                )
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UserError(
                f"{path}: not a configuration of this version ({error}): train the model again"
            ) from None
