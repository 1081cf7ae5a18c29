"""What a training run keeps in its model folder: lock, settings, vocabulary, checkpoints."""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import logging
import os
import tempfile
from typing import Any

import filelock
import keras

from tf_transformer.checkpoints import checkpoint, model_folder
from tf_transformer.checkpoints.model_folder import checkpoint_step, initial_name, step_checkpoints
from tf_transformer.config import DECAY_TO_0, Config, DataConfig, ModelConfig, TrainConfig
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.normalization import warn_of_changes
from tf_transformer.data.readers import absolute_path
from tf_transformer.data.tokenizer import (
    Tokenizer,
    learn_tokenizers,
    load_tokenizers,
    read_vocabularies,
    save_tokenizers,
)
from tf_transformer.errors import DamagedError, UserError
from tf_transformer.files import atomic_folder, remove_temporary_files, remove_unfinished_folders
from tf_transformer.training.fine_tuning import initial_vocabulary

logger = logging.getLogger(__name__)

# The version of the order of batches that a text and a seed give. Checkpoints record it.
BATCH_ORDER = 2

SAMPLED_PAIRS = 50_000  # of each corpus, on which the rules of normalization are tried

# Settings that may change when a run continues: where an update is computed and how long the run
# is, not what an update is, but for rounding and dropout masks. The text itself has a checksum.
MAY_CHANGE = {
    "data", "train_steps", "train_minutes", "save_steps", "max_checkpoints", "eval_steps",
    "bleu_sentences", "bleu_tokenizer", "log_steps", "early_stopping_patience", "validation",
    "max_skipped_steps", "decode_length_coverage", "micro_batch_tokens", "precision", "jit_compile",
    "logical_devices", "worker_minutes",
}  # fmt: skip

# What a run leaves in its folder, except for the cache, whose files have keys. The settings are the
# first to be removed: without them, the other files are not taken for a run.
RUN_FILES = (
    model_folder.CONFIG, model_folder.AVERAGED, model_folder.BEST, model_folder.CHECKPOINTS,
    "shared.model", "source.model", "target.model", model_folder.METRICS, model_folder.TENSORBOARD,
)  # fmt: skip


