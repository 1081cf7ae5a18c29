"""Attention against values worked out by hand and against Keras' own."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.attention import MultiHeadAttention, scaled_dot_product_attention


@pytest.fixture
def rng():
    keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


def normal(rng, *shape):
    return tf.constant(rng.normal(size=shape), tf.float32)


def test_two_keys_by_hand():
    """d_k = 4, so the products 2 ln 3 and 0 become ln 3 and 0, and the weights 3/4 and 1/4."""
    q = tf.constant([[2 * math.log(3), 0.0, 0.0, 0.0]])
    k = tf.constant([[1.0, 5.0, 0.0, 0.0], [0.0, 7.0, 0.0, 0.0]])
    v = tf.constant([[8.0, 0.0, 4.0], [0.0, 4.0, 4.0]])
    output, weights = scaled_dot_product_attention(q, k, v, None)
    np.testing.assert_allclose(weights, [[0.75, 0.25]], rtol=1e-6)
    np.testing.assert_allclose(output, [[6.0, 1.0, 4.0]], rtol=1e-6)


def test_mask_takes_a_key_out_of_the_softmax():
    """A hidden key weighs exactly nothing, and the others are as if it were not there."""
    q, k, v = (
        tf.constant([[2.0, 1.0]]),
        tf.constant([[1.0, 0.0], [9.0, 9.0], [0.0, 1.0]]),
        tf.constant([[1.0], [100.0], [2.0]]),
    )
    output, weights = scaled_dot_product_attention(q, k, v, tf.constant([[0.0, 1.0, 0.0]]))
    assert weights[0, 1] == 0.0
    output_without, weights_without = scaled_dot_product_attention(q, k[::2], v[::2], None)
    np.testing.assert_allclose(weights[:, ::2], weights_without, rtol=1e-6)
    np.testing.assert_allclose(output, output_without, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_wholly_masked_row_is_finite_and_uniform(rng, dtype):
    q, k, v = (tf.cast(normal(rng, 2, 3, 4), dtype) for _ in range(3))
    mask = tf.constant([[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]])
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    assert output.dtype == dtype and weights.dtype == tf.float32
    assert np.all(np.isfinite(tf.cast(output, tf.float32)))
    np.testing.assert_allclose(weights[:, 1], np.full((2, 3), 1 / 3), rtol=1e-6)
    np.testing.assert_allclose(weights[:, 2], [[1, 0, 0]] * 2, atol=0)


def test_float16_does_not_overflow_before_the_scaling():
    """The product of these queries and keys is 80,000, beyond float16; scaled it is 10,000."""
    q = tf.fill([1, 2, 64], tf.constant(50.0, tf.float16))
    k = tf.stack([q[0, 0] / 2, -q[0, 0] / 2])[tf.newaxis]  # (1, 2, 64)
    _, weights = scaled_dot_product_attention(q, k, k, None)
    np.testing.assert_array_equal(weights[0], [[1, 0], [1, 0]])


@pytest.mark.parametrize("dtype", [tf.bool, tf.int32, tf.float32, tf.bfloat16, tf.float16])
def test_mask_of_any_type(rng, dtype):
    q, k, v = (normal(rng, 2, 3, 4) for _ in range(3))
    mask = np.triu(np.ones((3, 3), np.float32), 1)
    for one, other in zip(
        scaled_dot_product_attention(q, k, v, tf.cast(mask, dtype)),
        scaled_dot_product_attention(q, k, v, tf.constant(mask)),
    ):
        np.testing.assert_array_equal(one, other)


def test_weights_sum_to_1_and_keys_may_be_permuted(rng):
    q, k, v = normal(rng, 2, 3, 5, 4), normal(rng, 2, 3, 6, 4), normal(rng, 2, 3, 6, 7)
    output, weights = scaled_dot_product_attention(q, k, v, None)
    assert output.shape == (2, 3, 5, 7) and weights.shape == (2, 3, 5, 6)
    np.testing.assert_allclose(tf.reduce_sum(weights, axis=-1), np.ones((2, 3, 5)), rtol=1e-6)
    order = [3, 1, 5, 0, 2, 4]
    permuted, _ = scaled_dot_product_attention(
        q, tf.gather(k, order, axis=2), tf.gather(v, order, axis=2), None
    )
    np.testing.assert_allclose(permuted, output, atol=1e-6)


@pytest.mark.parametrize("key_dim, value_dim", [(None, None), (3, 5), (6, None), (None, 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_keras_multi_head_attention_of_the_same_weights(rng, key_dim, value_dim, masked):
    d_model, heads = 8, 2
    depth, value_depth = key_dim or d_model // heads, value_dim or d_model // heads
    theirs = keras.layers.MultiHeadAttention(heads, depth, value_depth)
    ours = MultiHeadAttention(d_model, heads, key_dim, value_dim)
    v, k, q = normal(rng, 3, 6, d_model), normal(rng, 3, 6, d_model), normal(rng, 3, 4, d_model)
    hidden = np.zeros((3, 1, 4, 6), bool)
    if masked:
        hidden = rng.random((3, 1, 4, 6)) < 0.4
        hidden[..., 0] = False
    theirs(q, v, k), ours(v, k, q, None)
    for variable in ours.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.5))
    kernels = [
        (ours.wq, theirs.query_dense),
        (ours.wk, theirs.key_dense),
        (ours.wv, theirs.value_dense),
        (ours.dense, theirs.output_dense),
    ]
    for our, their in kernels:
        their.kernel.assign(tf.reshape(our.kernel, their.kernel.shape))
        their.bias.assign(tf.reshape(our.bias, their.bias.shape))
    expected, expected_weights = theirs(
        q, v, k, attention_mask=~hidden[:, 0], return_attention_scores=True
    )
    output, weights = ours(v, k, q, tf.constant(hidden, tf.float32))
    np.testing.assert_allclose(output, expected, atol=1e-5)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)


def test_head_i_uses_the_ith_columns_of_the_projections(rng):
    """Concat(head_1, ..., head_h) W^O, computed in NumPy head by head."""
    mha = MultiHeadAttention(6, 2)
    x = normal(rng, 1, 5, 6)
    output, weights = mha(x, x, x, None)
    heads = []
    for i in range(2):
        columns = slice(3 * i, 3 * i + 3)
        q, k, v = (
            x[0].numpy() @ dense.kernel.numpy()[:, columns] for dense in (mha.wq, mha.wk, mha.wv)
        )  # biases start at 0
        scores = np.exp(q @ k.T / math.sqrt(3))
        softmax = scores / scores.sum(-1, keepdims=True)
        np.testing.assert_allclose(weights[0, i], softmax, atol=1e-5)
        heads.append(softmax @ v)
    np.testing.assert_allclose(
        output[0], np.concatenate(heads, -1) @ mha.dense.kernel.numpy(), atol=1e-5
    )


def test_depths_of_table_3_rows_a_and_b():
    """d_k and d_v change the inner widths, never the output's."""
    mha = MultiHeadAttention(8, 2, key_dim=3, value_dim=5)
    x = tf.ones((2, 7, 8))
    output, weights = mha(x, x, tf.ones((2, 4, 8)))
    assert output.shape == (2, 4, 8) and weights.shape == (2, 2, 4, 7)
    shapes = [tuple(dense.kernel.shape) for dense in (mha.wq, mha.wk, mha.wv, mha.dense)]
    assert shapes == [(8, 6), (8, 6), (8, 10), (10, 8)]


@pytest.mark.parametrize("depths", [{}, {"key_dim": 4}, {"value_dim": 4}])
def test_indivisible_width_is_refused(depths):
    with pytest.raises(ValueError, match="d_model 10 is not divisible by num_heads 3"):
        MultiHeadAttention(10, 3, **depths)


def test_indivisible_width_is_fine_with_both_depths_given():
    x = tf.ones((1, 2, 10))
    assert MultiHeadAttention(10, 3, key_dim=4, value_dim=4)(x, x, x)[0].shape == (1, 2, 10)


def test_mask_positional_or_by_name(rng):
    mha, x = MultiHeadAttention(4, 2), normal(rng, 2, 3, 4)
    mask = tf.constant(np.triu(np.ones((3, 3), np.float32), 1))
    np.testing.assert_array_equal(mha(x, x, x, mask)[0], mha(x, k=x, q=x, mask=mask)[0])
