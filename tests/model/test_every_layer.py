"""Tests that every layer of the package passes: configuration, saving, precision, gradients."""

import contextlib
import functools
import inspect
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.attention import MultiHeadAttention
from tf_transformer.model.dense import Dense
from tf_transformer.model.dropout import Dropout
from tf_transformer.model.embedding import Embedding, PositionalEncoding
from tf_transformer.model.layer_norm import LayerNormalization
from tf_transformer.model.layers import DecoderLayer, EncoderLayer
from tf_transformer.model.transformer import Decoder, Encoder, Transformer
from tf_transformer.model.variant import Variant

B, S, T, D, V = 2, 5, 4, 8, 11
SOURCE, TARGET, SOURCE_IDS, TARGET_IDS = "source", "target", "source_ids", "target_ids"
SHAPES = {SOURCE: (S, D), TARGET: (T, D), SOURCE_IDS: (S,), TARGET_IDS: (T,)}

HEADS = {"d_model": D, "num_heads": 2}
LAYER = {**HEADS, "dff": 12}
ENCODER = {**LAYER, "num_layers": 1, "input_vocab_size": V, "maximum_position_encoding": 7}
DECODER = {**LAYER, "num_layers": 1, "target_vocab_size": V, "maximum_position_encoding": 7}
MODEL = {**LAYER, "num_layers": 1, "input_vocab_size": V, "pe_input": 7, "pe_target": 9}
DEPTHS = {"key_dim": 3, "value_dim": 5}
POSITIONS = {"maximum_position_encoding": 7, "d_model": D}
VARIANT = {"variant": Variant(**DEPTHS, activation="swish")}
LEARNED = {"variant": Variant(positional_encoding="learned")}
PRE_NORM = {"variant": Variant(norm="pre", num_encoder_layers=2, num_decoder_layers=1)}
TWO_VOCABULARIES = {"target_vocab_size": V + 2}
SHARED = {"target_vocab_size": V, "shared_embeddings": True}

# Each case: the class, its arguments, and the inputs that it takes.
CASES = {
    "MultiHeadAttention": (MultiHeadAttention, HEADS, [SOURCE, SOURCE, TARGET]),
    "MultiHeadAttention-depths": (MultiHeadAttention, HEADS | DEPTHS, [SOURCE, SOURCE, TARGET]),
    "EncoderLayer": (EncoderLayer, LAYER | {"rate": 0.2}, [SOURCE]),
    "DecoderLayer": (DecoderLayer, LAYER | VARIANT, [TARGET, SOURCE]),
    "EncoderLayer-pre": (EncoderLayer, LAYER | PRE_NORM, [SOURCE]),
    "DecoderLayer-pre": (DecoderLayer, LAYER | PRE_NORM, [TARGET, SOURCE]),
    "Encoder": (Encoder, ENCODER | LEARNED, [SOURCE_IDS]),
    "Decoder": (Decoder, DECODER | {"rate": 0.0}, [TARGET_IDS, SOURCE]),
    "Decoder-embedding": (Decoder, DECODER | {"embedding": Embedding}, [TARGET_IDS, SOURCE]),
    "Dense": (Dense, {"units": 3, "activation": "relu"}, [SOURCE]),
    "Embedding": (Embedding, {"vocab_size": V, "d_model": D}, [SOURCE_IDS]),
    "PositionalEncoding": (PositionalEncoding, POSITIONS, [SOURCE]),
    "PositionalEncoding-learned": (PositionalEncoding, POSITIONS | {"kind": "learned"}, [SOURCE]),
    "LayerNormalization": (LayerNormalization, {"epsilon": 1e-5}, [SOURCE]),
    "Dropout": (Dropout, {"rate": 0.3}, [SOURCE]),
    "Transformer": (Transformer, MODEL | TWO_VOCABULARIES | VARIANT, [SOURCE_IDS, TARGET_IDS]),
    "Transformer-pre": (Transformer, MODEL | SHARED | PRE_NORM, [SOURCE_IDS, TARGET_IDS]),
    "Transformer-shared": (Transformer, MODEL | SHARED | LEARNED, [SOURCE_IDS, TARGET_IDS]),
}
WITH_DROPOUT = [
    name
    for name, (layer, _, _) in CASES.items()
    if "training" in inspect.signature(layer.call).parameters
]


