"""What each worker does before the first update: get the vocabulary, encode and batch its text."""

import dataclasses
import logging
import os

from tf_transformer.checkpoints.model_folder import CACHE
from tf_transformer.config import MICRO_BATCH_TOKENS, Config
from tf_transformer.data.batching import Batches
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.encoding import (
    EncodedPairs,
    cached_pairs,
    describe_dropped,
    open_shards,
    shard_folder,
)
from tf_transformer.data.mixture import parse_weights, repetitions
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import UserError
from tf_transformer.training.distribution import Workers
from tf_transformer.training.run_directory import MAY_CHANGE, RunDirectory, check_same_settings

logger = logging.getLogger(__name__)

OF_A_HOST = {"data", "validation", "logical_devices", "worker_minutes"}  # each worker has its own


@dataclasses.dataclass
class TrainingText:
    """The text of a run on one of its workers."""

    config: Config  # with the sizes of the vocabularies; after `batches("train")`, longest outputs
    corpus: Corpus
    tokenizers: tuple[Tokenizer, Tokenizer]
    cache: str  # the folder of the encoded text
    workers: Workers

    def batches(self, split: str) -> Batches:
        """Encodes the split "train" or "validation", and divides it into batches.

        Raises: UserError for text that cannot be used, or that differs from the chief's.
        """
        data, train = self.config.data, self.config.train
        parts = self.corpus.parts(split)
        different = (
            f"{self.workers.name} has another {split} text than the chief, "
            f"{self.corpus.describe(split)}: copy the chief's text there"
        )
        if self.workers.broadcast(len(parts)) != len(parts):
            raise UserError(different)
        encoded = []
        for part in parts:
            of_part, chief_checksum = self._encode(part, split)
            if of_part.checksum != chief_checksum:
                raise UserError(different)
            encoded.append(of_part)
        if split == "train" and train.decode_length_coverage:
            self._fit_longest_outputs(encoded, train.decode_length_coverage)
        pairs = EncodedPairs([shard for of_part in encoded for shard in of_part.shards])
        batch_tokens, max_shapes = data.batch_tokens, data.max_shapes
        if split == "validation":  # which is computed without XLA and micro-batches
            max_shapes = 0
            of_replica = train.micro_batch_tokens or MICRO_BATCH_TOKENS
            batch_tokens = min(batch_tokens, self.workers.replicas * of_replica)
        repeated = self._repetitions(parts, encoded)
        batches = Batches(pairs, batch_tokens, train.seed, repeated, max_shapes)
        logger.info(
            f"{split}: {len(pairs):,} pairs, {batches.per_epoch:,} batches of "
            f"{len(batches.buckets)} shapes, {batches.non_padding_fraction:.1%} non-padding; "
            f"dropped: {describe_dropped(pairs)}"
        )
        return batches

    def _fit_longest_outputs(self, encoded: list[EncodedPairs], coverage: float) -> None:
        """Chooses a larger `extra_decode_length` where the targets of a corpus need it."""
        given = self.config.decode.extra_decode_length
        needed = max(pairs.extra_length(coverage) for pairs in encoded)
        if needed > given:
            logger.info(
                f"longest outputs: {needed} sub-words more than the source (extra_decode_length), "
                f"as {coverage:.2%} of the training pairs need it; {given} by default"
            )
            self.config = self.config.replace(extra_decode_length=needed)

    def _repetitions(
        self, corpora: list[Corpus], encoded: list[EncodedPairs]
    ) -> list[float] | None:
        """How often an epoch has each pair of each shard; None where it has each pair once."""
        data = self.config.data
        if len(corpora) == 1 or not (data.data_weights or data.data_temperature > 1):
            return None
        sizes = [len(pairs) for pairs in encoded]
        times = repetitions(sizes, parse_weights(data.data_weights), data.data_temperature)
        for corpus, size, number in zip(corpora, sizes, times):
            logger.info(
                f"{size * number / sum(sizes):.1%} of an epoch: {corpus.name}, {size:,} pairs, "
                f"each {number:.2f} times"
            )
        return [number for pairs, number in zip(encoded, times) for _ in pairs.shards]

    def _encode(self, corpus: Corpus, split: str) -> tuple[EncodedPairs, int]:
        """Encodes a split of one corpus, or opens the chief's shards where it sees its folder.

        Returns: the pairs; the checksum of the chief's.
        """
        text = (corpus, split, self.tokenizers, self.config.data)
        folder = os.path.abspath(shard_folder(*text, self.cache))
        pairs = cached_pairs(*text, self.cache) if self.workers.is_chief else None
        checksum, chief_folder = self.workers.broadcast([pairs and pairs.checksum, folder])
        if pairs is None and os.path.basename(folder) == os.path.basename(chief_folder):
            pairs = open_shards(chief_folder)
        if pairs is None:
            logger.warning(
                f"{self.workers.name} encodes the {split} text itself: it does not share the text "
                f"and {os.path.dirname(chief_folder)} with the chief"
            )
            pairs = cached_pairs(*text, self.cache)
        return pairs, checksum


def prepare_text(
    config: Config, corpus: Corpus, directory: RunDirectory, workers: Workers, max_shapes: int
) -> TrainingText:
    """The chief learns or loads the vocabulary and broadcasts it, with its settings.

    Raises: UserError for other settings than the chief's, or than the run in the directory has.
    """
    chief_config = config
    learned: tuple[Tokenizer, ...] = ()
    if workers.is_chief:
        chief_config, learned = directory.prepare_vocabulary(config, corpus, max_shapes)
    models = workers.broadcast([tokenizer.model.decode("latin-1") for tokenizer in learned])
    chief_config = Config.from_dict(workers.broadcast(dataclasses.asdict(chief_config)))
    source, target = learned or (Tokenizer(model.encode("latin-1")) for model in models)
    tokenizers = (source, source if models[0] == models[1] else target)
    if not workers.is_chief:
        config = config.with_vocabularies(*(tokenizer.vocab_size for tokenizer in tokenizers))
        subject = f"{workers.name} has other settings than the chief:"
        check_same_settings(chief_config, config, subject)
        if differences := config.differences(chief_config, MAY_CHANGE - OF_A_HOST):
            logger.warning(f"{workers.name} takes the settings of the chief: {differences}")
    cache = os.path.join(directory.path, CACHE)
    return TrainingText(chief_config, corpus, tokenizers, cache, workers)
