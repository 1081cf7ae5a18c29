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


X = tf.zeros([4, 4, 8])  # as many sentences as positions
IDS = tf.ones([4, 4], tf.int32)
SIZES = (1, 8, 2, 16, 9, 9)
CALLS = {
    "attention": lambda mask: scaled_dot_product_attention(X, X, X, mask),
    "MultiHeadAttention": lambda mask: MultiHeadAttention(8, 2)(X, X, X, mask),
    "EncoderLayer": lambda mask: EncoderLayer(8, 2, 16)(X, False, mask),
    "DecoderLayer, look-ahead": lambda mask: DecoderLayer(8, 2, 16)(X, X, False, mask, None),
    "DecoderLayer, padding": lambda mask: DecoderLayer(8, 2, 16)(X, X, False, None, mask),
    "Encoder": lambda mask: Encoder(*SIZES)(IDS, False, mask),
    "Decoder": lambda mask: Decoder(*SIZES)(IDS, X, False, mask, None),
    "Transformer": lambda mask: Transformer(1, 8, 2, 16, 9, 9, 9, 9)(IDS, IDS, False, mask),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_integer_masks_are_refused(call, dtype):
    """1 is visible in Keras' example of a causal mask, and hidden in the reference code."""
    visible = np.arange(4)[:, None] >= np.arange(4)
    with pytest.raises(ValueError, match=f"{dtype} can mean both: cast it to bool where 1 is visi"):
        call(visible.astype(dtype))
    for mask in (1.0 - visible, 0.0, 0):
        call(mask)
