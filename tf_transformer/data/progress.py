"""Progress of long work on text: a bar on a terminal, log lines elsewhere."""

import logging
import os
import sys
import time

import tqdm

logger = logging.getLogger(__name__)

LOG_SECONDS = 30.0  # between two log lines


def shows_bars() -> bool:
    """Whether bars are shown: on a terminal, unless tqdm's variable TQDM_DISABLE is set."""
    return sys.stderr.isatty() and not os.environ.get("TQDM_DISABLE")


class Progress:
    """A context in which `show` shows how many "pairs" of "tokenizing train" are done."""

    def __init__(self, task: str, unit: str) -> None:
        self._task = task
        self._unit = unit
        self._started = self._logged = time.monotonic()
        self._bar = tqdm.tqdm(
            desc=task, unit=f" {unit}", unit_scale=True, leave=False, disable=not shows_bars()
        )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def show(self, done: int) -> None:
        """Shows that `done` units are done."""
        if not self._bar.disable:
            self._bar.n = done
            self._bar.refresh()
            return
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            seconds = now - self._started
            logger.info("%s: %s %s in %.0f s", self._task, f"{done:,}", self._unit, seconds)
