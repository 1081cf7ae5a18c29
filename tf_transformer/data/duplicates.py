"""Finding duplicates in a large text, in bounded memory."""

import hashlib
from collections.abc import Sequence

import numpy as np


class SeenTexts:
    """A set of texts, of which it keeps 64-bit hashes.

    The hashes are in sorted arrays. An array is merged with the ones before it that are not larger,
    so there are few of them. A text takes 8 bytes, and at most 16 while arrays are merged. Among n
    texts, the expected number of those that are wrongly taken for duplicates is at most
    n^2 / 2^65: 4e-5 for 40 million.
    """

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def add(self, texts: Sequence[str]) -> np.ndarray:
        """Adds texts.

        Args:
          texts: several thousand at a time, for speed.
        Returns: bool `[texts]`, whether each of them is new; False for the second of two equal
          ones.
        """
        hashes = np.fromiter(map(_hash, texts), np.uint64, len(texts))
        unique, first = np.unique(hashes, return_index=True)
        is_new = np.ones(len(unique), bool)
        for array in self._arrays:
            indices = np.searchsorted(array, unique)
            is_new &= array[np.minimum(indices, len(array) - 1)] != unique
        self._insert(unique[is_new])
        result = np.zeros(len(texts), bool)
        result[first[is_new]] = True
        return result

    def _insert(self, hashes: np.ndarray) -> None:
        """Inserts sorted hashes."""
        while self._arrays and len(self._arrays[-1]) <= len(hashes):
            hashes = np.concatenate([self._arrays.pop(), hashes])
            hashes.sort()
        if len(hashes):
            self._arrays.append(hashes)


def _hash(text: str) -> int:
    """A 64-bit hash, the same in every process."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
