"""What a Transformer can have otherwise than the paper's base model."""

import dataclasses
from typing import Any

import keras


@keras.saving.register_keras_serializable(package="tf_transformer")
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

    def get_config(self) -> dict[str, Any]:
        """Returns the fields, for Keras."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Variant":
        """Creates what `get_config` described."""
        return cls(**config)


PAPER = Variant()  # the settings of the paper's base model
