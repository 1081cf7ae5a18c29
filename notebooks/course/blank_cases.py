"""The blanks of notebook 04, with random cases for each.

`blank_references` has the NumPy functions that compute the outputs of a case.
"""

from course.blank_references import (
    ATTENTION_WRONG,
    DECODER_WRONG,
    ENCODER_WRONG,
    LAYER_NORM_WRONG,
    LOSS_WRONG,
    MULTI_HEAD_WRONG,
    POSITIONS_WRONG,
    attention,
    decoder_layer,
    encoder_layer,
    layer_norm,
    loss,
    multi_head,
    positions,
)

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """One call of the reader's code.

    Fields:
      what: the case in words.
      job: the call, for `blank_runner.run_job`.
      expected: the name of a wrong version, or "" -> the outputs in NumPy.
      mask: of the attention weights, for their properties.
    """

    what: str
    job: dict[str, Any]
    expected: Callable[[str], tuple]
    mask: np.ndarray | None = None


class Blank(NamedTuple):
    """A part of the model that the reader writes.

    Fields:
      name: what the cell defines.
      outputs: their names.
      cases: makes random cases.
      wrong: the wrong versions with their messages.
      needs: the numbers of the blanks that it uses.
      given: the names of the definitions that it uses.
      weights: the index of the output that holds attention weights, if any.
    """

    name: str
    outputs: tuple[str, ...]
    cases: Callable[[np.random.Generator], list[Case]]
    wrong: dict[str, str]
    needs: tuple[int, ...] = ()
    given: tuple[str, ...] = ()
    weights: int | None = None


