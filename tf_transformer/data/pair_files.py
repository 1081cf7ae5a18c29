"""Files of sentence pairs: two text files, TSV and JSON lines, with or without weights."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tf_transformer.data.corpus import WeightedPair, read_lines
from tf_transformer.errors import UserError

# Of a pair in the loss.
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
JSON_LINES = (".jsonl", ".jsonl.gz")


def read_pair_files(paths: Sequence[str], languages: tuple[str, str]) -> Iterator[WeightedPair]:
    """Reads sentence pairs.

    Args:
      paths: (SOURCE_FILE, TARGET_FILE), (TSV_FILE,), or (FILE,) of JSON lines, whose name ends in
        `.jsonl` or `.jsonl.gz`.
      languages: of source and target, the names of the texts in JSON lines.
    Yields: (source, target, weight). The weight is None where the file has no weights; in JSON
      lines it is 1 where a line has none.
    Raises: UserError for an empty file, two files with different line counts, invalid UTF-8, and a
      line of another form.
    """
    if len(paths) == 2:
        yield from _read_two_files(paths)
        return
    (path,) = paths
    empty = True
    lines = read_lines(path)
    pairs = _read_json(lines, path, languages) if is_json_lines(path) else read_tsv(lines, path)
    for pair in pairs:
        empty = False
        yield pair
    if empty:
        raise UserError(f"{path} is empty")


def is_json_lines(path: str) -> bool:
    """Whether the name of a file is that of JSON lines."""
    return path.endswith(JSON_LINES)


def _read_two_files(paths: Sequence[str]) -> Iterator[WeightedPair]:
    counts = [0, 0]
    for source, target in itertools.zip_longest(*map(read_lines, paths)):
        counts[0] += source is not None
        counts[1] += target is not None
        if source is not None and target is not None:
            yield source, target, None
    for path, count in zip(paths, counts):
        if not count:
            raise UserError(f"{path} is empty")
    if counts[0] != counts[1]:
        lines = " and ".join(f"{path} has {count:,} lines" for path, count in zip(paths, counts))
        raise UserError(f"{lines}: the two sides must have one line for each pair")


def read_tsv(lines: Iterator[str], path: str | None) -> Iterator[WeightedPair]:
    """Splits lines into source, target and, where the first line has it, a weight.

    Args:
      lines: of the file.
      path: of the file, for messages; None for standard input.
    Yields: (source, target, weight); the weight is None where there are two columns.
    Raises: UserError for a line with another number of columns, or a weight that is no number from
      `LEAST_WEIGHT` to `MOST_WEIGHT`.
    """
    first = 0  # columns of the first line
    for number, line in enumerate(lines, start=1):
        columns = line.split("\t")
        place = f"{path or 'standard input'}:{number}"
        first = first or len(columns)
        if len(columns) != first or first not in (2, 3):
            raise UserError(
                f"{place}: {len(columns)} columns: give source, one tab, target; a third column is "
                "the weight of the pair, in all lines or in none"
            )
        weight = None
        if first == 3:
            advice = "; to remove the third column, use `cut -f 1,2`"
            weight = _weight(columns[2], place, advice)
        yield columns[0], columns[1], weight


def _read_json(
    lines: Iterator[str], path: str, languages: tuple[str, str]
) -> Iterator[WeightedPair]:
    """Reads lines such as {"en": "a cat", "de": "eine Katze", "weight": 0.5}.

    The texts can also be in an object "translation", as in data sets of Hugging Face.
    """
    for number, line in enumerate(lines, start=1):
        place = f"{path}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place}: not a line of JSON ({error})") from None
        if not isinstance(record, dict):
            raise UserError(f"{place}: not an object of JSON: give {_example(languages)}")
        texts = record.get("translation", record)
        sides = [_text(texts, language, languages, place) for language in languages]
        yield sides[0], sides[1], _weight(record.get("weight", 1.0), place)


def _text(texts: Any, language: str, languages: tuple[str, str], place: str) -> str:
    """One side of a pair, with blanks instead of line breaks."""
    text = texts.get(language) if isinstance(texts, dict) else None
    if not isinstance(text, str):
        raise UserError(f'{place}: no text "{language}": give {_example(languages)}')
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UserError(
            f'{place}: the text "{language}" is not Unicode: it has half of a surrogate pair, as '
            "after a cut within an emoji"
        )
    return " ".join(text.splitlines())


def _example(languages: tuple[str, str]) -> str:
    source, target = languages
    return f'{{"{source}": "...", "{target}": "..."}}, and "weight" where a pair has one'


def _weight(value: Any, place: str, advice: str = "") -> float:
    """The weight of a pair. Raises: UserError where it is no number from LEAST to MOST."""
    try:
        weight = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        weight = -1.0
    if LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        return weight
    raise UserError(
        f"{place}: the weight {value!r} is not a number from {LEAST_WEIGHT:.6f} to "
        f"{MOST_WEIGHT:,.0f}{advice}"
    )
