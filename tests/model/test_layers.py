"""One test of what every layer of the package must do; then the layers of Section 3.1 against a composition by hand."""

import contextlib
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.attention import MultiHeadAttention
from tf_transformer.model.dropout import Dropout
from tf_transformer.model.embedding import Embedding, Positions
from tf_transformer.model.layers import DecoderLayer, EncoderLayer, point_wise_feed_forward_network
from tf_transformer.model.masks import create_look_ahead_mask, create_padding_mask
from tf_transformer.model.transformer import Decoder, Encoder, Transformer

B, S, T, D, V = 2, 5, 4, 8, 11
SOURCE, TARGET, IDS_IN, IDS_OUT = "source", "target", "ids_in", "ids_out"
SHAPES = {SOURCE: (S, D), TARGET: (T, D), IDS_IN: (S,), IDS_OUT: (T,)}

# Each layer: its constructor, its arguments, and the inputs that it takes.
LAYERS = {
    "MultiHeadAttention": (MultiHeadAttention, dict(d_model=D, num_heads=2), [SOURCE, SOURCE, TARGET]),
    "MultiHeadAttention-depths": (MultiHeadAttention, dict(d_model=D, num_heads=2, key_dim=3, value_dim=5), [SOURCE, SOURCE, TARGET]),
    "EncoderLayer": (EncoderLayer, dict(d_model=D, num_heads=2, dff=12, rate=0.2), [SOURCE]),
    "DecoderLayer": (DecoderLayer, dict(d_model=D, num_heads=2, dff=12, key_dim=3, value_dim=5), [TARGET, SOURCE]),
    "Encoder": (
        Encoder,
        dict(num_layers=1, d_model=D, num_heads=2, dff=12, input_vocab_size=V, maximum_position_encoding=7, positional_encoding="learned"),
        [IDS_IN],
    ),
    "Decoder": (
        Decoder,
        dict(num_layers=1, d_model=D, num_heads=2, dff=12, target_vocab_size=V, maximum_position_encoding=7, rate=0.0),
        [IDS_OUT, SOURCE],
    ),
    "Decoder-embedding": (
        Decoder,
        dict(num_layers=1, d_model=D, num_heads=2, dff=12, target_vocab_size=V, maximum_position_encoding=7, embedding=Embedding),
        [IDS_OUT, SOURCE],
    ),
    "Embedding": (Embedding, dict(vocab_size=V, d_model=D), [IDS_IN]),
    "Positions": (Positions, dict(maximum_position_encoding=7, d_model=D), [SOURCE]),
    "Positions-learned": (Positions, dict(maximum_position_encoding=7, d_model=D, kind="learned"), [SOURCE]),
    "Dropout": (Dropout, dict(rate=0.3), [SOURCE]),
    "Transformer": (
        Transformer,
        dict(
            num_layers=1, d_model=D, num_heads=2, dff=12, input_vocab_size=V, target_vocab_size=V + 2, pe_input=7, pe_target=9, key_dim=3
        ),
        [IDS_IN, IDS_OUT],
    ),
    "Transformer-shared": (
        Transformer,
        dict(
            num_layers=1, d_model=D, num_heads=2, dff=12, input_vocab_size=V, target_vocab_size=V, pe_input=7, pe_target=9,
            positional_encoding="learned", shared_embeddings=True,
        ),
        [IDS_IN, IDS_OUT],
    ),
}  # fmt: skip


@contextlib.contextmanager
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("error", FutureWarning)
        yield


class Case:
    """A layer under test and inputs for it."""

    def __init__(self, name):
        self.layer_class, arguments, self.kinds = LAYERS[name]
        self.arguments = {
            k: Embedding(V, D, name="table") if k == "embedding" else v
            for k, v in arguments.items()
        }

    def layer(self, **options):
        return self.layer_class(**self.arguments, **options)

    def inputs(self, seed=1):
        """Tensors; one kind of input is one tensor, given as often as it is named."""
        rng = np.random.default_rng(seed)
        made = {}
        for kind in dict.fromkeys(self.kinds):
            shape = (B, *SHAPES[kind])
            made[kind] = tf.constant(
                rng.integers(1, V, shape)
                if "ids" in kind
                else rng.normal(size=shape).astype("float32")
            )
        return [made[kind] for kind in self.kinds]

    def functional(self, layer):
        """A Keras model of unknown batch size and lengths around the layer."""
        inputs = [
            keras.Input(
                (None, *SHAPES[kind][1:]),
                dtype="int64" if "ids" in kind else "float32",
                name=f"input{i}",
            )
            for i, kind in enumerate(self.kinds)
        ]
        return keras.Model(inputs, layer(*inputs))


