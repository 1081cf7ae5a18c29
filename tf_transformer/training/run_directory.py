"""What a training run keeps in its model folder: lock, settings, vocabulary, checkpoints."""

import dataclasses
import fcntl
import logging
import os
import shutil
import socket
import tempfile

from tf_transformer.atomic_io import remove_temporary_files
from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.loading import check_vocabularies
from tf_transformer.checkpoints.paths import (
    all_checkpoints,
    checkpoint_step,
    step_checkpoints,
    step_path,
)
from tf_transformer.config import Config
from tf_transformer.data.tokenizer import learn_tokenizers, load_tokenizers, save_tokenizers
from tf_transformer.errors import DamagedError, UserError

logger = logging.getLogger(__name__)

# Settings that may change when a run continues. They decide where an update is computed and how
# long the run is, not what an update is, except for rounding and, under XLA or other shards, the
# dropout masks. The text itself has a checksum.
MAY_CHANGE = {
    "data", "train_steps", "train_minutes", "save_steps", "max_checkpoints", "eval_steps",
    "bleu_sentences", "log_steps", "early_stopping_patience", "max_skipped_steps",
    "micro_batch_tokens", "precision", "jit_compile", "logical_devices",
}  # fmt: skip


class RunDirectory:
    """The model folder of one training run at a time.

    Args:
      path: the folder, created where it does not exist; None for a temporary one, which a worker
        other than the chief has.
    Raises: UserError when another process trains in it.
    """

    def __init__(self, path):
        self.path = path or tempfile.mkdtemp(prefix="tf_transformer-")
        self._temporary = path is None
        os.makedirs(self.path, exist_ok=True)
        self._lock = _lock(self.path)
        self._averaged = os.path.join(self.path, "averaged.npz")
        self._best = os.path.join(self.path, "best.npz")
        for folder in ("", "checkpoints", "cache"):  # of a process that was killed while writing
            remove_temporary_files(os.path.join(self.path, folder))

    def close(self):
        """Releases the lock."""
        if self._lock:
            _unlock(self._lock)
            self._lock = None
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def prepare_vocabulary(self, config, corpus):
        """Learns the vocabularies, or loads those of the run in the folder.

        Returns: the `Config` with the vocabulary sizes; the tokenizers.
        Raises: UserError when the run in the folder has other settings.
        """
        started = None
        if all_checkpoints(self.path):
            started = Config.load(os.path.join(self.path, "config.json"))
            tokenizers = load_tokenizers(self.path, started.data.shared_vocab)
            check_vocabularies(started, tokenizers, self.path)
        else:
            size, shared = config.data.vocab_size, config.data.shared_vocab
            logger.info("learning a vocabulary of %s sub-words from %s", f"{size:,}", corpus.name)
            tokenizers = learn_tokenizers(lambda: corpus.read("train"), size, shared)
            save_tokenizers(tokenizers, self.path)
        config = config.with_vocabularies(*(tokenizer.vocab_size for tokenizer in tokenizers))
        if started:
            check_same_settings(started, config, f"{self.path} was started with")
        return config, tokenizers

    def restore(self, model, optimizer):
        """Restores the newest checkpoint that is not damaged.

        Returns: its training state, or None where there is no checkpoint yet.
        Raises: UserError when all checkpoints are damaged.
        """
        paths = step_checkpoints(self.path)
        damaged = []
        while paths:
            try:
                state = checkpoint.restore(paths[-1], model, optimizer)
            except DamagedError as error:
                damaged.append(paths.pop())
                logger.warning("%s; trying the one before", error)
                continue
            for path in damaged:
                os.replace(path, f"{path}.damaged")  # so that no average includes it
            logger.info("resuming from %s", paths[-1])
            return state
        if damaged:
            raise UserError(
                f"all {len(damaged)} checkpoints in {self.path} are damaged: restore one from a "
                "backup, or give another --model_dir"
            )
        return None

    def save(self, model, optimizer, state, settings):
        """Writes the checkpoint of an update and removes those that are no longer needed.

        Args:
          state: the training state; its "step" is the update.
          settings: a `TrainConfig`, which says how many are kept.
        """
        checkpoint.save(step_path(self.path, state["step"]), model, optimizer, state)
        if os.path.exists(self._averaged):
            os.remove(self._averaged)  # of earlier checkpoints: it would hide this one
        self._prune(settings)

    def _prune(self, settings):
        """Removes checkpoints beyond `max_checkpoints`, and those of interruptions.

        The average is then that of a run without interruptions.
        """
        paths = step_checkpoints(self.path)
        regular = [
            path
            for path in paths
            if path == paths[-1] or checkpoint_step(path) % settings.save_steps == 0
        ]
        for path in set(paths) - set(regular[-settings.max_checkpoints :]):
            os.remove(path)

    def save_best(self, model, state):
        """Writes the weights with the best validation score so far."""
        checkpoint.save(self._best, model, state=state)

    def average(self, model, settings):
        """Writes the mean of the newest checkpoints (Sec. 6.1) and restores it into the model.

        Args:
          model: a built `Transformer`.
          settings: a `TrainConfig`.
        Returns: how many checkpoints are averaged.
        """
        self._prune(settings)  # the process may have been killed after the last save
        paths = step_checkpoints(self.path)
        checkpoint.average(paths, self._averaged)
        checkpoint.restore(self._averaged, model)
        return len(paths)


def check_same_settings(old, new, subject):
    """Raises: UserError, beginning with `subject`, that lists settings which may not differ."""
    differences = []
    for part in ("model", "data", "train"):
        before = dataclasses.asdict(getattr(old, part))
        after = dataclasses.asdict(getattr(new, part))
        for name in before:
            if before[name] != after[name] and name not in MAY_CHANGE:
                differences.append(f"{name} {before[name]} (now {after[name]})")
    if differences:
        listed = ", ".join(differences)
        raise UserError(f"{subject} {listed}: give those settings, or another --model_dir")


_locks = {}  # path -> file of this process. The system would let one process lock a file twice.


def _lock(folder):
    """Locks a folder for this process; the system releases the lock when the process ends.

    Returns: the path of the lock. Raises: UserError when another process has it.
    """
    path = os.path.join(os.path.realpath(folder), "training.lock")
    while path not in _locks:
        file = open(path, "a+")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            file.seek(0)
            owner = file.read().strip() or "unknown process"
            file.close()
            raise UserError(
                f"another process trains in {folder} ({owner}): wait, stop it, or give another "
                "--model_dir"
            ) from None
        except OSError:
            pass  # a file system without locks
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(file.fileno())):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            _locks[path] = file
        else:  # its last owner has just removed it
            file.close()
    return path


def _unlock(path):
    if path in _locks:
        os.remove(path)
        _locks.pop(path).close()
