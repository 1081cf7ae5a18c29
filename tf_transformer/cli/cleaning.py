"""The command clean."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gzip
import io
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, cast

from absl import flags

from tf_transformer.cli.command import Flag, command, given, language_flags, settings_flags
from tf_transformer.config import TREES, WORDS, FilterConfig
from tf_transformer.data.corpus import WeightedPair
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_files

logger = logging.getLogger(__name__)

SHOW_PAIRS = 10_000  # between two updates of the progress bar

WritePair = Callable[[str, str, float | None], None]  # source, target, weight


@dataclasses.dataclass(frozen=True)
class _Text:
    """A text to clean."""

    name: str  # for messages
    languages: tuple[str, str]  # of source and target
    pairs: Iterator[WeightedPair]


@command(
    "clean",
    "write the sentence pairs of a corpus that are not noise, and count the others",
    lambda: [
        Flag("data", str, "sentence pairs, as for train (default: TSV on standard input)"),
        *language_flags(),
        Flag(
            "split", str,
            "split to clean (default: train, with the pairs that train holds out for validation)",
        ),
        Flag(
            "output", str,
            "file for the clean pairs: TSV, or two files SOURCE_FILE,TARGET_FILE; compressed if "
            "the name ends in .gz (default: TSV on standard output)",
        ),
        Flag(
            "rejected", str,
            "file for the other pairs, TSV: reason, source, target, and weight where there are "
            "some",
        ),
        Flag("overwrite", bool, "replace files that exist", False),
        *settings_flags(FilterConfig, "Filters"),
    ],
)  # fmt: skip
def clean(values: flags.FlagValues) -> None:
    """Writes the sentence pairs that no filter rejects, and prints how many each one rejects."""
    from tf_transformer.data.cleaning import PairFilter, clean_pairs
    from tf_transformer.data.progress import Progress

    config = FilterConfig(**given(values, (FilterConfig,)))
    outputs = _output_paths(values)
    texts = _read_input(values)
    filters = [PairFilter(config, *text.languages) for text in texts]
    if config.min_script:
        for language in dict.fromkeys(itertools.chain(*(each.unknown for each in filters))):
            logger.warning("--min_script does not check %s: the script is not known", language)
    counts: collections.Counter[str] = collections.Counter()
    progress = Progress("cleaning", "pairs") if outputs else contextlib.nullcontext()
    rejected_path = [values.rejected] if values.rejected else []
    with _open_texts([*outputs, *rejected_path]) as files, progress as bar:
        rejected = files.pop() if rejected_path else None
        write = _pair_writer(files)
        all_pairs = zip(filters, [text.pairs for text in texts])
        for reason, (source, target, weight) in clean_pairs(all_pairs, config):
            counts[reason] += 1
            if not reason:
                write(source, target, weight)
            elif rejected:
                rejected.write(f"{reason}\t{_tsv(source, target, weight)}\n")
            if bar and counts.total() % SHOW_PAIRS == 0:
                bar.show(counts.total())
    for line in _describe_counts(" and ".join(text.name for text in texts), counts):
        if outputs:
            print(line)
        else:  # standard output has the pairs
            logger.info(line)


def _output_paths(values: flags.FlagValues) -> list[str]:
    """The paths of --output: of a TSV file, or of two files; none for standard output.

    Raises: UserError when a path is given twice or is for JSON lines, or a file exists and
      --overwrite is not given.
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
        if path.removesuffix(".gz").endswith(".jsonl"):
            raise UserError(f"{path}: clean writes TSV or two text files, not JSON lines")
        if os.path.realpath(path) in map(os.path.realpath, written[:index]):
            raise UserError(f"{path} is given twice: give another path to one of the outputs")
        if os.path.isfile(path) and not values.overwrite:
            raise UserError(_exists(path, outputs))
    return outputs


def _exists(path: str, outputs: list[str]) -> str:
    """The message for an existing output."""
    missing = [other for other in outputs if not os.path.exists(other)]
    if path in outputs and missing:
        return (
            f"{path} exists and {missing[0]} does not, as after a run that was killed: give other "
            "paths, or --overwrite to write both again"
        )
    return f"{path} exists: give another path, or --overwrite to replace it"


