"""What each worker does before the first update: get the vocabulary, encode and batch its text."""

import dataclasses
import logging
import os
import tempfile

from tf_transformer.atomic_io import atomic_write
from tf_transformer.config import Config
from tf_transformer.data.batching import Batches
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.encoded_pairs import EncodedPairs, describe_dropped
from tf_transformer.data.encoding import cached_pairs, open_shards, shard_folder
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import UserError
from tf_transformer.training.distribution import Workers
from tf_transformer.training.run_directory import RunDirectory, check_same_settings

logger = logging.getLogger(__name__)


def prepare_vocabulary(
    config: Config, corpus: Corpus, directory: RunDirectory, workers: Workers
) -> tuple[Config, tuple[Tokenizer, Tokenizer]]:
    """The chief learns or loads the vocabulary and broadcasts it.

    Args:
      config: a `Config`.
      corpus: of `data.sources.open_corpus`.
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
      config: a `Config` with the sizes of its vocabularies.
      corpus: of `data.sources.open_corpus`.
      split: "train" or "validation".
      tokenizers: of source and target.
      directory: a `RunDirectory`, which keeps the encoded text.
      workers: the `Workers`.
    Returns: a `Batches`.
    Raises: UserError for text that cannot be used, or that differs from the chief's.
    """
    pairs, chief_checksum = _encoded(config, corpus, split, tokenizers, directory, workers)
    if pairs.checksum != chief_checksum:
        raise UserError(
            f"{workers.name} has another {split} text in {config.data.data} than the chief: "
            "copy the chief's text there"
        )
    batch_tokens = config.data.batch_tokens
    if split == "validation":
        batch_tokens = min(batch_tokens, workers.replicas * config.train.micro_batch_tokens)
    batches = Batches(pairs, batch_tokens, config.train.seed)
    logger.info(
        f"{split}: {len(pairs):,} pairs, {batches.per_epoch:,} batches of {len(batches.buckets)} "
        f"shapes, {batches.non_padding_fraction:.1%} non-padding; "
        f"dropped: {describe_dropped(pairs)}"
    )
    return batches


def _encoded(
    config: Config,
    corpus: Corpus,
    split: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    directory: RunDirectory,
    workers: Workers,
) -> tuple[EncodedPairs, int]:
    """Encodes one split. A worker with the same text that sees the chief's folder opens its shards.

    The others encode the text too, at the same time.

    Args: as for `prepare_batches`.
    Returns: an `EncodedPairs`; the checksum of the chief's.
    """
    cache = os.path.join(directory.path, "cache")
    text = (corpus, split, tokenizers, config.data)
    folder = os.path.abspath(shard_folder(*text, cache))
    shared = None  # the chief's shards, which this worker opens
    with tempfile.TemporaryDirectory(prefix=".seen-", dir=directory.path) as mark:
        chief_mark, chief_folder = workers.broadcast([os.path.abspath(mark), folder])
        same_text = os.path.basename(folder) == os.path.basename(chief_folder)
        if not workers.is_chief and same_text and os.path.isdir(chief_mark):
            shared = chief_folder
        if not workers.is_chief and not shared:
            logger.warning(
                f"{workers.name} encodes the {split} text itself: it does not share the text and "
                f"{os.path.dirname(chief_folder)} with the chief"
            )
        pairs = None if shared else cached_pairs(*text, cache)
        checksum = workers.broadcast(pairs.checksum if workers.is_chief and pairs else None)
    if shared:  # the broadcast has waited until the chief has written them
        pairs = open_shards(shared)
    if pairs is None:  # this host does not read what the chief has written
        pairs = cached_pairs(*text, cache)
    return pairs, checksum


def write_sentences(
    path: str, batches: Batches, step: int, tokenizers: tuple[Tokenizer, Tokenizer]
) -> None:
    """Writes the sentence pairs of the batch of one update to a TSV file.

    Args:
      path: of the file.
      batches: the training `Batches`.
      step: the update, counted from 0.
      tokenizers: of source and target.
    """
    ids = batches.sentences(*divmod(step, batches.per_epoch))
    sides = [tokenizer.decode(side).numpy() for tokenizer, side in zip(tokenizers, ids)]
    with atomic_write(path, "wb") as file:
        file.writelines(b"\t".join(pair) + b"\n" for pair in zip(*sides))
