"""Batches of texts of similar length. This module does not import TensorFlow."""

from collections.abc import Iterator


def length_batches(lengths: dict[int, int], batch_tokens: int) -> Iterator[list[int]]:
    """Groups texts by length, longest first.

    An out-of-memory error then comes with the first batch.

    Args:
      lengths: index of each text -> its length in tokens.
      batch_tokens: most tokens of a batch, padding included. A batch has at least one text.
    Yields: lists of indices.
    """
    order = sorted(lengths, key=lambda i: -lengths[i])
    while order:
        rows = max(1, batch_tokens // lengths[order[0]])
        yield order[:rows]
        order = order[rows:]
