"""Embeddings (Sec. 3.4) and positional encoding (Sec. 3.5)."""

import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.embedding import (
    Embedding,
    PositionalEncoding,
    Positions,
    positional_encoding,
)
from tf_transformer.model.transformer import project_tied


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


def built(layer):
    layer.build()
    return layer


def test_embedding_is_the_row_times_the_root_of_d_model():
    embedding = built(Embedding(3, 4))
    embedding.table.assign([[1, 2, 3, 4], [5, 6, 7, 8], [0, 0, -1, 1]])
    x = embedding(tf.constant([[2, 0]]))
    np.testing.assert_array_equal(x, [[[0, 0, -2, 2], [2, 4, 6, 8]]])


def test_logits_are_the_products_with_the_rows_of_the_same_table():
    embedding = built(Embedding(3, 2))
    embedding.table.assign([[1, 0], [0, 1], [2, -3]])
    x = tf.constant([[[5.0, 7.0]], [[1.0, 1.0]]])
    logits = project_tied(x, tf.transpose(embedding.table))
    np.testing.assert_array_equal(logits, [[[5, 7, -11]], [[1, 1, -1]]])


def test_initial_scale():
    """The table has variance 1 / d_model, so a scaled embedding has variance 1."""
    embedding = built(Embedding(2000, 64))
    table = embedding.table.numpy()
    assert abs(table.mean()) < 1e-3
    np.testing.assert_allclose(table.std(), 64**-0.5, rtol=0.02)
    x = embedding(tf.range(2000)[tf.newaxis])
    np.testing.assert_allclose(np.std(x), 1.0, rtol=0.02)


@pytest.mark.parametrize("wrong", [-1, 5])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_id_outside_the_vocabulary_is_an_error(wrong, dtype):
    with pytest.raises(ValueError, match=f"id {wrong} is outside the vocabulary of 5 sub-words"):
        Embedding(5, 4)(tf.constant([[0, wrong, 4]], dtype))
    assert Embedding(5, 4)(tf.zeros((2, 0), tf.int32)).shape == (2, 0, 4)


@pytest.mark.parametrize(
    ("policy", "jit_compile"),
    [("float32", False), ("mixed_bfloat16", False), ("mixed_bfloat16", True)],
)
def test_gradient_of_a_frequent_id_is_the_sum(policy, jit_compile):
    """Of 25,000 occurrences, each with sqrt(d_model) = 2. In bfloat16 a sum ends at 256 of them.

    The gradient is dense: in a sparse one, Adam of Keras squares each occurrence separately.
    """
    embedding = Embedding(3, 4, dtype=policy)
    ids = tf.ones((250, 100), tf.int32)
    assert embedding(ids).dtype == policy.removeprefix("mixed_")

    @tf.function(jit_compile=jit_compile)
    def gradient():
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(tf.cast(embedding(ids), tf.float32))
        return tape.gradient(total, embedding.table.value)

    np.testing.assert_array_equal(gradient(), [[0] * 4, [50_000] * 4, [0] * 4])


def test_positions_are_added():
    """From a start too: a decoding step computes one position alone."""
    positions = PositionalEncoding(10, 6)
    encoding = positional_encoding(10, 6)
    np.testing.assert_array_equal(positions(tf.zeros((2, 10, 6)))[0], encoding[0])
    x = tf.random.normal((2, 4, 6))
    np.testing.assert_array_equal(positions(x), x + encoding[:, :4])
    np.testing.assert_array_equal(positions(x, 3), x + encoding[:, 3:7])
    np.testing.assert_array_equal(positions(x[:, :1], tf.constant(2)), x[:, :1] + encoding[:, 2:3])
    assert not positions.weights


def test_learned_positions_are_a_weight_of_unit_variance():
    positions = built(PositionalEncoding(200, 64, "learned"))
    (table,) = positions.trainable_variables
    assert table.shape == (1, 200, 64)
    np.testing.assert_allclose(np.std(table), 1.0, rtol=0.03)
    np.testing.assert_array_equal(positions(tf.zeros((1, 5, 64))), table[:, :5])
    with pytest.raises(ValueError, match="'sinusoidal' or 'learned', not 'rotary'"):
        PositionalEncoding(10, 6, "rotary")


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_a_saved_model_with_the_old_name(kind, tmp_path):
    """Version 0.2 called the class `Positions`."""
    model = keras.Sequential([keras.Input((5, 4)), Positions(10, 4, kind)])
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        assert b'"registered_name": "tf_transformer>Positions"' in file.read("config.json")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.layers[0], PositionalEncoding)
    x = tf.random.normal((2, 5, 4))
    np.testing.assert_array_equal(loaded(x), model(x))


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_sequence_longer_than_the_table(kind):
    positions = built(PositionalEncoding(5, 4, kind))
    unknown_length = tf.function(positions, input_signature=[tf.TensorSpec([None, None, 4])])
    errors = {
        positions: (ValueError, "6 positions, but the positional encoding has 5"),
        tf.function(positions): (ValueError, "6 positions"),
        unknown_length: (tf.errors.InvalidArgumentError, "longer than the positional encoding"),
    }
    for function, (error, message) in errors.items():
        assert function(tf.zeros((1, 5, 4))).shape == (1, 5, 4)
        with pytest.raises(error, match=message):
            function(tf.zeros((1, 6, 4)))


@pytest.mark.parametrize("d_model", [1, 5])
def test_odd_widths(d_model):
    pe = positional_encoding(3, d_model).numpy()
    assert pe.shape == (1, 3, d_model)
    np.testing.assert_array_equal(pe[0, 0], [column % 2 for column in range(d_model)])
