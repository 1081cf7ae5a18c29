"""Translator: tokenizer + model + search; text in, text out."""

import contextlib

import numpy as np
import tensorflow as tf
import tqdm

from tf_transformer import checkpoint
from tf_transformer.config import END, PAD, START, UserError
from tf_transformer.masks import create_look_ahead_mask, create_padding_mask
from tf_transformer.search import beam_search, greedy_search


def make_step(model, inp, hypotheses):
    """The step function of a model for a batch, as `search` wants it, and its first state.

    Args:
      model: a `Transformer`.
      inp: source ids `[B, S]`, ending with the end symbol, then padding.
      hypotheses: K', of each sentence.
    Returns: the function, the state.
    """
    padding_mask = create_padding_mask(inp)  # (B, 1, 1, S)
    memory = model.decoder.memory(model.encoder(inp, False, padding_mask))
    past, fused = model.decoder.no_past(tf.shape(inp)[0], hypotheses), model.decoder.fused_projections()

    def step(ids, position, parents, state):
        past, memory, padding_mask = state
        x, past = model.decoder.step(ids, position, parents, past, memory, padding_mask, fused)  # (B, K', D)
        return model.logits(x), (past, memory, padding_mask)  # (B, K', V)

    return step, (past, memory, padding_mask)


def search_translations(model, inp, decode, n_best=1):
    """Searches the translations of a batch; runs in a graph.

    Args:
      model: a `Transformer`.
      inp: source ids `[B, S]`, ending with the end symbol, then padding.
      decode: a `DecodeConfig`.
      n_best: hypotheses wanted for each sentence, at most `decode.beam_size`.
    Returns: a `SearchResult`.
    """
    step, state = make_step(model, inp, decode.beam_size)
    input_lengths = tf.reduce_sum(tf.cast(inp != PAD, tf.int32), axis=1) - 1  # (B), without the end symbol
    limits = tf.minimum(input_lengths + decode.extra_length, model.settings["pe_target"])  # (B)
    if decode.beam_size == 1:
        return greedy_search(step, state, limits, decode.alpha)
    return beam_search(step, state, limits, decode.beam_size, decode.alpha, n_best)


class Translator:
    """Translates text with a trained model.

    Args:
      model: a `Transformer`.
      tokenizers: of the source and of the target.
      decode: a `DecodeConfig`.
    """

    def __init__(self, model, tokenizers, decode):
        self.model, self.decode = model, decode
        self.source, self.target = tokenizers
        self._searches = {}

    @classmethod
    def load(cls, model_dir, choice=None, **decode):
        """Reads a model folder.

        Args:
          model_dir: as `train` wrote it.
          choice: "averaged", "best", "latest", or a checkpoint's path; None for the first of these that is there.
          **decode: settings of `DecodeConfig` to change, such as `beam_size=1`.
        Raises: UserError when there is no model, or it is damaged.
        """
        model, tokenizers, config = checkpoint.load_model(model_dir, choice)
        return cls(model, tokenizers, config.replace(**decode).decode)

    def __call__(self, text):
        """Translates a string, or a list of strings. Blank text stays empty."""
        texts = [text] if isinstance(text, str) else list(text)
        translations = [best[0][0] for best in self.n_best(texts, 1)]
        return translations[0] if isinstance(text, str) else translations

    def n_best(self, texts, number, progress=False):
        """The best translations of each text, best first.

        Args:
          texts: a list of strings.
          number: translations of each, at most the beam size.
          progress: whether to show a progress bar on stderr.
        Returns: a list, for each text, of `number` (translation, score) or fewer where the search found fewer. The score is the
          log-probability in nats over the length penalty. Blank text gives `[("", 0.0)]`.
        Raises: UserError when a text is longer than the model's positions, or number is more than the beam size.
        """
        if not 1 <= number <= self.decode.beam_size:
            raise UserError(f"{number} translations wanted of a beam of {self.decode.beam_size}: give a larger --beam_size")
        ids = [row for row in self.source.encode(list(texts)).to_list()] if texts else []
        longest = self.model.settings["pe_input"]
        for line, row in enumerate(ids, start=1):
            if len(row) > longest:
                raise UserError(f"line {line} has {len(row):,} sub-words, the model takes {longest:,} at most: divide it")
        results = [[("", 0.0)] for _ in texts]
        with contextlib.closing(tqdm.tqdm(total=len(ids), unit="line", disable=not progress, leave=False)) as bar:
            for batch in self._batches(ids):
                found = self._search(number)(_pad([ids[i] for i in batch]))
                for place, i in enumerate(batch):
                    results[i] = self._read(found, place)
                bar.update(len(batch))
        return results

    def attention(self, text, translation=None):
        """What each word looks at.

        Args:
          text: a string.
          translation: a string; None for the model's own.
        Returns: source sub-words (S), target sub-words (T), and the attention weights as numpy arrays by name: `encoder_layer1 [H, S, S]`
          and, by the names of the reference, `decoder_layer1_block1 [H, T, T]` on the target, `decoder_layer1_block2 [H, T, S]` on the
          source, and so on. Row t of the decoder's is where the model looks when it writes target sub-word t.
        """
        translation = self(text) if translation is None else translation
        inp, tar = (tokenizer.encode([t]).to_tensor() for tokenizer, t in ((self.source, text), (self.target, translation)))
        shifted = tf.concat([[[START]], tar[:, :-1]], axis=1)  # (1, T)
        x, weights = self.model.encoder.embed(inp, 0, False), {}
        for i, layer in enumerate(self.model.encoder.stack):
            weights[f"encoder_layer{i + 1}"] = layer.mha(x, x, x, None)[1]  # (1, H, S, S)
            x = layer(x, False, None)  # (1, S, D)
        weights |= self.model.decoder(shifted, x, False, create_look_ahead_mask(tf.shape(shifted)[1]), None)[1]
        pieces = self.source.pieces(inp[0]), self.target.pieces(tar[0])
        return *pieces, {name: weight[0].numpy() for name, weight in weights.items()}

    def _batches(self, ids):
        """Numbers of the texts that are not blank, of about the same length together, longest first (so memory runs out early)."""
        order = sorted((i for i, row in enumerate(ids) if len(row) > 1), key=lambda i: -len(ids[i]))
        while order:
            rows = max(1, self.decode.batch_tokens // (len(ids[order[0]]) * self.decode.beam_size))
            yield order[:rows]
            order = order[rows:]

    def _search(self, number):
        if number not in self._searches:
            signature = [tf.TensorSpec([None, None], tf.int32)]
            search = lambda inp: search_translations(self.model, inp, self.decode, number)  # noqa: E731
            self._searches[number] = tf.function(search, input_signature=signature, autograph=False)
        return self._searches[number]

    def _read(self, found, place):
        texts = self.target.decode(found.ids[place]).numpy()
        pairs = zip(texts, found.scores[place].numpy())
        found = [(text.decode("utf-8", "replace"), float(score)) for text, score in pairs if score > -1e8]
        return found or [("", float("-inf"))]  # of a model whose logits are no numbers


def _pad(rows):
    assert all(row[-1] == END for row in rows)
    batch = np.full((len(rows), max(map(len, rows))), PAD, np.int32)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return tf.constant(batch)
