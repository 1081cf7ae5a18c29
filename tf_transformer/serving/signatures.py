"""What an exported model does: text in, text out, with tokenizer, network and search in one graph.

Every row has a result of its own, whatever the others are. Bytes that are no UTF-8 are read as U+FFFD. Text without a word stays
empty, with score 0. Text of more sub-words than the model has positions is not translated: its result is empty, with score -1e9.

Shapes: N texts, n of them in a chunk, K hypotheses, S source and T target sub-words, H heads, L layers.
"""

import tensorflow as tf

from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.decoding.translator import search_translations
from tf_transformer.special_tokens import PAD, START

SCORED_TOKENS = 1024  # tokens whose logits are there at a time
ALIGNED_LENGTH = (
    128  # most source sub-words that `alignments` takes: weights grow with their square
)


class TextFunctions:
    """The functions of a model on tensors of strings, to be called in a graph. They compute what fits into memory at a time, so that
    only the results grow with the number of texts.

    Args:
      model: a `Transformer`.
      tokenizers: of the source and of the target.
      decode: a `DecodeConfig`.
    """

    def __init__(self, model, tokenizers, decode):
        self._model, self._decode = model, decode
        self._source, self._target = tokenizers

    def translate(self, text, n_best=1):
        """Translates.

        Args:
          text: strings `[N]`.
          n_best: hypotheses wanted, at most the beam size.
        Returns: translations, strings `[N, n_best]`, best first; scores, float32 `[N, n_best]`: log-probability in nats over the length
          penalty, or -1e9 beside an empty translation where the search found fewer hypotheses.
        """
        inp, lengths, blank = self._encode(text)
        scores = tf.where(
            blank[:, tf.newaxis] & (tf.range(n_best) == 0), 0.0, NEGATIVE_INFINITY
        )  # (N, K)

        def search(chosen):
            found = self._search(inp, chosen, n_best)
            texts = _valid(self._target.decode(tf.reshape(found.ids, [-1, tf.shape(found.ids)[2]])))
            return tf.reshape(texts, [-1, n_best]), found.scores

        rows = tf.where(~blank & (lengths <= self._model.pe_input))[:, 0]
        return _in_chunks(
            rows,
            lengths,
            self._search_tokens,
            search,
            [tf.fill([tf.size(lengths), n_best], ""), scores],
        )

    def score(self, source, target):
        """The model's probability of given translations.

        Args:
          source, target: strings `[N]`.
        Returns: log-probabilities in nats of the translations `[N]` and of their sub-words `[N, T]`, the end symbol included, 0 where
          there is none; these sub-words, strings `[N, T]`. A pair of which one side has too many sub-words has -1e9 and no sub-words.
        """
        inp, inp_lengths, _ = self._encode(source)
        tar, tar_lengths, _ = self._encode(target, self._target)
        fits = (inp_lengths <= self._model.pe_input) & (tar_lengths <= self._model.pe_target)
        longest = _largest(tf.where(fits, tar_lengths, 0))  # T

        def log_probs_of(chosen):
            real = tf.gather(tar, chosen).to_tensor(PAD)  # (n, T)
            logits = self._forced(inp, chosen, real)[0]  # (n, T, V)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(real, logits)  # (n, T)
            found = tf.where(real != PAD, -losses, 0.0)  # (n, T)
            return (
                tf.reduce_sum(found, axis=1),
                _fill(found, longest),
                _fill(self._target.pieces_of(real), longest),
            )

        number = tf.size(inp_lengths)
        nothing = [
            tf.fill([number], NEGATIVE_INFINITY),
            tf.zeros([number, longest]),
            tf.fill([number, longest], ""),
        ]
        lengths = tf.maximum(inp_lengths, tar_lengths)
        return _in_chunks(tf.where(fits)[:, 0], lengths, SCORED_TOKENS, log_probs_of, nothing)

    def alignments(self, text):
        """What each word of the best translation looks at in the source.

        Args:
          text: strings `[N]`.
        Returns: the translations `[N]`; source sub-words, strings `[N, S]`, and target sub-words, strings `[N, T]`, "" where there is
          none; the weights of the decoder's attention on the source, float32 `[N, L, H, T, S]`: row t is where the model looked when it
          wrote sub-word t. Text of more than 128 sub-words has none.
        """
        inp, lengths, blank = self._encode(text)
        rows = tf.where(~blank & (lengths <= min(ALIGNED_LENGTH, self._model.pe_input)))[:, 0]
        number, longest = tf.size(lengths), _largest(tf.gather(lengths, rows))
        most = tf.minimum(longest + self._decode.extra_decode_length, self._model.pe_target)

        def search(chosen):
            return (_fill(self._search(inp, chosen, 1).ids[:, 0], most),)

        (tar,) = _in_chunks(
            rows, lengths, self._search_tokens, search, [tf.zeros([number, most], tf.int32)]
        )
        tar = tar[:, : _largest(tf.reduce_sum(tf.cast(tar != PAD, tf.int32), axis=1))]  # (N, T)

        def look(chosen):
            real = tf.gather(tar, chosen)  # (n, T)
            _, weights = self._forced(inp, chosen, real)
            blocks = [
                weights[f"decoder_layer{i + 1}_block2"] for i in range(self._model.num_layers)
            ]
            written = tf.cast(real != PAD, tf.float32)[
                :, tf.newaxis, tf.newaxis, :, tf.newaxis
            ]  # (n, 1, 1, T, 1)
            weights = tf.stack(blocks, axis=1) * written  # (n, L, H, T, S)
            source = self._source.pieces_of(tf.gather(inp, chosen).to_tensor(PAD))
            translations = _valid(self._target.decode(real))
            return (
                translations,
                _fill(source, longest),
                self._target.pieces_of(real),
                _fill(weights, longest),
            )

        shape = [
            number,
            self._model.num_layers,
            self._model.num_heads,
            tf.shape(tar)[1],
            longest,
        ]
        nothing = [
            tf.fill([number], ""),
            tf.fill([number, longest], ""),
            tf.fill(tf.shape(tar), ""),
            tf.zeros(shape),
        ]
        return _in_chunks(rows, lengths, SCORED_TOKENS, look, nothing)

    @property
    def _search_tokens(self):
        return self._decode.decode_batch_tokens // self._decode.beam_size

    def _encode(self, text, tokenizer=None):
        """Strings `[N]` -> ragged ids, their lengths `[N]`, and which are blank `[N]`."""
        ids = (tokenizer or self._source).encode(_valid(text))
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return ids, lengths, lengths <= 1  # only the end symbol

    def _search(self, inp, chosen, n_best):
        return search_translations(
            self._model, tf.gather(inp, chosen).to_tensor(PAD), self._decode, n_best
        )

    def _forced(self, inp, chosen, real):
        """Logits `[n, T, V]` and attention weights of the chosen sources with given target ids `[n, T]`."""
        shifted = tf.concat(
            [tf.fill([tf.shape(real)[0], 1], START), real[:, :-1]], axis=1
        )  # (n, T)
        return self._model(tf.gather(inp, chosen).to_tensor(PAD), shifted, training=False)


