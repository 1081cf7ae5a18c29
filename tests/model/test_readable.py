"""The modules of `tf_transformer.model` stay plain definitions that a student can read."""

import importlib
import inspect
import pathlib
import re

import keras
import pytest

import tf_transformer.model
from tf_transformer.model.embedding import Embedding
from tf_transformer.model.layers import DecoderLayer, EncoderLayer

FILES = sorted(pathlib.Path(tf_transformer.model.__file__).parent.glob("*.py"))

# Each of these belongs in `kernels`, in `decoding.kv_cache`, or nowhere. `tf.init_scope`, with
# which a layer creates a constant, is ordinary TensorFlow.
FORBIDDEN = [
    r"raw_ops",
    r"custom_gradient",
    r"bitcast",
    r"thread",
    r"(?<!\btf\.init)_scope",
    r"decode_step",
    r"kv_cache",
    r"position_offset",
    r"\bstart=",
]
MAX_LINES = 400
MAX_LINES_IN_ALL = 930


def lines(path):
    return path.read_text("utf-8").splitlines()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_definitions_use_no_optimisation(path):
    pattern = re.compile("|".join(FORBIDDEN))
    matches = [
        f"{path}:{number}: {match.group()!r} in: {line.strip()}"
        for number, line in enumerate(lines(path), start=1)
        if (match := pattern.search(line))
    ]
    assert not matches, "\n".join(matches)


@pytest.mark.parametrize(
    "line",
    [
        "tf.raw_ops.MatMul(a=x, b=y)",
        "@tf.custom_gradient",
        "tf.bitcast(x, tf.uint16)",
        "import threading",
        "with dropout_scope():",
        "_scope = None",
        "def decode_step(self, x):",
        "from tf_transformer.decoding import kv_cache",
        "def call(self, x, position_offset=0):",
        "def call(self, x, start=0):",
    ],
)
def test_forbidden_constructs_are_found(line):
    assert re.search("|".join(FORBIDDEN), line)


def test_layers_call_their_sub_layers_as_the_reference_does():
    source = inspect.getsource(EncoderLayer.call)
    for call in ("self.mha(", "self.ffn("):
        assert call in source
    source = inspect.getsource(DecoderLayer.call)
    for call in ("self.mha1(", "self.mha2(", "self.ffn("):
        assert call in source


def test_number_of_lines():
    numbers = {path.name: len(lines(path)) for path in FILES}
    assert max(numbers.values()) <= MAX_LINES, numbers
    assert sum(numbers.values()) <= MAX_LINES_IN_ALL, numbers


def layer_classes():
    """The Keras layers and models that the package defines."""
    for path in FILES:
        importlib.import_module(f"tf_transformer.model.{path.stem}")
    classes = []
    found = [keras.layers.Layer]
    while found:
        found_class = found.pop()
        found += found_class.__subclasses__()
        if found_class.__module__.startswith("tf_transformer."):
            classes.append(found_class)
    return sorted(set(classes), key=lambda layer_class: layer_class.__name__)


ARGUMENTS = {
    "num_layers": 1,
    "d_model": 8,
    "num_heads": 2,
    "dff": 12,
    "rate": 0.25,
    "key_dim": 3,
    "value_dim": 5,
    "units": 3,
    "activation": "relu",
    "vocab_size": 10,
    "input_vocab_size": 11,
    "target_vocab_size": 11,
    "maximum_position_encoding": 6,
    "pe_input": 7,
    "pe_target": 9,
    "positional_encoding": "learned",
    "kind": "learned",
    "shared_embeddings": True,
    "epsilon": 1e-3,
}


@pytest.mark.parametrize("layer_class", layer_classes(), ids=lambda cls: cls.__name__)
def test_each_constructor_argument_is_an_attribute_of_the_same_name(layer_class):
    """`keras_compat.ReferenceCall.get_config` relies on it."""
    names = [
        name
        for name, parameter in inspect.signature(layer_class).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    arguments = {name: ARGUMENTS[name] for name in names if name != "embedding"}
    if "embedding" in names:
        arguments["embedding"] = Embedding(11, 8)
    layer = layer_class(**arguments)
    for name, value in arguments.items():
        assert getattr(layer, name) == value, name
