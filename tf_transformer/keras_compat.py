"""The calling convention of the 2021 reference code, under Keras 3.

The reference calls a layer as `encoder_layer(x, False, None)`. Keras 3 accepts only tensors as
positional arguments. `ReferenceCall` passes all but the first one by their names in `call`.
"""

import inspect
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

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
        names = list(inspect.signature(self.call).parameters)
        given = {**dict(zip(names, args)), **kwargs}
        if "mask" in names and given.get("mask") is None:
            if any(getattr(x, "_keras_mask", None) is not None for x in tf.nest.flatten(given)):
                raise ValueError(
                    f"an input of {self.name} carries a Keras mask (True = keep): "
                    "give mask= (1 = hidden), as of create_padding_mask"
                )
        return super().__call__(given.pop(names[0]), **given)

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
