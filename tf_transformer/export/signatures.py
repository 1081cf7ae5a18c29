"""The functions of an exported model: text in, text out, with the tokenizer in the same graph.

The result of a row does not depend on the other rows:
- Invalid UTF-8 is read as U+FFFD.
- Blank text has an empty translation with score 0.
- Text with more sub-words than the model has positions is not translated. Its result is empty,
  with score -1e9.

Shapes: N texts, n texts of a chunk, K hypotheses, S source and T target sub-words, H heads,
L layers, V target vocabulary.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tf_transformer.config import DecodeConfig
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import SearchResult
from tf_transformer.decoding.ensemble import Model, single_model
from tf_transformer.decoding.inference import (
    SCORED_TOKENS,
    detokenize,
    forced_decoding,
    forced_log_probs,
    max_output_lengths,
    search_translations,
)
from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.special_tokens import PAD

ALIGNED_LENGTH = 128  # most source sub-words of `alignments`: weights grow with the square

Signature = tuple[Callable[..., dict[str, tf.Tensor]], list[tf.TensorSpec]]


class TextFunctions:
    """The functions of a model on tensors of strings; they run in a graph.

    They compute the texts in chunks, so that only the results grow with the number of texts.

    Args:
      model: a built `Transformer`, or an `Ensemble`, which has no `alignments`.
      tokenizers: of the source and of the target.
      decode: a `DecodeConfig`.
    """

    def __init__(
        self, model: Model, tokenizers: tuple[Tokenizer, Tokenizer], decode: DecodeConfig
    ) -> None:
        self._model = model
        self._decode = decode
        self._source, self._target = tokenizers[0], tokenizers[1].for_targets()

    def count_tokens(self, text: tf.Tensor) -> tf.Tensor:
        """Counts the source sub-words of texts.

        Args:
          text: strings `[N]`.
        Returns: int32 `[N]`, without the end token.
        """
        return self._encode(self._source, text)[1] - 1

    def translate(self, text: tf.Tensor, n_best: int = 1) -> list[tf.Tensor]:
        """Translates texts.

        Args:
          text: strings `[N]`.
          n_best: hypotheses wanted, K, at most the beam size.
        Returns: translations, strings `[N, K]`, best first; scores, float32 `[N, K]`, the
          log-probability in nats divided by the length penalty. Where the search finds fewer
          hypotheses, the others are empty with score -1e9.
        """
        inp, lengths, blank = self._encode(self._source, text)

        def search(indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            result = self._search(inp, indices, n_best)
            return result.ids, result.scores

        fits = lengths <= self._model.pe_input
        rows_per_text = self._decode.beam_size
        return self.decode_chunks(search, lengths, blank, fits, n_best, rows_per_text)

    def decode_chunks(
        self,
        decode: Callable[[tf.Tensor], tuple[tf.Tensor, ...]],
        lengths: tf.Tensor,
        blank: tf.Tensor,
        fits: tf.Tensor,
        number: int,
        rows_per_text: int,
        more: Sequence[tf.Tensor] = (),
    ) -> list[tf.Tensor]:
        """Calls a search for chunks of texts, and converts its results to text.

        Args:
          decode: a function of the indices of a chunk `[n]`; it returns ids `[n, K, T]`, scores
            `[n, K]`, and what `more` has.
          lengths: sub-words of each source and its prefix, int32 `[N]`.
          blank: bool `[N]`, which sources are blank.
          fits: bool `[N]`, which texts can be translated.
          number: K.
          rows_per_text: hypotheses of each text that are computed at the same time.
          more: the further results of texts without a translation, tensors `[N, ...]`.
        Returns: translations, strings `[N, K]`; scores `[N, K]`; the further results.
        """

        def decode_chunk(indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
            ids, *others = decode(indices)
            texts = detokenize(self._target, tf.reshape(ids, [-1, tf.shape(ids)[2]]))  # (n * K)
            return tf.reshape(texts, [-1, number]), *others

        first_of_blank = blank[:, tf.newaxis] & (tf.range(number) == 0)  # (N, K)
        default_texts = tf.fill([tf.size(lengths), number], "")
        default_scores = tf.where(first_of_blank, 0.0, NEGATIVE_INFINITY)
        return _map_chunks(
            decode_chunk,
            indices=tf.where(~blank & fits)[:, 0],
            lengths=lengths,
            chunk_tokens=self._decode.decode_batch_tokens // rows_per_text,
            defaults=[default_texts, default_scores, *more],
        )

    def score(self, source: tf.Tensor, target: tf.Tensor) -> list[tf.Tensor]:
        """Computes the probability of given translations.

        Args:
          source, target: strings `[N]`.
        Returns: log-probabilities in nats of the translations `[N]`; those of their sub-words
          `[N, T]`, end token included, 0 at padding; the sub-words, strings `[N, T]`. A pair with
          too many sub-words on either side has -1e9 and no sub-words.
        """
        inp, inp_lengths, _ = self._encode(self._source, source)
        tar, tar_lengths, _ = self._encode(self._target, target)
        fits = (inp_lengths <= self._model.pe_input) & (tar_lengths <= self._model.pe_target)
        longest = _max_or_zero(tf.where(fits, tar_lengths, 0))  # T
        number = tf.size(inp_lengths)  # N

        def score_chunk(indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
            tar_real = tf.gather(tar, indices).to_tensor(PAD)  # (n, t), t <= T
            padded = tf.gather(inp, indices).to_tensor(PAD)  # (n, s)
            log_probs = forced_log_probs(self._model, padded, tar_real)  # (n, t)
            return (
                tf.reduce_sum(log_probs, axis=1),
                _pad_last_axis(log_probs, longest),
                _pad_last_axis(self._target.pieces_of(tar_real), longest),
            )

        return _map_chunks(
            score_chunk,
            indices=tf.where(fits)[:, 0],
            lengths=tf.maximum(inp_lengths, tar_lengths),
            chunk_tokens=SCORED_TOKENS,
            defaults=[
                tf.fill([number], NEGATIVE_INFINITY),
                tf.zeros([number, longest]),
                tf.fill([number, longest], ""),
            ],
        )

    def alignments(self, text: tf.Tensor) -> list[tf.Tensor]:
        """Computes the attention of the best translation over the source.

        Args:
          text: strings `[N]`.
        Returns: translations, strings `[N]`; source sub-words, strings `[N, S]`; target sub-words,
          strings `[N, T]`, "" at padding; the decoder's attention weights over the source, float32
          `[N, L, H, T, S]`. Row t of the weights is where the model attends when it predicts
          target sub-word t. Text of more than 128 sub-words has no result.
        Raises: UserError for an ensemble.
        """
        model = single_model(self._model)
        inp, lengths, blank = self._encode(self._source, text)
        aligned_length = min(ALIGNED_LENGTH, model.pe_input)
        indices = tf.where(~blank & (lengths <= aligned_length))[:, 0]
        longest = _max_or_zero(tf.gather(lengths, indices))  # S
        tar = self._best_translations(inp, indices, lengths, longest)  # (N, T)
        number = tf.size(lengths)  # N

        def align_chunk(indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
            tar_real = tf.gather(tar, indices)  # (n, T)
            padded = tf.gather(inp, indices).to_tensor(PAD)  # (n, s)
            _, attention_weights = forced_decoding(model, padded, tar_real)
            weights = _stack_source_attention(attention_weights, model.num_layers)  # (n,L,H,T,s)
            is_token = tf.cast(tar_real != PAD, tf.float32)  # (n, T)
            weights *= is_token[:, tf.newaxis, tf.newaxis, :, tf.newaxis]  # (n, L, H, T, s)
            return (
                detokenize(self._target, tar_real),
                _pad_last_axis(self._source.pieces_of(padded), longest),
                self._target.pieces_of(tar_real),
                _pad_last_axis(weights, longest),
            )

        weights_shape = [number, model.num_layers, model.num_heads, tf.shape(tar)[1], longest]
        return _map_chunks(
            align_chunk,
            indices=indices,
            lengths=lengths,
            chunk_tokens=SCORED_TOKENS,
            defaults=[
                tf.fill([number], ""),
                tf.fill([number, longest], ""),
                tf.fill(tf.shape(tar), ""),
                tf.zeros(weights_shape),
            ],
        )

    def _best_translations(
        self, inp: tf.RaggedTensor, indices: tf.Tensor, lengths: tf.Tensor, longest: tf.Tensor
    ) -> tf.Tensor:
        """Ids of the best translation of each chosen text, `[N, T]`; padding for the others."""
        max_length = max_output_lengths(self._model, longest, self._decode)

        def search_chunk(indices: tf.Tensor) -> tuple[tf.Tensor]:
            best = self._search(inp, indices, 1).ids[:, 0]  # (n, t)
            return (_pad_last_axis(best, max_length),)

        (tar,) = _map_chunks(
            search_chunk,
            indices=indices,
            lengths=lengths,
            chunk_tokens=self._search_tokens,
            defaults=[tf.zeros([tf.size(lengths), max_length], tf.int32)],
        )
        tar_lengths = tf.reduce_sum(tf.cast(tar != PAD, tf.int32), axis=1)  # (N)
        return tar[:, : _max_or_zero(tar_lengths)]

    @property
    def _search_tokens(self) -> int:
        """Source tokens in a chunk of a search."""
        return self._decode.decode_batch_tokens // self._decode.beam_size

    def _encode(
        self, tokenizer: Tokenizer, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Strings `[N]` -> ragged ids, their lengths `[N]`, and whether they are blank `[N]`."""
        ids = tokenizer.encode(_replace_invalid_utf8(text))
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return ids, lengths, lengths <= 1  # blank: the end token alone

    def _search(self, inp: tf.RaggedTensor, indices: tf.Tensor, n_best: int) -> SearchResult:
        """Searches the translations of the chosen sources."""
        padded = tf.gather(inp, indices).to_tensor(PAD)  # (n, s)
        return search_translations(self._model, padded, self._decode, n_best)


