"""The functions of an exported model that take decoding options, each row its own.

Like those of `signatures.TextFunctions`, the result of a row does not depend on the other rows. A
row whose text or prefix has more sub-words than the model has positions is not translated.

Shapes: N texts, n texts of a chunk, K hypotheses.
"""

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_transformer.config import DecodeConfig
from tf_transformer.decoding.inference import (
    RowOptions,
    alternative_translations,
    sample_translations,
    search_with_options,
)
from tf_transformer.decoding.sampling import RowSampling
from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.export.signatures import Signature, TextFunctions
from tf_transformer.special_tokens import PAD

TYPES = {  # of the inputs
    "text": tf.string,
    "target_prefix": tf.string,
    "beam_size": tf.int32,
    "n_best": tf.int32,
    "length_penalty": tf.float32,
    "max_decode_length": tf.int32,
    "temperature": tf.float32,
    "top_k": tf.int32,
    "top_p": tf.float32,
    "seed": tf.int64,
}
ALTERNATIVES = 10  # next sub-words that are completed, where the vocabulary has as many


class OptionFunctions(TextFunctions):
    """`TextFunctions` with options. The arguments of the methods are tensors `[N]`.

    The options that all of them share are

    - target_prefix: strings, the beginning of the translation, "" where it is free;
    - max_decode_length: int32, the longest translation in sub-words, with the end token. It can
      only shorten the limit of the export, which 0 leaves as it is. A prefix always fits.
    """

    def translate_with_options(
        self, text: tf.Tensor, options: RowOptions, target_prefix: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Translates each text with its own search options.

        Args:
          text, target_prefix: strings `[N]`.
          options: a `RowOptions`; a beam size of 0 is that of the export.
        Returns: translations, strings `[N, K]`, best first, K the beam size of the export; scores,
          float32 `[N, K]`; count, int32 `[N]`, the translations of each text. The others are empty
          with score -1e9.
        """
        largest = self._decode.beam_size
        checks = [
            _check("beam_size", options.beam_size, 0, largest),
            _check("n_best", options.n_best, 1, _exported_if_0(options.beam_size, largest)),
            _check("max_decode_length", options.max_decode_length, 0),
            _check("length_penalty", options.length_penalty, 0.0, 10.0),
        ]
        with tf.control_dependencies(checks):
            inp, lengths, blank = self._encode(self._source, text)
        options = options._replace(beam_size=_exported_if_0(options.beam_size, largest))
        prefix, prefix_lengths, fits = self._encode_prefix(target_prefix)

        def search(indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            chosen = RowOptions(*(tf.gather(option, indices) for option in options))
            padded, prefixes = _padded(inp, indices), _padded(prefix, indices)
            result = search_with_options(self._model, padded, self._decode, chosen, prefixes)
            return result.ids, result.scores

        fits &= lengths <= self._model.pe_input
        texts, scores = self.decode_chunks(
            search, lengths + prefix_lengths, blank, fits, largest, largest
        )
        wanted = tf.range(largest) < options.n_best[:, tf.newaxis]  # (N, K)
        texts = tf.where(wanted, texts, "")
        scores = tf.where(wanted, scores, NEGATIVE_INFINITY)
        count = tf.reduce_sum(tf.cast(is_possible(scores), tf.int32), axis=1)
        return {"translations": texts, "scores": scores, "count": count}

    def sample(
        self,
        text: tf.Tensor,
        sampling: RowSampling,
        seed: tf.Tensor,
        max_decode_length: tf.Tensor,
        target_prefix: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Draws a translation of each text.

        Args:
          text, target_prefix: strings `[N]`.
          sampling: a `RowSampling`.
          seed: int64 `[N]`. A seed of 32 bits draws what `Translator.sample` draws for line 1.
          max_decode_length: int32 `[N]`.
        Returns: translation, strings `[N]`; score, float32 `[N]`, of the model's distribution.
        """
        checks = [
            _check("temperature", sampling.temperature, 0.01, 100.0),
            _check("top_k", sampling.top_k, 0),
            _check("top_p", sampling.top_p, 0.0, 1.0),
            _check("max_decode_length", max_decode_length, 0),
        ]
        with tf.control_dependencies(checks):
            inp, lengths, blank = self._encode(self._source, text)
        prefix, prefix_lengths, fits = self._encode_prefix(target_prefix)
        halves = tf.bitcast(seed, tf.int32)  # (N, 2), the lower half first
        seeds = tf.stack([halves[:, 0], halves[:, 1] + 1], axis=1)

        def draw(indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            chosen = RowSampling(*(tf.gather(option, indices) for option in sampling))
            result = sample_translations(
                self._model,
                _padded(inp, indices),
                self._decode,
                1,
                chosen,
                tf.gather(seeds, indices),
                _padded(prefix, indices),
                tf.gather(max_decode_length, indices),
            )
            return result.ids, result.scores

        fits &= lengths <= self._model.pe_input
        texts, scores = self.decode_chunks(draw, lengths + prefix_lengths, blank, fits, 1, 1)
        return {"translation": texts[:, 0], "score": scores[:, 0]}

    def alternatives(self, text: tf.Tensor, target_prefix: tf.Tensor) -> dict[str, tf.Tensor]:
        """Proposes how the translation of each text can continue after its beginning.

        Args:
          text, target_prefix: strings `[N]`.
        Returns: translations, strings `[N, K]`, the one with the most probable next sub-word first,
          each completed by greedy search; scores, float32 `[N, K]`; probabilities, float32
          `[N, K]`, of the sub-word after the prefix.
        """
        number = min(ALTERNATIVES, self._model.target_vocab_size - 2)
        inp, lengths, blank = self._encode(self._source, text)
        prefix, prefix_lengths, fits = self._encode_prefix(target_prefix, following=2)

        def complete(indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
            padded, prefixes = _padded(inp, indices), _padded(prefix, indices)
            return alternative_translations(self._model, padded, self._decode, number, prefixes)

        fits &= lengths <= self._model.pe_input
        no_probabilities = [tf.zeros([tf.size(lengths), number])]
        results = self.decode_chunks(
            complete, lengths + prefix_lengths, blank, fits, number, number, no_probabilities
        )
        return dict(zip(("translations", "scores", "probabilities"), results))

    def _encode_prefix(
        self, target_prefix: tf.Tensor, following: int = 1
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Encodes the beginnings of translations.

        Args:
          target_prefix: strings `[N]`.
          following: positions that the model needs after them.
        Returns: ragged ids without the end token; their lengths; whether there are the positions.
        """
        ids, lengths, _ = self._encode(self._target, target_prefix)
        return ids[:, :-1], lengths - 1, lengths - 1 + following <= self._model.pe_target


def option_signatures(functions: OptionFunctions, decode: DecodeConfig) -> dict[str, Signature]:
    """The signatures with options: name -> the function and the `TensorSpec`s of its inputs.

    The defaults of the arguments become those of the signature. They have shape [1], and are
    broadcast to the number of texts.

    Args:
      functions: an `OptionFunctions`.
      decode: the `DecodeConfig` of the export.
    """
    zero, one, no_prefix = tf.constant([0]), tf.constant([1]), tf.constant([""])
    zero64, one_float = tf.constant([0], tf.int64), tf.constant([1.0])
    exported_penalty = tf.constant([decode.length_penalty])

    def translate_with_options(
        text: tf.Tensor,
        beam_size: tf.Tensor = zero,
        n_best: tf.Tensor = one,
        max_decode_length: tf.Tensor = zero,
        length_penalty: tf.Tensor = exported_penalty,
        target_prefix: tf.Tensor = no_prefix,
    ) -> dict[str, tf.Tensor]:
        options = (beam_size, n_best, max_decode_length, length_penalty, target_prefix)
        *rows, prefix = (_for_all(option, text) for option in options)
        return functions.translate_with_options(text, RowOptions(*rows), prefix)

    def sample(
        text: tf.Tensor,
        temperature: tf.Tensor = one_float,
        top_k: tf.Tensor = zero,
        top_p: tf.Tensor = one_float,
        seed: tf.Tensor = zero64,
        max_decode_length: tf.Tensor = zero,
        target_prefix: tf.Tensor = no_prefix,
    ) -> dict[str, tf.Tensor]:
        options = (temperature, top_k, top_p, seed, max_decode_length, target_prefix)
        *sampling, seed, limit, prefix = (_for_all(option, text) for option in options)
        return functions.sample(text, RowSampling(*sampling), seed, limit, prefix)

    def alternatives(text: tf.Tensor, target_prefix: tf.Tensor = no_prefix) -> dict[str, tf.Tensor]:
        return functions.alternatives(text, _for_all(target_prefix, text))

    return {
        function.__name__: (function, _specs(function))
        for function in (translate_with_options, sample, alternatives)
    }


def _specs(function: Callable[..., dict[str, tf.Tensor]]) -> list[tf.TensorSpec]:
    names = inspect.signature(function).parameters
    return [tf.TensorSpec([None], TYPES[name], name=name) for name in names]


def _for_all(option: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    """An option `[N]` or `[1]` -> `[N]`."""
    return tf.broadcast_to(option, tf.shape(text))


def _exported_if_0(beam_size: tf.Tensor, exported: int) -> tf.Tensor:
    return tf.where(beam_size == 0, exported, beam_size)


def _check(
    name: str, values: tf.Tensor, smallest: float, largest: float | tf.Tensor | None = None
) -> tf.Operation:
    """Fails with tf.errors.InvalidArgumentError for a value out of range, and for NaN."""
    in_range = values >= smallest
    limits: list[Any] = [f"at least {smallest:g}"]
    if largest is not None:
        largest = tf.broadcast_to(tf.cast(largest, values.dtype), tf.shape(values))
        in_range &= values <= largest
        limits = [f"from {smallest:g} to", tf.boolean_mask(largest, ~in_range)[:1]]
    wrong = tf.boolean_mask(values, ~in_range)[:1]  # the first one
    return tf.debugging.Assert(
        tf.reduce_all(in_range), [f"{name} must be", *limits, "and is", wrong]
    )


def _padded(ids: tf.RaggedTensor, indices: tf.Tensor) -> tf.Tensor:
    """The chosen rows of ragged ids, padded: int32 `[n, T]`."""
    return tf.gather(ids, indices).to_tensor(PAD)
