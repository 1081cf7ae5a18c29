"""The calling convention of the 2021 reference code, under Keras 3.

The reference calls a layer as `encoder_layer(x, False, None)`. Keras 3 accepts only tensors as
positional arguments. `ReferenceCall` passes all but the first one by their names in `call`.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import keras
import tensorflow as tf

# For type checkers, `super()` in `ReferenceCall` is the Keras class after it in the base classes.
KerasClass: Any = keras.layers.Layer if TYPE_CHECKING else object
Item = TypeVar("Item", bound=Callable[..., Any])
SERIALIZED = {"embedding", "variant", "function"}  # arguments that are no plain values


def serializable(item: Item) -> Item:
    """Registers a class or a function, so that Keras loads a model that contains it.

    The `get_config` of a class and of its subclasses then has the arguments of its constructor.
    """
    if inspect.isclass(item) and issubclass(item, ReferenceCall):
        item.constructor_arguments = [
            name for name in inspect.signature(item).parameters if name != "kwargs"
        ]
    return keras.saving.register_keras_serializable(package="tf_transformer")(item)


class ReferenceCall(KerasClass):
    """A base class to put before `keras.layers.Layer` or `keras.Model`.

    Masks: an implicit mask of Keras (`_keras_mask`, as of an embedding with `mask_zero`) stays with
    the output of a layer, whose positions are those of its first input.
    """

    constructor_arguments: list[str] = []
    takes_ids = False  # whether the first inputs are ids: 0 for padding, never rounded

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if self.takes_ids:
            self.autocast = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer with positional arguments as the reference code gives them."""
        parameters = inspect.signature(self.call).parameters.values()
        names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        given = {**dict(zip(names, args)), **kwargs}
        return super().__call__(given.pop(names[0]), *args[len(names) :], **given)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, each of which is an attribute of the same name.

        "frozen" has the paths of the parts that are not trainable, where there are any.
        """
        values = {name: getattr(self, name) for name in self.constructor_arguments}
        for name in SERIALIZED & values.keys():
            values[name] = keras.saving.serialize_keras_object(values[name])
        if frozen := [path for path, part in _parts(self) if not part.trainable]:
            values["frozen"] = frozen
        return {**super().get_config(), **values}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Creates the layer that `get_config` described."""
        config = dict(config)
        for name in SERIALIZED & config.keys():
            if isinstance(config[name], dict):
                config[name] = keras.saving.deserialize_keras_object(config[name])
        frozen = config.pop("frozen", ())
        layer = super().from_config(config)
        for path, part in _parts(layer):
            if path in frozen:
                part.trainable = False
        return layer

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns the implicit mask of the first input, also where an explicit one replaces it."""
        return getattr(inputs, "_keras_mask", None)


class ReferenceLayer(ReferenceCall, keras.layers.Layer):
    """The base class of the package's layers."""

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """The layers that this one consists of, for `summary(expand_nested=True)`."""
        return [part for path, part in _parts(self) if "/" not in path]

    @property
    def output_shape(self) -> tuple:
        """The shape of the first output, for `summary`."""
        return (None, None, getattr(self, "units", getattr(self, "d_model", None)))


def _parts(layer: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the layers in a layer, and those in them, with paths such as `encoder/dropout`."""
    is_model = isinstance(layer, keras.Sequential)
    attributes = {"layers": layer.layers} if is_model else vars(layer)
    for name, value in attributes.items():
        parts = (
            {f"{name}{i}": each for i, each in enumerate(value)}
            if isinstance(value, list)
            else {name: value}
        )
        for path, part in parts.items():
            if isinstance(part, keras.layers.Layer) and not path.startswith("_"):
                yield prefix + path, part
                yield from _parts(part, f"{prefix}{path}/")


@serializable
class FunctionCall(ReferenceLayer):
    """The call of a function of tensors in a functional model.

    Args:
      function: one that is `serializable`.
    """

    takes_ids = True

    def __init__(self, function: Callable[..., Any], **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.function = function

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
