"""The calling convention of the 2021 reference code, under Keras 3.

The reference calls a layer as `encoder_layer(x, False, None)`. Keras 3 takes only tensors as positional arguments. `ReferenceCall`
hands the arguments from the first one that is no tensor on by the names that they have in `call`.
"""

import inspect

import keras
import tensorflow as tf


def _is_tensor(value):
    return all(tf.is_tensor(leaf) or hasattr(leaf, "shape") for leaf in tf.nest.flatten(value))


def _carries_mask(value):
    return getattr(value, "_keras_mask", None) is not None


class ReferenceCall:
    """Put before `keras.layers.Layer` or `keras.Model` in the list of base classes.

    Keras passes implicit boolean masks through an argument named `mask`, with True for *keep*: the opposite of the reference. So such
    a layer says that it handles masks itself, and hands none on. An input that carries one is refused where Keras would fill in `mask`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, *args, **kwargs):
        """Calls the layer, with positional arguments as the reference code gives them."""
        leading = next((i for i, value in enumerate(args) if value is None or not _is_tensor(value)), len(args))
        names = list(inspect.signature(self.call).parameters)
        kwargs.update(zip(names[leading : len(args)], args[leading:]))
        given = {**dict(zip(names, args)), **kwargs}
        if "mask" in names and given.get("mask") is None and any(_carries_mask(x) for x in tf.nest.flatten(given)):
            raise ValueError(
                f"an input of {self.name} carries a Keras mask (True = keep): give mask= (1 = hidden), as of create_padding_mask"
            )
        return super().__call__(*args[:leading], **kwargs)

    def compute_mask(self, *args, **kwargs):
        """No mask is handed on to the next layer."""
        return None


class ReferenceLayer(ReferenceCall, keras.layers.Layer):
    """The base class of the package's layers."""
