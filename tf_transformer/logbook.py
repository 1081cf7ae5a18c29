"""What a run tells: a progress bar or lines for people, `metrics.jsonl` for programs, TensorBoard for pictures."""

import contextlib
import json
import math
import os
import resource
import sys
import time

import numpy as np
import tensorflow as tf
import tqdm

from tf_transformer.config import UserError
from tf_transformer.model_folder import read_metrics
from tf_transformer.whole_file import whole_file


class Logbook:
    """Writes the figures of a run.

    Args:
      model_dir: the folder that gets `metrics.jsonl` and `tensorboard/`.
      step: updates made so far.
      steps: updates wanted.
      deadline: `time.monotonic()` at which the run stops, or None.
      validated: whether the validation of this step, where one was due, is among those updates.
      quiet: whether to print nothing.
    Raises: UserError, as all methods do, when the files cannot be written.
    """

    def __init__(self, model_dir, step, steps, deadline=None, validated=True, quiet=False):
        self._quiet, self._model_dir = quiet, model_dir
        path = os.path.join(model_dir, "metrics.jsonl")
        # What a killed run wrote and had no time to save is going to happen again.
        last = ("train", "validation") if validated else ("train",)
        lines = [line for line in read_metrics(model_dir) if line["step"] < step or (line["step"] == step and line["kind"] in last)]
        with self._writing():
            with whole_file(path) as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            self._file = open(path, "a", encoding="utf-8")
            self._board = tf.summary.create_file_writer(os.path.join(model_dir, "tensorboard"))
        self._steps, self._deadline = steps, deadline
        self._first, self._start = step, time.monotonic()
        self._bar = tqdm.tqdm(total=steps, initial=step, unit="step", disable=quiet or not sys.stderr.isatty(), dynamic_ncols=True)

    def advance(self, step):
        """Moves the bar to a step."""
        self._bar.update(step - self._bar.n)

    def train(self, step, learning_rate, skipped, values):
        """Notes the learning rate, the updates skipped so far, and the means of the last updates as `Tally` takes them."""
        self._note(step, "train", {"learning_rate": learning_rate, "skipped_updates": skipped, **values})
        load = values["load"]
        self.say(
            f"step {step:,} | loss {values['loss']:.3f} ppl {values['perplexity']:.1f} | lr {learning_rate:.2e} "
            f"grad {values['gradient_norm']:.2f} | {values['source_tokens_per_second']:,.0f}+{values['target_tokens_per_second']:,.0f} "
            f"tokens/s {values['steps_per_second']:.2f} steps/s | {values['useful_share']:.0%} useful, "
            f"load {min(load, default=0):.0%}-{max(load, default=0):.0%} | {values['memory_gb']:.1f} GB | "
            f"{f'{skipped} skipped | ' if skipped else ''}{self._left(step)} left"
        )

    def validation(self, step, kind="validation", **values):
        """Notes the figures of a validation, or of the one of the average."""
        self._note(step, kind, values)
        figures = [f"{name} {value:.3f}" for name, value in values.items() if name != "signature"]
        signature = f" ({values['signature']})" if "signature" in values else ""
        self.say(f"step {step:,} | {kind}: {' | '.join(figures)}{signature}")

    def say(self, text):
        """Prints a line, above the bar where there is one."""
        if not self._quiet:
            self._bar.write(text, file=sys.stdout)
            sys.stdout.flush()

    def close(self):
        """Ends the bar and the files."""
        self._bar.close()
        with self._writing():
            self._file.close()
            self._board.close()

    def _note(self, step, kind, values):
        with self._writing(), self._board.as_default(step=step):
            self._file.write(json.dumps({"step": step, "kind": kind, "time": time.time(), **values}) + "\n")
            self._file.flush()
            for name, value in values.items():
                for i, part in enumerate(value if isinstance(value, list) else [value]):
                    if not isinstance(part, str):
                        tf.summary.scalar(f"{kind}/{name}/{i}" if isinstance(value, list) else f"{kind}/{name}", part)

    @contextlib.contextmanager
    def _writing(self):
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.message
            raise UserError(f"metrics.jsonl or tensorboard in {self._model_dir} cannot be written ({reason}): make room") from None

    def _left(self, step):
        """Time left, as h:mm:ss: until the last update or the deadline, whichever comes first."""
        now = time.monotonic()
        seconds = (now - self._start) / max(1, step - self._first) * (self._steps - step)
        if self._deadline:
            seconds = min(seconds, max(0, self._deadline - now))
        return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


class Tally:
    """Sums the results of updates until they are taken.

    Args:
      state: the sums of the updates since they were last taken, as `state` returned them, when a run goes on in between.
    """

    def __init__(self, state=None):
        self._clear()
        if state and len(state[0]) == len(self._sums):  # else of an earlier version; the next log line then leaves them out
            self._sums, self._norms, self._updates = np.array(state[0]), state[1], state[2]

    def _clear(self):
        self._sums, self._norms, self._updates = np.zeros(5), 0.0, 0
        self.start()

    def start(self):
        """Measures speed from now on."""
        self._since, self._timed, self._padded, self._load = time.monotonic(), np.zeros(3), 0, 0.0

    def state(self):
        """What a checkpoint keeps of it."""
        return [self._sums.tolist(), self._norms, self._updates]

    def add(self, result, padded):
        """result: as `train_step` returns it, in NumPy; padded: tokens of one side, padding included."""
        self._timed += (result["sums"][4], result["sums"][1], 1)
        self._padded += padded
        self._load = self._load + result["load"]
        if not result["skipped"]:
            self._sums += result["sums"]
            self._norms += float(result["gradient_norm"])
            self._updates += 1

    def without(self, work):
        """Calls `work()`, which is no update, and leaves its time out. Returns: the seconds that it took."""
        start = time.monotonic()
        work()
        seconds = time.monotonic() - start
        self._since += seconds
        return seconds

    def take(self):
        """The means since the last time, as a dict; speed and padding are those of this process."""
        loss, target, right, unsmoothed, _ = self._sums.tolist()
        source_read, target_read, steps = self._timed.tolist()
        seconds = max(time.monotonic() - self._since, 1e-9)
        target, updates = target or math.nan, self._updates or math.nan  # nan where every update was skipped
        values = {
            "loss": loss / target,
            "perplexity": math.exp(min(unsmoothed / target, 50.0)),  # of a sub-word, as in Table 3
            "accuracy": right / target,
            "gradient_norm": self._norms / updates,
            "target_tokens_per_second": target_read / seconds,
            "source_tokens_per_second": source_read / seconds,
            "steps_per_second": steps / seconds,
            "useful_share": (source_read + target_read) / max(2 * self._padded, 1),
            "load": (self._load / np.maximum(np.sum(self._load), 1)).tolist() if steps else [],
            "memory_gb": memory_gb(),
        }
        self._clear()
        return values


def memory_gb():
    """Most memory so far, in GB: of the fullest GPU, or where there is none, of this process."""
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        return max(tf.config.experimental.get_memory_info(gpu.name.removeprefix("/device:"))["peak"] for gpu in gpus) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