@pytest.fixture(params=LAYERS)
def case(request):
    keras.utils.set_random_seed(1)
    return Case(request.param)


@pytest.fixture
def policy():
    """Sets the global precision for one test."""
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy("float32")


def leaves(outputs):
    return tf.nest.flatten(outputs)


def assert_equal(outputs, others):
    assert len(leaves(outputs)) == len(leaves(others))
    for one, other in zip(leaves(outputs), leaves(others)):
        np.testing.assert_allclose(tf.cast(one, tf.float32), tf.cast(other, tf.float32), atol=1e-6)


def comparable(config):
    return {
        k: keras.saving.serialize_keras_object(v) if isinstance(v, keras.layers.Layer) else v
        for k, v in config.items()
    }


def test_config_round_trip(case):
    layer = case.layer(name="layer_under_test")
    config = layer.get_config()
    assert comparable(case.arguments).items() <= config.items() or "embedding" in case.arguments
    again = case.layer_class.from_config(config)
    assert again.get_config() == config and again.name == "layer_under_test"
    layer(*case.inputs()), again(*case.inputs())
    assert [v.shape for v in again.weights] == [v.shape for v in layer.weights]
    again.set_weights(layer.get_weights())
    assert_equal(again(*case.inputs()), layer(*case.inputs()))


def test_functional_model_equals_the_call_and_builds_without_a_warning(case):
    with warnings_are_errors():
        layer = case.layer()
        model = case.functional(layer)
        eager = layer(*case.inputs())
    assert_equal(model(case.inputs()), eager)
    assert len(layer.weights) == len({id(v) for v in layer.weights}) and all(
        v.path for v in layer.weights
    )


def test_saved_and_loaded(case, tmp_path):
    model = case.functional(case.layer())
    for variable in model.trainable_variables:
        variable.assign(tf.random.normal(variable.shape))
    with warnings_are_errors():
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_equal(loaded(case.inputs()), model(case.inputs()))


@pytest.mark.parametrize(
    "name, dtype", [("mixed_bfloat16", tf.bfloat16), ("mixed_float16", tf.float16)]
)
def test_mixed_precision(case, policy, name, dtype):
    policy(name)
    layer = case.layer()
    for training in (False, True):
        options = (
            {}
            if case.layer_class in (MultiHeadAttention, Embedding, Positions)
            else {"training": training}
        )
        outputs = leaves(layer(*case.inputs(), **options))
        assert outputs[0].dtype == dtype
        assert all(np.all(np.isfinite(tf.cast(output, tf.float32))) for output in outputs)
    assert all(v.dtype == "float32" for v in layer.trainable_variables)


@pytest.mark.parametrize("name", ["DecoderLayer", "Transformer-shared"])
def test_precision_is_kept_when_the_layer_is_saved(name, policy, tmp_path):
    case = Case(name)
    policy("mixed_bfloat16")
    model = case.functional(case.layer())
    model.save(tmp_path / "model.keras")
    expected = model(case.inputs())
    policy("float32")
    found = keras.saving.load_model(tmp_path / "model.keras")(case.inputs())
    assert [x.dtype for x in leaves(found)] == [x.dtype for x in leaves(expected)]
    assert_equal(found, expected)


def test_precision_given_to_the_layer_is_that_of_its_parts(case):
    layer = case.layer(dtype="mixed_bfloat16")
    layer(*case.inputs())
    parts = [
        part
        for part in layer._flatten_layers()
        if not isinstance(part, (keras.Sequential, keras.layers.InputLayer))
    ]
    if "embedding" not in case.arguments:  # which came with its own precision
        assert {part.dtype_policy.name for part in parts} == {"mixed_bfloat16"}