def text_signatures(functions: TextFunctions, beam_size: int) -> dict[str, Signature]:
    """The signatures without options: name -> the function and the `TensorSpec`s of its inputs.

    Args:
      functions: a `TextFunctions`.
      beam_size: that of the export, the number of translations of `nbest`.
    """

    def serving_default(text: tf.Tensor) -> dict[str, tf.Tensor]:
        translations, scores = functions.translate(text)
        return {"translation": translations[:, 0], "score": scores[:, 0]}

    def nbest(text: tf.Tensor) -> dict[str, tf.Tensor]:
        translations, scores = functions.translate(text, beam_size)
        return {"translations": translations, "scores": scores}

    def score(source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        names = ("log_probability", "token_log_probabilities", "tokens")
        return dict(zip(names, functions.score(source, target)))

    def alignments(text: tf.Tensor) -> dict[str, tf.Tensor]:
        names = ("translation", "source_tokens", "target_tokens", "weights")
        return dict(zip(names, functions.alignments(text)))

    def count_tokens(text: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"tokens": functions.count_tokens(text)}

    text = tf.TensorSpec([None], tf.string, name="text")
    source = tf.TensorSpec([None], tf.string, name="source")
    target = tf.TensorSpec([None], tf.string, name="target")
    return {
        "serving_default": (serving_default, [text]),
        "nbest": (nbest, [text]),
        "score": (score, [source, target]),
        "alignments": (alignments, [text]),
        "count_tokens": (count_tokens, [text]),
    }


def _stack_source_attention(attention_weights: dict[str, tf.Tensor], num_layers: int) -> tf.Tensor:
    """Stacks the decoder's attention weights over the source of all layers, `[n, L, H, T, S]`."""
    names = [f"decoder_layer{i + 1}_block2" for i in range(num_layers)]
    return tf.stack([attention_weights[name] for name in names], axis=1)


def _map_chunks(
    function: Callable[[tf.Tensor], Sequence[tf.Tensor]],
    *,
    indices: tf.Tensor,
    lengths: tf.Tensor,
    chunk_tokens: int,
    defaults: list[tf.Tensor],
) -> list[tf.Tensor]:
    """Runs a function on chunks of rows of similar length, longest first.

    Args:
      function: of the indices of a chunk's rows `[n]`; returns tensors `[n, ...]`.
      indices: int `[r]`, the rows on which the function runs.
      lengths: int32 `[N]`, of all rows.
      chunk_tokens: most tokens of a chunk, padding included. A chunk has at least one row.
      defaults: the results of the other rows, tensors `[N, ...]`.
    Returns: the results of all rows, a list of tensors `[N, ...]`.
    """
    order = tf.argsort(tf.gather(lengths, indices), direction="DESCENDING")
    sorted_indices = tf.gather(indices, order)

    def is_unfinished(start: tf.Tensor, *results: tf.Tensor) -> tf.Tensor:
        return start < tf.size(sorted_indices)

    def run_chunk(start: tf.Tensor, *results: tf.Tensor) -> tuple[tf.Tensor, ...]:
        rows = tf.maximum(chunk_tokens // lengths[sorted_indices[start]], 1)
        chunk = sorted_indices[start : start + rows]
        updated = [
            tf.tensor_scatter_nd_update(result, chunk[:, tf.newaxis], update)
            for result, update in zip(results, function(chunk))
        ]
        return start + tf.size(chunk), *updated

    _, *results = tf.while_loop(is_unfinished, run_chunk, (0, *defaults), parallel_iterations=1)
    return results


def _max_or_zero(lengths: tf.Tensor) -> tf.Tensor:
    """The maximum of int32 `[n]`, or 0 where n is 0."""
    return tf.maximum(tf.reduce_max(lengths), 0)


def _pad_last_axis(x: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Pads the last axis to a size, with zeros or empty strings."""
    paddings = [[0, 0]] * (len(x.shape) - 1) + [[0, size - tf.shape(x)[-1]]]
    return tf.pad(x, paddings, constant_values="" if x.dtype == tf.string else 0)


def _replace_invalid_utf8(text: tf.Tensor) -> tf.Tensor:
    """Strings in which U+FFFD replaces invalid UTF-8."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
