"""The calling convention of the 2021 reference code, under Keras 3.

The reference calls a layer as `encoder_layer(x, False, None)`. Keras 3 accepts only tensors as
positional arguments. `ReferenceCall` passes the arguments from the first non-tensor on by their
names in `call`.
"""

import inspect
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf


def _is_tensor(value: Any) -> bool:
    return all(tf.is_tensor(leaf) or hasattr(leaf, "shape") for leaf in tf.nest.flatten(value))


def _carries_mask(value: Any) -> bool:
    return getattr(value, "_keras_mask", None) is not None


# For type checkers, `super()` in `ReferenceCall` is the Keras class after it in the base classes.
KerasClass: Any = keras.layers.Layer if TYPE_CHECKING else object


class ReferenceCall(KerasClass):
    """A base class to put before `keras.layers.Layer` or `keras.Model`.

    Keras passes implicit boolean masks through an argument named `mask`, with True for *keep*, the
    opposite of the reference. So these layers handle masks themselves and produce none. An input
    that carries a Keras mask is refused where Keras would fill in `mask`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer with positional arguments as the reference code gives them.

        Raises: ValueError for an input that carries a Keras mask.
        """
        tensors = 0  # leading positional arguments that are tensors
        while tensors < len(args) and args[tensors] is not None and _is_tensor(args[tensors]):
            tensors += 1
        names = list(inspect.signature(self.call).parameters)
        kwargs.update(zip(names[tensors : len(args)], args[tensors:]))
        given = {**dict(zip(names, args)), **kwargs}
        if "mask" in names and given.get("mask") is None:
            if any(_carries_mask(x) for x in tf.nest.flatten(given)):
                raise ValueError(
                    f"an input of {self.name} carries a Keras mask (True = keep): "
                    "give mask= (1 = hidden), as of create_padding_mask"
                )
        return super().__call__(*args[:tensors], **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, each of which is an attribute of the same name."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]  # without self
        values = {name: getattr(self, name) for name in names if name != "kwargs"}
        for name, value in values.items():
            if hasattr(value, "get_config"):
                values[name] = keras.saving.serialize_keras_object(value)
        return {**super().get_config(), **values}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Creates the layer that `get_config` described."""
        config = dict(config)
        for name in ("embedding", "variant"):
            if isinstance(config.get(name), dict):
                config[name] = keras.saving.deserialize_keras_object(config[name])
        return super().from_config(config)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        """Returns None: no mask is passed to the next layer."""
        return None


class ReferenceLayer(ReferenceCall, keras.layers.Layer):
    """The base class of the package's layers."""