class Case:
    """A layer under test and inputs for it."""

    def __init__(self, name):
        self.name, (self.layer_class, arguments, self.kinds) = name, CASES[name]
        self.arguments = dict(arguments)
        if "embedding" in arguments:
            self.arguments["embedding"] = Embedding(V, D, name="table")
        self.training = {"training": True} if name in WITH_DROPOUT else {}

    def layer(self, **options):
        return self.layer_class(**self.arguments, **options)

    def inputs(self):
        """Tensors; inputs of the same kind are the same tensor."""
        rng = np.random.default_rng(1)
        tensors = {}
        for kind in dict.fromkeys(self.kinds):
            shape = (B, *SHAPES[kind])
            if kind in (SOURCE_IDS, TARGET_IDS):
                tensors[kind] = tf.constant(rng.integers(1, V, shape))
            else:
                tensors[kind] = tf.constant(rng.normal(size=shape), tf.float32)
        return [tensors[kind] for kind in self.kinds]

    def functional_model(self, layer=None):
        """A Keras model with unknown batch size and lengths around the layer, or a new one."""
        inputs = []
        for kind in self.kinds:
            dtype = "int64" if kind in (SOURCE_IDS, TARGET_IDS) else "float32"
            inputs.append(keras.Input((None, *SHAPES[kind][1:]), dtype=dtype))
        return keras.Model(inputs, (layer or self.layer())(*inputs))


@pytest.fixture(params=CASES)
def case(request):
    keras.utils.set_random_seed(1)
    return Case(request.param)


@contextlib.contextmanager
def policy(name):
    """Sets the global precision."""
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy("float32")


def assert_same_values(outputs, expected_outputs):
    outputs, expected_outputs = tf.nest.flatten(outputs), tf.nest.flatten(expected_outputs)
    for output, expected in zip(outputs, expected_outputs, strict=True):
        assert output.dtype == expected.dtype
        output = tf.cast(output, tf.float32)
        np.testing.assert_allclose(output, tf.cast(expected, tf.float32), atol=1e-6)


def test_config_round_trip(case):
    layer = case.layer(name="layer_under_test")
    config = layer.get_config()
    for name, value in case.arguments.items():
        if name not in ("embedding", "variant"):  # which the config holds in serialized form
            assert config[name] == value
    again = case.layer_class.from_config(config)
    assert again.get_config() == config
    assert getattr(again, "variant", None) == getattr(layer, "variant", None)
    assert again.name == "layer_under_test"


@pytest.mark.parametrize("name", ["EncoderLayer", "DecoderLayer", "Encoder", "Decoder"])
@pytest.mark.parametrize("case", ["Transformer"], indirect=True)
def test_config_of_version_0_2(name, case):
    """The fields of `Variant` were arguments of their own."""
    old = {"key_dim": 3, "value_dim": 5, "activation": "swish"}
    if not name.endswith("Layer"):
        old["positional_encoding"] = "learned"
    for each in (Case(name), case):
        config = {x: y for x, y in each.layer().get_config().items() if x != "variant"}
        assert each.layer_class.from_config({**config, **old}).variant == Variant(**old)


def subclass_of(layer_class, own):
    """A subclass with an argument and layers of its own, as attributes or in containers."""

    @keras.saving.register_keras_serializable(package="test")
    class Subclass(layer_class):
        def __init__(self, *args, width=1, **kwargs):
            super().__init__(*args, **kwargs)
            self.width = width
            self.parts = (
                keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(4)]),
                keras.layers.Dense(width),
            )
            if own == "attributes":
                self._adapter, self.head = self.parts
            elif own == "containers":
                self.parts = {"adapter": self.parts[0], "heads": self.parts[1]}

        def get_config(self):
            return {**super().get_config(), "width": self.width}

        @functools.wraps(layer_class.call)
        def call(self, *args, **kwargs):
            x = tf.nest.flatten(super().call(*args, **kwargs))[0]
            for part in self.parts.values() if own == "containers" else self.parts:
                x = part(x)
            return x

    return functools.partial(Subclass, width=3)


def by_keras_file(case, layer, path):
    model = layer if isinstance(layer, keras.Model) else case.functional_model(layer)
    model.save(path / "model.keras")
    loaded = keras.saving.load_model(path / "model.keras")
    return len(loaded.weights), loaded(case.inputs() if len(case.kinds) > 1 else case.inputs()[0])


def by_weights_file(case, layer, path):
    case.functional_model(layer).save_weights(path / "model.weights.h5")
    other = case.functional_model()
    other.load_weights(path / "model.weights.h5")
    return len(other.weights), other(case.inputs())


def by_checkpoint(case, layer, path, is_built=False):
    """Restored before, or after, the first call of the new layer."""
    path = tf.train.Checkpoint(layer=layer).save(path / "checkpoint")
    other = case.layer()
    if is_built:
        other(*case.inputs())
    status = tf.train.Checkpoint(layer=other).restore(path)
    output = other(*case.inputs())
    status.assert_consumed()
    names = [name for name, _ in tf.train.list_variables(path) if "VARIABLE_VALUE" in name]
    return len(names) - 1, output  # the checkpoint counts how often it was saved


def by_pickle(case, layer, path):
    other = pickle.loads(pickle.dumps(layer))
    return len(other.weights), other(*case.inputs())


def by_saved_model(case, layer, path, save=tf.saved_model.save):
    save(layer, str(path))
    loaded = tf.saved_model.load(str(path))
    serve = loaded.signatures["serving_default"]
    inp, tar = (tf.cast(ids, tf.int32) for ids in case.inputs())
    return len(serve.variables), serve(inp=inp, tar=tar)["logits"]