class RunDirectory:
    """The model folder of one training run at a time.

    Args:
      path: the folder, created where it does not exist; None for a temporary one, which a worker
        other than the chief has.
      overwrite: whether `begin` removes a run or a model in it, to start a new run.
    Raises: UserError when another process trains in it.
    """

    def __init__(self, path: str | None, overwrite: bool = False) -> None:
        self._overwrite = overwrite
        self._new: tuple[Tokenizer, Tokenizer] | None = None  # of a run that has not begun
        self._resources = contextlib.ExitStack()
        self.path = path or self._resources.enter_context(
            tempfile.TemporaryDirectory(prefix="tf_transformer-", ignore_cleanup_errors=True)
        )
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise UserError(f"{self.path} is a file, not a folder: give another --model_dir")
        if model_folder.is_built_in(self.path):
            raise UserError(f"{self.path} is a built-in model: give another --model_dir")
        os.makedirs(self.path, exist_ok=True)
        # One object for each folder: a process may open its run again.
        lock = filelock.FileLock(os.path.join(self.path, model_folder.LOCK), is_singleton=True)
        try:
            self._resources.enter_context(lock.acquire(timeout=0))
        except filelock.Timeout:
            raise UserError(
                f"another process trains in {self.path}: wait, stop it, or give another --model_dir"
            ) from None
        # A thread writes the checkpoints; the lock is kept until it ends.
        self._writer = self._resources.enter_context(concurrent.futures.ThreadPoolExecutor(1))
        self._written: concurrent.futures.Future[None] | None = None  # the last one
        # Of a process that was killed while it wrote.
        for folder in ("", model_folder.CHECKPOINTS, model_folder.CACHE):
            remove_temporary_files(os.path.join(self.path, folder))
            remove_unfinished_folders(os.path.join(self.path, folder))

    def close(self) -> None:
        """Releases the lock, when what was begun is written."""
        self._resources.close()

    def wait(self, only_if_done: bool = False) -> None:
        """Waits for the file that is being written, or with `only_if_done` never.

        Raises: UserError when it could not be written.
        """
        if self._written and (self._written.done() or not only_if_done):
            self._written.result()
            self._written = None

    def prepare_vocabulary(
        self, config: Config, corpus: Corpus, max_shapes: int = 0
    ) -> tuple[Config, tuple[Tokenizer, Tokenizer]]:
        """Learns the vocabularies, or loads them where the folder has a run.

        Args:
          max_shapes: of a new run, where the setting is 0.
        Returns: the settings with the vocabulary sizes, the number of shapes and absolute paths of
          the data; the tokenizers.
        Raises: UserError for a folder with a run of other settings, or with a model without the
          checkpoints to resume from, and for text that cannot be used.
        """
        models = [os.path.basename(path) for path in model_folder.all_checkpoints(self.path)]
        started = None
        if step_checkpoints(self.path) and not self._overwrite:
            started = model_folder.load_config(self.path)
            tokenizers = load_tokenizers(self.path)
        elif models and not self._overwrite:
            raise UserError(
                f"{self.path} holds a trained model ({' and '.join(models)}) without the "
                "checkpoints from which its training could be resumed: give another --model_dir, "
                "or --overwrite to remove the model and start anew"
            )
        else:
            corpus.check()
            tokenizers = self._new = _new_vocabulary(config, corpus)
        sizes = (tokenizer.vocab_size for tokenizer in tokenizers)
        config = config.with_vocabularies(*sizes).replace(data=absolute_path(config.data.data))
        if not config.data.max_shapes:
            config = config.replace(max_shapes=started.data.max_shapes if started else max_shapes)
        if started:
            check_same_settings(started, config, f"{self.path} was started with")
        return config, tokenizers

    def begin(self) -> None:
        """Saves the vocabulary of a new run, which nothing refuses any more; overwrites the old."""
        if not self._new:
            return
        if self._overwrite:
            with atomic_folder(self.path) as removed:  # to rename is quick, to delete is not
                for name in RUN_FILES:
                    path = os.path.join(self.path, name)
                    if os.path.lexists(path):
                        os.replace(path, os.path.join(removed, name))
        save_tokenizers(self._new, self.path)
        self._new = None

    def restore(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> dict[str, Any] | None:
        """Restores the newest checkpoint that is not damaged.

        Returns: its training state, or None where the run has no checkpoint yet.
        Raises: UserError when all are damaged.
        """
        # The checkpoints may be of the run that is overwritten.
        paths = [] if self._new else step_checkpoints(self.path)
        damaged = []
        for path in reversed(paths):
            try:
                state = checkpoint.restore(path, model, optimizer)
            except DamagedError as error:
                damaged.append(path)
                logger.warning("%s; trying the one before", error)
                continue
            _set_aside(damaged)
            logger.info("resuming from %s", path)
            return state
        if damaged:
            raise UserError(
                f"all {len(damaged)} checkpoints in {self.path} are damaged: restore one from a "
                "backup, or give another --model_dir"
            )
        return None

    def save(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        state: dict[str, Any],
        settings: TrainConfig,
    ) -> None:
        """Writes the checkpoint of the update `state["step"]`, and removes the oldest ones.

        A thread does it, with the only copy of all that a checkpoint holds.

        Raises: UserError when the file before it could not be written, as `wait` does.
        """
        self.wait()
        path = model_folder.step_path(self.path, state["step"])
        contents = checkpoint.snapshot(model, optimizer, state)

        def write() -> None:
            checkpoint.write(path, contents)
            with contextlib.suppress(FileNotFoundError):  # of earlier ones: it would hide this one
                os.remove(os.path.join(self.path, model_folder.AVERAGED))
            self._prune(settings)

        self._written = self._writer.submit(write)

    def _prune(self, settings: TrainConfig) -> None:
        """Removes the checkpoints of interruptions, and beyond `max_checkpoints` the oldest."""
        *earlier, last = paths = step_checkpoints(self.path)
        regular = [path for path in earlier if checkpoint_step(path) % settings.save_steps == 0]
        kept = [*regular, last][-settings.max_checkpoints :]
        for path in set(paths) - set(kept):
            os.remove(path)

    def save_weights(self, name: str, model: keras.Model, state: dict[str, Any]) -> None:
        """Writes the weights without the optimizer, as `BEST` or `AVERAGED`; as `save` does."""
        self.wait()
        path, contents = os.path.join(self.path, name), checkpoint.snapshot(model, state=state)
        self._written = self._writer.submit(checkpoint.write, path, contents)

    def average(self, model: keras.Model, settings: TrainConfig) -> None:
        """Writes and restores the mean of `last_eighth` of the intact checkpoints (Sec. 6.1)."""
        self.wait()
        self._prune(settings)  # the process may have been killed after the last save
        kept = step_checkpoints(self.path)
        paths = checkpoint.last_eighth(kept)
        averaged = os.path.join(self.path, model_folder.AVERAGED)
        damaged = checkpoint.average(paths, averaged, skip_damaged=True)
        _set_aside(damaged)
        checkpoint.restore(averaged, model)
        logger.info(
            f"averaged the last {len(paths) - len(damaged)} of {len(kept)} checkpoints, of the "
            "last eighth of the updates (Sec. 6.1)"
        )


def _set_aside(damaged: list[str]) -> None:
    """Renames damaged checkpoints, so that nothing reads them again."""
    for path in damaged:
        os.replace(path, f"{path}.damaged")


def check_same_batches(state: dict[str, Any], checksum: int, folder: str) -> None:
    """Raises: UserError when a run's checkpoint has another checksum or order of batches."""
    order = state.get("batch_order", BATCH_ORDER)
    if (state["data"], order) != (checksum, BATCH_ORDER):
        raise UserError(
            f"the training text is not the one with which the run in {folder} was started, or "
            "another version of tf-transformer made it, with another order of batches: give "
            f"another --model_dir; --init_from={folder} starts with its weights"
        )


def check_same_settings(old: Config, new: Config, subject: str) -> None:
    """Raises: UserError, beginning with `subject`, that lists settings which may not differ."""
    parts = (ModelConfig, DataConfig, TrainConfig)
    names = {field.name for part in parts for field in dataclasses.fields(part)} - MAY_CHANGE
    if new.train.learning_rate_schedule in DECAY_TO_0:
        names.add("train_steps")  # the learning rate depends on it
    if not new.data.max_shapes:
        names.remove("max_shapes")  # of a worker, which gets the chief's
    if initial_name(old.train.init_from) == initial_name(new.train.init_from):
        names.remove("init_from")
    if differences := old.differences(new, names):
        raise UserError(
            f"{subject} {differences}: give those settings, or another --model_dir, in which "
            "--init_from goes on with the weights of a run"
        )


def _new_vocabulary(config: Config, corpus: Corpus) -> tuple[Tokenizer, Tokenizer]:
    """The vocabularies of a new run: given ones, the initial model's, or learned ones."""
    data, init_from = config.data, config.train.init_from
    tags = [tag for tag in dict.fromkeys(data.tag.split(",")) if tag]  # each once
    if data.vocab_model:
        tokenizers = read_vocabularies(data.vocab_model, data.shared_vocab)
    elif init_from:
        tokenizers = initial_vocabulary(config)
    else:
        logger.info(f"learning a vocabulary of {data.vocab_size:,} sub-words from {corpus.name}")
        tokenizers = learn_tokenizers(
            lambda: corpus.read("train"), data.vocab_size, data.shared_vocab, tags,
            data.subword_model, data.normalization,
        )  # fmt: skip
    known = tokenizers[0].tags
    if missing := set(tags) - set(known):
        advice = "" if init_from else "; spm_train --control_symbols adds tags too"
        raise UserError(
            f"the vocabulary of {init_from or data.vocab_model} has no tag "
            f"{' or '.join(sorted(missing))}: its tags are {', '.join(known) or 'none'}{advice}"
        )
    parts = (part.read("train") for part in corpus.parts("train"))
    sample = itertools.chain.from_iterable(itertools.islice(part, SAMPLED_PAIRS) for part in parts)
    warn_of_changes([tokenizer.normalizer_spec for tokenizer in tokenizers], sample)
    return tokenizers
