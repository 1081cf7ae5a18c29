"""The functions of an exported model that take decoding options, each row its own.

Like those of `signatures.TextFunctions`, the result of a row does not depend on the other rows. A
row whose text or prefix has more sub-words than the model has positions is not translated.

A new option is a line in `request_options`, its name in `OPTIONS_OF`, and its use in the method of
that name. The inputs of the signature, the checks, the recorded warm-up requests and the README of
an export follow from these.

Shapes: N texts, n texts of a chunk, K hypotheses.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.config import DecodeConfig
from tf_transformer.decoding.inference import (
    alternative_translations,
    sample_translations,
    search_translations,
)
from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.export.signatures import Signature, TextFunctions
from tf_transformer.special_tokens import PAD

ALTERNATIVES = 10  # next sub-words that are completed, where the vocabulary has as many


class Option(NamedTuple):
    """A decoding option of a request, a value for each text."""

    dtype: tf.DType
    default: Any  # of a request that leaves it out
    smallest: float | None = None  # None: any value
    largest: float | None = None


def request_options(decode: DecodeConfig) -> dict[str, Option]:
    """The options of an export with these settings, by name."""
    return {
        "n_best": Option(tf.int32, 1, 1, decode.beam_size),
        # The longest translation in sub-words, with the end token. It can only shorten the limit of
        # the export, which 0 leaves as it is. A prefix always fits.
        "max_decode_length": Option(tf.int32, 0, 0),
        "length_penalty": Option(tf.float32, decode.length_penalty, 0, 10),
        "temperature": Option(tf.float32, 1.0, 0.01, 100),
        "top_k": Option(tf.int32, 0, 0),
        "top_p": Option(tf.float32, 1.0, 0, 1),
        "seed": Option(tf.int64, 0),
        # The beginning of the translation, "" where it is free.
        "target_prefix": Option(tf.string, ""),
    }


# The options of each method of `OptionFunctions`.
OPTIONS_OF = {
    "translate_with_options": ["n_best", "max_decode_length", "length_penalty", "target_prefix"],
    "sample": ["temperature", "top_k", "top_p", "seed", "max_decode_length", "target_prefix"],
    "alternatives": ["target_prefix"],
}


class OptionFunctions(TextFunctions):
    """`TextFunctions` with options: `text` is strings `[N]`, and each option a tensor `[N]`."""

    def translate_with_options(self, text: tf.Tensor, **options: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates each text with its own search options.

        Returns: translations, strings `[N, K]`, best first, K the beam size of the export; scores,
          float32 `[N, K]`; count, int32 `[N]`, the translations of each text. The others are empty
          with score -1e9.
        """
        beam_size, n_best = self._decode.beam_size, options["n_best"]  # K

        def search(
            inp: tf.Tensor, prefix: tf.Tensor, n_best: tf.Tensor, **options: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor]:
            most = tf.reduce_max(n_best)  # the others of a text have no effect on its first ones
            result = search_translations(self._model, inp, self._decode, most, prefix, **options)
            missing = [[0, 0], [0, beam_size - tf.shape(result.scores)[1]]]
            scores = tf.pad(result.scores, missing, constant_values=NEGATIVE_INFINITY)
            return tf.pad(result.ids, [*missing, [0, 0]]), scores  # (n, K, T), (n, K)

        texts, scores = self._decode_with_options(search, text, options, beam_size, beam_size)
        wanted = tf.range(beam_size) < n_best[:, tf.newaxis]  # (N, K)
        texts = tf.where(wanted, texts, "")
        scores = tf.where(wanted, scores, NEGATIVE_INFINITY)
        count = tf.reduce_sum(tf.cast(is_possible(scores), tf.int32), axis=1)
        return {"translations": texts, "scores": scores, "count": count}

    def sample(self, text: tf.Tensor, **options: tf.Tensor) -> dict[str, tf.Tensor]:
        """Draws a translation of each text.

        A seed of 32 bits draws what `Translator.sample` draws for line 1.

        Returns: translation, strings `[N]`; score, float32 `[N]`, of the model's distribution.
        """

        def draw(
            inp: tf.Tensor, prefix: tf.Tensor, seed: tf.Tensor, **options: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor]:
            halves = tf.bitcast(seed, tf.int32)  # (n, 2), the lower half first
            seeds = tf.stack([halves[:, 0], halves[:, 1] + 1], axis=1)
            problem = self._model, inp, self._decode, seeds
            return sample_translations(*problem, prefix=prefix, **options)[:2]

        texts, scores = self._decode_with_options(draw, text, options, 1, 1)
        return {"translation": texts[:, 0], "score": scores[:, 0]}

    def alternatives(self, text: tf.Tensor, **options: tf.Tensor) -> dict[str, tf.Tensor]:
        """Proposes how the translation of each text can continue after its beginning.

        Returns: translations, strings `[N, K]`, the one with the most probable next sub-word first,
          each completed by greedy search; scores, float32 `[N, K]`; probabilities, float32
          `[N, K]`, of the sub-word after the prefix.
        """
        number = min(ALTERNATIVES, self._model.target_vocab_size - 2)  # K

        def complete(inp: tf.Tensor, prefix: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return alternative_translations(self._model, inp, self._decode, number, prefix)

        no_probabilities = [tf.zeros([tf.size(text), number])]
        results = self._decode_with_options(
            complete, text, options, number, number, following=2, more=no_probabilities
        )
        return dict(zip(("translations", "scores", "probabilities"), results))

    def _decode_with_options(
        self,
        decode: Callable[..., tuple[tf.Tensor, ...]],
        text: tf.Tensor,
        options: dict[str, tf.Tensor],
        number: int,
        rows_per_text: int,
        following: int = 1,
        more: Sequence[tf.Tensor] = (),
    ) -> list[tf.Tensor]:
        """Calls a search for chunks of texts.

        Args:
          decode: a function of source ids `[n, S]`, target prefixes `[n, P]`, and the other options
            of a chunk, by name; it returns what that of `decode_chunks` returns.
          text: strings `[N]`.
          options: by name, tensors `[N]`.
          number, rows_per_text, more: as for `decode_chunks`.
          following: positions that the model needs after a prefix.
        Returns: as `decode_chunks`.
        """
        inp, lengths, blank = self._encode(self._source, text)
        prefix, prefix_lengths, _ = self._encode(self._target, options.pop("target_prefix"))
        prefix_lengths -= 1  # without the end token
        fits = (lengths <= self._model.pe_input) & (
            prefix_lengths + following <= self._model.pe_target
        )

        def decode_chunk(indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
            chosen = {name: tf.gather(option, indices) for name, option in options.items()}
            sources, prefixes = (
                tf.gather(ids, indices).to_tensor(PAD) for ids in (inp, prefix[:, :-1])
            )
            return decode(sources, prefixes, **chosen)

        return self.decode_chunks(
            decode_chunk, lengths + prefix_lengths, blank, fits, number, rows_per_text, more
        )


def option_signatures(functions: OptionFunctions, decode: DecodeConfig) -> dict[str, Signature]:
    """The signatures with options: name -> the function and the `TensorSpec`s of its inputs.

    The defaults of the arguments become those of the signature. They have shape [1], and are
    broadcast to the number of texts.

    Args:
      functions: an `OptionFunctions`.
      decode: the `DecodeConfig` of the export.
    """
    every = request_options(decode)
    return {
        name: _signature(getattr(functions, name), {option: every[option] for option in options})
        for name, options in OPTIONS_OF.items()
    }


def _signature(
    method: Callable[..., dict[str, tf.Tensor]], options: dict[str, Option]
) -> Signature:
    """The function of a signature: it checks the options, and calls a method with them."""

    def function(text: tf.Tensor, *values: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = [tf.broadcast_to(value, tf.shape(text)) for value in values]
        with tf.control_dependencies(map(_check, options, options.values(), rows)):
            text = tf.identity(text)
        return method(text, **dict(zip(options, rows)))

    text = inspect.Parameter("text", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    arguments = [
        text.replace(name=name, default=tf.constant([option.default], option.dtype))
        for name, option in options.items()
    ]
    function.__signature__ = inspect.Signature([text, *arguments])  # type: ignore[attr-defined]
    types = {"text": tf.string, **{name: option.dtype for name, option in options.items()}}
    return function, [tf.TensorSpec([None], dtype, name=name) for name, dtype in types.items()]


def _check(name: str, option: Option, values: tf.Tensor) -> tf.Operation:
    """Fails with tf.errors.InvalidArgumentError for a value out of range, and for NaN."""
    if option.smallest is None:
        return tf.no_op()
    in_range, limits = values >= option.smallest, f"at least {option.smallest:g}"
    if option.largest is not None:
        in_range &= values <= option.largest
        limits = f"from {option.smallest:g} to {option.largest:g}"
    wrong = tf.boolean_mask(values, ~in_range)[:1]  # the first one
    return tf.debugging.Assert(tf.reduce_all(in_range), [f"{name} must be {limits} and is", wrong])