WAYS = {
    "keras": by_keras_file,
    "weights": by_weights_file,
    "checkpoint": by_checkpoint,
    "checkpoint, built": functools.partial(by_checkpoint, is_built=True),
    "pickle": by_pickle,
    "saved model": by_saved_model,
    "export": functools.partial(
        by_saved_model, save=lambda model, path: model.export(path, verbose=False)
    ),
}


@pytest.mark.filterwarnings("error::UserWarning", "error::FutureWarning")
@pytest.mark.parametrize("own", [None, "attributes", "containers"])
def test_every_way_to_save(case, own, tmp_path):
    """It holds all variables, and the outputs are the same. Nothing of this gives a warning."""
    if own:
        case.layer_class = subclass_of(case.layer_class, own)
    ways = set(WAYS)
    if own:
        ways -= {"pickle"}  # not of a local class
    if own == "containers":  # Keras hides the layers in them from TensorFlow
        ways = {"keras", "weights"}
    elif case.name != "Transformer":  # these two are slow
        ways -= {"saved model", "export"}
    layer = case.layer()
    layer(*case.inputs())
    for variable in layer.trainable_variables:
        variable.assign(tf.random.normal(variable.shape))
    expected = tf.nest.flatten(layer(*case.inputs()))[0]
    for way in sorted(ways):
        (tmp_path / way).mkdir()
        number, output = WAYS[way](case, layer, tmp_path / way)
        assert number == len(layer.weights), way
        output = tf.nest.flatten(output)[0]
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5, err_msg=way)
    if isinstance(layer, keras.Model):
        with pytest.raises(ValueError, match="cannot load this model from HDF5"):
            layer.save(tmp_path / "model.h5")


@pytest.mark.parametrize(
    "precision, dtype", [("mixed_bfloat16", tf.bfloat16), ("mixed_float16", tf.float16)]
)
def test_mixed_precision(case, precision, dtype):
    """It is kept in the configuration, and all sub-layers have it."""
    with policy(precision):
        layer = case.layer()
        outputs = layer(*case.inputs()), layer(*case.inputs(), **case.training)
    assert all(tf.nest.flatten(each)[0].dtype == dtype for each in outputs)
    for output in tf.nest.flatten(outputs):
        assert np.all(np.isfinite(tf.cast(output, tf.float32)))
    assert all(variable.dtype == "float32" for variable in layer.trainable_variables)
    again = case.layer_class.from_config(layer.get_config())
    again(*case.inputs())
    again.set_weights(layer.get_weights())
    assert_same_values(again(*case.inputs()), outputs[0])


def test_calls_in_graphs_and_on_replicas(case):
    """`tf.function`, `MirroredStrategy`, and a copy by `clone_model`."""
    layer = case.layer()
    expected = layer(*case.inputs())
    assert_same_values(tf.function(layer)(*case.inputs()), expected)
    clone = keras.models.clone_model(case.functional_model(layer))
    clone.set_weights(layer.get_weights())
    assert_same_values(clone(case.inputs()), expected)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        mirrored = case.layer()
        mirrored(*case.inputs())
        mirrored.set_weights(layer.get_weights())
    outputs = strategy.run(lambda: tf.nest.flatten(mirrored(*case.inputs()))[0])
    for output in strategy.experimental_local_results(outputs):
        assert_same_values(output, tf.nest.flatten(expected)[0])


@pytest.mark.slow
def test_call_with_xla(case):
    layer = case.layer()
    compiled = tf.function(layer, jit_compile=True)
    assert_same_values(compiled(*case.inputs()), layer(*case.inputs()))


def test_gradients_reach_every_weight(case):
    layer = case.layer()
    layer(*case.inputs())
    rng = np.random.default_rng(2)
    for variable in layer.trainable_variables:  # the initial biases are 0
        variable.assign(rng.normal(size=variable.shape))
    with tf.GradientTape() as tape:
        output = tf.nest.flatten(layer(*case.inputs()))[0]
        total = tf.reduce_sum(output * rng.normal(size=output.shape).astype("float32"))
    gradients = tape.gradient(total, [variable.value for variable in layer.trainable_variables])
    for variable, gradient in zip(layer.trainable_variables, gradients):
        assert gradient is not None, variable.path
        largest = np.abs(tf.convert_to_tensor(gradient)).max()
        # The bias of the keys adds the same number to all logits of a query. The softmax does not
        # depend on it.
        assert (largest > 1e-4) != variable.path.endswith("wk/bias"), variable.path


@pytest.mark.parametrize("case", WITH_DROPOUT, indirect=True)
def test_training_changes_the_output_only_through_dropout(case):
    layer = case.layer()
    inference = layer(*case.inputs(), training=False)
    assert_same_values(layer(*case.inputs()), inference)
    training = layer(*case.inputs(), training=True)
    equal = np.array_equal(tf.nest.flatten(inference)[0], tf.nest.flatten(training)[0])
    assert equal == (layer.rate == 0)
