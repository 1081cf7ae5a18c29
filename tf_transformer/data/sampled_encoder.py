"""Sub-word regularisation: draws a segmentation of each word at random.

SentencePiece can do it too, but its random numbers differ from process to process in version 0.2.3,
so a run could not be resumed exactly.

A word is a sub-word that begins with a blank, and the sub-words up to the next one. The ids are
those of the same text by construction. The processes that encode a corpus import this module. It
does not import TensorFlow.
"""

from typing import Any, NamedTuple

import numpy as np

from tf_transformer.data.encoded_pairs import Shard
from tf_transformer.data.segmentation import BpeDropout, UnigramSampling, Vocabulary


class SampledChunk(NamedTuple):
    """Pairs to encode at a time."""

    key: tuple[int, ...]  # from which the random numbers are computed
    pairs: Shard  # with the usual ids


class SampledEncoder:
    """Encodes sentence pairs with segmentations that are drawn at random.

    The ids are a function of the pairs, the key and the arguments. A side keeps its usual ids where
    the others would be too long.

    Args:
      models: the SentencePiece models of the source and of the target, bytes.
      alpha: of `BpeDropout`, or of `UnigramSampling` where a vocabulary is a unigram one.
      max_length: maximum length of a side, in sub-words, end token included.
    """

    def __init__(self, models: tuple[bytes, bytes], alpha: float, max_length: int) -> None:
        self._arguments = (models, alpha, max_length)
        self._alpha = alpha
        self._max_length = max_length
        sides = {model: _Side(model, alpha, max_length) for model in set(models)}
        self._sides = [sides[model] for model in models]

    def __reduce__(self) -> tuple[Any, ...]:
        return SampledEncoder, self._arguments

    def encode(self, chunk: SampledChunk) -> Shard:
        """Encodes pairs.

        Args:
          chunk: a `SampledChunk` of at least one pair.
        Returns: a `Shard` of the same pairs.
        """
        random = np.random.default_rng(chunk.key)
        pairs = chunk.pairs
        usual_lengths = np.diff(pairs.splits).astype(np.int64)  # (2 * pairs)
        lengths = np.empty_like(usual_lengths)
        is_target = np.arange(len(lengths)) % 2
        of_sides = []
        for number, side in enumerate(self._sides):
            ids = pairs.ids[np.repeat(is_target, usual_lengths) == number]
            drawn, lengths[number::2] = side.encode(ids, usual_lengths[number::2], random)
            of_sides.append(drawn)
        side_of_id = np.repeat(is_target, lengths)
        ids = np.empty(len(side_of_id), pairs.ids.dtype)
        for number, drawn in enumerate(of_sides):
            ids[side_of_id == number] = drawn
        splits = np.append(0, np.cumsum(lengths)).astype(np.uint32)
        return Shard(ids, splits, {}, pairs.weights)


class _Side:
    """Encodes the sentences of one vocabulary; arguments as for `SampledEncoder`."""

    def __init__(self, model: bytes, alpha: float, max_length: int) -> None:
        vocabulary = Vocabulary(model)
        self._is_text = vocabulary.is_text
        self._begins_word = vocabulary.begins_word
        self._characters = vocabulary.characters
        self._max_length = max_length
        kinds: dict[str, type[BpeDropout] | type[UnigramSampling]] = {
            "bpe": BpeDropout,
            "unigram": UnigramSampling,
        }
        self._segmentation = kinds[vocabulary.kind](vocabulary, alpha)

    def encode(
        self, ids: np.ndarray, lengths: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encodes sentences again.

        Args:
          ids: the usual ones of all sentences, `[tokens]`.
          lengths: sub-words of each sentence, int64 `[sentences]`.
          random: the random numbers.
        Returns: the new ids and lengths.
        """
        starts = self._word_starts(ids, lengths)  # (words)
        ends = np.append(starts[1:], len(ids))
        characters = np.add.reduceat(self._characters[ids], starts)
        # The words that change, and their new ids as bytes.
        words, new = self._segmentation.draw(ids, starts, ends, characters, random)
        new_sizes = np.array([len(each) for each in new], np.int64) // ids.itemsize
        growth = new_sizes - (ends - starts)[words]
        sentence = np.searchsorted(np.cumsum(lengths), starts[words], side="right")
        new_lengths = lengths + _sums(sentence, growth, len(lengths))
        fits = (new_lengths <= self._max_length)[sentence]
        new_lengths = lengths + _sums(sentence[fits], growth[fits], len(lengths))

        width = ids.itemsize
        content = ids.tobytes()
        parts = []
        done = 0
        changed = [replacement for replacement, fit in zip(new, fits) if fit]
        places = (starts[words[fits]] * width).tolist(), (ends[words[fits]] * width).tolist()
        for start, end, replacement in zip(*places, changed):
            parts += [content[done:start], replacement]
            done = end
        parts.append(content[done:])
        return np.frombuffer(b"".join(parts), ids.dtype), new_lengths

    def _word_starts(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Returns the indices at which words begin, int `[words]`.

        What is not text, such as the end token, a tag, or a byte, is a word of its own.
        """
        is_text = self._is_text[ids]
        begins = self._begins_word[ids] | ~is_text
        begins[1:] |= ~is_text[:-1]
        begins[np.cumsum(lengths) - lengths] = True
        return np.flatnonzero(begins)


def _sums(groups: np.ndarray, values: np.ndarray, number: int) -> np.ndarray:
    """The sum of the values of each group, int64 `[number]`."""
    return np.bincount(groups, values, minlength=number).astype(np.int64)