def _floats(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def _padding(rng, batch, length):
    """A mask (B, 1, 1, S) that hides the last one to three positions of each row."""
    lengths = length - rng.integers(1, 4, batch)
    hidden = np.arange(length) >= lengths[:, np.newaxis]
    return hidden.astype("float32")[:, np.newaxis, np.newaxis]


def _look_ahead(size):
    return np.triu(np.ones((size, size), "float32"), 1)


def _attention_cases(rng):
    def case(what, q, k, v, mask):
        job = {
            "name": "scaled_dot_product_attention",
            "args": [q, k, v, mask],
            "kwargs": {},
            "inputs": 3,  # must have a gradient
        }
        wide = [a.astype(float) for a in (q, k, v)]
        return Case(what, job, lambda wrong: attention(*wide, mask, wrong), mask)

    depth = int(rng.integers(8, 13))  # not the number of keys
    shape = (2, 3)
    q, k, v = (
        _floats(rng, *shape, 5, depth),
        _floats(rng, *shape, 6, depth),
        _floats(rng, *shape, 6, 7),
    )
    one = [_floats(rng, 6, 4), _floats(rng, 6, 4), _floats(rng, 6, 3)]
    all_hidden = _look_ahead(6)
    all_hidden[2] = 1
    return [
        case("without a mask", q, k, v, None),
        case("with a padding mask", q, k, v, _padding(rng, 2, 6)),
        case("with a look-ahead mask, without a batch axis", *one, _look_ahead(6)),
        case("with scores in the hundreds", q * 30, k * 30, v, None),
        case("with a row in which everything is hidden", *one, all_hidden),
    ]


def _dense_weights(rng, name, rows, columns):
    scale = 1.5 * rows**-0.5
    return {
        f"{name}.kernel": scale * _floats(rng, rows, columns),
        f"{name}.bias": 0.5 * _floats(rng, columns),
    }


def _attention_weights(rng, prefix, d_model):
    weights = {}
    for name in ("wq", "wk", "wv", "dense"):
        weights |= _dense_weights(rng, f"{prefix}{name}", d_model, d_model)
    return weights


def _multi_head_cases(rng):
    def case(what, batch, queries, keys, mask):
        weights = _attention_weights(rng, "", 12)
        v, k = _floats(rng, batch, keys, 12), _floats(rng, batch, keys, 12)
        q = _floats(rng, batch, queries, 12)
        job = {
            "name": "MultiHeadAttention",
            "init": {"d_model": 12, "num_heads": 3},
            "weights": weights,
            "args": [v, k, q],
            "kwargs": {"mask": mask},
        }

        def expected(wrong):
            return multi_head(v, k, q, mask, weights, wrong=wrong)

        return Case(what, job, expected, mask)

    return [
        case("with as many queries as keys", 2, 4, 4, None),
        case("with 5 queries and 7 keys", 3, 5, 7, None),
        case("with a padding mask", 2, 5, 6, _padding(rng, 2, 6)),
        case("with a look-ahead mask", 1, 5, 5, _look_ahead(5)),
    ]


def _norm_weights(rng, name, width):
    return {
        f"{name}gamma": 1 + 0.5 * _floats(rng, width),
        f"{name}beta": 0.5 * _floats(rng, width),
    }


def _layer_norm_cases(rng):
    def case(what, x, epsilon):
        weights = _norm_weights(rng, "", x.shape[-1])
        job = {
            "name": "LayerNormalization",
            "init": {"epsilon": epsilon},
            "weights": weights,
            "args": [x.astype("float32")],
            "kwargs": {},
        }
        wide = x.astype("float32").astype(float)

        def expected(wrong):
            return (layer_norm(wide, weights["gamma"], weights["beta"], epsilon, wrong),)

        return Case(what, job, expected)

    x = rng.normal(size=(3, 5, 8)) * 3 + rng.normal(size=(3, 1, 8))
    constant = np.repeat(rng.normal(size=(2, 3, 1)), 8, axis=-1)
    return [
        case("for random vectors", x, 1e-6),
        case("for vectors of about 0.00001", x / 300000, 1e-6),
        case("with epsilon=0.01", x / 30, 0.01),
        case("for vectors of eight equal numbers", constant, 1e-6),
        case("for x + 1000", x + 1000, 1e-6),
        case("for a matrix (S, D)", x[0], 1e-6),
    ]


def _layer_weights(rng, parts, norms, d_model=12, dff=20):
    weights = {}
    for part in parts:
        weights |= _attention_weights(rng, f"{part}.", d_model)
    weights |= _dense_weights(rng, "ffn.0", d_model, dff)
    weights |= _dense_weights(rng, "ffn.1", dff, d_model)
    for number in range(1, norms + 1):
        weights |= _norm_weights(rng, f"layernorm{number}.", d_model)
    return weights


SIZES = {"d_model": 12, "num_heads": 3, "dff": 20, "rate": 0.3}


def _encoder_cases(rng):
    def case(what, training, mask):
        weights = _layer_weights(rng, ["mha"], 2)
        x = _floats(rng, 2, 6, 12)
        job = {
            "name": "EncoderLayer",
            "init": SIZES,
            "weights": weights,
            "args": [x],
            "kwargs": {"training": training, "mask": mask},
        }
        return Case(what, job, lambda wrong: encoder_layer(x, training, mask, weights, wrong))

    return [
        case("with training=False", False, None),
        case("with a padding mask", False, _padding(rng, 2, 6)),
        case("with training=True", True, None),
    ]


def _decoder_cases(rng):
    def case(what, length, training, masks):
        weights = _layer_weights(rng, ["mha1", "mha2"], 3)
        x, enc_output = _floats(rng, 2, length, 12), _floats(rng, 2, 6, 12)
        named = {"look_ahead_mask": masks[0], "padding_mask": masks[1]}
        job = {
            "name": "DecoderLayer",
            "init": SIZES,
            "weights": weights,
            "args": [x, enc_output],
            "kwargs": {"training": training, **named},
        }

        def expected(wrong):
            return decoder_layer(x, enc_output, training, masks, weights, wrong)

        return Case(what, job, expected)

    def masks(length):
        return _look_ahead(length)[np.newaxis, np.newaxis], _padding(rng, 2, 6)

    return [
        case("with T = S", 6, False, (None, None)),
        case("with both masks", 6, False, masks(6)),
        case("with training=True, T = 4 and S = 6", 4, True, masks(4)),
    ]


def _position_cases(rng):
    def case(position, d_model):
        job = {
            "name": "positional_encoding",
            "args": [position, d_model],
            "kwargs": {},
        }
        return Case(
            f"of {position} positions and {d_model} columns",
            job,
            lambda wrong: positions(position, d_model, wrong),
        )

    return [case(int(rng.integers(5, 70)), 2 * int(rng.integers(2, 40))) for _ in "123"]


def _loss_cases(rng):
    def case(what, factor, **named):
        vocab_size = int(rng.integers(13, 18))  # neither 12 tokens nor 18 positions
        tar_real = rng.integers(1, vocab_size, (3, 6)).astype("int32")
        tar_real[0, 4:] = 0
        tar_real[1, 2:] = 0
        logits = factor * _floats(rng, 3, 6, vocab_size)
        # As in a trained model, the label is more probable than most words. If it had the mean
        # log-probability, it would not matter whether it gets a part of epsilon.
        logits += 2 * factor * np.eye(vocab_size, dtype="float32")[tar_real]
        job = {
            "name": "label_smoothed_cross_entropy",
            "args": [tar_real, logits],
            "kwargs": named,
        }
        wide = logits.astype(float)
        return Case(what, job, lambda wrong: loss(tar_real, wide, wrong=wrong, **named))

    return [
        case("with label_smoothing=0.1", 2),
        case("with label_smoothing=0.3", 2, label_smoothing=0.3),
        case("without label smoothing", 2, label_smoothing=0.0),
        case("with logits in the hundreds", 300),
    ]


BLANKS = {
    1: Blank(
        "scaled_dot_product_attention",
        ("output", "attention_weights"),
        _attention_cases,
        ATTENTION_WRONG,
        weights=1,
    ),
    2: Blank(
        "MultiHeadAttention",
        ("output", "attention_weights"),
        _multi_head_cases,
        MULTI_HEAD_WRONG,
        needs=(1,),
        given=("Layer",),
        weights=1,
    ),
    3: Blank(
        "LayerNormalization",
        ("output",),
        _layer_norm_cases,
        LAYER_NORM_WRONG,
        given=("Layer",),
    ),
    4: Blank(
        "EncoderLayer",
        ("output",),
        _encoder_cases,
        ENCODER_WRONG,
        needs=(1, 2, 3),
        given=("Layer", "point_wise_feed_forward_network"),
    ),
    5: Blank(
        "DecoderLayer",
        ("output", "weights_block1", "weights_block2"),
        _decoder_cases,
        DECODER_WRONG,
        needs=(1, 2, 3),
        given=("Layer", "point_wise_feed_forward_network"),
    ),
    6: Blank("positional_encoding", ("output",), _position_cases, POSITIONS_WRONG),
    7: Blank(
        "label_smoothed_cross_entropy",
        ("sum", "number of tokens"),
        _loss_cases,
        LOSS_WRONG,
    ),
}
