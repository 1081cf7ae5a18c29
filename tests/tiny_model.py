"""A tiny model with fixed weights, and random source and target ids for it."""

import keras
import numpy as np

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import ModelConfig
from tf_transformer.special_tokens import END, PAD, START

SIZES = {
    "num_layers": 2, "d_model": 32, "num_heads": 4, "dff": 48, "dropout_rate": 0.0,
    "input_vocab_size": 41, "target_vocab_size": 41,
}  # fmt: skip


def make_model(precision="float32", **changes):
    """Returns a built `Transformer` of `SIZES`, with some fields of `ModelConfig` changed."""
    keras.utils.set_random_seed(5)
    config = ModelConfig(**{**SIZES, "pe_input": 64, "pe_target": 64, **changes})
    return build_model(config, precision)


def sentences(rows, length, seed=0, start=False, shortest=2):
    """Returns int32 ids `[rows, length]` of sentences that end with END, then padding.

    Args:
      rows: number of sentences.
      length: longest sentence, with END.
      seed: of the random tokens and lengths.
      start: whether each sentence begins with START; the ids are then `[rows, 1 + length]`.
      shortest: shortest sentence, with END.
    """
    random = np.random.default_rng(seed)
    ids = np.full((rows, length), PAD, np.int32)
    for row in ids:
        n = random.integers(shortest, length + 1)
        row[:n] = [*random.integers(4, 37, n - 1), END]
    if start:
        ids = np.concatenate([np.full((rows, 1), START, np.int32), ids], axis=1)
    return ids
