"""The output of `tf-transformer client`: a file that a later run can continue, or a stream."""

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from typing import IO, Any

from tf_transformer.atomic_io import try_lock
from tf_transformer.cli.streams import open_named
from tf_transformer.cli.terminal import open_output
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)

SUFFIX = ".partial"  # of the name of a file with the translations of a run that is not complete


class TranslationOutput:
    """Where the translations of lines are written, in the order of the lines.

    Attributes:
      written: the number of lines whose translations are written.
      too_long: the numbers of those that were too long to be translated.
    """

    def __init__(self) -> None:
        self.written = 0
        self.too_long: list[int] = []

    def write(self, source: str, translation: str, score: float) -> None:
        """Writes the translation of the next line, so that a reader sees it at once."""
        raise NotImplementedError

    def _count(self, score: float) -> None:
        self.written += 1
        if not is_possible(score):
            self.too_long.append(self.written)


class StreamOutput(TranslationOutput):
    """Writes translations to standard output, a pipe or a device.

    Args:
      file: to write to.
    """

    def __init__(self, file: IO[str]) -> None:
        super().__init__()
        self._file = file

    def write(self, source: str, translation: str, score: float) -> None:
        """Writes the translation of the next line."""
        self._file.write(f"{translation}\n")
        self._file.flush()
        self._count(score)


class PartialOutput(TranslationOutput):
    """Writes translations to FILE.partial, until all are there to make FILE of it.

    The first line of FILE.partial is JSON with the server, the model, and whether lines are split
    into sentences. Each other line is JSON with a source line, its translation and its score, so a
    run that continues can check that it translates the same text. The last line may be incomplete,
    when a process was killed.

    Args:
      path: FILE.
      server: its address.
      model: its name.
      split_sentences: whether each sentence of a line is translated.
    Raises: UserError when FILE.partial has translations of another server or model, or with another
      `split_sentences`, is another file, or is being written; OSError whose `filename` is FILE when
      it cannot be written.
    """

    def __init__(self, path: str, server: str, model: str, split_sentences: bool = False) -> None:
        super().__init__()
        self._path = path
        self.partial = path + SUFFIX
        self._split_sentences = split_sentences
        settings = {"server": server, "model": model, "split_sentences": split_sentences}
        self._header = _json_line(settings)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        try:
            # Only we may read it: FILE, which it replaces, may be private.
            handle = os.open(self.partial, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            error.filename = path
            raise
        self._binary: IO[Any] = open_named(handle, "wb", path)
        try:
            self._lock(handle)
            self._check_header()
        except BaseException:
            self._binary.close()
            raise

    def _lock(self, handle: int) -> None:
        if try_lock(handle) is False:
            raise UserError(
                f"another process writes {self.partial}: wait, stop it, or give another --output"
            )

    def _check_header(self) -> None:
        """Raises: UserError when FILE.partial is not that of a run with this server and model."""
        with open(self.partial, "rb") as file:
            header = file.readline(2 * len(self._header) + 10_000)
        if self._header.startswith(header):  # the same, or incomplete, or missing
            return
        match _read_json(header):
            case {"split_sentences": bool(split)} if split is not self._split_sentences:
                raise UserError(
                    f"{self.partial} has translations {'with' if split else 'without'} "
                    "--split_sentences: give the same flags, or remove it to start again"
                )
            case {"server": str(server), "model": str(model)}:
                raise UserError(
                    f"{self.partial} has translations of the model {model} at {server}: give "
                    f"that server and --name, or remove {self.partial} to start again"
                )
        raise UserError(
            f"{self.partial} is not a file of unfinished translations: rename it, or give another "
            "--output"
        )

    def resume(self, lines: Iterator[str], name: str) -> None:
        """Reads the lines whose translations an earlier run has written.

        Args:
          lines: of the input.
          name: of the input, for messages.
        Raises: UserError when these are other lines.
        """
        end = 0
        with open(self.partial, "rb") as file:
            if file.readline() == self._header:
                end = len(self._header)
            for record in file:
                match _read_json(record):
                    case [str(source), str(), int() | float() as score] if record.endswith(b"\n"):
                        self._check_source(source, next(lines, None), name)
                        self._count(score)
                        end += len(record)
                    case _:  # incomplete
                        break
        self._binary.truncate(end)
        if not end:
            self._append(self._header)
        if self.written:
            logger.info(
                "continuing after line %d: %s has the translations before it",
                self.written,
                self.partial,
            )

    def _check_source(self, before: str, now: str | None, name: str) -> None:
        if before != now:
            raise UserError(
                f"{name}:{self.written + 1}: {self.partial} has the translation of another line: "
                f"give the same input as before, or remove {self.partial} to start again"
            )

    def write(self, source: str, translation: str, score: float) -> None:
        """Appends the translation of the next line. A process that is killed now keeps it."""
        self._append(_json_line([source, translation, score]))
        self._count(score)

    def _append(self, line: bytes) -> None:
        self._binary.write(line)
        self._binary.flush()

    def complete(self) -> None:
        """Makes FILE, which appears under its name when it is complete."""
        with open(self.partial, "rb") as file, open_output(self._path) as output:
            next(file)
            for record in file:
                output.write(f"{json.loads(record)[1]}\n")
        self.remove()

    def keep(self) -> None:
        """Says what an interrupted run has done; without a translation, nothing is kept."""
        if not self.written:
            self.remove()
            return
        logger.warning(
            "%s has the translations of lines 1 to %s: the same command continues after them",
            self.partial,
            f"{self.written:,}",
        )

    def remove(self) -> None:
        """Removes FILE.partial."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.partial)

    def close(self) -> None:
        """Closes FILE.partial, so that another process can write it."""
        with contextlib.suppress(OSError):  # the disk is full
            self._binary.close()


def _json_line(value: Any) -> bytes:
    return f"{json.dumps(value, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")


def _read_json(line: bytes) -> Any:
    """Returns the JSON in a line, or None."""
    try:
        return json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


@contextlib.contextmanager
def open_translations(
    path: str | None,
    server: str,
    model: str,
    split_sentences: bool,
    lines: Iterator[str],
    name: str,
) -> Iterator[TranslationOutput]:
    """Opens the output for the translations of lines.

    A file appears under its name when the block ends without an error. Otherwise FILE.partial keeps
    what was written, and the next call continues after it.

    Args:
      path: of the output; None for standard output.
      server, model, split_sentences: as for `PartialOutput`.
      lines: of the input. Those that are done are read here.
      name: of the input, for messages.
    Yields: a `TranslationOutput`.
    Raises: UserError when an earlier run does not fit this one.
    """
    if not path or path.endswith("/") or (os.path.exists(path) and not os.path.isfile(path)):
        with open_output(path) as file:  # which refuses a folder
            stream = StreamOutput(file)
            try:
                yield stream
            except UserError as error:
                if not stream.written:
                    raise
                raise UserError(
                    f"{error} (the results of lines 1 to {stream.written:,} are written)"
                ) from None
        return
    output = PartialOutput(path, server, model, split_sentences)
    with contextlib.closing(output):
        output.resume(lines, name)
        try:
            yield output
            output.complete()
        except BaseException:
            output.keep()
            raise
