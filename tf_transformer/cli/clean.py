"""The command clean."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from absl import flags

from tf_transformer.cli.command import Flag, command, given, is_for, language_flags, settings_flags
from tf_transformer.config import TREES, FilterConfig
from tf_transformer.data.corpus import WeightedPair
from tf_transformer.data.progress import Progress
from tf_transformer.data.readers import corpora_of, open_corpus
from tf_transformer.data.text_files import COMPRESSIONS, STANDARD_INPUT, read_tsv, uncompressed
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write

logger = logging.getLogger(__name__)

SHOW_PAIRS = 10_000  # between two updates of the progress bar
# The name of a text for messages, its languages, its pairs.
Text = tuple[str, tuple[str, str], Iterator[WeightedPair]]


@command(
    "clean",
    "write the sentence pairs of a corpus that are not noise, and count the others",
    lambda: [
        Flag("data", str, "sentence pairs, as for train (default: TSV on standard input)"),
        *language_flags(),
        Flag("split", str, "split to clean (default: train, with what training holds out)"),
        Flag(
            "output", str,
            "file for the clean pairs: TSV, or two files SOURCE_FILE,TARGET_FILE; compressed if "
            "the name ends in .gz, .bz2 or .xz (default: TSV on standard output)",
        ),
        Flag("rejected", str, "file for the other pairs, TSV: reason, source, target, weight"),
        Flag("overwrite", bool, "replace files that exist", False),
        *settings_flags(FilterConfig, "Filters"),
    ],
)  # fmt: skip
def clean(values: flags.FlagValues) -> None:
    """Writes the sentence pairs that no filter rejects, and prints how many each one rejects."""
    from tf_transformer.data.cleaning import REASONS, PairFilter, clean_pairs

    config = FilterConfig(**given(values, (FilterConfig,)))
    outputs, paths = _output_paths(values)
    texts = _read_input(values)
    filters = [PairFilter(config, *languages) for _, languages, _ in texts]
    if config.min_script:
        for language in dict.fromkeys(code for each in filters for code in each.unknown):
            logger.warning("--min_script does not check %s: the script is not known", language)
    filtered = zip(filters, [pairs for *_, pairs in texts])
    counts: collections.Counter[str] = collections.Counter()
    with contextlib.ExitStack() as stack, Progress("cleaning", "pairs") as bar:
        files = [stack.enter_context(_open(path)) for path in paths]
        rejected = files.pop() if values.rejected else None
        for reason, (source, target, weight) in clean_pairs(filtered, config):
            counts[reason] += 1
            columns = [text.replace("\t", " ") for text in (source, target)]
            columns += [] if weight is None else [f"{weight:.9g}"]
            if reason:
                if rejected:
                    _write(rejected, reason, *columns)
            elif len(outputs) < 2:
                _write(files[0] if files else sys.stdout.buffer, *columns)
            elif weight in (None, 1.0):
                _write(files[0], source)
                _write(files[1], target)
            else:
                raise UserError(
                    "the pairs have weights, which two text files cannot have: give a TSV file as "
                    "--output"
                )
            if counts.total() % SHOW_PAIRS == 0:
                bar.show(counts.total())
    pairs = counts.total()
    lines = [f"{' and '.join(name for name, *_ in texts)}: {pairs:,} pairs"]
    for reason in ("", *REASONS):
        if counts[reason] or not reason:
            share = counts[reason] / max(pairs, 1)
            lines.append(f"  {reason or 'kept':20} {counts[reason]:12,} {share:8.2%}")
    show = print if outputs else logger.info  # standard output may have the pairs
    for line in lines:
        show(line)


def _output_paths(values: flags.FlagValues) -> tuple[list[str], list[str]]:
    """The paths of --output, none for standard output; these and that of --rejected.

    Raises: UserError when a path is given twice or is for JSON lines, or a file exists and
      --overwrite is not given.
    """
    outputs = values.output.split(",") if values.output else []
    if len(outputs) > 2 or not all(outputs):
        raise UserError(
            f"--output={values.output}: give a TSV file, or two files SOURCE_FILE,TARGET_FILE"
        )
    paths = [*outputs, values.rejected] if values.rejected else outputs
    for index, path in enumerate(paths):
        if uncompressed(path).endswith(".jsonl"):
            raise UserError(f"{path}: clean writes TSV or two text files, not JSON lines")
        if os.path.realpath(path) in map(os.path.realpath, paths[:index]):
            raise UserError(f"{path} is given twice: give another path to one of the outputs")
        if os.path.isfile(path) and not values.overwrite:
            raise UserError(f"{path} exists: give another path, or --overwrite to replace it")
    return outputs, paths


def _read_input(values: flags.FlagValues) -> list[Text]:
    """Opens the texts to clean. Raises: UserError when there is no such text."""
    languages = values.source, values.target
    if TREES in languages:
        raise UserError("clean is for sentence pairs, not for trees: give --source and --target")
    is_for(values, "data", "split")
    if not values.data:
        return [(STANDARD_INPUT, languages, read_tsv(None))]
    corpus = open_corpus(values.data, *languages)
    # The split "all" of a corpus also has the pairs that train would hold out for validation.
    wanted = values.split or "all"
    corpora = corpus.parts("train" if wanted == "all" else corpus.known(wanted))
    texts: list[Text] = []
    for (_, source, target), each in zip(corpora_of(values.data, *languages), corpora):
        split = each.known(wanted if values.split or "all" in each.splits else "train")
        texts.append((each.describe(split), (source, target), each.read_weighted(split)))
    return texts


@contextlib.contextmanager
def _open(path: str) -> Iterator[IO[Any]]:
    """Opens a file, which appears when it is complete, compressed where its name says so."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with atomic_write(path, "wb") as file:
        if compress := COMPRESSIONS.get(os.path.splitext(path)[1]):
            with compress(file, "wb") as compressed:
                yield compressed
        else:
            yield file


def _write(file: IO[bytes], *columns: str) -> None:
    file.write("\t".join(columns).encode() + b"\n")
