"""Attention: values computed by hand, and the layer of Keras."""

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
    """With d_k = 4 the products 2 ln 3 and 0 are scaled to ln 3 and 0: weights 3/4 and 1/4."""
    q = tf.constant([[2 * math.log(3), 0.0, 0.0, 0.0]])
    k = tf.constant([[1.0, 5.0, 0.0, 0.0], [0.0, 7.0, 0.0, 0.0]])
    v = tf.constant([[8.0, 0.0, 4.0], [0.0, 4.0, 4.0]])
    output, weights = scaled_dot_product_attention(q, k, v, None)
    np.testing.assert_allclose(weights, [[0.75, 0.25]], rtol=1e-6)
    np.testing.assert_allclose(output, [[6.0, 1.0, 4.0]], rtol=1e-6)


def test_mask_removes_a_key_from_the_softmax():
    """A hidden key has weight 0; the result is that without the key."""
    q = tf.constant([[2.0, 1.0]])
    k = tf.constant([[1.0, 0.0], [9.0, 9.0], [0.0, 1.0]])
    v = tf.constant([[1.0], [100.0], [2.0]])
    output, weights = scaled_dot_product_attention(q, k, v, tf.constant([[0.0, 1.0, 0.0]]))
    assert weights[0, 1] == 0.0
    output_without, weights_without = scaled_dot_product_attention(q, k[::2], v[::2], None)
    np.testing.assert_allclose(weights[:, ::2], weights_without, rtol=1e-6)
    np.testing.assert_allclose(output, output_without, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_fully_masked_row_is_finite_and_uniform(rng, dtype):
    q, k, v = (tf.cast(normal(rng, 2, 3, 4), dtype) for _ in range(3))
    mask = tf.constant([[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]])
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    assert output.dtype == dtype
    assert weights.dtype == tf.float32
    assert np.all(np.isfinite(tf.cast(output, tf.float32)))
    np.testing.assert_allclose(weights[:, 1], np.full((2, 3), 1 / 3), rtol=1e-6)
    np.testing.assert_allclose(weights[:, 2], [[1, 0, 0]] * 2, atol=0)


def test_float16_does_not_overflow_before_the_scaling():
    """The product of these queries and keys is 80,000, above float16's maximum; scaled 10,000."""
    q = tf.fill([1, 2, 64], tf.constant(50.0, tf.float16))
    k = tf.stack([q[0, 0] / 2, -q[0, 0] / 2])[tf.newaxis]  # (1, 2, 64)
    _, weights = scaled_dot_product_attention(q, k, k, None)
    np.testing.assert_array_equal(weights[0], [[1, 0], [1, 0]])


def test_weights_sum_to_1_and_keys_may_be_permuted(rng):
    q, k, v = normal(rng, 2, 3, 5, 4), normal(rng, 2, 3, 6, 4), normal(rng, 2, 3, 6, 7)
    output, weights = scaled_dot_product_attention(q, k, v, None)
    assert output.shape == (2, 3, 5, 7)
    assert weights.shape == (2, 3, 5, 6)
    np.testing.assert_allclose(tf.reduce_sum(weights, axis=-1), np.ones((2, 3, 5)), rtol=1e-6)
    k, v = (tf.gather(x, [3, 1, 5, 0, 2, 4], axis=2) for x in (k, v))
    permuted, _ = scaled_dot_product_attention(q, k, v, None)
    np.testing.assert_allclose(permuted, output, atol=1e-6)


@pytest.mark.parametrize("key_dim, value_dim", [(None, None), (3, 5), (6, None), (None, 2)])
def test_equals_keras_multi_head_attention_of_the_same_weights(rng, key_dim, value_dim):
    d_model, num_heads = 8, 2
    depth = key_dim or d_model // num_heads
    value_depth = value_dim or d_model // num_heads
    keras_mha = keras.layers.MultiHeadAttention(num_heads, depth, value_depth)
    mha = MultiHeadAttention(d_model, num_heads, key_dim, value_dim)
    v, k, q = (normal(rng, 3, length, d_model) for length in (6, 6, 4))
    hidden = rng.random((3, 1, 4, 6)) < 0.4
    hidden[..., 0] = False
    keras_mha(q, v, k)
    mha(v, k, q, None)
    for variable in mha.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.5))
    projections = [
        (mha.wq, keras_mha.query_dense),
        (mha.wk, keras_mha.key_dense),
        (mha.wv, keras_mha.value_dense),
        (mha.dense, keras_mha.output_dense),
    ]
    for dense, keras_dense in projections:
        keras_dense.kernel.assign(tf.reshape(dense.kernel, keras_dense.kernel.shape))
        keras_dense.bias.assign(tf.reshape(dense.bias, keras_dense.bias.shape))
    expected, expected_weights = keras_mha(
        q, v, k, attention_mask=~hidden[:, 0], return_attention_scores=True
    )
    output, weights = mha(v, k, q, tf.constant(hidden, tf.float32))
    np.testing.assert_allclose(output, expected, atol=1e-5)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)


def test_head_i_uses_the_ith_columns_of_the_projections(rng):
    """Concat(head_1, ..., head_h) W^O, computed in NumPy for each head."""
    mha = MultiHeadAttention(6, 2)  # its biases start at 0
    x = normal(rng, 1, 5, 6)
    output, weights = mha(x, x, x, None)
    heads = []
    for i in range(2):
        columns = slice(3 * i, 3 * i + 3)
        projections = [dense.kernel.numpy()[:, columns] for dense in (mha.wq, mha.wk, mha.wv)]
        q, k, v = (x[0].numpy() @ projection for projection in projections)
        exponentials = np.exp(q @ k.T / math.sqrt(3))
        softmax = exponentials / exponentials.sum(-1, keepdims=True)
        np.testing.assert_allclose(weights[0, i], softmax, atol=1e-5)
        heads.append(softmax @ v)
    expected = np.concatenate(heads, -1) @ mha.dense.kernel.numpy()
    np.testing.assert_allclose(output[0], expected, atol=1e-5)


@pytest.mark.parametrize("depths", [{}, {"key_dim": 4}, {"value_dim": 4}])
def test_indivisible_d_model_needs_both_depths(depths):
    with pytest.raises(ValueError, match="d_model 10 is not divisible by num_heads 3"):
        MultiHeadAttention(10, 3, **depths)
    x = tf.ones((1, 2, 10))
    output, _ = MultiHeadAttention(10, 3, key_dim=4, value_dim=4)(x, x, x)
    assert output.shape == (1, 2, 10)
