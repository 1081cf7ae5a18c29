"""The functions of an exported model: text in, text out, with the tokenizer in the same graph.

The result of a row does not depend on the other rows:
- Invalid UTF-8 is read as U+FFFD.
- Blank text has an empty translation with score 0.
- Text with more sub-words than the model has positions is not translated. Its result is empty,
  with score -1e9. So is text with such a prefix.

`SIGNATURES` names the functions and what they take; their docstrings in `TextFunctions` say what
they return. A new option is a line in `request_options`, its name in `SIGNATURES`, and its use in
the method of that name. The inputs of the signature, the checks, the recorded warm-up requests and
the README of an export follow from these.

Shapes: N texts, n texts of a chunk, K hypotheses, S source and T target sub-words, H heads,
L layers, V target vocabulary.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.config import DecodeConfig
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.ensemble import Model, single_model
from tf_transformer.decoding.inference import (
    alternative_translations,
    cross_attention,
    detokenize,
    max_output_lengths,
    sample_translations,
    search_translations,
    target_log_probs,
)
from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.decoding.text_batches import SCORED_TOKENS
from tf_transformer.special_tokens import PAD

ALIGNED_LENGTH = 128  # most source sub-words of `alignments`: weights grow with the square

ALTERNATIVES = 10  # next sub-words that are completed, where the vocabulary has as many

Tensors = dict[str, tf.Tensor]

# The results of translations, and their values where there is none.
N_BEST = {"translations": "", "scores": NEGATIVE_INFINITY, "truncated": False}


class Option(NamedTuple):
    """A decoding option of a request, a value for each text."""

    dtype: tf.DType
    meaning: str
    default: Any  # of a request that leaves it out
    smallest: float | None = None  # None: any value
    largest: float | None = None

    @property
    def range(self) -> str:
        """The range as text."""
        if self.largest is None:
            return "" if self.smallest is None else f"at least {self.smallest:g}"
        return f"from {self.smallest:g} to {self.largest:g}"

    def checked(self, name: str, values: tf.Tensor) -> tf.Tensor:
        """The values. One out of range, and NaN, fails with tf.errors.InvalidArgumentError."""
        if self.smallest is None:
            return values
        in_range = values >= self.smallest
        if self.largest is not None:
            in_range &= values <= self.largest
        wrong = tf.boolean_mask(values, ~in_range)[:1]  # the first one
        message = f"{name} must be {self.range} and is"
        check = tf.debugging.Assert(tf.reduce_all(in_range), [message, wrong])
        with tf.control_dependencies([check]):
            return tf.identity(values)


def request_options(decode: DecodeConfig) -> dict[str, Option]:
    """The options of an export with these settings, by name."""
    longest = "longest translation in sub-words, with the end token; 0: the limit of the export"
    shortest = "fewest sub-words, without the end token, as far as the longest translation allows"
    penalty = "alpha of the length penalty"
    return {
        "n_best": Option(tf.int32, "translations", 1, 1, decode.beam_size),
        "min_length": Option(tf.int32, shortest, 0, 0),
        # It can only shorten the limit of the export. A prefix always fits.
        "max_decode_length": Option(tf.int32, longest, 0, 0),
        "length_penalty": Option(tf.float32, penalty, decode.length_penalty, 0, 10),
        "temperature": Option(tf.float32, "of the distribution", 1.0, 0.01, 100),
        "top_k": Option(tf.int32, "draw from this many sub-words; 0: from all", 0, 0),
        "top_p": Option(tf.float32, "draw from sub-words of this probability", 1.0, 0, 1),
        "seed": Option(tf.int64, "of the random numbers", 0),
        "target_prefix": Option(tf.string, "beginning of the translation", ""),
    }


class SignatureSpec(NamedTuple):
    """The inputs of the method of `TextFunctions` with its name."""

    texts: list[str]
    options: list[str] = []  # of `request_options`, each row its own


LIMITS = ["min_length", "max_decode_length", "target_prefix"]
SIGNATURES = {
    "serving_default": SignatureSpec(["text"]),
    "nbest": SignatureSpec(["text"]),
    "score": SignatureSpec(["source", "target"]),
    "alignments": SignatureSpec(["text"]),
    "count_tokens": SignatureSpec(["text"]),
    "translate_with_options": SignatureSpec(["text"], ["n_best", "length_penalty", *LIMITS]),
    "sample": SignatureSpec(["text"], ["temperature", "top_k", "top_p", "seed", *LIMITS]),
    "alternatives": SignatureSpec(["text"], ["min_length", "target_prefix"]),
}


def graph_function(functions: "TextFunctions", name: str, decode: DecodeConfig) -> Any:
    """Makes the `tf.function` of a signature: it checks the options, and calls the method.

    The signature has the defaults of the options, of shape [1], which are broadcast to all texts.
    """
    texts, names = SIGNATURES[name]
    every = request_options(decode)
    options = {each: every[each] for each in names}

    def function(*values: tf.Tensor) -> Tensors:
        inputs = dict(zip([*texts, *options], values))
        for each, option in options.items():
            rows = tf.broadcast_to(inputs[each], tf.shape(values[0]))
            inputs[each] = option.checked(each, rows)
        return getattr(functions, name)(**inputs)

    # TensorFlow takes the names of the inputs, and their defaults, from the signature in Python.
    specs = [tf.TensorSpec([None], tf.string, each) for each in texts]
    arguments = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in texts]
    for each, option in options.items():
        specs.append(tf.TensorSpec([None], option.dtype, each))
        default = tf.constant([option.default], option.dtype)
        arguments.append(inspect.Parameter(each, arguments[0].kind, default=default))
    function.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    return tf.function(function, input_signature=specs, autograph=False)


class TextFunctions:
    """The functions of a model on tensors of strings; they run in a graph.

    They compute the texts in chunks, so that only the results grow with the number of texts. Texts
    are strings `[N]`, and options are tensors `[N]`. The README of an export has the docstrings.
    The model is built; of an `Ensemble`, `alignments` raises UserError.
    """

    def __init__(
        self, model: Model, tokenizers: tuple[Tokenizer, Tokenizer], decode: DecodeConfig
    ) -> None:
        self._model = model
        self._decode = decode
        self._source, self._target = tokenizers[0], tokenizers[1].for_targets()

    def count_tokens(self, text: tf.Tensor) -> Tensors:
        """Counts the source sub-words of texts.

        Returns: tokens, int32 `[N]`, without the end token.
        """
        return {"tokens": _encode(self._source, text)[1] - 1}

    def serving_default(self, text: tf.Tensor) -> Tensors:
        """Translates texts.

        Returns: translation, strings `[N]`; score, float32 `[N]`, the log-probability in nats
          divided by the length penalty; truncated, bool `[N]`, whether it has reached the longest
          output.
        """
        return _best(self._translate(text, 1))

    def nbest(self, text: tf.Tensor) -> Tensors:
        """Translates texts.

        Returns: translations, strings `[N, K]`, best first, K the beam size; scores, float32
          `[N, K]`; truncated, bool `[N, K]`. Where the search finds fewer hypotheses, the others
          are empty with score -1e9.
        """
        return self._translate(text, self._decode.beam_size)

    def _translate(self, text: tf.Tensor, number: int) -> Tensors:
        """The K best translations of texts, as `nbest`."""

        def search(inp: tf.Tensor) -> Tensors:
            return search_translations(self._model, inp, self._decode, number)._asdict()

        return self._search_texts(search, text, number, self._decode.beam_size)

    def translate_with_options(self, text: tf.Tensor, **options: tf.Tensor) -> Tensors:
        """Translates each text with its own search options.

        Returns: the results of `nbest`; count, int32 `[N]`, the translations of each text. The
          others are empty with score -1e9.
        """
        beam_size = self._decode.beam_size  # K

        def search(inp: tf.Tensor, n_best: tf.Tensor, **options: tf.Tensor) -> Tensors:
            most = tf.reduce_max(n_best)  # the others of a text have no effect on its first ones
            found = search_translations(self._model, inp, self._decode, most, **options)
            missing = [[0, 0], [0, beam_size - tf.shape(found.scores)[1]]]
            return {
                "ids": tf.pad(found.ids, [*missing, [0, 0]]),  # (n, K, T)
                "scores": tf.pad(
                    found.scores, missing, constant_values=NEGATIVE_INFINITY
                ),  # (n, K)
                "truncated": tf.pad(found.truncated, missing),  # (n, K)
            }

        found = self._search_texts(search, text, beam_size, beam_size, **options)
        wanted = tf.range(beam_size) < options["n_best"][:, tf.newaxis]  # (N, K)
        found = {name: tf.where(wanted, found[name], value) for name, value in N_BEST.items()}
        is_found = tf.cast(is_possible(found["scores"]), tf.int32)
        return {**found, "count": tf.reduce_sum(is_found, axis=1)}

    def sample(self, text: tf.Tensor, **options: tf.Tensor) -> Tensors:
        """Draws a translation of each text.

        A seed of 32 bits draws what `Translator.sample` draws for line 1.

        Returns: the results of `serving_default`; the score is of the model's distribution.
        """

        def draw(inp: tf.Tensor, seed: tf.Tensor, **options: tf.Tensor) -> Tensors:
            halves = tf.bitcast(seed, tf.int32)  # (n, 2), the lower half first
            seeds = tf.stack([halves[:, 0], halves[:, 1] + 1], axis=1)
            return sample_translations(self._model, inp, self._decode, seeds, **options)._asdict()

        return _best(self._search_texts(draw, text, 1, 1, **options))

    def alternatives(self, text: tf.Tensor, **options: tf.Tensor) -> Tensors:
        """Proposes how the translation of each text can continue after its beginning.

        Returns: the results of `nbest`, the translation with the most probable next sub-word first,
          each completed by greedy search; probabilities, float32 `[N, K]`, of the sub-word after
          the prefix.
        """
        number = min(ALTERNATIVES, self._model.target_vocab_size - 3)  # K

        results = {**N_BEST, "probabilities": 0.0}

        def complete(inp: tf.Tensor, **options: tf.Tensor) -> Tensors:
            found = alternative_translations(self._model, inp, self._decode, number, **options)
            return dict(zip(("ids", "scores", "truncated", "probabilities"), found))

        return self._search_texts(complete, text, number, number, results, 2, **options)

    def _search_texts(
        self,
        search: Callable[..., Tensors],
        text: tf.Tensor,
        number: int,
        rows_per_text: int,
        results: dict[str, Any] = N_BEST,
        following: int = 1,
        target_prefix: tf.Tensor | None = None,
        **options: tf.Tensor,
    ) -> Tensors:
        """Encodes texts, searches translations in chunks, and converts them to text.

        Args:
          search: a function of a chunk: of its source ids `inp` `[n, S]`, its options, and the ids
            `prefix` `[n, P]` where there are target prefixes. It returns `ids` `[n, K, T]`, and
            by name the other results `[n, K]`.
          number: K.
          rows_per_text: hypotheses of each text that are computed at the same time.
          results: by name, their values where there is no translation.
          following: positions that the model needs after a prefix.
        Returns: by name, `[N, K]`: the translations, their scores, and the other results.
        """
        inp, lengths = _encode(self._source, text)
        blank = lengths <= 1  # the end token alone
        fits = ~blank & (lengths <= self._model.pe_input)
        rows = {"inp": inp, **options}
        if target_prefix is not None:
            prefix, prefix_lengths = _encode(self._target, target_prefix)
            rows["prefix"] = prefix[:, :-1]  # without the end token
            fits &= prefix_lengths - 1 + following <= self._model.pe_target
            lengths += prefix_lengths - 1

        def search_chunk(**chunk: tf.Tensor) -> Tensors:
            found = search(**chunk)
            ids = tf.reshape(found["ids"], [-1, tf.shape(found["ids"])[2]])  # (n * K, T)
            texts = tf.reshape(detokenize(self._target, ids), [-1, number])  # (n, K)
            return {**found, "translations": texts}

        shape = [tf.size(lengths), number]  # N, K
        defaults = {name: tf.fill(shape, value) for name, value in results.items()}
        first_of_blank = blank[:, tf.newaxis] & (tf.range(number) == 0)  # (N, K)
        defaults["scores"] = tf.where(first_of_blank, 0.0, NEGATIVE_INFINITY)
        chunk_tokens = self._decode.decode_batch_tokens // rows_per_text
        return _map_chunks(search_chunk, rows, fits, lengths, chunk_tokens, defaults)

    def score(self, source: tf.Tensor, target: tf.Tensor) -> Tensors:
        """Computes the probability of given translations.

        Returns: log_probability, in nats, of the translations `[N]`; token_log_probabilities, of
          their sub-words `[N, T]`, end token included, 0 at padding; tokens, the sub-words, strings
          `[N, T]`. A pair with too many sub-words on either side has -1e9 and no sub-words.
        """
        inp, inp_lengths = _encode(self._source, source)
        tar, tar_lengths = _encode(self._target, target)
        fits = (inp_lengths <= self._model.pe_input) & (tar_lengths <= self._model.pe_target)
        longest = _max_or_zero(tf.where(fits, tar_lengths, 0))  # T
        number = tf.size(inp_lengths)  # N

        def score_chunk(inp: tf.Tensor, tar_real: tf.Tensor) -> Tensors:
            log_probs = target_log_probs(self._model, inp, tar_real)  # (n, t), t <= T
            return {
                "log_probability": tf.reduce_sum(log_probs, axis=1),
                "token_log_probabilities": _pad(log_probs, longest),
                "tokens": _pad(self._target.pieces_of(tar_real), longest),
            }

        rows, lengths = {"inp": inp, "tar_real": tar}, tf.maximum(inp_lengths, tar_lengths)
        defaults = {
            "log_probability": tf.fill([number], NEGATIVE_INFINITY),
            "token_log_probabilities": tf.zeros([number, longest]),
            "tokens": tf.fill([number, longest], ""),
        }
        return _map_chunks(score_chunk, rows, fits, lengths, SCORED_TOKENS, defaults)

    def alignments(self, text: tf.Tensor) -> Tensors:
        """Computes the attention of the best translation over the source.

        Returns: translation, strings `[N]`; source_tokens, strings `[N, S]`; target_tokens, strings
          `[N, T]`, "" at padding; weights, the decoder's attention over the source, float32
          `[N, L, H, T, S]`. Row t of the weights is where the model attends when it predicts
          target sub-word t. Text of more than 128 sub-words has no result.
        """
        model = single_model(self._model)
        inp, lengths = _encode(self._source, text)
        fits = (lengths > 1) & (lengths <= min(ALIGNED_LENGTH, model.pe_input))
        source_length = _max_or_zero(tf.where(fits, lengths, 0))  # S
        max_length = max_output_lengths(model, source_length, self._decode)

        def align_chunk(inp: tf.Tensor) -> Tensors:
            tar_real = search_translations(model, inp, self._decode, 1).ids[:, 0]  # (n, t)
            weights = cross_attention(model, inp, tar_real)
            is_token = tf.cast(tar_real != PAD, tf.float32)  # (n, t)
            weights *= is_token[:, tf.newaxis, tf.newaxis, :, tf.newaxis]  # (n, L, H, t, s)
            return {
                "translation": detokenize(self._target, tar_real),
                "source_tokens": _pad(self._source.pieces_of(inp), source_length),
                "target_tokens": _pad(self._target.pieces_of(tar_real), max_length),
                "weights": _pad(weights, max_length, source_length),
            }

        number = tf.size(lengths)  # N
        sizes = model.decoder.num_layers, model.num_heads  # L, H
        defaults = {
            "translation": tf.fill([number], ""),
            "source_tokens": tf.fill([number, source_length], ""),
            "target_tokens": tf.fill([number, max_length], ""),
            "weights": tf.zeros([number, *sizes, max_length, source_length]),
        }
        searched = self._decode.decode_batch_tokens // self._decode.beam_size
        chunk_tokens = min(SCORED_TOKENS, searched)
        found = _map_chunks(align_chunk, {"inp": inp}, fits, lengths, chunk_tokens, defaults)
        is_token = tf.cast(found["target_tokens"] != "", tf.int32)
        length = _max_or_zero(tf.reduce_sum(is_token, axis=1))  # T
        found["target_tokens"] = found["target_tokens"][:, :length]
        found["weights"] = found["weights"][:, :, :, :length]
        return found


def _encode(tokenizer: Tokenizer, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Strings `[N]` -> ragged ids with the end token, and their lengths, int32 `[N]`."""
    ids = tokenizer.encode(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8"))
    return ids, tf.cast(ids.row_lengths(), tf.int32)


def _best(found: Tensors) -> Tensors:
    """The results `[N, 1]` of one translation of each text, as `[N]`."""
    names = {"translation": "translations", "score": "scores", "truncated": "truncated"}
    return {name: found[several][:, 0] for name, several in names.items()}


def _map_chunks(
    function: Callable[..., Tensors],
    rows: Mapping[str, tf.Tensor | tf.RaggedTensor],
    fits: tf.Tensor,
    lengths: tf.Tensor,
    chunk_tokens: int,
    defaults: Tensors,
) -> Tensors:
    """Runs a function on chunks of rows of similar length, longest first.

    Args:
      function: of the rows of a chunk, which are padded; returns tensors `[n, ...]` by name, those
        of the defaults and others.
      rows: its arguments for all rows, by name `[N, ...]`.
      fits: bool `[N]`, the rows on which the function runs.
      lengths: int32 `[N]`, of all rows.
      chunk_tokens: most tokens of a chunk, padding included. A chunk has at least one row.
      defaults: the results of the other rows, tensors `[N, ...]`.
    Returns: the results of all rows, tensors `[N, ...]` by name.
    """
    indices = tf.where(fits)[:, 0]
    order = tf.argsort(tf.gather(lengths, indices), direction="DESCENDING")
    sorted_indices = tf.gather(indices, order)

    def is_unfinished(start: tf.Tensor, results: Tensors) -> tf.Tensor:
        return start < tf.size(sorted_indices)

    def run_chunk(start: tf.Tensor, results: Tensors) -> tuple[tf.Tensor, Tensors]:
        size = tf.maximum(chunk_tokens // lengths[sorted_indices[start]], 1)
        chunk = sorted_indices[start : start + size]
        gathered = {name: tf.gather(values, chunk) for name, values in rows.items()}
        padded = {
            name: values.to_tensor(PAD) if isinstance(values, tf.RaggedTensor) else values
            for name, values in gathered.items()
        }
        found = function(**padded)
        updated = {
            name: tf.tensor_scatter_nd_update(result, chunk[:, tf.newaxis], found[name])
            for name, result in results.items()
        }
        return start + tf.size(chunk), updated

    _, results = tf.while_loop(is_unfinished, run_chunk, (0, defaults), parallel_iterations=1)
    return results


def _max_or_zero(lengths: tf.Tensor) -> tf.Tensor:
    """The maximum of int32 `[n]`, or 0 where n is 0."""
    return tf.maximum(tf.reduce_max(lengths), 0)


def _pad(x: tf.Tensor, *sizes: tf.Tensor) -> tf.Tensor:
    """Pads the last axes to these sizes, with zeros or empty strings."""
    shape, first = tf.shape(x), len(x.shape) - len(sizes)
    paddings = [[0, 0]] * first + [[0, size - shape[first + i]] for i, size in enumerate(sizes)]
    return tf.pad(x, paddings, constant_values="" if x.dtype == tf.string else 0)
