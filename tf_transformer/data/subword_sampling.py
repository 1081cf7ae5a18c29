"""Sub-word regularisation: the words of a corpus are divided into sub-words at random.

All pairs are encoded anew for each epoch, from their usual ids: pair i of an epoch is pair i of the
corpus, and no text is read again. A word is a sub-word that begins with a blank, and the sub-words
up to the next one.

SentencePiece samples too, but the random numbers of version 0.2.3 differ from process to process,
whatever the seed, so a run could not be resumed exactly, and the workers of a run would have other
ids. Those of Python's `random.Random` are the same in all its versions. The processes that sample
import this module, which does not import TensorFlow.
"""

import bisect
import functools
import glob
import itertools
import math
import multiprocessing
import os
import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

import numpy as np
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.config import SAMPLING, DataConfig
from tf_transformer.data.corpus import digest
from tf_transformer.data.encoding import EncodedPairs, Shard, open_or_write_shards
from tf_transformer.errors import UserError
from tf_transformer.host import number_of_cores
from tf_transformer.special_tokens import BLANK

if TYPE_CHECKING:  # it imports TensorFlow
    from tf_transformer.data.tokenizer import Tokenizer

CHUNK = 8192  # pairs that are sampled at a time
REMEMBERED = 200_000  # words, and segmentations, of which the result is kept

Word = tuple[int, ...]  # its ids
# The sub-words that end at a place, as (start, id), and the running sum of their probabilities.
_Edges = tuple[list[tuple[int, int]], list[float]]


def sampling_alpha(data: DataConfig, tokenizers: "tuple[Tokenizer, Tokenizer]") -> float:
    """Returns the `alpha` of `SubwordSampler` for the settings of a run; 0 for none.

    Raises: UserError when a vocabulary is of another kind, as one of an imported model can be.
    """
    name = SAMPLING[data.subword_model]
    alpha = float(getattr(data, name))
    if not alpha:
        return 0.0
    kinds = [tokenizer.subword_model for tokenizer in tokenizers]
    if kinds != [data.subword_model] * 2:
        raise UserError(
            f"{name} is for {data.subword_model} vocabularies, and that of the source is "
            f"{kinds[0]}, that of the target {kinds[1]}: leave it out"
        )
    return alpha


