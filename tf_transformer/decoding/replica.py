"""A model or an ensemble on one device, with its compiled search and forced decoding."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tf_transformer.config import NO_CONTROLS, ControlConfig, DecodeConfig, SamplingConfig
from tf_transformer.decoding.ensemble import Model, copy_model
from tf_transformer.decoding.inference import (
    Alternatives,
    alternative_translations,
    constrained_translations,
    forced_logits,
    sample_translations,
    search_translations,
    token_log_probs,
)
from tf_transformer.decoding.search import SearchResult

IDS = tf.TensorSpec([None, None], tf.int32)


class Replica:
    """A model on one device.

    Args:
      model: a built `Transformer`, or an `Ensemble`.
      decode: a `DecodeConfig`.
      device: a name such as "GPU:1"; None for TensorFlow's choice.
      controls: a `ControlConfig`.
      jit_compile: whether XLA compiles `search` and `constrained_search`, once for each shape of a
        batch.
    """

    def __init__(
        self,
        model: Model,
        decode: DecodeConfig,
        device: str | None = None,
        controls: ControlConfig = NO_CONTROLS,
        jit_compile: bool = False,
    ) -> None:
        self._model = model
        self._decode = decode
        self._controls = controls
        self._device = device
        self._jit_compile = jit_compile
        self._searches: dict[tuple[int, int], tf.types.experimental.PolymorphicFunction] = {}
        self._samplers: dict[
            tuple[int, SamplingConfig], tf.types.experimental.PolymorphicFunction
        ] = {}
        self._constrained: dict[int, tf.types.experimental.PolymorphicFunction] = {}
        self._alternatives: dict[int, tf.types.experimental.PolymorphicFunction] = {}

    @classmethod
    def copy(
        cls,
        model: Model,
        decode: DecodeConfig,
        device: str,
        controls: ControlConfig = NO_CONTROLS,
    ) -> "Replica":
        """Copies a model to a device."""
        with tf.device(device):
            return cls(copy_model(model), decode, device, controls)

    def search(
        self, inp: np.ndarray, n_best: int, prefix: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Searches the translations of a batch.

        Args:
          inp, n_best, prefix: as for `search_translations`.
        Returns: ids int32 `[B, n, L]`, scores float32 `[B, n]`.
        """
        arguments = [inp] if prefix is None else [inp, prefix]
        key = n_best, len(arguments)
        if key not in self._searches:

            def search(inp: tf.Tensor, prefix: tf.Tensor | None = None) -> SearchResult:
                options = self._decode, n_best, prefix, self._controls, self._jit_compile
                return search_translations(self._model, inp, *options)

            self._searches[key] = self._compile(search, [IDS] * len(arguments))
        with tf.device(self._device):
            result = self._searches[key](*arguments)
        return result.ids.numpy(), result.scores.numpy()

    def constrained_search(
        self, inp: np.ndarray, n_best: int, phrases: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Searches the translations of a batch that contain given phrases.

        Args:
          inp, n_best, phrases: as for `constrained_translations`.
        Returns: ids int32 `[B, n, L]`, scores float32 `[B, n]`.
        """
        if n_best not in self._constrained:

            def search(inp: tf.Tensor, phrases: tf.Tensor) -> SearchResult:
                options = self._decode, n_best, phrases, self._controls, self._jit_compile
                return constrained_translations(self._model, inp, *options)

            signature = [IDS, tf.TensorSpec([None, None, None], tf.int32)]
            self._constrained[n_best] = self._compile(search, signature)
        with tf.device(self._device):
            result = self._constrained[n_best](inp, phrases)
        return result.ids.numpy(), result.scores.numpy()

    def _compile(
        self, search: Callable[..., SearchResult], signature: list[tf.TensorSpec]
    ) -> tf.types.experimental.PolymorphicFunction:
        jit_compile = self._jit_compile or None
        return tf.function(
            search, input_signature=signature, autograph=False, jit_compile=jit_compile
        )

    def sample(
        self,
        inp: np.ndarray,
        number: int,
        sampling: SamplingConfig,
        seeds: np.ndarray,
        prefix: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws translations of a batch.

        Args:
          inp, sampling, seeds, prefix: as for `sample_translations`.
          number: samples of each sentence.
        Returns: ids int32 `[B, n, L]`, scores float32 `[B, n]`.
        """
        key = number, sampling
        if key not in self._samplers:

            def sample(inp: tf.Tensor, seeds: tf.Tensor, prefix: tf.Tensor) -> SearchResult:
                options = self._decode, number, sampling, seeds, prefix
                return sample_translations(self._model, inp, *options, controls=self._controls)

            self._samplers[key] = tf.function(sample, input_signature=[IDS] * 3, autograph=False)
        with tf.device(self._device):
            result = self._samplers[key](inp, seeds, prefix)
        return result.ids.numpy(), result.scores.numpy()

    def alternatives(
        self, inp: np.ndarray, number: int, prefix: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Completes prefixes in several ways.

        Args:
          inp, number, prefix: as for `alternative_translations`.
        Returns: ids int32 `[B, n, L]`, scores and probabilities float32 `[B, n]`.
        """
        if number not in self._alternatives:

            def complete(inp: tf.Tensor, prefix: tf.Tensor) -> Alternatives:
                return alternative_translations(self._model, inp, self._decode, number, prefix)

            function = tf.function(complete, input_signature=[IDS] * 2, autograph=False)
            self._alternatives[number] = function
        with tf.device(self._device):
            result = self._alternatives[number](inp, prefix)
        return result.ids.numpy(), result.scores.numpy(), result.probabilities.numpy()

    def token_log_probs(self, inp: np.ndarray, tar_real: np.ndarray) -> np.ndarray:
        """The log-probabilities of given target tokens.

        Args:
          inp, tar_real: as for `forced_decoding`.
        Returns: float32 `[B, T]`, 0 at padding.
        """
        with tf.device(self._device):
            return self._force(inp, tar_real).numpy()

    @functools.cached_property
    def _force(self) -> tf.types.experimental.PolymorphicFunction:
        def force(inp: tf.Tensor, tar_real: tf.Tensor) -> tf.Tensor:
            logits = forced_logits(self._model, inp, tar_real)  # (B, T, V)
            return token_log_probs(logits, tar_real)  # (B, T)

        return tf.function(force, input_signature=[IDS, IDS], autograph=False)
