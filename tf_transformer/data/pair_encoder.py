"""Encodes lists of sentence pairs as ids, and drops unusable pairs (Sec. 5.1).

The processes that encode a large corpus import this module. It does not import TensorFlow, which
takes seconds and hundreds of megabytes.
"""

import itertools
import os
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import sentencepiece

from tf_transformer.data.corpus import WeightedPair
from tf_transformer.data.encoded_pairs import Shard
from tf_transformer.data.tags import split_tag, vocabulary_tags


class PairEncoder:
    """Encodes lists of sentence pairs. Its ids are those of `Tokenizer.encode`.

    Args:
      models: the SentencePiece models of the source and of the target, bytes.
      max_length: maximum length of a side that is kept, in sub-words, end token included.
      max_length_ratio: maximum ratio of the two lengths that is kept.
    """

    def __init__(
        self, models: tuple[bytes, bytes], max_length: int, max_length_ratio: float
    ) -> None:
        self._arguments = (models, max_length, max_length_ratio)
        self._max_length = max_length
        self._max_length_ratio = max_length_ratio
        processors = {
            model: sentencepiece.SentencePieceProcessor(model_proto=model) for model in set(models)
        }
        self._processors = [processors[model] for model in models]
        self._tags = vocabulary_tags(self._processors[0])
        sizes = [processor.get_piece_size() for processor in self._processors]
        self._dtype = np.uint16 if max(sizes) <= 2**16 else np.int32

    def __reduce__(self) -> tuple[Any, ...]:
        return PairEncoder, self._arguments

    def encode(self, pairs: Sequence[WeightedPair]) -> Shard:
        """Encodes pairs.

        Args:
          pairs: (source, target, weight); at least one. The weight None is 1.
        Returns: a `Shard` without the pairs that are not usable for training.
        """
        sources, targets, given = zip(*pairs)
        ids = [self._encode_sources(sources), self._encode(1, targets)]
        lengths = np.array([[len(row) for row in side] for side in ids], np.uint32).T  # (pairs, 2)
        keep, dropped = self._usable(lengths)
        splits = np.zeros(2 * np.count_nonzero(keep) + 1, np.uint32)
        np.cumsum(lengths[keep].ravel(), out=splits[1:])
        kept = itertools.compress(zip(*ids), keep)
        flat = itertools.chain.from_iterable(itertools.chain.from_iterable(kept))
        flat_ids = np.fromiter(flat, self._dtype, int(splits[-1]))
        weights = np.array([1.0 if weight is None else weight for weight in given], np.float32)[
            keep
        ]
        return Shard(flat_ids, splits, dropped, None if np.all(weights == 1) else weights)

    def _encode(self, side: int, texts: Sequence[str]) -> list[list[int]]:
        return self._processors[side].encode(list(texts), add_eos=True, num_threads=1)

    def _encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes sources, of which some begin with tags."""
        if not self._tags:
            return self._encode(0, texts)
        tags, sentences = zip(*(split_tag(text, self._tags) for text in texts))
        rows = self._encode(0, sentences)
        return [[self._tags[tag], *row] if tag else row for tag, row in zip(tags, rows)]

    def _usable(self, lengths: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
        """Finds the pairs to keep.

        Args:
          lengths: uint32 `[pairs, 2]`.
        Returns: bool `[pairs]`; the number of the other pairs for each reason. A pair counts under
          the first reason that applies.
        """
        longer, shorter = lengths.max(axis=1), lengths.min(axis=1)
        limit, ratio = self._max_length, self._max_length_ratio
        reasons = {
            "an empty side": shorter <= 1,  # only the end token
            f"a side of more than {limit} sub-words": longer > limit,
            f"one side more than {ratio:g} times the other": longer > ratio * shorter,
        }
        keep = np.ones(len(longer), bool)
        dropped = {}
        for reason, applies in reasons.items():
            dropped[reason] = int(np.sum(applies & keep))
            keep &= ~applies
        return keep, dropped


def serve() -> None:
    """Encodes what another process sends on standard input, until it closes the pipe.

    The first object is the encoder, such as a `PairEncoder`. The others are what it encodes; each
    is answered with a `Shard`. Objects are pickled.
    """
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    encoder = pickle.load(requests)
    while True:
        try:
            chunk = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(encoder.encode(chunk), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()
