"""Text and quiet training, for the models of notebooks E and G."""

import contextlib
import io

import numpy as np


def windows(source, texts, length=33):
    """Texts, one after the other, each with its end token, cut into windows `[number, length]`.

    Args:
      source: a SentencePiece vocabulary.
    """
    stream = [i for ids in source.encode(list(texts)) for i in (*ids, 3)]
    number = len(stream) // length
    return np.array(stream[: number * length], np.int32).reshape(number, length)


def batches_of(rows, size):
    """Windows, in a random order, as batches for `train`: a source without tokens, and windows."""
    order = np.random.default_rng(0).permutation(len(rows))
    starts = range(0, len(rows) - size + 1, size)
    return [(rows[:size, :0], rows[order[i : i + size]]) for i in starts]


def train_quietly(mine, model, batches, steps, schedule, *checkpoints):
    """`mine.train` without its lines. Returns the losses."""
    with contextlib.redirect_stdout(io.StringIO()):
        return mine.train(model, batches, steps, schedule, *checkpoints)
