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


def serializable(item: Item) -> Item:
    """Registers a class or a function, so that Keras loads a model that contains it."""
    return keras.saving.register_keras_serializable(package="tf_transformer")(item)


class ReferenceLayer(keras.layers.Layer):
    """The base class of layers and model: how they are called, and what a file says of them.

    Masks: an implicit mask of Keras (`_keras_mask`, as of an embedding with `mask_zero`) stays with
    the output of a layer, whose positions are those of its first input.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer with positional arguments as the reference code gives them."""
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
    attributes = {"layers": layer.layers} if isinstance(layer, keras.Sequential) else vars(layer)
    for name, value in attributes.items():
        is_list = isinstance(value, list)
        for i, part in enumerate(value if is_list else [value]):
            if isinstance(part, keras.layers.Layer) and not name.startswith("_"):
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
        if any(isinstance(value, keras.KerasTensor) for value in (*args, *kwargs.values())):
            given = inspect.signature(function).bind(*args, **kwargs).arguments.values()
            return FunctionCall(call)([value for value in given if value is not None])
        return function(*args, **kwargs)

    return cast(Item, serializable(call))
