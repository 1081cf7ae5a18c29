"""Masks: 1 = hidden."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.masks import create_look_ahead_mask, create_masks


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
