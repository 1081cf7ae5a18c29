"""Masks: 1 = hidden."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.attention import MultiHeadAttention, scaled_dot_product_attention
from tf_transformer.model.layers import DecoderLayer, EncoderLayer
from tf_transformer.model.masks import create_look_ahead_mask, create_masks
from tf_transformer.model.transformer import Decoder, Encoder, Transformer


@pytest.mark.parametrize("size", [0, 1, 6])
def test_look_ahead_mask_hides_exactly_the_columns_after_the_row(size):
    mask = create_look_ahead_mask(size).numpy()
    assert mask.shape == (size, size)
    row, column = np.indices((size, size))
    np.testing.assert_array_equal(mask, column > row)


def test_create_masks_by_hand():
    inp = tf.constant([[4, 5, 0, 0]])
    tar = tf.constant([[2, 7, 0]])
    enc_padding_mask, look_ahead_mask, dec_padding_mask = create_masks(inp, tar)
    np.testing.assert_array_equal(enc_padding_mask, [[[[0, 0, 1, 1]]]])
    np.testing.assert_array_equal(dec_padding_mask, enc_padding_mask)
    np.testing.assert_array_equal(look_ahead_mask, [[[[0, 1, 1], [0, 0, 1], [0, 0, 1]]]])


SIZES = (1, 8, 2, 16, 9, 9)
X = tf.random.stateless_normal([4, 4, 8], (1, 2))  # as many sentences as positions
IDS = tf.constant([[4, 5, 6, 7], [7, 8, 3, 2], [3, 4, 5, 6], [8, 7, 6, 1]])
LAYERS = {
    each: each(8, 2, *sizes)
    for each, sizes in ((MultiHeadAttention, ()), (EncoderLayer, (16,)), (DecoderLayer, (16,)))
}
ENCODER, DECODER, MODEL = Encoder(*SIZES), Decoder(*SIZES), Transformer(1, 8, 2, 16, 9, 9, 9, 9)
CALLS = {
    "attention": lambda mask: scaled_dot_product_attention(*[X[:, tf.newaxis]] * 3, mask)[0],
    "MultiHeadAttention": lambda mask: LAYERS[MultiHeadAttention](X, X, X, mask)[0],
    "EncoderLayer": lambda mask: LAYERS[EncoderLayer](X, False, mask),
    "DecoderLayer, look-ahead": lambda mask: LAYERS[DecoderLayer](X, X, False, mask, None)[0],
    "DecoderLayer, padding": lambda mask: LAYERS[DecoderLayer](X, X, False, None, mask)[0],
    "Encoder": lambda mask: ENCODER(IDS, False, mask),
    "Decoder, look-ahead": lambda mask: DECODER(IDS, X, False, mask, None)[0],
    "Decoder, padding": lambda mask: DECODER(IDS, X, False, None, mask)[0],
    "Transformer, encoder": lambda mask: MODEL(IDS, IDS, False, mask)[0],
    "Transformer, look-ahead": lambda mask: MODEL(IDS, IDS, False, None, mask)[0],
    "Transformer, padding": lambda mask: MODEL(IDS, IDS, False, None, None, mask)[0],
}
CAUSAL = np.arange(4)[:, None] < np.arange(4)  # [T, S], True = hidden
PADDING = np.array([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1]]) == 1  # [B, S]
BOTH = CAUSAL | PADDING[:, None]  # [B, T, S]
HIDDEN = {  # [B, 1, T, S]
    "nothing": np.zeros((4, 1, 4, 4)),
    "future": np.tile(CAUSAL, (4, 1, 1, 1)),
    "padding": np.tile(PADDING[:, None, None], (1, 1, 4, 1)),
    "both": BOTH[:, None],
}
# A mask, and what it hides, or its error. With integers, 1 is visible for Keras, and hidden in the
# reference code.
MASKS = {
    "0.0": (0.0, "nothing"),
    "0": (0, "nothing"),
    "False": (False, "The mask 0.0 hides nothing"),
    "True": (True, "The mask 0.0 hides nothing"),
    "bool, another batch": (np.ones((3, 4, 4), bool), "True = shown"),
    "bool [B, S]": (~PADDING, "padding"),
    "bool [1, T, S]": (~CAUSAL[None], "future"),
    "bool [B, T, S]": (~BOTH, "both"),
    "bool [B, 1, T, S]": (~BOTH[:, None], "both"),
}
for dtype in ("float16", "bfloat16", "float32", "float64"):
    MASKS[f"{dtype} [T, S]"] = tf.cast(CAUSAL, dtype), "future"
    MASKS[f"{dtype} [B, 1, 1, S]"] = tf.cast(PADDING[:, None, None], dtype), "padding"
    MASKS[f"{dtype} [B, 1, T, S]"] = tf.cast(BOTH[:, None], dtype), "both"
for dtype in ("int8", "int32", "int64", "uint8"):
    for mask in (CAUSAL, PADDING, BOTH):
        error = f"{dtype} can mean both: cast it to bool where 1 is visible"
        MASKS[f"{dtype} {len(MASKS)}"] = mask.astype(dtype), error


@pytest.mark.parametrize("entry", CALLS)
def test_masks_of_any_type(entry):
    call = CALLS[entry]
    expected = {name: call(tf.constant(mask, tf.float32)) for name, mask in HIDDEN.items()}
    assert len(np.unique([np.abs(each).sum() for each in expected.values()])) == len(HIDDEN)
    for name, (mask, result) in MASKS.items():
        if name == "bool [B, S]" and "look-ahead" in entry:  # it would show the future
            result = r"not \[B, T\]"
        if result in HIDDEN:
            np.testing.assert_allclose(call(mask), expected[result], atol=1e-6, err_msg=name)
        else:
            with pytest.raises(ValueError, match=result):
                call(mask)
