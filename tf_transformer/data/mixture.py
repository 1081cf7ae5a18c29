"""Several corpora for one run: their training text together, and how often an epoch has each."""

from collections.abc import Hashable, Iterator, Sequence

from tf_transformer.data.corpus import Corpus, WeightedPair
from tf_transformer.data.text_files import parse_weight


class MixedCorpus(Corpus):
    """The training text of several corpora. The other splits are of the first one only.

    A sentence that is held out of one corpus, as a source, is not trained on in another.

    Args:
      parts: the corpora, at least one.
    """

    def __init__(self, parts: Sequence[Corpus]) -> None:
        self._parts = list(parts)
        self.name = " and ".join(part.name for part in parts)
        for part in parts:
            part.others = [other for other in parts if other is not part]

    @property
    def splits(self) -> list[str]:
        """All splits except "all", which only one corpus can have."""
        return [split for split in self._parts[0].splits if split != "all"]

    def parts(self, split: str) -> list[Corpus]:
        """Returns all corpora for "train", the first one for other splits."""
        return self._parts if split == "train" else self._parts[:1]

    def read_weighted(self, split: str) -> Iterator[WeightedPair]:
        """Yields the pairs of a split; for "train" of all corpora, one after the other."""
        for part in self.parts(split):
            yield from part.read_weighted(split)

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns the fingerprints of the corpora of a split."""
        return tuple(part.fingerprint(split) for part in self.parts(split))


def parse_weights(text: str) -> list[float]:
    """Parses the setting `data_weights`, such as "4,1". Raises: UserError for other text."""
    return [parse_weight(part, f"data_weights {text}") for part in text.split(",") if text]


def repetitions(sizes: Sequence[int], weights: Sequence[float], temperature: float) -> list[float]:
    """Computes how often an epoch has each pair of each corpus, on average.

    An epoch has as many pairs as all corpora together. The share of a corpus is proportional to its
    weight, or without weights to size ^ (1 / T), with the temperature T (Arivazhagan et al. 2019,
    arXiv:1907.05019, Sec. 4.2).

    Args:
      sizes: the number of pairs of each corpus.
      weights: of the corpora; none for the temperature.
    """
    parts = weights or [size ** (1 / temperature) for size in sizes]
    return [sum(sizes) * part / sum(parts) / size for part, size in zip(parts, sizes)]
