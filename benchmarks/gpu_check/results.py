"""The results of the checks and of the measurements. A failed part does not stop the others."""

import gc
import io
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_transformer import __version__

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = "out of memory"
MARKS = {True: "passed", False: "**FAILED**", None: "not checked"}


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


class Report:
    """What a GPU check has found so far: each result is printed, and written to a file.

    Args:
      path: the Markdown file. It has all results so far, also when the check is stopped.
      devices: what is checked, as text.

    Attributes:
      installation: takes the output of the command doctor.
    """

    def __init__(self, path: str, devices: str) -> None:
        self._path, self._devices, self.installation = path, devices, io.StringIO()
        self._started = time.monotonic()
        self._results: list[Result] = []
        self._tables: list[Table] = []
        self._conclusion = "The check was stopped, or has not ended yet."
        self._write()

    @property
    def failed(self) -> list[str]:
        """The names of the failed checks."""
        return [result.name for result in self._results if result.passed is False]

    def add(self, result: Result) -> None:
        """Adds the result of a check."""
        self._results.append(result)
        print(f"{MARKS[result.passed].strip('*')}: {result.name}: {result.measured}", flush=True)
        self._write()

    def add_table(self, table: Table) -> None:
        """Adds a table, without rows so far or with all of them."""
        self._tables.append(table)
        self._write()

    def check(self, name: str, check: Callable[[], tuple[bool | None, str]]) -> None:
        """Runs a check, and adds its result.

        Args:
          name: of the check.
          check: returns whether it passes, and what was measured. An exception is a failure, but
            not where an optional package is missing.
        """
        logger.info("checking %s", name)
        try:
            passed, measured = check()
            self.add(Result(name, None if passed is None else bool(passed), measured))
        except ModuleNotFoundError as error:
            self.add(Result(name, None, f"the package {error.name} is not installed"))
        except Exception as error:  # whatever TensorFlow raises
            self.add(Result(name, False, describe_error(error)))
        finally:
            gc.collect()  # models of one part would take memory from the next one

    def measure(
        self, name: str, labels: tuple[str, ...], measure: Callable[[], Sequence[str]]
    ) -> None:
        """Runs a measurement, and adds its row to the last table.

        Args:
          name: of the measurement.
          labels: the first cells of the row.
          measure: returns the other cells. An exception is a failed check, but not a lack of
            memory: a size that does not fit into a device is no failure of the program.
        """
        logger.info("measuring %s", name)
        table = self._tables[-1]
        try:
            row = (*labels, *measure())
        except Exception as error:  # whatever TensorFlow raises
            text = describe_error(error)
            if text != OUT_OF_MEMORY:
                self.add(Result(f"measuring {name}", False, text))
            empty = [""] * (len(table.columns) - len(labels) - 1)
            row = (*labels, text if text == OUT_OF_MEMORY else "failed", *empty)
        finally:
            gc.collect()
        table.rows.append(row)
        print(f"{table.title}: {', '.join(map(' '.join, zip(table.columns, row)))}", flush=True)
        self._write()

    def finish(self) -> None:
        """Writes the conclusion."""
        failed = self.failed
        self._conclusion = f"Failed: {', '.join(failed)}." if failed else "All checks passed."
        self._write()

    def _write(self) -> None:
        checks = Table(
            "Checks",
            "float32 without TF32, except where a precision is named.",
            ("check", "result", "measured"),
            [(name, MARKS[passed], measured) for name, passed, measured in self._results],
        )
        minutes = (time.monotonic() - self._started) / 60
        parts = [
            "# GPU check",
            f"tf_transformer {__version__}, {self._devices}, {time.strftime('%Y-%m-%d')}, "
            f"{minutes:.1f} minutes. {self._conclusion}",
            *(_as_markdown(table) for table in (checks, *self._tables)),
            f"## Installation\n\n```text\n{self.installation.getvalue().strip()}\n```",
        ]
        with open(self._path, "w", encoding="utf-8") as file:
            file.write("\n\n".join(parts) + "\n")


def _as_markdown(table: Table) -> str:
    lines = [f"## {table.title}", "", table.note, ""]
    for cells in (table.columns, ["---"] * len(table.columns), *table.rows):
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def describe_error(error: Exception) -> str:
    """The kind and the first line of an error, shortened."""
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return OUT_OF_MEMORY
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