def test_no_keras_mask_is_handed_on(case):
    """Keras' implicit masks say True for keep, the opposite of the reference's: none may come out, with a mask given or not."""
    layer = case.layer()
    given = {}
    if case.layer_class in (MultiHeadAttention, EncoderLayer, Encoder):
        given["mask"] = tf.zeros((B, 1, 1, S))
    for options in ({}, given):
        assert all(
            getattr(x, "_keras_mask", None) is None
            for x in leaves(layer(*case.inputs(), **options))
        )
    assert all(
        getattr(x, "_keras_mask", None) is None
        for x in leaves(case.functional(case.layer()).outputs)
    )


@pytest.mark.parametrize("batch", [1, B])
def test_input_with_a_keras_mask_needs_the_references_mask_too(batch):
    """Keras would fill it in for `mask`, with the opposite meaning: for a batch of 1 without any error."""
    ids = tf.constant([[4, 5, 6, 0, 0], [7, 8, 0, 0, 0]])[:batch]
    x = keras.layers.Embedding(V, D, mask_zero=True)(ids)
    layer = EncoderLayer(D, 2, 12)
    with pytest.raises(ValueError, match="carries a Keras mask"):
        layer(x)
    output = layer(x, False, create_padding_mask(ids))
    assert getattr(output, "_keras_mask", None) is None
    np.testing.assert_array_equal(output, layer(tf.identity(x), False, create_padding_mask(ids)))


def test_gradients_reach_every_weight(case):
    layer = case.layer()
    layer(*case.inputs())
    rng = np.random.default_rng(2)
    for variable in layer.trainable_variables:  # not at a start where biases are 0
        variable.assign(rng.normal(size=variable.shape))
    with tf.GradientTape() as tape:
        first = leaves(layer(*case.inputs()))[0]
        total = tf.reduce_sum(first * rng.normal(size=first.shape).astype("float32"))
    if not layer.trainable_variables:
        return
    gradients = tape.gradient(total, [v.value for v in layer.trainable_variables])
    for variable, gradient in zip(layer.trainable_variables, gradients):
        assert gradient is not None, variable.path
        largest = np.abs(tf.convert_to_tensor(gradient)).max()
        # A bias of the keys adds the same to all scores of a query, so the softmax does not see it.
        assert largest < 1e-4 if variable.path.endswith("wk/bias") else largest > 1e-4, (
            variable.path
        )


def test_training_only_matters_through_dropout(case):
    if case.layer_class in (MultiHeadAttention, Embedding, Positions):
        pytest.skip("has no dropout")
    layer = case.layer()
    quiet = leaves(layer(*case.inputs(), training=False))[0]
    assert_equal(layer(*case.inputs()), layer(*case.inputs(), training=False))
    noisy = leaves(layer(*case.inputs(), training=True))[0]
    rate = case.arguments.get("rate", 0.1)
    assert np.array_equal(quiet, noisy) == (rate == 0)


# Section 3.1: LayerNorm(x + SubLayer(x)).


def test_feed_forward_by_hand():
    ffn = point_wise_feed_forward_network(2, 3)
    ffn.build((None, None, 2))
    ffn.set_weights(
        [
            np.array([[1, 0, 2], [0, 1, -1.0]]),
            np.array([0, -1, 0.0]),
            np.array([[1, 2], [3, 4], [5, 6.0]]),
            np.array([10, 20.0]),
        ]
    )
    # x W_1 + b_1 = (1, 1, 0) and (-1, 2, -5); the negative ones are cut off.
    np.testing.assert_allclose(
        ffn(tf.constant([[[1.0, 2.0], [-1.0, 3.0]]])), [[[14, 26], [16, 28]]]
    )


def test_feed_forward_treats_positions_alike():
    ffn, x = point_wise_feed_forward_network(D, 12), tf.random.normal((B, S, D))
    np.testing.assert_allclose(tf.reverse(ffn(x), [1]), ffn(tf.reverse(x, [1])), atol=1e-6)


@pytest.fixture
def sentences():
    keras.utils.set_random_seed(1)
    source, target = (
        tf.constant([[4, 5, 6, 0, 0], [7, 8, 9, 3, 1]]),
        tf.constant([[2, 4, 5, 0], [2, 6, 7, 8]]),
    )
    x, y = tf.random.normal((B, S, D)), tf.random.normal((B, T, D))
    return (
        x,
        y,
        create_padding_mask(source),
        tf.maximum(create_look_ahead_mask(T), create_padding_mask(target)),
    )


