"""What a run tells: a progress bar or lines for people, `metrics.jsonl` for programs, TensorBoard for pictures."""

import json
import os
import sys
import time

import tensorflow as tf
import tqdm


class Logbook:
    """Writes the figures of a run.

    Args:
      model_dir: the folder that gets `metrics.jsonl` and `tensorboard/`.
      step: updates made so far.
      steps: updates wanted.
      deadline: `time.monotonic()` at which the run stops, or None.
    """

    def __init__(self, model_dir, step, steps, deadline=None):
        self._file = open(os.path.join(model_dir, "metrics.jsonl"), "a", encoding="utf-8")
        self._board = tf.summary.create_file_writer(os.path.join(model_dir, "tensorboard"))
        self._steps, self._deadline = steps, deadline
        self._first, self._start = step, time.monotonic()
        self._bar = tqdm.tqdm(total=steps, initial=step, unit="step", disable=not sys.stderr.isatty(), dynamic_ncols=True)

    def advance(self, step):
        """Moves the bar to a step."""
        self._bar.update(step - self._bar.n)

    def train(self, step, **values):
        """Notes the means of the last updates: loss, learning_rate, target_tokens_per_second, useful_share and others."""
        self._note(step, "train", values)
        line = (
            f"loss {values['loss']:.3f} | learning rate {values['learning_rate']:.2e} | "
            f"{values['target_tokens_per_second']:,.0f} target tokens/s | {values['useful_share']:.0%} useful | {self._left(step)} left"
        )
        self._bar.set_postfix_str(line)
        if self._bar.disable:
            self.say(f"step {step:,} | {line}")

    def validation(self, step, **values):
        """Notes the figures of a validation."""
        self._note(step, "validation", values)
        figures = " | ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in values.items())
        self.say(f"step {step:,} | validation: {figures}")

    def say(self, text):
        """Prints a line, above the bar where there is one."""
        self._bar.write(text, file=sys.stdout)
        sys.stdout.flush()

    def close(self):
        """Ends the bar and the files."""
        self._bar.close()
        self._file.close()
        self._board.close()

    def _note(self, step, kind, values):
        json.dump({"step": step, "kind": kind, "time": time.time(), **values}, self._file)
        self._file.write("\n")
        self._file.flush()
        with self._board.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(f"{kind}/{name}", value)

    def _left(self, step):
        """Time left, as h:mm:ss: until the last update or the deadline, whichever comes first."""
        now = time.monotonic()
        seconds = (now - self._start) / max(1, step - self._first) * (self._steps - step)
        if self._deadline:
            seconds = min(seconds, max(0, self._deadline - now))
        return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


class Tally:
    """Sums the results of updates, without waiting for the device, until they are taken."""

    def __init__(self):
        self._clear()

    def _clear(self):
        self._sums, self._padded, self._since, self._updates = tf.zeros([4]), 0, time.monotonic(), 0

    def add(self, sums, padded):
        """sums: as `train_step` returns them; padded: tokens of one side, padding included."""
        self._sums += sums
        self._padded += padded
        self._updates += 1

    def skip(self, seconds):
        """Time that was not spent on updates."""
        self._since += seconds

    def take(self):
        """The means since the last time, as a dict."""
        loss, target, right, source = self._sums.numpy().tolist()
        seconds = max(time.monotonic() - self._since, 1e-9)
        values = {
            "loss": loss / max(target, 1),
            "accuracy": right / max(target, 1),
            "target_tokens_per_second": target / seconds,
            "source_tokens_per_second": source / seconds,
            "steps_per_second": self._updates / seconds,
            "useful_share": (source + target) / (2 * self._padded),
        }
        self._clear()
        return values
