"""The command clean."""

from __future__ import annotations

import collections
import contextlib
import gzip
import io
import logging
import os
from collections.abc import Callable, Iterator
from typing import IO, cast

from absl import flags

from tf_transformer.atomic_io import atomic_write
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output
from tf_transformer.config import TREES, WORDS
from tf_transformer.data.filter_config import FilterConfig
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)

SHOW_PAIRS = 10_000  # between two updates of the progress bar

WritePair = Callable[[str, str], None]


def clean(values: flags.FlagValues) -> None:
    """Writes the sentence pairs that no filter rejects, and prints how many each one rejects."""
    from tf_transformer.data.filters import PairFilter, clean_pairs
    from tf_transformer.data.progress import Progress

    config = FilterConfig(**given(values, (FilterConfig,)))
    outputs = _output_paths(values)
    name, pairs = _open_pairs(values)
    pair_filter = PairFilter(config, values.source, values.target)
    if pair_filter.unknown and config.min_script:
        languages = " and ".join(pair_filter.unknown)
        logger.warning("--min_script does not check %s: the script is not known", languages)
    counts: collections.Counter[str] = collections.Counter()
    progress = Progress("cleaning", "pairs") if outputs else contextlib.nullcontext()
    with contextlib.ExitStack() as stack:
        write = _open_pair_output(stack, outputs)
        rejected = stack.enter_context(_open_text(values.rejected)) if values.rejected else None
        bar = stack.enter_context(progress)
        for reason, source, target in clean_pairs(pairs, pair_filter, config):
            counts[reason] += 1
            if not reason:
                write(source, target)
            elif rejected:
                rejected.write(f"{reason}\t{_tsv(source, target)}\n")
            if bar and counts.total() % SHOW_PAIRS == 0:
                bar.show(counts.total())
    for line in _describe_counts(name, counts):
        if outputs:
            print(line)
        else:  # standard output has the pairs
            logger.info(line)


def _output_paths(values: flags.FlagValues) -> list[str]:
    """The paths of --output: of a TSV file, or of two files; none for standard output.

    Raises: UserError when a path is given twice, or a file exists and --overwrite is not given.
    """
    outputs = values.output.split(",") if values.output else []
    if len(outputs) > 2:
        raise UserError(
            f"--output={values.output}: give a TSV file, or two files SOURCE_FILE,TARGET_FILE"
        )
    written = [*outputs, *([values.rejected] if values.rejected else [])]
    for index, path in enumerate(written):
        if not path:
            raise UserError(f"--output={values.output}: the name of a file is missing")
        if os.path.realpath(path) in map(os.path.realpath, written[:index]):
            raise UserError(f"{path} is given twice: give another path to one of the outputs")
        if os.path.isfile(path) and not values.overwrite:
            raise UserError(f"{path} exists: give another path, or --overwrite to replace it")
    return outputs


def _open_pairs(values: flags.FlagValues) -> tuple[str, Iterator[tuple[str, str]]]:
    """The name of the text, for messages, and its sentence pairs.

    Raises: UserError for trees, or when there is no such text.
    """
    from tf_transformer.data.corpus import read_lines, split_tsv
    from tf_transformer.data.sources import POCKET_TREES, open_corpus

    if (values.source, values.target) == (WORDS, TREES) or values.data == POCKET_TREES:
        raise UserError("clean is for sentence pairs, not for trees: give --source and --target")
    if not values.data:
        if values.split:
            raise UserError("--split is for --data: standard input has no splits")
        lines = enumerate(read_lines(None), start=1)
        return "standard input", (split_tsv(line, number, None) for number, line in lines)
    corpus = open_corpus(values.data, values.source, values.target)
    # Pairs that train would hold out for validation are cleaned too.
    split = corpus.known(values.split or ("all" if "all" in corpus.splits else "train"))
    return f"{split} of {corpus.name}", corpus.read(split)


def _open_pair_output(stack: contextlib.ExitStack, outputs: list[str]) -> WritePair:
    """Opens the output. Returns: a function that writes a pair to it."""
    if len(outputs) < 2:
        file = stack.enter_context(_open_text(outputs[0]) if outputs else open_output(None))
        return lambda source, target: _write_line(file, _tsv(source, target))
    source_file, target_file = (stack.enter_context(_open_text(path)) for path in outputs)

    def write(source: str, target: str) -> None:
        _write_line(source_file, source)
        _write_line(target_file, target)

    return write


def _write_line(file: IO[str], line: str) -> None:
    file.write(f"{line}\n")


def _tsv(source: str, target: str) -> str:
    """A line of a TSV file; tabs in the text become blanks."""
    return "\t".join(text.replace("\t", " ") for text in (source, target))


@contextlib.contextmanager
def _open_text(path: str) -> Iterator[IO[str]]:
    """Opens a text file as `open_output`; it is compressed when its name ends in .gz."""
    if not path.endswith(".gz"):
        with open_output(path) as file:
            yield file
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with atomic_write(path, "wb") as binary:
        # Without the name and the time, the same text gives the same file.
        compressed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=binary, mtime=0)
        text = io.TextIOWrapper(cast(IO[bytes], compressed), encoding="utf-8", newline="\n")
        yield text
        text.close()


def _describe_counts(name: str, counts: collections.Counter[str]) -> Iterator[str]:
    """The lines of the table of reasons; `counts` has the number of kept pairs under ""."""
    from tf_transformer.data.filters import REASONS

    pairs = counts.total()

    def row(title: str, number: int) -> str:
        return f"  {title:20} {number:12,} {number / max(pairs, 1):8.2%}"

    yield f"{name}: {pairs:,} pairs"
    yield row("kept", counts[""])
    for reason in REASONS:
        if counts[reason]:
            yield row(reason, counts[reason])
