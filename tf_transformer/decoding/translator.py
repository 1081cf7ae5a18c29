"""`Translator`: tokenizer, model and search; text in, text out."""

import contextlib

import numpy as np
import tensorflow as tf
import tqdm

from tf_transformer.checkpoints.loading import load_model
from tf_transformer.decoding.kv_cache import make_decode_step
from tf_transformer.decoding.scores import is_possible
from tf_transformer.decoding.search import beam_search, greedy_search
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END, PAD, START


def search_translations(model, inp, decode, n_best=1):
    """Searches the translations of a batch; runs in a graph.

    Args:
      model: a built `Transformer`.
      inp: source ids `[B, S]`, each ending with the end token, then padding.
      decode: a `DecodeConfig`.
      n_best: hypotheses wanted for each sentence, at most `decode.beam_size`.
    Returns: a `SearchResult`.
    """
    step, state = make_decode_step(model, inp, decode.beam_size)
    input_lengths = tf.reduce_sum(tf.cast(inp != PAD, tf.int32), axis=1) - 1  # without END
    max_lengths = tf.minimum(input_lengths + decode.extra_decode_length, model.pe_target)  # (B)
    if decode.beam_size == 1:
        return greedy_search(step, state, max_lengths, decode.length_penalty)
    return beam_search(step, state, max_lengths, decode.beam_size, decode.length_penalty, n_best)


class Translator:
    """Translates text with a trained model.

    Args:
      model: a built `Transformer`.
      tokenizers: of the source and of the target.
      decode: a `DecodeConfig`.
    """

    def __init__(self, model, tokenizers, decode):
        self.model = model
        self.decode = decode
        self.source, self.target = tokenizers
        self._searches = {}  # number of translations -> tf.function

    @classmethod
    def load(cls, model_dir, checkpoint=None, **decode):
        """Loads a model folder.

        Args:
          model_dir: a folder written by `tf-transformer train`.
          checkpoint: "averaged", "best", "latest", or a path; None for the first of these that
            exists.
          **decode: fields of `DecodeConfig` to change, such as `beam_size=1`.
        Raises: UserError when there is no model, or it is damaged.
        """
        model, tokenizers, config = load_model(model_dir, checkpoint)
        return cls(model, tokenizers, config.replace(**decode).decode)

    def __call__(self, text):
        """Translates a string, or a list of strings. Blank text stays empty."""
        texts = [text] if isinstance(text, str) else list(text)
        translations = [best[0][0] for best in self.n_best(texts, 1)]
        return translations[0] if isinstance(text, str) else translations

    def n_best(self, texts, number, progress=False):
        """Translates texts, with several translations of each, best first.

        Args:
          texts: a list of strings.
          number: translations of each, at most the beam size.
          progress: whether to show a progress bar on standard error.
        Returns: a list; for each text `number` pairs (translation, score), or fewer where the
          search found fewer. The score is the log-probability in nats divided by the length
          penalty. Blank text gives `[("", 0.0)]`.
        Raises: UserError for a text with more sub-words than the model has positions, or a number
          above the beam size.
        """
        if not 1 <= number <= self.decode.beam_size:
            size = self.decode.beam_size
            raise UserError(f"{number} translations of a beam of {size}: give a larger --beam_size")
        ids = self.source.encode(list(texts)).to_list() if texts else []
        for line, row in enumerate(ids, start=1):
            if len(row) > self.model.pe_input:
                raise UserError(
                    f"line {line} has {len(row):,} sub-words, the model takes at most "
                    f"{self.model.pe_input:,}: split the line"
                )
        results = [[("", 0.0)] for _ in texts]
        bar = tqdm.tqdm(total=len(ids), unit="line", disable=not progress, leave=False)
        with contextlib.closing(bar):
            for batch in self._batches(ids):
                found = self._search(number)(_pad([ids[i] for i in batch]))
                for row, i in enumerate(batch):
                    results[i] = self._hypotheses(found, row)
                bar.update(len(batch))
        return results

    def attention(self, text, translation=None):
        """Computes the attention weights of a sentence and its translation.

        Args:
          text: a string.
          translation: a string; None for the model's own translation.
        Returns: source sub-words (S), target sub-words (T), and the attention weights as numpy
          arrays by name: `encoder_layer1 [H, S, S]`, `decoder_layer1_block1 [H, T, T]` over the
          target, `decoder_layer1_block2 [H, T, S]` over the source, and so on. Row t of the
          decoder's weights is where the model attends when it predicts target sub-word t.
        """
        translation = self(text) if translation is None else translation
        inp = self.source.encode([text]).to_tensor()  # (1, S)
        tar = self.target.encode([translation]).to_tensor()  # (1, T)
        tar_inp = tf.concat([[[START]], tar[:, :-1]], axis=1)  # (1, T)
        _, weights = self.model.decoder_output(inp, tar_inp)
        weights = {**self.model.encoder.attention_weights(inp), **weights}
        source, target = self.source.pieces(inp[0]), self.target.pieces(tar[0])
        return source, target, {name: weight[0].numpy() for name, weight in weights.items()}

    def _batches(self, ids):
        """Groups the texts that are not blank by length, longest first.

        An out-of-memory error then comes with the first batch.

        Yields: lists of indices into `ids`.
        """
        order = sorted((i for i, row in enumerate(ids) if len(row) > 1), key=lambda i: -len(ids[i]))
        while order:
            tokens = len(ids[order[0]]) * self.decode.beam_size
            rows = max(1, self.decode.decode_batch_tokens // tokens)
            yield order[:rows]
            order = order[rows:]

    def _search(self, number):
        """The compiled search for `number` translations."""
        if number not in self._searches:
            self._searches[number] = tf.function(
                lambda inp: search_translations(self.model, inp, self.decode, number),
                input_signature=[tf.TensorSpec([None, None], tf.int32)],
                autograph=False,
            )
        return self._searches[number]

    def _hypotheses(self, found, row):
        """The (translation, score) pairs of one sentence of a `SearchResult`."""
        texts = self.target.decode(found.ids[row]).numpy()
        scores = found.scores[row].numpy()
        pairs = [
            (text.decode("utf-8", "replace"), float(score))
            for text, score in zip(texts, scores)
            if is_possible(score)
        ]
        return pairs or [("", float("-inf"))]  # a model whose logits are not finite


def _pad(rows):
    """Lists of ids -> int32 `[B, S]`."""
    assert all(row[-1] == END for row in rows)
    batch = np.full((len(rows), max(map(len, rows))), PAD, np.int32)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return tf.constant(batch)
