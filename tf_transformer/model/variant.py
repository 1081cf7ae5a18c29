"""What a Transformer can have otherwise than the paper's base model."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from tf_transformer.model.keras_compat import ReferenceLayer, serializable


@serializable
@dataclasses.dataclass(frozen=True)
class Variant:
    """The settings beyond the arguments of the reference code, for all layers of a model.

    Fields:
      key_dim, value_dim: d_k and d_v of a head; None or 0 for d_model / h (the paper).
      activation: of the feed-forward networks, "relu" (Eq. 2) or another Keras activation.
      positional_encoding: "sinusoidal" or "learned".
      norm: "post" for LayerNorm(x + SubLayer(x)) (the paper), or "pre" for
        x + SubLayer(LayerNorm(x)) and a layer normalization after each stack (Xiong et al. 2020).
      num_encoder_layers, num_decoder_layers: of a `Transformer`; None or 0 for its num_layers.
    Raises: ValueError for another norm.
    """

    key_dim: int | None = None
    value_dim: int | None = None
    activation: str = "relu"
    positional_encoding: str = "sinusoidal"
    norm: str = "post"
    num_encoder_layers: int | None = None
    num_decoder_layers: int | None = None

    def __post_init__(self) -> None:
        if self.norm not in ("post", "pre"):
            raise ValueError(f'norm is {self.norm!r}: give "post" or "pre"')

    def pre_norm(self, norm: keras.layers.Layer, x: tf.Tensor) -> tf.Tensor:
        """The input of a sub-layer: x (the paper), or LayerNorm(x) with pre-norm."""
        return norm(x) if self.norm == "pre" else x

    def post_norm(self, norm: keras.layers.Layer, x: tf.Tensor) -> tf.Tensor:
        """The result of a residual connection x: LayerNorm(x) (the paper), or x with pre-norm."""
        return x if self.norm == "pre" else norm(x)

    def get_config(self) -> dict[str, Any]:
        """Returns the fields, for Keras."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Variant":
        """Creates what `get_config` described."""
        return cls(**config)


PAPER = Variant()  # the settings of the paper's base model


class VariantLayer(ReferenceLayer):
    """What layers, stacks and model have in common: sizes of Table 3 and a `Variant`."""

    def __init__(
        self, d_model: int, num_heads: int, dff: int, rate: float, variant: Variant,
        **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        self.d_model = d_model
        self.num_heads = num_heads
        self.dff = dff
        self.rate = rate
        self.variant = variant

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(), "d_model": self.d_model, "num_heads": self.num_heads,
            "dff": self.dff, "rate": self.rate,
            "variant": keras.saving.serialize_keras_object(self.variant),
        }  # fmt: skip

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Creates what `get_config` described, here or in version 0.2, which had no `Variant`."""
        old = {each.name for each in dataclasses.fields(Variant)} & config.keys()
        if old:
            variant = Variant(**{name: config[name] for name in old})
            config = {name: config[name] for name in config.keys() - old} | {"variant": variant}
        return super().from_config(config)
