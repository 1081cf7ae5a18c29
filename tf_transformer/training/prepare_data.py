"""What each worker does before the first update: get the vocabulary, encode and batch its text."""

import dataclasses
import logging
import os

from tf_transformer.checkpoints.model_folder import CACHE
from tf_transformer.config import Config, DataConfig
from tf_transformer.data.batching import Batches, SampledBatches
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.encoding import (
    EncodedPairs,
    cached_pairs,
    describe_dropped,
    open_shards,
    shard_folder,
)
from tf_transformer.data.mixture import parse_weights, repetitions
from tf_transformer.data.subword_sampling import PairSampler, sampling_alpha
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write
from tf_transformer.training.distribution import Workers
from tf_transformer.training.run_directory import RunDirectory, check_same_settings

logger = logging.getLogger(__name__)


def prepare_vocabulary(
    config: Config, corpus: Corpus, directory: RunDirectory, workers: Workers
) -> tuple[Config, tuple[Tokenizer, Tokenizer]]:
    """The chief learns or loads the vocabulary and broadcasts it.

    Args:
      config: a `Config`.
      corpus: of `data.readers.open_corpus`.
      directory: a `RunDirectory`.
      workers: the `Workers`.
    Returns: the `Config` with the sizes of the vocabularies; the tokenizers of source and target.
    Raises: UserError for settings other than the chief's, or than those of the run in the
      directory.
    """
    chief_config = config
    learned: tuple[Tokenizer, ...] = ()
    if workers.is_chief:
        chief_config, learned = directory.prepare_vocabulary(config, corpus)
    models = workers.broadcast([tokenizer.model.decode("latin-1") for tokenizer in learned])
    chief_config = Config.from_dict(workers.broadcast(dataclasses.asdict(chief_config)))
    source, target = learned or (Tokenizer(model.encode("latin-1")) for model in models)
    tokenizers = (source, source if chief_config.data.shared_vocab else target)
    if not workers.is_chief:
        config = config.with_vocabularies(*(tokenizer.vocab_size for tokenizer in tokenizers))
        check_same_settings(
            chief_config, config, f"{workers.name} has other settings than the chief:"
        )
    return chief_config, tokenizers


def prepare_batches(
    config: Config,
    corpus: Corpus,
    split: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    directory: RunDirectory,
    workers: Workers,
) -> Batches:
    """Encodes one split and divides it into batches.

    The validation split is computed without micro-batches, so its batches are no larger than what
    the replicas compute at once.

    Args:
      config, corpus, directory, workers: as for `prepare_vocabulary`. The directory keeps the
        encoded text.
      split: "train" or "validation".
      tokenizers: of source and target.
    Raises: UserError for text that cannot be used, or that differs from the chief's.
    """
    alpha = sampling_alpha(config.data, tokenizers) if split == "train" else 0.0
    parts = corpus.parts(split)
    different = (
        f"{workers.name} has another {split} text in {config.data.data} than the chief: copy the "
        "chief's text there"
    )
    if workers.broadcast(len(parts)) != len(parts):
        raise UserError(different)
    of_parts = []
    for part in parts:
        pairs, chief_checksum = _encoded(config, part, split, tokenizers, directory, workers)
        if pairs.checksum != chief_checksum:
            raise UserError(different)
        of_parts.append(pairs)
    pairs = EncodedPairs([shard for of_part in of_parts for shard in of_part.shards])
    batch_tokens = config.data.batch_tokens
    max_shapes = config.data.max_shapes
    if split == "validation":  # which XLA does not compile
        max_shapes = 0
        batch_tokens = min(batch_tokens, workers.replicas * config.train.micro_batch_tokens)
    repeated = _repetitions(config.data, parts, of_parts)
    arguments = (pairs, batch_tokens, config.train.seed, repeated, max_shapes)
    if alpha:
        cache = os.path.join(directory.path, CACHE)
        sampler = PairSampler(pairs, tokenizers, alpha, config.train.seed, cache)
        batches: Batches = SampledBatches(*arguments, sampler, config.train.train_steps)
    else:
        batches = Batches(*arguments)
    logger.info(
        f"{split}: {len(pairs):,} pairs, {batches.per_epoch:,} batches of {len(batches.buckets)} "
        f"shapes, {batches.non_padding_fraction:.1%} non-padding; "
        f"dropped: {describe_dropped(pairs)}"
    )
    return batches


def _repetitions(
    data: DataConfig, corpora: list[Corpus], encoded: list[EncodedPairs]
) -> list[float] | None:
    """How often an epoch has each pair of each shard; None where it has each pair once."""
    if len(corpora) == 1 or not (data.data_weights or data.data_temperature > 1):
        return None
    sizes = [len(pairs) for pairs in encoded]
    times = repetitions(sizes, parse_weights(data.data_weights), data.data_temperature)
    for corpus, size, number in zip(corpora, sizes, times):
        logger.info(
            f"{size * number / sum(sizes):.1%} of an epoch: {corpus.name}, {size:,} pairs, each "
            f"{number:.2f} times"
        )
    return [number for pairs, number in zip(encoded, times) for _ in pairs.shards]


def _encoded(
    config: Config,
    corpus: Corpus,
    split: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    directory: RunDirectory,
    workers: Workers,
) -> tuple[EncodedPairs, int]:
    """Encodes one split. A worker with the same text that sees the chief's folder opens its shards.

    The others encode the text too, after the chief.

    Args: as for `prepare_batches`.
    Returns: an `EncodedPairs`; the checksum of the chief's.
    """
    cache = os.path.join(directory.path, CACHE)
    text = (corpus, split, tokenizers, config.data)
    folder = os.path.abspath(shard_folder(*text, cache))
    pairs = cached_pairs(*text, cache) if workers.is_chief else None
    checksum, chief_folder = workers.broadcast([pairs and pairs.checksum, folder])
    if pairs is None and os.path.basename(folder) == os.path.basename(chief_folder):
        pairs = open_shards(chief_folder)
    if pairs is None:
        logger.warning(
            f"{workers.name} encodes the {split} text itself: it does not share the text and "
            f"{os.path.dirname(chief_folder)} with the chief"
        )
        pairs = cached_pairs(*text, cache)
    return pairs, checksum


def write_sentences(
    path: str, batches: Batches, step: int, tokenizers: tuple[Tokenizer, Tokenizer]
) -> None:
    """Writes the sentence pairs of the batch of one update to a TSV file.

    Args:
      path: of the file.
      batches, tokenizers: of the run.
      step: the update, counted from 0.
    """
    ids = next(iter(batches.epoch(*batches.position(step))))
    sides = [tokenizer.decode(side).numpy() for tokenizer, side in zip(tokenizers, ids)]
    with atomic_write(path, "wb") as file:  # unused rows have no text
        file.writelines(b"\t".join(pair) + b"\n" for pair in zip(*sides) if any(pair))