class SubwordSampler:
    """Draws other ids of the same text.

    Args:
      model: a SentencePiece model, bytes.
      alpha: the dropout p of a BPE model, or the alpha of a unigram one.
      max_length: of a sentence. One that would be longer keeps its usual ids.
    """

    def __init__(self, model: bytes, alpha: float, max_length: int) -> None:
        proto = messages.ModelProto.FromString(model)
        self._alpha = alpha
        self._max_length = max_length
        self._pieces = [piece.piece for piece in proto.pieces]
        # Special tokens, tags and bytes are no text, and are words of their own.
        normal = messages.ModelProto.SentencePiece.NORMAL
        self._is_text = [piece.type == normal for piece in proto.pieces]
        self._begins_word = [
            not is_text or piece.startswith(BLANK)
            for piece, is_text in zip(self._pieces, self._is_text)
        ]
        self._ids = {self._pieces[i]: i for i, is_text in enumerate(self._is_text) if is_text}
        # Of BPE, the earlier merge has the larger score.
        self._scores = {piece: proto.pieces[i].score for piece, i in self._ids.items()}
        self._longest = max(map(len, self._ids), default=0)
        is_bpe = proto.trainer_spec.model_type == messages.TrainerSpec.BPE
        self._draw = self._draw_bpe if is_bpe else self._draw_unigram
        self._remembered_text = functools.lru_cache(REMEMBERED)(self._changeable_text)
        self._remembered_merge = functools.lru_cache(REMEMBERED)(self._merge)
        self._remembered_lattice = functools.lru_cache(REMEMBERED // 10)(self._lattice)

    def sample(self, ids: list[int], uniform: Callable[[], float]) -> list[int]:
        """Draws the ids of a sentence.

        Args:
          ids: the usual ones.
          uniform: returns a random number from 0 to 1, 1 excluded.
        """
        drawn: list[int] = []
        start = 0
        for end in range(1, len(ids) + 1):
            if end == len(ids) or self._begins_word[ids[end]] or not self._is_text[ids[start]]:
                word = tuple(ids[start:end])
                drawn += self._draw(word, uniform) if self._is_text[word[0]] else word
                start = end
        return drawn if len(drawn) <= self._max_length else ids

    def _text(self, word: Word) -> str:
        """The text of a word, with a blank before it."""
        return "".join(self._pieces[number] for number in word)

    def _draw_bpe(self, word: Word, uniform: Callable[[], float]) -> Word:
        """BPE-dropout (Provilkov et al. 2020, arXiv:1910.13267, Algorithm 1).

        BPE begins with characters. In each step it merges the two neighbours that have the best
        merge. Here, in each step, each possible merge is left out with probability p. So the best k
        merges are left out with probability p^k (1 - p), and if all are, the segmentation ends.
        """
        text = self._remembered_text(word)
        # A word of n characters has at most n - 1 merges. The numbers are geometric.
        uniform_numbers = [1 - uniform() for _ in text[1:]]
        if min(uniform_numbers, default=1.0) > self._alpha:
            return word
        scale = 1 / math.log(self._alpha)
        skipped = tuple(int(math.log(number) * scale) for number in uniform_numbers)
        return self._remembered_merge(text, skipped)

    def _changeable_text(self, word: Word) -> str:
        """The text of a word; "" where its usual ids must stay.

        So it is where not all characters are sub-words, and where the vocabulary has rules that are
        not in its scores.
        """
        text = self._text(word)
        known = self._ids.keys() >= set(text)
        return text if known and self._merge(text, (0,) * (len(text) - 1)) == word else ""

    def _merge(self, text: str, skipped: Word) -> Word:
        """Merges the characters of a word. `skipped` are the merges that each step leaves out."""
        symbols = list(text)
        for number in skipped:
            merges = sorted(
                (-self._scores[pair], left)
                for left, pair in enumerate(map("".join, itertools.pairwise(symbols)))
                if pair in self._scores
            )
            if number >= len(merges):
                break
            _, left = merges[number]
            symbols[left : left + 2] = ["".join(symbols[left : left + 2])]
        return tuple(self._ids[symbol] for symbol in symbols)

    def _draw_unigram(self, word: Word, uniform: Callable[[], float]) -> Word:
        """Draws one of all segmentations of a word (Kudo 2018, arXiv:1804.10959, Eq. 6).

        A segmentation x of a word has the probability P(x)^alpha, normalised, where P(x) is the
        product of the probabilities of its sub-words. No sub-word spans two words, so this is the
        same as for sentences. It is drawn from the end of the word to its start (forward filtering,
        backward sampling).
        """
        lattice = self._remembered_lattice(word)
        ids = []
        end = len(lattice) - 1
        while end:
            edges, sums = lattice[end]
            end, piece = edges[bisect.bisect(sums, uniform(), hi=len(sums) - 1)]
            ids.append(piece)
        return tuple(ids[::-1])

    def _lattice(self, word: Word) -> list[_Edges]:
        """Returns, for each end of a sub-word in the word, the sub-words that end there."""
        text = self._text(word)
        lattice: list[_Edges] = [([], [])]
        totals = [0.0]  # logarithm of the summed weights of the segmentations of text[:end]
        for end in range(1, len(text) + 1):
            edges, weights = [], []
            for start in range(max(0, end - self._longest), end):
                piece = text[start:end]
                if piece in self._ids and totals[start] > -math.inf:
                    edges.append((start, self._ids[piece]))
                    weights.append(totals[start] + self._alpha * self._scores[piece])
            top = max(weights, default=0.0)
            sums = list(itertools.accumulate(math.exp(weight - top) for weight in weights))
            lattice.append((edges, [each / sums[-1] for each in sums]))
            totals.append(top + math.log(sums[-1]) if sums else -math.inf)
        return lattice


def sample_pairs(samplers: Sequence[SubwordSampler], key: tuple[int, ...], pairs: Shard) -> Shard:
    """Draws the ids of pairs.

    Args:
      samplers: of the sources and of the targets.
      key: from which the random numbers are computed.
      pairs: with their usual ids.
    Returns: the same pairs, a function of the arguments.
    """
    uniform = random.Random(repr(key)).random
    usual = pairs.ids.tolist()
    drawn: list[int] = []
    splits = [0]
    for row, (start, end) in enumerate(itertools.pairwise(pairs.splits.tolist())):
        drawn += samplers[row % 2].sample(usual[start:end], uniform)
        splits.append(len(drawn))
    ids = np.array(drawn, pairs.ids.dtype)
    return Shard(ids, np.array(splits, np.uint32), {}, pairs.weights)


_samplers: list[SubwordSampler] = []  # of a process that samples: of the sources, of the targets


def _start_process(models: tuple[bytes, bytes], alpha: float, max_length: int) -> None:
    """Makes the samplers of this process, which ends with the one that has started it.

    Args: as for `SubwordSampler`, with the models of the sources and of the targets.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C on the terminal is for that one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _samplers[:] = [SubwordSampler(model, alpha, max_length) for model in models]


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _sample_in_process(key: tuple[int, ...], pairs: Shard) -> Shard:
    return sample_pairs(_samplers, key, pairs)


class PairSampler:
    """Draws the ids of the pairs of an epoch, and keeps them in memory-mapped files.

    Args:
      pairs: the `EncodedPairs` of the corpus, with the usual ids.
      tokenizers: of the source and of the target.
      alpha: of `SubwordSampler`.
      seed: of the run. The ids are a function of it, the epoch and the other arguments.
      cache: the folder in which each epoch has a folder of shards.

    Attributes:
      longest: sub-words of the longest sequence.
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        tokenizers: "tuple[Tokenizer, Tokenizer]",
        alpha: float,
        seed: int,
        cache: str,
    ) -> None:
        self._shards = [shard for shard in pairs.shards if len(shard)]
        self._seed = seed
        self.longest = max(int(shard.lengths.max()) for shard in self._shards)
        source, target = tokenizers
        self._arguments = ((source.model, target.model), alpha, self.longest)
        fingerprints = (source.fingerprint, target.fingerprint)
        key = digest("random.Random", pairs.checksum, *fingerprints, alpha, seed, CHUNK)
        self._prefix = os.path.join(cache, "epoch-")
        self._stem = f"{self._prefix}{key}-"

    def sample(self) -> Shard:
        """Encodes about `CHUNK` pairs, chosen at random, or all pairs of a small corpus."""
        choice = np.random.default_rng(self._seed)
        fraction = CHUNK / sum(map(len, self._shards))
        parts = [
            shard.slice(pair, pair + 1)
            for shard in self._shards
            for pair in np.flatnonzero(choice.random(len(shard)) < fraction).tolist()
        ]
        models, alpha, max_length = self._arguments
        samplers = [SubwordSampler(model, alpha, max_length) for model in models]
        return sample_pairs(samplers, (self._seed,), Shard.join(parts))

    def epoch(self, epoch: int, stopped: threading.Event) -> EncodedPairs:
        """Opens the shards of an epoch, after encoding them where they are not there.

        Args:
          epoch: its number, from 0.
          stopped: set it to end the encoding.
        Returns: an `EncodedPairs` of memory-mapped shards, with the pairs of the corpus in their
          order.
        Raises: InterruptedError when stopped; UserError when a process ends early.
        """
        return open_or_write_shards(f"{self._stem}{epoch}", lambda: self._draw(epoch, stopped))

    def _draw(self, epoch: int, stopped: threading.Event) -> Iterator[Shard]:
        """Yields the shards of an epoch. Those of others are removed, but for the one before."""
        kept = {f"{self._stem}{epoch - 1}"}
        for other in set(glob.glob(f"{glob.escape(self._prefix)}*")) - kept:
            shutil.rmtree(other, ignore_errors=True)
        # The other cores compute the updates of the epoch before.
        processes = max(1, number_of_cores() // 2)
        spawn = multiprocessing.get_context("spawn")  # a fork would copy locks of TensorFlow
        pool = ProcessPoolExecutor(processes, spawn, _start_process, self._arguments)
        try:
            for number, shard in enumerate(self._shards):
                firsts = range(0, len(shard), CHUNK)
                keys = [(self._seed, epoch, number, chunk) for chunk in range(len(firsts))]
                chunks = [shard.slice(first, first + CHUNK) for first in firsts]
                parts = []
                for part in pool.map(_sample_in_process, keys, chunks):
                    if stopped.is_set():
                        raise InterruptedError
                    parts.append(part)
                yield Shard.join(parts)
        except BrokenProcessPool:
            raise UserError(
                "a process that draws sub-words has ended; if memory is short, stop other "
                'programs. A script that trains needs `if __name__ == "__main__":` before its '
                "first call, because each process imports it. Start again: training continues "
                "where it stopped"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
