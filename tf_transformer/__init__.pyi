"""The public names of the package, and the module of each."""

from .checkpoints.loading import load_model as load_model
from .config import (
    Config as Config,
    DataConfig as DataConfig,
    DecodeConfig as DecodeConfig,
    ModelConfig as ModelConfig,
    TrainConfig as TrainConfig,
)
from .data.batching import Batches as Batches
from .data.readers import open_corpus as open_corpus
from .data.tokenizer import Tokenizer as Tokenizer
from .decoding.beam_search import (
    SearchProblem as SearchProblem,
    beam_search as beam_search,
    greedy_search as greedy_search,
)
from .decoding.translator import Translator as Translator
from .errors import UserError as UserError
from .model.attention import (
    MultiHeadAttention as MultiHeadAttention,
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from .model.embedding import (
    Embedding as Embedding,
    PositionalEncoding as PositionalEncoding,
    positional_encoding as positional_encoding,
)
from .model.layers import (
    DecoderLayer as DecoderLayer,
    EncoderLayer as EncoderLayer,
    point_wise_feed_forward_network as point_wise_feed_forward_network,
)
from .model.masks import (
    create_look_ahead_mask as create_look_ahead_mask,
    create_masks as create_masks,
    create_padding_mask as create_padding_mask,
)
from .model.transformer import Decoder as Decoder, Encoder as Encoder, Transformer as Transformer
from .model.variant import Variant as Variant
from .presets import preset as preset
from .training.loss import (
    LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy,
    TokenAccuracy as TokenAccuracy,
    label_smoothed_cross_entropy as label_smoothed_cross_entropy,
    token_accuracy as token_accuracy,
)
from .training.schedule import CustomSchedule as CustomSchedule
from .training.trainer import Trainer as Trainer, build_trainer as build_trainer

__version__: str
