"""Draws segmentations of words: BPE-dropout, and sampling with a unigram model."""

import itertools
import math
from typing import Any

import numpy as np
from sentencepiece import sentencepiece_model_pb2

messages: Any = sentencepiece_model_pb2  # whose classes are made when it is imported
BLANK = "\u2581"
MAX_REMEMBERED = 500_000  # segmentations: about 150 MB
MAX_SKIPPED = 255

Drawn = tuple[np.ndarray, list[bytes]]  # indices of words, and the new ids of each


class Vocabulary:
    """The sub-words of a SentencePiece model.

    Args:
      model: the model, bytes.

    Attributes:
      kind: "bpe", "unigram", or another one.
      pieces: the sub-words by id.
      scores: the score of each sub-word that is text; of BPE, the earlier merge has the larger.
      ids: the id of each of them.
      is_text: whether an id is text, bool `[ids]`. Special tokens, tags and bytes are not.
      begins_word: whether it begins with a blank, bool `[ids]`.
      characters: their number, int64 `[ids]`; 1 where it is not text.
    """

    def __init__(self, model: bytes) -> None:
        proto = messages.ModelProto.FromString(model)
        spec = proto.trainer_spec
        self.kind = str(messages.TrainerSpec.ModelType.Name(spec.model_type)).lower()
        self.pieces = [piece.piece for piece in proto.pieces]
        normal = messages.ModelProto.SentencePiece.NORMAL
        text = [piece.type == normal for piece in proto.pieces]
        self.ids = {self.pieces[i]: i for i in itertools.compress(range(len(text)), text)}
        self.scores = {piece: proto.pieces[i].score for piece, i in self.ids.items()}
        self.is_text = np.array(text)
        self.begins_word = np.array([piece.startswith(BLANK) for piece in self.pieces])
        characters = [len(piece) if is_text else 1 for piece, is_text in zip(self.pieces, text)]
        self.characters = np.array(characters)


