"""The test set of evaluate and compare, and where its translations are."""

from __future__ import annotations

import dataclasses
import os
import re

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.config import DataConfig
from tf_transformer.data.corpus import digest
from tf_transformer.data.readers import (
    absolute_path,
    corpus_names,
    languages_of,
    split_languages,
)
from tf_transformer.data.tags import split_tag
from tf_transformer.errors import UserError

Pairs = list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class TestSet:
    """The pairs that are scored."""

    split: str
    description: str  # the split and the name of its corpus
    pairs: Pairs  # at most --max_pairs; the sources have the tags of the model
    size: int  # without this limit
    references: list[list[str]]  # one or more for each pair
    data: DataConfig  # the settings of the model's data, with the languages and tags of these pairs

    def __str__(self) -> str:
        return f"{self.description}: {len(self.pairs):,} pairs"

    @property
    def sources(self) -> list[str]:
        """The texts to translate."""
        return [source for source, _ in self.pairs]

    @property
    def sources_without_tags(self) -> list[str]:
        """The same texts, for a model with other tags."""
        tags = set(self.data.tag.split(","))
        return [split_tag(source, tags)[1] for source in self.sources]


def read_test_set(values: flags.FlagValues, data: DataConfig) -> TestSet:
    """Reads the pairs of --data and --split, or those of the model's own test set.

    Args:
      values: the flags.
      data: the settings of the text that the model was trained on.
    Raises: UserError when there are none, or too many for a comparison with --baseline, or a file
      of references has another number of lines.
    """
    from tf_transformer.data.readers import open_corpus
    from tf_transformer.evaluation.metrics import check_resampling

    name = values.data or data.data
    source, target = languages_of(name, data.source, data.target)
    tag = _tags(values, data)
    corpus = open_corpus(name, data.source, data.target, tag)
    tested, trained = ({path for path, *_ in _texts(each, data)} for each in (name, data.data))
    split = values.split or corpus.default_test(seen=bool(tested & trained))
    pairs = list(corpus.read(split))
    if not pairs:
        raise UserError(f"nothing to score: {corpus.describe(split)} has no pairs")
    number = min(len(pairs), values.max_pairs or len(pairs))
    if values.baseline:
        check_resampling(number)
    references = [lines[:number] for lines in _read_references(values.references, pairs)]
    pairs, size = pairs[:number], len(pairs)
    data = dataclasses.replace(data, source=source, target=target, tag=tag)
    return TestSet(split, corpus.describe(split), pairs, size, references, data)


def read_aligned(path: str, number: int, kind: str) -> list[str]:
    """Reads a file that has a line for each pair. Raises: UserError when it has not."""
    from tf_transformer.data.text_files import read_lines

    lines = list(read_lines(path))
    if len(lines) != number:
        raise UserError(
            f"{path} has {len(lines):,} lines, and the test set {number:,} pairs: give one {kind} "
            "on each line"
        )
    return lines


def tag_for(data: DataConfig, source: str, target: str) -> str | None:
    """Returns the tag with which a model translates from a language to another one.

    It is that of the first corpus of the model with these languages.

    Args:
      data: the settings of the text that the model was trained on.
      source, target: the languages.
    Returns: the tag, "" for none; None where no corpus has these languages.
    """
    names = data.data.split(",") if "," in data.tag else corpus_names(data.data)
    tags = data.tag.split(",") if data.tag else [""] * len(names)
    for name, tag in zip(names, tags):
        if split_languages(name, data.source, data.target)[1:] == (source, target):
            return tag
    return None


def translations_path(model_dir: str, data: DataConfig, test_data: str | None, split: str) -> str:
    """Returns where evaluate writes the translations of a test set.

    Args:
      model_dir: the model folder.
      data: the settings of the text that the model was trained on.
      test_data: the value of --data.
      split: of the text.
    """
    tested = test_data or data.data
    corpora = None if split == "train" else 1  # whose text the split has
    is_own = _texts(tested, data)[:corpora] == _texts(data.data, data)[:corpora]
    name = split if is_own else f"{_as_file_name(absolute_path(tested))}.{split}"
    _, target = languages_of(tested, data.source, data.target)
    return os.path.join(model_folder.writable_folder(model_dir), "evaluation", f"{name}.{target}")


def _tags(values: flags.FlagValues, data: DataConfig) -> str:
    """The setting `tag` of the text that is scored; arguments as for `read_test_set`."""
    name = values.data or data.data
    if not values.tag and _texts(name, data) == _texts(data.data, data):
        return data.tag
    first = data.tag.split(",")[0]
    tags = []
    for _, source, target in _texts(name, data):
        of_languages = tag_for(data, source, target)
        tags.append(values.tag or (first if of_languages is None else of_languages))
    return ",".join(tags) if any(tags) else ""


def _texts(name: str, data: DataConfig) -> list[tuple[str, str, str]]:
    """Path, source and target of the corpora that a setting names.

    Args:
      name: the setting `data`.
      data: of the model, whose languages are those of names without some.
    """
    names = corpus_names(absolute_path(name))
    return [split_languages(each, data.source, data.target) for each in names]


def _as_file_name(data: str) -> str:
    """The value of --data as a part of a file name; a long one ends with a hash of all of it."""
    name = re.sub(r"[^\w.+-]+", "-", data).strip("-")
    return name if len(name) <= 100 else f"{name[:80]}-{digest(data)}"


def _read_references(paths_of_files: str | None, pairs: Pairs) -> list[list[str]]:
    """The sets of references: those of the files, or the targets of the pairs."""
    if not paths_of_files:
        return [[target for _, target in pairs]]
    return [read_aligned(path, len(pairs), "reference") for path in paths_of_files.split(",")]