def _in_chunks(rows, lengths, tokens, run, results):
    """Runs a function on rows of about the same length together, the longest first, and puts what it returns into their places.

    Args:
      rows: int `[r]`, the numbers of the rows to run on.
      lengths: int32 `[N]`, of all rows.
      tokens: most tokens of a chunk, padding included; a chunk has one row at least.
      run: a function of the numbers of a chunk's rows `[n]` that returns tensors `[n, ...]`.
      results: the results where it does not run, `[N, ...]`.
    Returns: a list of all results, `[N, ...]`.
    """
    order = tf.gather(rows, tf.argsort(tf.gather(lengths, rows), direction="DESCENDING"))

    def run_chunk(i, *results):
        chosen = order[i : i + tf.maximum(tokens // lengths[order[i]], 1)]
        places = chosen[:, tf.newaxis]
        return i + tf.size(chosen), *(
            tf.tensor_scatter_nd_update(old, places, new) for old, new in zip(results, run(chosen))
        )

    return list(
        tf.while_loop(
            lambda i, *_: i < tf.size(order), run_chunk, (0, *results), parallel_iterations=1
        )[1:]
    )


def _largest(lengths):
    """The largest of int32 `[n]`, 0 where n is 0."""
    return tf.maximum(tf.reduce_max(lengths), 0)


def _fill(x, width):
    """Fills the last dimension up with zeros or empty strings."""
    missing = [[0, 0]] * (len(x.shape) - 1) + [[0, width - tf.shape(x)[-1]]]
    return tf.pad(x, missing, constant_values="" if x.dtype == tf.string else 0)


def _valid(text):
    """Strings whose bytes are UTF-8: what was none becomes U+FFFD."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
