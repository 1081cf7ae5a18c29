"""The cells of the reference code as printed, and the formulas of the paper computed by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import (
    CustomSchedule,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    MultiHeadAttention,
    Transformer,
    create_look_ahead_mask,
    create_padding_mask,
    point_wise_feed_forward_network,
    positional_encoding,
    preset,
    scaled_dot_product_attention,
)
from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import ModelConfig

SIZES = {"num_layers": 2, "d_model": 512, "num_heads": 8, "dff": 2048}

# The cells of the reference code, in their order.


def test_cell_create_padding_mask():
    x = tf.constant([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]])
    mask = create_padding_mask(x)
    assert mask.shape == (3, 1, 1, 5) and mask.dtype == tf.float32
    printed = [
        [[[0.0, 0.0, 1.0, 1.0, 0.0]]],
        [[[0.0, 0.0, 0.0, 1.0, 1.0]]],
        [[[1.0, 1.0, 1.0, 0.0, 0.0]]],
    ]
    np.testing.assert_array_equal(mask, printed)


temp_k = tf.constant([[10, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]], tf.float32)  # (4, 3)
temp_v = tf.constant([[1, 0], [10, 0], [100, 5], [1000, 6]], tf.float32)  # (4, 2)


@pytest.mark.parametrize(("temp_q", "weights", "output"), [
    ([[0, 10, 0]], [[0, 1, 0, 0]], [[10, 0]]),
    ([[0, 0, 10]], [[0, 0, 0.5, 0.5]], [[550, 5.5]]),
    (
        [[0, 0, 10], [0, 10, 0], [10, 10, 0]],
        [[0, 0, 0.5, 0.5], [0, 1, 0, 0], [0.5, 0.5, 0, 0]],
        [[550, 5.5], [10, 0], [5.5, 0]],
    ),
], ids=["one key", "a repeated key", "three queries"])  # fmt: skip
def test_cells_scaled_dot_product_attention(temp_q, weights, output):
    temp_q = tf.constant(temp_q, tf.float32)
    temp_out, temp_attn = scaled_dot_product_attention(temp_q, temp_k, temp_v, None)
    np.testing.assert_allclose(temp_attn, weights, atol=1e-8)
    np.testing.assert_allclose(temp_out, output, atol=1e-6)


def test_cell_multi_head_attention():
    temp_mha = MultiHeadAttention(d_model=512, num_heads=8)
    y = tf.random.uniform((1, 60, 512))  # (batch_size, encoder_sequence, d_model)
    out, attn = temp_mha(y, k=y, q=y, mask=None)
    assert out.shape == tf.TensorShape([1, 60, 512])
    assert attn.shape == tf.TensorShape([1, 8, 60, 60])


def test_cell_point_wise_feed_forward_network():
    sample_ffn = point_wise_feed_forward_network(512, 2048)
    assert sample_ffn(tf.random.uniform((64, 50, 512))).shape == tf.TensorShape([64, 50, 512])


def test_cells_encoder_layer_and_decoder_layer():
    sample_encoder_layer = EncoderLayer(512, 8, 2048)
    sample_encoder_layer_output = sample_encoder_layer(
        tf.random.uniform((64, 43, 512)), False, None
    )
    assert sample_encoder_layer_output.shape == tf.TensorShape([64, 43, 512])

    sample_decoder_layer = DecoderLayer(512, 8, 2048)
    sample_decoder_layer_output, _, _ = sample_decoder_layer(
        tf.random.uniform((64, 50, 512)), sample_encoder_layer_output, False, None, None
    )
    assert sample_decoder_layer_output.shape == tf.TensorShape([64, 50, 512])


def test_cell_create_look_ahead_mask():
    x = tf.random.uniform((1, 3))
    temp = create_look_ahead_mask(x.shape[1])
    assert temp.shape == (3, 3) and temp.dtype == tf.float32
    np.testing.assert_array_equal(temp, [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])


def test_cells_encoder_and_decoder():
    sample_encoder = Encoder(**SIZES, input_vocab_size=8500, maximum_position_encoding=10000)
    temp_input = tf.random.uniform((64, 62), dtype=tf.int64, minval=0, maxval=200)
    sample_encoder_output = sample_encoder(temp_input, training=False, mask=None)
    assert sample_encoder_output.shape == tf.TensorShape([64, 62, 512])

    sample_decoder = Decoder(**SIZES, target_vocab_size=8000, maximum_position_encoding=5000)
    temp_input = tf.random.uniform((64, 26), dtype=tf.int64, minval=0, maxval=200)
    masks = {"look_ahead_mask": None, "padding_mask": None}
    output, attn = sample_decoder(
        temp_input, enc_output=sample_encoder_output, training=False, **masks
    )
    assert output.shape == tf.TensorShape([64, 26, 512])
    assert attn["decoder_layer2_block2"].shape == tf.TensorShape([64, 8, 26, 62])


def test_cell_transformer():
    sample_transformer = Transformer(
        **SIZES, input_vocab_size=8500, target_vocab_size=8000, pe_input=10000, pe_target=6000
    )
    temp_input = tf.random.uniform((64, 38), dtype=tf.int64, minval=0, maxval=200)
    temp_target = tf.random.uniform((64, 36), dtype=tf.int64, minval=0, maxval=200)
    fn_out, _ = sample_transformer(
        temp_input,
        temp_target,
        training=False,
        enc_padding_mask=None,
        look_ahead_mask=None,
        dec_padding_mask=None,
    )
    assert fn_out.shape == tf.TensorShape([64, 36, 8000])


# Positional encoding (Sec. 3.5).


def test_positional_encoding_values():
    pe = positional_encoding(200, 8).numpy()
    assert pe.shape == (1, 200, 8) and pe.dtype == np.float32
    np.testing.assert_array_equal(pe[0, 0], [0, 1, 0, 1, 0, 1, 0, 1])
    np.testing.assert_allclose(pe[0, 1, :2], [math.sin(1), math.cos(1)], atol=1e-7)
    np.testing.assert_allclose(pe[0, 3, :2], [0.14112001, -0.98999250], atol=1e-7)  # sin 3, cos 3
    angle = 150 / 10000 ** (6 / 8)  # i = 3: 0.15
    np.testing.assert_allclose(pe[0, 150, 6:], [math.sin(angle), math.cos(angle)], atol=1e-7)


def test_positional_encoding_wavelengths():
    """They form a geometric progression from 2 pi to nearly 10000 x 2 pi."""
    d_model = 512
    pe = positional_encoding(2, d_model).numpy()[0, 1].astype(np.float64)
    wavelengths = 2 * math.pi / np.arctan2(pe[0::2], pe[1::2])
    first_and_last = [2 * math.pi, 2 * math.pi * 10000 ** (510 / 512)]
    np.testing.assert_allclose(wavelengths[[0, -1]], first_and_last, rtol=1e-4)
    ratios = wavelengths[1:] / wavelengths[:-1]
    np.testing.assert_allclose(ratios, 10000 ** (2 / d_model), rtol=1e-4)


@pytest.mark.parametrize("k", [1, 7, 40])
def test_positional_encoding_of_an_offset_is_a_rotation(k):
    """PE(pos + k) = R_k PE(pos) with the same matrix for every pos (the paper's hypothesis)."""
    d_model = 16
    pe = positional_encoding(100, d_model).numpy()[0].astype(np.float64)
    rotation = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        pair = slice(2 * i, 2 * i + 2)
        rotation[pair, pair] = [
            [math.cos(angle), math.sin(angle)],
            [-math.sin(angle), math.cos(angle)],
        ]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(d_model), atol=1e-12)
    np.testing.assert_allclose(pe[k:], pe[:-k] @ rotation.T, atol=1e-6)