class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020, arXiv:1910.13267, Algorithm 1).

    BPE begins with characters. In each step it merges the two neighbours that have the best merge.
    Here, in each step, each possible merge is left out with probability p. So the best k merges are
    left out with probability p^k (1 - p), and if all are, the segmentation ends.

    Args:
      vocabulary: a `Vocabulary`.
      dropout: p.
    """

    def __init__(self, vocabulary: Vocabulary, dropout: float) -> None:
        self._vocabulary = vocabulary
        self._dropout = dropout
        # The segmentation of a word by its ids and by how many merges each step leaves out.
        self._remembered: dict[tuple[bytes, bytes], bytes] = {}
        self._texts: dict[bytes, str | None] = {}  # of words by their ids

    def draw(
        self,
        ids: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        characters: np.ndarray,
        random: np.random.Generator,
    ) -> Drawn:
        """Draws segmentations.

        Args:
          ids: the usual ids of a text, `[tokens]`.
          starts, ends: the range of each word, int `[words]`.
          characters: of each word, int `[words]`.
          random: the random numbers.
        Returns: the indices of the words that may differ, and their new ids as bytes.
        """
        last_steps = np.cumsum(characters - 1)  # a word of n characters has at most n - 1 merges
        skipped = random.geometric(1 - self._dropout, last_steps[-1]) - 1
        skipped = np.minimum(skipped, MAX_SKIPPED).astype(np.uint8)
        # Where no merge is left out, the segmentation is the usual one.
        words = np.unique(np.searchsorted(last_steps, np.flatnonzero(skipped), side="right"))
        content, steps, width = ids.tobytes(), skipped.tobytes(), ids.itemsize
        last = last_steps[words]
        bounds = zip(
            (starts[words] * width).tolist(),
            (ends[words] * width).tolist(),
            (last - characters[words] + 1).tolist(),
            last.tolist(),
        )
        new = [self._segment(content[a:b], steps[c:d], ids.dtype) for a, b, c, d in bounds]
        return words, new

    def _segment(self, word: bytes, skipped: bytes, dtype: np.dtype) -> bytes:
        """Returns the ids of a word for the numbers of merges that its steps leave out."""
        known = self._remembered.get((word, skipped))
        if known is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
                self._texts.clear()
            if word not in self._texts:
                self._texts[word] = self._text(np.frombuffer(word, dtype))
            text = self._texts[word]
            known = word
            if text is not None:
                ids = [self._vocabulary.ids[piece] for piece in self._merge(text, skipped)]
                known = np.array(ids, dtype).tobytes()
            self._remembered[word, skipped] = known
        return known

    def _text(self, ids: np.ndarray) -> str | None:
        """Returns the text of a word; None where its usual ids must stay.

        So it is where not all characters are sub-words, and where the vocabulary has rules that are
        not in its scores.
        """
        usual = [self._vocabulary.pieces[i] for i in ids]
        text = "".join(usual)
        is_usual = self._merge(text, bytes(len(text) - 1)) == usual
        return text if is_usual and self._vocabulary.ids.keys() >= set(text) else None

    def _merge(self, word: str, skipped: bytes) -> list[str]:
        """Merges the characters of a word. Returns: its sub-words."""
        scores = self._vocabulary.scores
        symbols = list(word)
        for number in skipped:
            merges = [
                (-scores[pair], left)
                for left, pair in enumerate(map("".join, itertools.pairwise(symbols)))
                if pair in scores
            ]
            if number >= len(merges):
                break
            _, left = min(merges) if number == 0 else sorted(merges)[number]
            symbols[left : left + 2] = ["".join(symbols[left : left + 2])]
        return symbols


class UnigramSampling:
    """Sub-word sampling (Kudo 2018, arXiv:1804.10959, Eq. 6) from all segmentations of a word.

    A segmentation x of a word has the probability P(x)^alpha, normalised, where P(x) is the product
    of the probabilities of its sub-words. No sub-word spans two words, so this is the same as for
    sentences.

    Args:
      vocabulary: a `Vocabulary`.
      alpha: 1 for the probabilities of the model; a smaller one for more uniform ones.
    """

    def __init__(self, vocabulary: Vocabulary, alpha: float) -> None:
        self._vocabulary = vocabulary
        self._alpha = alpha
        self._longest = max(map(len, vocabulary.ids))
        self._remembered: dict[bytes, _Lattice] = {}

    def draw(
        self,
        ids: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        characters: np.ndarray,
        random: np.random.Generator,
    ) -> Drawn:
        """Draws segmentations, as `BpeDropout.draw`."""
        words = np.flatnonzero(characters > 1)
        last = np.cumsum(characters[words])
        uniform = random.random(last[-1] if len(last) else 0).tolist()
        content, width = ids.tobytes(), ids.itemsize
        bounds = zip(
            (starts[words] * width).tolist(),
            (ends[words] * width).tolist(),
            (last - characters[words]).tolist(),
        )
        new = [
            np.array(self._lattice(content[a:b], ids.dtype).draw(uniform, c), ids.dtype).tobytes()
            for a, b, c in bounds
        ]
        return words, new

    def _lattice(self, word: bytes, dtype: np.dtype) -> "_Lattice":
        lattice = self._remembered.get(word)
        if lattice is None:
            if len(self._remembered) >= MAX_REMEMBERED // 10:
                self._remembered.clear()
            text = "".join(self._vocabulary.pieces[i] for i in np.frombuffer(word, dtype))
            lattice = _Lattice(text, self._vocabulary, self._alpha, self._longest)
            self._remembered[word] = lattice
        return lattice


class _Lattice:
    """All segmentations of a word, for forward filtering and backward sampling.

    Args:
      text: the word.
      vocabulary, alpha: as for `UnigramSampling`.
      longest: characters of the longest sub-word.
    """

    def __init__(self, text: str, vocabulary: Vocabulary, alpha: float, longest: int) -> None:
        # For each end of a sub-word: its start, its id, and the sum of the probabilities up to it.
        self._edges: list[list[tuple[int, int, float]]] = [[]]
        weights = [0.0]  # logarithm of the summed weights of the segmentations of text[:end]
        for end in range(1, len(text) + 1):
            edges = []
            for start in range(max(0, end - longest), end):
                piece = text[start:end]
                if piece in vocabulary.ids and weights[start] > -math.inf:
                    weight = weights[start] + alpha * vocabulary.scores[piece]
                    edges.append((start, vocabulary.ids[piece], weight))
            top = max((weight for *_, weight in edges), default=-math.inf)
            total = sum(math.exp(weight - top) for *_, weight in edges)
            sums = itertools.accumulate(math.exp(weight - top) / total for *_, weight in edges)
            self._edges.append([(start, i, upto) for (start, i, _), upto in zip(edges, sums)])
            weights.append(top + math.log(total) if edges else -math.inf)

    def draw(self, uniform: list[float], index: int) -> list[int]:
        """Draws a segmentation.

        Args:
          uniform: random numbers between 0 and 1.
          index: of the first to use; one for each character of the word is enough.
        Returns: its ids.
        """
        ids = []
        end = len(self._edges) - 1
        while end:
            number = uniform[index]
            index += 1
            edges = self._edges[end]
            end, piece, _ = next((edge for edge in edges if number < edge[2]), edges[-1])
            ids.append(piece)
        return ids[::-1]