def _read_input(values: flags.FlagValues) -> list[_Text]:
    """Opens the texts to clean. Raises: UserError for trees, or when there is no such text."""
    from tf_transformer.data.readers import (
        POCKET_TREES,
        corpus_names,
        open_corpus,
        split_languages,
    )
    from tf_transformer.data.text_files import parse_tsv, read_lines

    if (values.source, values.target) == (WORDS, TREES) or values.data == POCKET_TREES:
        raise UserError("clean is for sentence pairs, not for trees: give --source and --target")
    if not values.data:
        if values.split:
            raise UserError("--split is for --data: standard input has no splits")
        languages = values.source, values.target
        lines = enumerate(read_lines(None), start=1)
        parsed = (parse_tsv(line, f"standard input:{number}") for number, line in lines)
        return [_Text("standard input", languages, parsed)]
    corpus = open_corpus(values.data, values.source, values.target)
    # The split "all" of a corpus also has the pairs that train would hold out for validation.
    wanted = values.split or "all"
    corpora = corpus.parts("train" if wanted == "all" else corpus.known(wanted))
    splits = [
        each.known(wanted if values.split or "all" in each.splits else "train") for each in corpora
    ]
    firsts = [next(each.read_weighted(split), None) for each, split in zip(corpora, splits)]
    has_weights = any(first and first[2] is not None for first in firsts)
    texts = []
    for name, each, split in zip(corpus_names(values.data), corpora, splits):
        _, source, target = split_languages(name, values.source, values.target)
        pairs = each.read_weighted(split)
        if has_weights:  # then all pairs get one
            pairs = ((s, t, 1.0 if weight is None else weight) for s, t, weight in pairs)
        texts.append(_Text(each.describe(split), (source, target), pairs))
    return texts


def _pair_writer(files: list[IO[str]]) -> WritePair:
    """A function that writes a pair to a TSV file, to two files, or without one to the output.

    It raises: UserError for a weight, which two files cannot have.
    """
    if len(files) < 2:
        file = files[0] if files else sys.stdout
        return lambda *pair: _write_line(file, _tsv(*pair))
    source_file, target_file = files

    def write(source: str, target: str, weight: float | None) -> None:
        if weight not in (None, 1.0):
            raise UserError(
                "the pairs have weights, which two text files cannot have: give a TSV file as "
                "--output"
            )
        _write_line(source_file, source)
        _write_line(target_file, target)

    return write


def _write_line(file: IO[str], line: str) -> None:
    file.write(f"{line}\n")


def _tsv(source: str, target: str, weight: float | None) -> str:
    """A line of a TSV file; tabs in the text become blanks."""
    columns = [source, target] if weight is None else [source, target, f"{weight:.9g}"]
    return "\t".join(text.replace("\t", " ") for text in columns)


@contextlib.contextmanager
def _open_texts(paths: list[str]) -> Iterator[list[IO[str]]]:
    """Opens text files, which appear together; those whose names end in .gz are compressed.

    Their folders are created where they do not exist.
    """
    for path in paths:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with atomic_files(paths, "wb") as binaries:
        texts = [_text_file(path, binary) for path, binary in zip(paths, binaries)]
        yield list(texts)
        for path, text in zip(paths, texts):
            text.flush()
            if path.endswith(".gz"):
                text.close()  # writes the end of the archive
            else:
                text.detach()  # which leaves the file open


def _text_file(path: str, binary: IO[bytes]) -> io.TextIOWrapper:
    """Encodes text as UTF-8, and compresses it when the name ends in .gz."""
    if path.endswith(".gz"):
        # Without the name and the time, the same text gives the same file.
        compressed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=binary, mtime=0)
        binary = cast(IO[bytes], compressed)
    return io.TextIOWrapper(binary, encoding="utf-8", newline="\n")


def _describe_counts(name: str, counts: collections.Counter[str]) -> Iterator[str]:
    """The lines of the table of reasons; `counts` has the number of kept pairs under ""."""
    from tf_transformer.data.cleaning import REASONS

    pairs = counts.total()

    def row(title: str, number: int) -> str:
        return f"  {title:20} {number:12,} {number / max(pairs, 1):8.2%}"

    yield f"{name}: {pairs:,} pairs"
    yield row("kept", counts[""])
    for reason in REASONS:
        if counts[reason]:
            yield row(reason, counts[reason])
