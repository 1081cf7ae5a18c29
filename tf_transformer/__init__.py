"""Attention Is All You Need, in TensorFlow.

The public names are imported when they are first used, so that `tf-transformer --help` does not
wait for TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:  # for editors and type checkers; `__getattr__` does the same at run time
    from tf_transformer.checkpoints.loading import load_model as load_model
    from tf_transformer.config import Config as Config
    from tf_transformer.config import DataConfig as DataConfig
    from tf_transformer.config import DecodeConfig as DecodeConfig
    from tf_transformer.config import ModelConfig as ModelConfig
    from tf_transformer.config import TrainConfig as TrainConfig
    from tf_transformer.data.batching import Batches as Batches
    from tf_transformer.data.sources import open_corpus as open_corpus
    from tf_transformer.data.tokenizer import Tokenizer as Tokenizer
    from tf_transformer.decoding.search import beam_search as beam_search
    from tf_transformer.decoding.search import greedy_search as greedy_search
    from tf_transformer.decoding.translator import Translator as Translator
    from tf_transformer.errors import UserError as UserError
    from tf_transformer.model.attention import MultiHeadAttention as MultiHeadAttention
    from tf_transformer.model.attention import (
        scaled_dot_product_attention as scaled_dot_product_attention,
    )
    from tf_transformer.model.embedding import Embedding as Embedding
    from tf_transformer.model.embedding import Positions as Positions
    from tf_transformer.model.embedding import positional_encoding as positional_encoding
    from tf_transformer.model.layers import DecoderLayer as DecoderLayer
    from tf_transformer.model.layers import EncoderLayer as EncoderLayer
    from tf_transformer.model.layers import (
        point_wise_feed_forward_network as point_wise_feed_forward_network,
    )
    from tf_transformer.model.masks import create_look_ahead_mask as create_look_ahead_mask
    from tf_transformer.model.masks import create_masks as create_masks
    from tf_transformer.model.masks import create_padding_mask as create_padding_mask
    from tf_transformer.model.transformer import Decoder as Decoder
    from tf_transformer.model.transformer import Encoder as Encoder
    from tf_transformer.model.transformer import Transformer as Transformer
    from tf_transformer.presets import preset as preset
    from tf_transformer.training.loss import (
        label_smoothed_cross_entropy as label_smoothed_cross_entropy,
    )
    from tf_transformer.training.loss import token_accuracy as token_accuracy
    from tf_transformer.training.schedule import CustomSchedule as CustomSchedule
    from tf_transformer.training.trainer import Trainer as Trainer
    from tf_transformer.training.trainer import build_trainer as build_trainer

_PUBLIC_NAMES = {
    "checkpoints.loading": ["load_model"],
    "config": ["Config", "DataConfig", "DecodeConfig", "ModelConfig", "TrainConfig"],
    "data.batching": ["Batches"],
    "data.sources": ["open_corpus"],
    "data.tokenizer": ["Tokenizer"],
    "decoding.search": ["beam_search", "greedy_search"],
    "decoding.translator": ["Translator"],
    "errors": ["UserError"],
    "model.attention": ["MultiHeadAttention", "scaled_dot_product_attention"],
    "model.embedding": ["Embedding", "Positions", "positional_encoding"],
    "model.layers": ["DecoderLayer", "EncoderLayer", "point_wise_feed_forward_network"],
    "model.masks": ["create_look_ahead_mask", "create_masks", "create_padding_mask"],
    "model.transformer": ["Decoder", "Encoder", "Transformer"],
    "presets": ["preset"],
    "training.loss": ["label_smoothed_cross_entropy", "token_accuracy"],
    "training.schedule": ["CustomSchedule"],
    "training.trainer": ["Trainer", "build_trainer"],
}
_MODULE_OF = {name: module for module, names in _PUBLIC_NAMES.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tf_transformer' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tf_transformer.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
