"""The layers of Section 3.1 equal a composition of their parts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Variant
from tf_transformer.model.layers import DecoderLayer, EncoderLayer, point_wise_feed_forward_network
from tf_transformer.model.masks import create_look_ahead_mask, create_padding_mask
from tf_transformer.model.transformer import Decoder, Encoder
from tf_transformer.model.variant import PAPER

B, S, T, D, V = 2, 5, 4, 8, 11
INP = tf.constant([[4, 5, 6, 0, 0], [7, 8, 9, 3, 1]])  # (B, S)
TAR = tf.constant([[2, 4, 5, 0], [2, 6, 7, 8]])  # (B, T)
PADDING_MASK = create_padding_mask(INP)
LOOK_AHEAD_MASK = tf.maximum(create_look_ahead_mask(T), create_padding_mask(TAR))


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


@pytest.fixture
def source():
    """`[B, S, D]`: the input of the encoder, or its output."""
    return tf.random.normal((B, S, D))


@pytest.fixture
def target():
    """`[B, T, D]`: the input of the decoder."""
    return tf.random.normal((B, T, D))


def layer_norm(x):
    """Layer normalization in float64, with gamma = 1 and beta = 0."""
    x = np.asarray(x, np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def test_feed_forward_by_hand():
    ffn = point_wise_feed_forward_network(2, 3)
    ffn.build((None, None, 2))
    w1 = np.array([[1, 0, 2], [0, 1, -1.0]])
    b1 = np.array([0, -1, 0.0])
    w2 = np.array([[1, 2], [3, 4], [5, 6.0]])
    b2 = np.array([10, 20.0])
    ffn.set_weights([w1, b1, w2, b2])
    # x W_1 + b_1 = (1, 1, 0) and (-1, 2, -5). The ReLU sets the negative values to 0.
    output = ffn(tf.constant([[[1.0, 2.0], [-1.0, 3.0]]]))
    np.testing.assert_allclose(output, [[[14, 26], [16, 28]]])


PRE = Variant(norm="pre")


@pytest.mark.parametrize("variant", [PAPER, PRE], ids=["post", "pre"])
def test_layers_by_their_formula(variant, source, target):
    """LayerNorm(x + SubLayer(x)), or x + SubLayer(LayerNorm(x)) (Xiong et al. 2020, Table 1)."""

    def norm(x):
        return tf.constant(layer_norm(x), tf.float32)

    before, after = (norm, tf.identity) if variant is PRE else (tf.identity, norm)
    layer = EncoderLayer(D, 2, 12, variant=variant)
    output = layer(source, False, PADDING_MASK)
    x = after(source + layer.mha(*[before(source)] * 3, PADDING_MASK)[0])
    np.testing.assert_allclose(output, after(x + layer.ffn(before(x))), atol=1e-5)

    layer = DecoderLayer(D, 2, 12, variant=variant)
    output, block1, block2 = layer(target, source, False, LOOK_AHEAD_MASK, PADDING_MASK)
    attn1, weights1 = layer.mha1(*[before(target)] * 3, LOOK_AHEAD_MASK)
    x = after(target + attn1)
    attn2, weights2 = layer.mha2(source, source, before(x), PADDING_MASK)
    x = after(x + attn2)
    np.testing.assert_allclose(output, after(x + layer.ffn(before(x))), atol=1e-5)
    np.testing.assert_allclose(block1, weights1, atol=1e-6)
    np.testing.assert_allclose(block2, weights2, atol=1e-6)


def test_pre_norm_stacks_end_with_a_layer_normalization(source):
    """The output of a new stack has mean 0 and variance 1, unlike the output of a layer."""
    encoder, decoder = Encoder(1, D, 2, 12, V, 7, 0.1, PRE), Decoder(1, D, 2, 12, V, 7, 0.1, PRE)
    for output in (encoder(INP), decoder(TAR, source)[0]):
        np.testing.assert_allclose(output, layer_norm(output), atol=1e-3)
    with pytest.raises(ValueError, match='\'after\': give "post" or "pre"'):
        Variant(norm="after")


def test_dropout_is_on_each_sub_layers_output_before_the_sum(source, target):
    """With a rate close to 1 every sub-layer is dropped; the residual connections remain."""
    output = EncoderLayer(D, 2, 12, rate=1 - 1e-7)(source, True, None)
    np.testing.assert_allclose(output, layer_norm(layer_norm(source)), atol=1e-4)
    output, _, _ = DecoderLayer(D, 2, 12, rate=1 - 1e-7)(target, source, True, None, None)
    np.testing.assert_allclose(output, layer_norm(layer_norm(layer_norm(target))), atol=1e-4)


def test_stacks_are_embedding_plus_position_then_the_layers(source):
    decoder = Decoder(2, D, 2, 12, V, 7)
    output, weights = decoder(TAR, source, False, LOOK_AHEAD_MASK, PADDING_MASK)
    x = decoder.embedding(TAR) + decoder.pos_encoding(tf.zeros((B, T, D)))
    for i, layer in enumerate(decoder.dec_layers):
        x, block1, block2 = layer(x, source, False, LOOK_AHEAD_MASK, PADDING_MASK)
        np.testing.assert_allclose(weights[f"decoder_layer{i + 1}_block1"], block1, atol=1e-6)
        np.testing.assert_allclose(weights[f"decoder_layer{i + 1}_block2"], block2, atol=1e-6)
    np.testing.assert_allclose(output, x, atol=1e-5)
