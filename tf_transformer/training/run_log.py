"""What a run records: log lines, a progress bar, `metrics.jsonl`, TensorBoard; and its progress."""

import contextlib
import dataclasses
import datetime
import json
import logging
import math
import os
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from tf_transformer.checkpoints.checkpoint import validation_score
from tf_transformer.checkpoints.model_folder import METRICS, TENSORBOARD, read_metrics
from tf_transformer.data.progress import shows_bars
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write
from tf_transformer.training.update import Sums

logger = logging.getLogger(__name__)

# What early stopping counts of the figures that `Trainer.validate` measures.
EARLY_STOPPING_METRICS = ("loss", "BLEU", "chrF")


class RunLog:
    """Writes the metrics of a run.

    Args:
      step: updates made so far.
      validated: whether the checkpoint was written after the validation of this step.
      end: the number of updates, and the `time.monotonic()`, at which the run stops.
    Raises: UserError, as all methods do, when the files cannot be written.
    """

    def __init__(
        self, model_dir: str, step: int, validated: bool, end: tuple[int, float], show_bar: bool
    ) -> None:
        self._model_dir, self._end = model_dir, end
        self._first_step, self._start = step, time.monotonic()
        path = os.path.join(model_dir, METRICS)
        last = ("train", "validation") if validated else ("train",)
        lines = read_metrics(model_dir)
        with self._writing():
            with atomic_write(path) as file:
                for line in lines:  # what follows the checkpoint will be computed again
                    if line["step"] < step or (line["step"] == step and line["kind"] in last):
                        file.write(json.dumps(line) + "\n")
            self._file = open(path, "a", encoding="utf-8")
            self._board = tf.summary.create_file_writer(os.path.join(model_dir, TENSORBOARD))
        disable = not show_bar or not shows_bars()
        self._bar = tqdm.tqdm(total=end[0], initial=step, unit="step", disable=disable)

    def advance(self, step: int) -> None:
        """Moves the progress bar to a step."""
        self._bar.update(step - self._bar.n)

    def train(self, step: int, learning_rate: float, skipped: int, values: dict[str, Any]) -> None:
        """Writes training metrics: rate of the last update, updates skipped so far, and means."""
        values = {"learning_rate": learning_rate, "skipped_steps": skipped, **values}
        self._write(step, "train", values)
        source, target = values["source_tokens_per_second"], values["target_tokens_per_second"]
        tokens = values["tokens_per_replica"]
        parts = [
            f"step {step:,}",
            f"loss {values['loss']:.3f} ppl {values['perplexity']:.1f}",
            f"lr {learning_rate:.2e} grad norm {values['gradient_norm']:.2f}",
            f"{source:,.0f}+{target:,.0f} tokens/s {values['steps_per_second']:.2f} steps/s",
            f"{values['non_padding_fraction']:.0%} non-padding",
            f"{min(tokens):,.0f}-{max(tokens):,.0f} tokens/replica",
            f"{values['memory_gb']:.1f} GB",
            *([f"{skipped} skipped"] if skipped else []),
            f"{self._time_left(step)} left",
        ]
        logger.info(" | ".join(parts))

    def validation(self, step: int, values: dict[str, Any], kind: str = "validation") -> None:
        """Writes validation metrics; kind "average" is for the averaged checkpoint."""
        self._write(step, kind, values)
        figures = [f"{name} {x:.3f}" for name, x in values.items() if not isinstance(x, str)]
        signature = f" ({values['signature']})" if "signature" in values else ""
        logger.info(f"step {step:,} | {kind}: {' | '.join(figures)}{signature}")

    def close(self) -> None:
        """Closes the progress bar and the files."""
        self._bar.close()
        with self._writing():
            self._file.close()
            self._board.close()

    def _write(self, step: int, kind: str, values: dict[str, Any]) -> None:
        with self._writing(), self._board.as_default(step=step):
            line = {"step": step, "kind": kind, "time": time.time(), **values}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            for name, value in values.items():
                if isinstance(value, list):
                    for i, part in enumerate(value):
                        tf.summary.scalar(f"{kind}/{name}/{i}", part)
                elif not isinstance(value, str):
                    tf.summary.scalar(f"{kind}/{name}", value)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.message
            raise UserError(
                f"cannot write {METRICS} or {TENSORBOARD} in {self._model_dir} ({reason}): free "
                "some disk space, or change the permissions"
            ) from None

    def _time_left(self, step: int) -> datetime.timedelta:
        """Time until the last update or the deadline, whichever comes first."""
        train_steps, deadline = self._end
        now = time.monotonic()
        per_step = (now - self._start) / max(1, step - self._first_step)
        seconds = min(per_step * (train_steps - step), max(0, deadline - now))
        return datetime.timedelta(seconds=int(seconds))