# The learning rate (Eq. 3).


def test_learning_rate_of_the_base_model():
    rates = [0, 1.7469281e-07, 1.7469281e-05, 6.9877125e-04, 3.4938562e-04]
    steps = tf.constant([0, 1, 100, 4000, 16000])
    np.testing.assert_allclose(CustomSchedule(512)(steps), rates, rtol=1e-6)


def test_learning_rate_rises_linearly_and_falls_with_the_inverse_root():
    schedule = CustomSchedule(1024, warmup_steps=50)
    rates = schedule(tf.range(1, 301)).numpy().astype(np.float64)  # rates[i] is of step i + 1
    assert np.argmax(rates) == 50 - 1
    np.testing.assert_allclose(rates[49], 1024**-0.5 * 50**-0.5, rtol=1e-6)
    np.testing.assert_allclose(rates[:50] / rates[0], np.arange(1, 51), rtol=1e-6)
    # At four times the step the rate is half as large.
    np.testing.assert_allclose(rates[199] / rates[49], 0.5, rtol=1e-6)


# Table 3.


def test_presets_are_the_rows_of_table_3():
    row = ["num_layers", "d_model", "dff", "num_heads", "dropout_rate"]
    base, big = preset("base"), preset("big")
    assert [getattr(base.model, name) for name in row] == [6, 512, 2048, 8, 0.1]
    assert [getattr(big.model, name) for name in row] == [6, 1024, 4096, 16, 0.3]
    assert (base.train.train_steps, big.train.train_steps) == (100_000, 300_000)
    assert base.train.label_smoothing == 0.1 and base.train.warmup_steps == 4000
    assert (base.train.beta_1, base.train.beta_2, base.train.epsilon) == (0.9, 0.98, 1e-9)


def test_parameter_counts_of_base_and_big():
    assert ModelConfig().parameters() == preset("base").model.parameters() == 63_082_496
    assert preset("big").model.parameters() == 214_245_376


@pytest.mark.parametrize("changes", [
    {},
    {"num_layers": 1, "shared_embeddings": False, "target_vocab_size": 13},
    {"positional_encoding": "learned", "shared_embeddings": False, "input_vocab_size": 17},
    {"d_model": 9, "key_dim": 3, "value_dim": 5},
    {"norm": "pre", "num_encoder_layers": 3, "num_decoder_layers": 1},
], ids=str)  # fmt: skip
def test_formula_counts_the_weights_of_the_built_model(changes):
    sizes = {"num_layers": 2, "d_model": 8, "num_heads": 2, "dff": 12, "pe_input": 7}
    sizes |= {"input_vocab_size": 11, "target_vocab_size": 11, "pe_target": 9}
    config = ModelConfig(**sizes | changes)
    model = build_model(config)
    counted = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    assert counted == config.parameters() == model.count_params()
