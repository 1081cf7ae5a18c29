"""The text that `tf-transformer info` prints about sentence pairs."""

import collections
import itertools
import tempfile
from collections.abc import Iterable

import numpy as np

from tf_transformer.config import Config
from tf_transformer.data.batching import Batches
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.encoding import EncodedPairs, cached_pairs, describe_dropped
from tf_transformer.data.tokenizer import Tokenizer, learn_tokenizers

SAMPLES = 10


def describe_data(
    config: Config, corpus: Corpus, tokenizers: tuple[Tokenizer, Tokenizer] | None = None
) -> str:
    """Describes sizes, lengths, vocabulary and batches of sentence pairs, with samples, as text.

    Args:
      config: a `Config`, whose data settings are used.
      corpus: of `data.readers.open_corpus`; it is streamed.
      tokenizers: of source and target; None to learn them.
    """
    lines = [corpus.name]
    sizes = {}
    for split in corpus.splits:
        sizes[split], sides = describe_split(corpus.read(split))
        lines += [f"  {split}: {sizes[split]:,} pairs", *sides]
    lines += _describe_batches(config, corpus, tokenizers)
    lines.append("  samples of train:")
    every = max(1, sizes.get("train", 0) // SAMPLES)
    for source, target in itertools.islice(corpus.read("train"), 0, SAMPLES * every, every):
        lines.append(f"    {source}\n      {target}")
    return "\n".join(lines)


def _describe_batches(
    config: Config, corpus: Corpus, tokenizers: tuple[Tokenizer, Tokenizer] | None
) -> list[str]:
    """The lines on sub-words and batches of the train split; arguments as above."""
    data = config.data
    vocabulary = "the model's vocabulary"
    if tokenizers is None:
        vocabulary = "a vocabulary learned from it"
        tokenizers = learn_tokenizers(
            lambda: corpus.read("train"),
            data.vocab_size,
            data.shared_vocab,
            subword_model=data.subword_model,
        )
    with tempfile.TemporaryDirectory(prefix="tf_transformer-") as cache:
        pairs = cached_pairs(corpus, "train", tokenizers, data, cache)
        batches = Batches(pairs, data.batch_tokens, config.train.seed, max_shapes=data.max_shapes)
        mean_lengths = pairs.lengths.mean(axis=0)
        weights = _describe_weights(pairs)
    shapes = ", ".join(f"{bucket.rows} x {bucket.length}" for bucket in batches.buckets)
    return [
        f"  sub-words of train: {tokenizers[0].vocab_size:,} in {vocabulary}; mean length "
        f"{mean_lengths[0]:.1f} of sources, {mean_lengths[1]:.1f} of targets; "
        f"dropped: {describe_dropped(pairs)}",
        *weights,
        f"  batches: {batches.per_epoch:,} per epoch, {batches.non_padding_fraction:.1%} of their "
        "tokens are not padding, rows x length:",
        f"    {shapes}",
    ]


def _describe_weights(pairs: EncodedPairs) -> list[str]:
    """A line on the weights of the pairs in the loss, where they have some."""
    if not pairs.weighted:
        return []
    weights = pairs.weights(np.arange(len(pairs)), len(pairs))
    return [
        f"  weights of train: {weights.min():g} to {weights.max():g}, mean {weights.mean():.3g}, "
        f"{np.mean(weights == 1):.1%} are 1"
    ]


def describe_split(pairs: Iterable[tuple[str, str]]) -> tuple[int, list[str]]:
    """Describes the words of one split.

    Args:
      pairs: an iterator of (source, target) strings.
    Returns: the number of pairs; a line on the words of each side.
    """
    lengths: tuple[list[int], list[int]] = ([], [])
    vocabularies: tuple[collections.Counter[str], collections.Counter[str]] = (
        collections.Counter(),
        collections.Counter(),
    )
    for pair in pairs:
        for side, sentence in enumerate(pair):
            words = sentence.split()
            lengths[side].append(len(words))
            vocabularies[side].update(words)
    number = len(lengths[0])
    if not number:
        return 0, []
    lines = []
    for name, counts, vocabulary in zip(("source", "target"), lengths, vocabularies):
        lines.append(
            f"    {name}: {sum(counts):,} words, {len(vocabulary):,} different; {min(counts)} to "
            f"{max(counts)} words per sentence, mean {np.mean(counts):.1f}, median "
            f"{np.median(counts):.0f}"
        )
    return number, lines