@dataclasses.dataclass
class Progress:
    """Skipped updates and validations of a run so far."""

    best: list[Any] | None = None  # of the validations so far: ["BLEU", score] or ["loss", -loss]
    # Metric -> its best value, the update of that, and the validations since then that count for
    # early stopping.
    best_of: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    # Step and figures of the last validation.
    validated: list[Any] = dataclasses.field(default_factory=lambda: [0, {}])
    skipped_steps: int = 0  # updates without finite gradients
    skipped_in_a_row: int = 0

    def record_update(self, skipped: int) -> None:
        """Counts an update; `skipped` is 1 when it was skipped, else 0."""
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0
        self.skipped_steps += skipped

    def record_validation(self, step: int, values: dict[str, Any], warmup_steps: int = 0) -> bool:
        """Records the metrics of a validation. Returns: whether its score is the best so far.

        Those up to `warmup_steps`, whose figures are noise, do not count for early stopping.
        """
        self.validated = [step, values]
        for name, value in values.items():
            kind = name.rpartition("/")[2]
            if kind not in EARLY_STOPPING_METRICS:
                continue
            best, best_step, since = self.best_of.get(name, [None, 0, 0])
            if best is None or (value < best if kind == "loss" else value > best):
                self.best_of[name] = [value, step, 0]
            else:
                self.best_of[name] = [best, best_step, since + (step > warmup_steps)]
        measure, value = validation_score(values)
        is_best = self.best is None or self.best[0] != measure or value > self.best[1]
        if is_best:
            self.best = [measure, value]
        return is_best

    def stalled(self, patience: int) -> str:
        """When each metric was best, where none has improved for so many validations; else ""."""
        _, measured = self.validated  # a run may be resumed without BLEU
        names = [name for name in self.best_of if name in measured and "/" not in name]
        best = [(name, *self.best_of[name]) for name in names]  # not of other texts
        if not patience or not best or min(since for *_, since in best) < patience:
            return ""
        return ", ".join(f"{name} was best at update {step:,}" for name, _, step, _ in best)


class MetricsAccumulator:
    """Sums the results of updates, for the means of a log line.

    Args:
      state: of `state`, when a run resumes between two log lines.

    Attributes:
      since: the `time.monotonic()` from which speed is measured. What is not an update moves it.
    """

    def __init__(self, state: list[Any] | None = None) -> None:
        # Of the updates that were not skipped.
        sums, self._norms, self._updates = state or [[0.0] * len(Sums._fields), 0.0, 0]
        self._sums = np.array(sums)
        # Of all updates of this process.
        self._all_sums, self._padded_tokens, self._steps = np.zeros(len(Sums._fields)), 0, 0
        self._replica_tokens = np.zeros(1)
        self.since = time.monotonic()

    def state(self) -> list[Any]:
        """The state to checkpoint."""
        return [self._sums.tolist(), self._norms, self._updates]

    def add(self, result: dict[str, np.ndarray], padded: int) -> None:
        """Adds the result of an `Update`, and the tokens of a side of its batch with padding."""
        self._all_sums += result["sums"]
        self._padded_tokens += padded
        self._replica_tokens = self._replica_tokens + result["replica_tokens"]
        self._steps += 1
        if not result["skipped"]:
            self._sums += result["sums"]
            self._norms += float(result["gradient_norm"])
            self._updates += 1

    def means(self) -> dict[str, Any]:
        """Returns the means of the updates, as a dict; speed and padding of this process."""
        sums, all_sums = Sums(*self._sums.tolist()), Sums(*self._all_sums.tolist())
        tokens = sums.target_tokens or math.nan  # every update was skipped
        all_tokens = all_sums.source_tokens + all_sums.target_tokens
        seconds = max(time.monotonic() - self.since, 1e-9)
        return {
            "loss": sums.loss / tokens,
            # Of a sub-word, as in Table 3.
            "perplexity": math.exp(min(sums.unsmoothed_loss / tokens, 50.0)),
            "accuracy": sums.correct / tokens,
            "gradient_norm": self._norms / (self._updates or math.nan),
            "target_tokens_per_second": all_sums.target_tokens / seconds,
            "source_tokens_per_second": all_sums.source_tokens / seconds,
            "steps_per_second": self._steps / seconds,
            "non_padding_fraction": all_tokens / max(2 * self._padded_tokens, 1),
            "tokens_per_replica": (self._replica_tokens / max(self._steps, 1)).tolist(),
            "memory_gb": memory_gb(),
        }


def reset_memory_peak() -> None:
    """Forgets the most memory that was in use on each GPU."""
    for gpu in tf.config.list_logical_devices("GPU"):
        tf.config.experimental.reset_memory_stats(gpu.name.removeprefix("/device:"))


def memory_gb() -> float:
    """Peak memory in GB: of the fullest GPU, or where there is none, of this process."""
    if gpus := tf.config.list_logical_devices("GPU"):
        names = [gpu.name.removeprefix("/device:") for gpu in gpus]
        return max(tf.config.experimental.get_memory_info(name)["peak"] for name in names) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
