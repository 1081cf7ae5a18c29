"""The results of the checks and of the measurements. A failed part does not stop the others."""

import gc
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = "out of memory"


class Result(NamedTuple):
    """The result of a check."""

    name: str
    passed: bool | None  # None where it could not be checked
    measured: str


class Table(NamedTuple):
    """A table of the report."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def run_check(name: str, check: Callable[[], tuple[bool | None, str]]) -> Result:
    """Runs a check.

    Args:
      name: of the check.
      check: returns whether it passes, and what was measured.
    Returns: its `Result`; that of an exception is a failure.
    """
    logger.info("checking %s", name)
    try:
        passed, measured = check()
        return Result(name, None if passed is None else bool(passed), measured)
    except Exception as error:  # whatever TensorFlow raises
        return Result(name, False, describe_error(error))
    finally:
        gc.collect()  # models of one part would take memory from the next one


def run_measurement(
    name: str, labels: tuple[str, ...], columns: int, measure: Callable[[], Sequence[str]]
) -> tuple[tuple[str, ...], Result | None]:
    """Runs a measurement, which makes one row of a table.

    Args:
      name: of the measurement.
      labels: the first cells of the row.
      columns: of the table.
      measure: returns the other cells.
    Returns: the row; a failed `Result` where an error other than a lack of memory occurred. (A size
      that does not fit into a device is no failure of the program.)
    """
    logger.info("measuring %s", name)
    try:
        return (*labels, *measure()), None
    except Exception as error:  # whatever TensorFlow raises
        text = describe_error(error)
        empty = [""] * (columns - len(labels) - 1)
        failed = None if text == OUT_OF_MEMORY else Result(f"measuring {name}", False, text)
        return (*labels, "failed" if failed else OUT_OF_MEMORY, *empty), failed
    finally:
        gc.collect()


def describe_error(error: Exception) -> str:
    """The kind and the first line of an error, shortened."""
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return OUT_OF_MEMORY
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
