"""Attention Is All You Need, in TensorFlow.

The public names are loaded when they are first used, so that `python -m tf_transformer --help` need not wait for TensorFlow.
"""

import importlib

__version__ = "0.1.0"

_HOMES = {
    "config": ["Config", "DataConfig", "DecodeConfig", "ModelConfig", "TrainConfig", "UserError"],
    "presets": ["preset"],
    "datasets": ["open_corpus"],
    "tokenizer": ["Tokenizer"],
    "batching": ["Batches"],
    "masks": ["create_look_ahead_mask", "create_masks", "create_padding_mask"],
    "attention": ["MultiHeadAttention", "scaled_dot_product_attention"],
    "embedding": ["Embedding", "Positions", "positional_encoding"],
    "layers": ["DecoderLayer", "EncoderLayer", "point_wise_feed_forward_network"],
    "transformer": ["Decoder", "Encoder", "Transformer"],
    "loss": ["label_smoothed_cross_entropy", "token_accuracy"],
    "schedule": ["CustomSchedule"],
    "checkpoint": ["load_model"],
    "search": ["beam_search", "greedy_search"],
    "translate": ["Translator"],
    "train": ["Trainer"],
}
_home_of = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_home_of)


def __getattr__(name):
    if name not in _home_of:
        raise AttributeError(f"module 'tf_transformer' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tf_transformer.{_home_of[name]}"), name)


def __dir__():
    return [*globals(), *__all__]
