"""What a training run keeps in its model folder: the lock, the settings and vocabulary, the checkpoints."""

import dataclasses
import fcntl
import glob
import os
import shutil
import socket
import tempfile

from tf_transformer import checkpoint
from tf_transformer.config import Config, UserError
from tf_transformer.model_folder import all_checkpoints, checkpoint_step, step_checkpoints, step_path
from tf_transformer.tokenizer import learn_tokenizers, load_tokenizers, save_tokenizers

# Settings that may differ from those with which a model folder was begun: they change where an update is computed and how far the run
# goes, not what an update is, but for rounding and, where XLA or other shares draw them, the dropout masks. The text has a checksum.
MAY_CHANGE = {
    "data", "steps", "minutes", "checkpoint_every", "keep", "validate_every", "bleu_sentences", "log_every",
    "patience", "most_skipped", "max_tokens_per_replica", "precision", "jit", "virtual_replicas",
}  # fmt: skip


class RunFolder:
    """The model folder of one training at a time.

    Args:
      path: the folder, made when it is not there; None for a temporary one, which a machine that is not the chief has.
      say: prints a line.
    Raises: UserError when another training is at work in it.
    """

    def __init__(self, path, say):
        self.path, self._temporary, self._say = path or tempfile.mkdtemp(prefix="tf_transformer-"), path is None, say
        os.makedirs(self.path, exist_ok=True)
        self._lock = _lock(self.path)
        self._averaged, self._best = (os.path.join(self.path, f"{name}.npz") for name in ("averaged", "best"))
        for folder in ("", "checkpoints", "cache"):
            for half in glob.glob(os.path.join(glob.escape(self.path), folder, "*.npz.tmp")):
                os.remove(half)  # of a process that was killed while writing it

    def close(self):
        """Lets others train in the folder."""
        if self._lock:
            _unlock(self._lock)
            self._lock = None
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def prepare(self, config, corpus):
        """Learns the vocabularies, or reads those of a run that is there, whose settings must be the same.

        Returns: the `Config` with the vocabulary sizes, the tokenizers. Raises: UserError for other settings.
        """
        begun = Config.load(os.path.join(self.path, "config.json")) if all_checkpoints(self.path) else None
        if begun:
            tokenizers = load_tokenizers(self.path, begun.data.shared_vocab)
            checkpoint.check_vocabularies(begun, tokenizers, self.path)
        else:
            self._say(f"learning a vocabulary of {config.data.vocab_size:,} sub-words from {corpus.name}")
            tokenizers = learn_tokenizers(lambda: corpus.read("train"), config.data.vocab_size, config.data.shared_vocab)
            save_tokenizers(tokenizers, self.path)
        config = config.with_vocabularies(*(tokenizer.vocab_size for tokenizer in tokenizers))
        if begun:
            check_same(begun, config, f"{self.path} was begun with")
        return config, tokenizers

    def restore(self, model, optimizer):
        """Reads the newest checkpoint that is not damaged.

        Returns: the training state in it, or None where there is no checkpoint yet. Raises: UserError when all are damaged.
        """
        paths, damaged = step_checkpoints(self.path), []
        while paths:
            try:
                state = checkpoint.restore(paths[-1], model, optimizer)
            except checkpoint.DamagedError as error:
                damaged.append(paths.pop())
                self._say(f"{error}; trying the one before")
                continue
            for path in damaged:
                os.replace(path, f"{path}.damaged")  # so that no average takes it in
            self._say(f"going on from {paths[-1]}")
            return state
        if damaged:
            raise UserError(f"all {len(damaged)} checkpoints in {self.path} are damaged: put one back, or give another --model_dir")
        return None

    def save(self, model, optimizer, state, settings):
        """Writes the checkpoint of an update and removes those that are no longer wanted.

        Args:
          state: the training state; its "step" is the update.
          settings: a `TrainConfig`, which says how many are kept.
        """
        path = step_path(self.path, state["step"])
        checkpoint.save(path, model, optimizer, state)
        if os.path.exists(self._averaged):
            os.remove(self._averaged)  # of earlier checkpoints: it would hide this one from translate
        self._prune(settings)

    def _prune(self, settings):
        paths = step_checkpoints(self.path)
        # One that an interruption left behind would make the average another than that of a run in one go.
        regular = [path for path in paths if path == paths[-1] or checkpoint_step(path) % settings.checkpoint_every == 0]
        for path in set(paths) - set(regular[-settings.keep :]):
            os.remove(path)

    def save_best(self, model, state):
        """Writes the weights with the best score so far."""
        checkpoint.save(self._best, model, state=state)

    def average(self, model, settings):
        """Writes the mean of the newest checkpoints (Sec. 6.1) and reads it into the model.

        Args:
          settings: as for `save`, after which the process may have been killed.
        Returns: how many they are.
        """
        self._prune(settings)
        paths = step_checkpoints(self.path)
        checkpoint.average(paths, self._averaged)
        checkpoint.restore(self._averaged, model)
        return len(paths)


def check_same(old, new, what):
    """Raises: UserError that begins with `what` and lists the settings which differ and may not."""
    differences = []
    for part in ("model", "data", "train"):
        before, after = (dataclasses.asdict(getattr(config, part)) for config in (old, new))
        differences += [f"{n} {before[n]} (now {after[n]})" for n in before if before[n] != after[n] and n not in MAY_CHANGE]
    if differences:
        raise UserError(f"{what} {', '.join(differences)}: give those settings, or another --model_dir")


_locks = {}  # of this process, which the system would take to be one holder


def _lock(folder):
    """Takes the lock of a folder for this process; the system releases it when the process ends, however that may be.

    Returns: its path. Raises: UserError when another process has it.
    """
    path = os.path.join(os.path.realpath(folder), "training.lock")
    while path not in _locks:
        file = open(path, "a+")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            file.seek(0)
            owner = file.read().strip() or "it does not say which"
            file.close()
            raise UserError(f"another training is at work in {folder} ({owner}): wait, stop it, or give another --model_dir") from None
        except OSError:
            pass  # a file system without locks
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(file.fileno())):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            _locks[path] = file
        else:  # its last holder has removed it in this moment
            file.close()
    return path


def _unlock(path):
    if path in _locks:
        os.remove(path)
        _locks.pop(path).close()
