"""The calling convention of the 2021 reference code, under Keras 3.

The reference calls a layer as `encoder_layer(x, False, None)`. Keras 3 accepts only tensors as
positional arguments. `ReferenceLayer` passes all but the first one by their names in `call`.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import keras
import tensorflow as tf

Item = TypeVar("Item", bound=Callable[..., Any])
INTERNAL = ("_layers", "_self_")  # attributes with which Keras and TensorFlow list all layers


def serializable(item: Item) -> Item:
    """Registers a class or a function, so that Keras loads a model that contains it."""
    return keras.saving.register_keras_serializable(package="tf_transformer")(item)


def refuse_ragged(*values: Any) -> None:
    """Raises: TypeError for a RaggedTensor, whose rows no mask can hide."""
    if any(isinstance(value, tf.RaggedTensor) for value in tf.nest.flatten(values)):
        raise TypeError(
            "a RaggedTensor: give x.to_tensor(), which pads ids with 0; what is no ids needs a mask"
        )


class ReferenceLayer(keras.layers.Layer):
    """The base class of layers and model: how they are called, and what a file says of them.

    Masks: an implicit mask of Keras (`_keras_mask`, as of an embedding with `mask_zero`) stays with
    the output of a layer, which has the positions of its first input.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer with positional arguments as the reference code gives them."""
        refuse_ragged(args, kwargs)
        parameters = inspect.signature(self.call).parameters.values()
        names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        given = {**dict(zip(names, args)), **kwargs}
        return super().__call__(given.pop(names[0]), *args[len(names) :], **given)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of all layers of Keras; a subclass adds its own.

        "frozen" has the paths of the parts that are not trainable, where there are any.
        """
        config = super().get_config()
        if frozen := [path for path, part in _parts(self) if not part.trainable]:
            config["frozen"] = frozen
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Creates the layer that `get_config` described."""
        deserialize = keras.saving.deserialize_keras_object
        config = {  # the dtype, and arguments such as a variant
            name: deserialize(value) if isinstance(value, dict) else value
            for name, value in config.items()
        }
        frozen = config.pop("frozen", ())
        layer = super().from_config(config)
        for path, part in _parts(layer):
            if path in frozen:
                part.trainable = False
        return layer

    def get_build_config(self) -> dict[str, Any] | None:
        """Returns the shapes of `build`; of a subclass, also of all layers that it consists of."""
        config = super().get_build_config()
        if config is None or type(self).__module__.startswith(f"{__package__}."):
            return config  # `build` builds all parts
        shapes = keras.layers.Layer.get_build_config
        return {**config, "parts": {path: shapes(part) for path, part in _parts(self)}}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Builds the layer, and the layers of a subclass that its `build` leaves out."""
        super().build_from_config(config)
        for path, part in _parts(self):
            if not part.built and (shapes := config.get("parts", {}).get(path)):
                part.build_from_config(shapes)

    def quantize(self, mode: Any = None, config: Any = None, **kwargs: Any) -> None:
        """Raises: NotImplementedError."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be quantized in Keras: `tf-transformer export "
            "--format=ctranslate2 --quantization=int8` writes int8 weights"
        )

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns the implicit mask of the first input, also where an explicit one replaces it."""
        return getattr(inputs, "_keras_mask", None)

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """The layers that this one consists of, for `summary(expand_nested=True)`."""
        parts = [part for path, part in _parts(self) if "/" not in path]
        return list(dict.fromkeys(parts))  # a layer can be an attribute and in a list

    @property
    def output_shape(self) -> tuple:
        """The shape of the first output, for `summary`."""
        return (None, None, getattr(self, "units", getattr(self, "d_model", None)))


def _parts(layer: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the layers in a layer, and those in them, with paths such as `encoder/dropout`."""
    is_of_keras = isinstance(layer, keras.Model) and not isinstance(layer, ReferenceLayer)
    attributes = {"layers": layer.layers} if is_of_keras else vars(layer)
    for name, value in attributes.items():
        value = [*value.values()] if isinstance(value, dict) else value
        is_list = isinstance(value, (list, tuple))
        for i, part in enumerate(value if is_list else [value]):
            if isinstance(part, keras.layers.Layer) and not name.startswith(INTERNAL):
                path = f"{prefix}{name}{i if is_list else ''}"
                yield path, part
                yield from _parts(part, f"{path}/")


@serializable
class FunctionCall(ReferenceLayer):
    """The call of a function of tensors in a functional model.

    Args:
      function: one that is `serializable`.
    """

    def __init__(self, function: Callable[..., Any], **kwargs: object) -> None:
        super().__init__(autocast=False, **kwargs)  # ids are never rounded
        self.function = function

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        function = keras.saving.serialize_keras_object(self.function)
        return {**super().get_config(), "function": function}

    def call(self, inputs: list[tf.Tensor]) -> Any:
        """Calls the function with a list of its arguments."""
        return self.function(*inputs)


def functional(function: Item) -> Item:
    """Lets a function of tensors take the KerasTensors of a functional model too."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse_ragged(args, kwargs)
        if any(isinstance(value, keras.KerasTensor) for value in (*args, *kwargs.values())):
            given = inspect.signature(function).bind(*args, **kwargs).arguments.values()
            return FunctionCall(call)([value for value in given if value is not None])
        return function(*args, **kwargs)

    return cast(Item, serializable(call))