def layer_norm(x):
    """Of fresh scale and shift."""
    x = np.asarray(x, np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def test_encoder_layer_is_post_norm(sentences):
    x, _, mask, _ = sentences
    layer = EncoderLayer(D, 2, 12)
    output = layer(x, False, mask)
    out1 = layer_norm(x + layer.mha(x, x, x, mask)[0])
    out2 = layer_norm(out1 + layer.ffn(tf.constant(out1, tf.float32)))
    np.testing.assert_allclose(output, out2, atol=1e-5)


def test_decoder_layer_is_post_norm(sentences):
    enc_output, x, padding_mask, look_ahead_mask = sentences
    layer = DecoderLayer(D, 2, 12)
    output, block1, block2 = layer(x, enc_output, False, look_ahead_mask, padding_mask)
    attn1, weights1 = layer.mha1(x, x, x, look_ahead_mask)
    out1 = tf.constant(layer_norm(attn1 + x), tf.float32)
    attn2, weights2 = layer.mha2(enc_output, enc_output, out1, padding_mask)
    out2 = tf.constant(layer_norm(attn2 + out1), tf.float32)
    out3 = layer_norm(layer.ffn(out2) + out2)
    np.testing.assert_allclose(output, out3, atol=1e-5)
    np.testing.assert_allclose(block1, weights1, atol=1e-6)
    np.testing.assert_allclose(block2, weights2, atol=1e-6)


def test_output_of_a_layer_is_normalised(sentences):
    """Post-norm: each vector that leaves a fresh layer has mean 0 and variance 1; pre-norm's has not."""
    x, y, _, _ = sentences
    for output in (EncoderLayer(D, 2, 12)(100 * x), DecoderLayer(D, 2, 12)(100 * y, x)[0]):
        np.testing.assert_allclose(np.mean(output, -1), 0, atol=1e-5)
        np.testing.assert_allclose(np.var(output, -1), 1, atol=1e-3)


def test_dropout_is_on_each_sub_layers_output_before_the_sum(sentences):
    """With a rate near 1 every sub-layer is dropped, and only the residual path is left."""
    x, y, _, _ = sentences
    np.testing.assert_allclose(
        EncoderLayer(D, 2, 12, rate=1 - 1e-7)(x, True, None), layer_norm(layer_norm(x)), atol=1e-4
    )
    output, _, _ = DecoderLayer(D, 2, 12, rate=1 - 1e-7)(y, x, True, None, None)
    np.testing.assert_allclose(output, layer_norm(layer_norm(layer_norm(y))), atol=1e-4)


def test_stacks_are_embedding_plus_position_then_the_layers(sentences):
    enc_output, _, padding_mask, look_ahead_mask = sentences
    ids = tf.constant([[2, 4, 5, 0], [2, 6, 7, 8]])
    decoder = Decoder(2, D, 2, 12, V, 7)
    output, weights = decoder(ids, enc_output, False, look_ahead_mask, padding_mask)
    x = decoder.embedding(ids) + decoder.pos_encoding(tf.zeros((B, T, D)))
    for i, layer in enumerate(decoder.dec_layers):
        x, block1, block2 = layer(x, enc_output, False, look_ahead_mask, padding_mask)
        np.testing.assert_allclose(weights[f"decoder_layer{i + 1}_block1"], block1, atol=1e-6)
        np.testing.assert_allclose(weights[f"decoder_layer{i + 1}_block2"], block2, atol=1e-6)
    np.testing.assert_allclose(output, x, atol=1e-5)


def test_masks_as_inputs_of_a_functional_model(sentences):
    enc_output, x, padding_mask, look_ahead_mask = sentences
    inputs = [
        keras.Input((None, D)),
        keras.Input((None, D)),
        keras.Input((1, None, None)),
        keras.Input((1, 1, None)),
    ]
    layer = DecoderLayer(D, 2, 12)
    model = keras.Model(inputs, layer(inputs[0], inputs[1], False, inputs[2], inputs[3]))
    assert_equal(
        model([x, enc_output, look_ahead_mask, padding_mask]),
        layer(x, enc_output, False, look_ahead_mask, padding_mask),
    )
