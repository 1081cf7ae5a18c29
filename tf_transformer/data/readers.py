"""Readers of corpora: what `--data` can name.

`PAIR_FORMATS` is the table of files with both sides of each pair, by the ending of their names. Any
file can be compressed, `.gz`. The other corpora are two text files, folders, data sets of
TensorFlow Datasets, treebanks, and the built-in ones.
"""

import dataclasses
import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from tf_transformer.config import TREES, WORDS, DataConfig
from tf_transformer.data.corpus import Corpus, WeightedPair, file_fingerprint, range_of_split
from tf_transformer.data.mixture import MixedCorpus, TaggedCorpus, parse_weights
from tf_transformer.data.pocket import PocketCorpus, PocketTreebank
from tf_transformer.data.tags import parse_tags
from tf_transformer.data.text_files import read_lines, split_tsv
from tf_transformer.data.trees import TreebankCorpus, tree_files
from tf_transformer.errors import UserError

POCKET_TREES = "pocket-trees"  # the built-in treebank
TFDS_NAME = re.compile(r"[a-z]\w*(/[\w.-]+)*(:[\d.*]+)?")
LANGUAGES = re.compile(r"(.+)@(\w+)-(\w+)")  # NAME@SOURCE-TARGET
VALIDATION_NAMES = ("validation", "valid", "val", "dev")
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6  # of a pair in the loss


def open_corpus(data: str, source: str, target: str, tag: str = "") -> Corpus:
    """Opens the corpus, or the corpora, that `data` names.

    Args:
      data: one of
        - "pocket", the built-in corpus;
        - a folder with `train.SOURCE` and `train.TARGET` (plain or `.gz`), or one `train` file of
          `PAIR_FORMATS`; with validation files named `validation`, `valid`, `val` or `dev`, and
          test files `test*`;
        - a file of `PAIR_FORMATS`;
        - two files, "SOURCE_FILE,TARGET_FILE";
        - a TFDS name such as "wmt14_translate/de-en";
        - for trees (Sec. 6.3): "pocket-trees", the built-in treebank, or a folder of `.mrg` files;
        - several of these, except two files, separated by commas. After each, "@SOURCE-TARGET" are
          its languages where they are others.
      source, target: language codes, such as "en" and "de"; for trees "words" and "trees".
      tag: the tag before each source, such as "<2de>", of each corpus; "" for none.
    Returns: a `PocketCorpus`, `FileCorpus`, `TfdsCorpus`, `PocketTreebank`, `TreebankCorpus`, or
      with a tag a `TaggedCorpus`, or for several corpora a `MixedCorpus`.
    Raises: UserError when there is no such corpus, or it lacks one of the languages; for another
      number of tags than corpora.
    """
    names = corpus_names(data)
    tags = parse_tags(tag, len(names))
    corpora = [_open_with_languages(name, source, target) for name in names]
    corpora = [TaggedCorpus(each, tag) if tag else each for each, tag in zip(corpora, tags)]
    return corpora[0] if len(corpora) == 1 else MixedCorpus(corpora)


def corpus_of_run(data: DataConfig) -> Corpus:
    """Opens the corpora of the settings of a run, and checks the settings that are about them.

    Raises: UserError as `open_corpus`; for another number of weights than corpora, and where the
      first corpus, which is validated on, has other languages than the model.
    """
    names = corpus_names(data.data)
    languages = languages_of(data.data, data.source, data.target)
    if languages != (data.source, data.target):
        raise UserError(
            f"the first corpus, {names[0]}, has the languages {' and '.join(languages)}, and the "
            f"model {data.source} and {data.target}: give --source={languages[0]} "
            f"--target={languages[1]}, or another first corpus"
        )
    weights = parse_weights(data.data_weights)
    if weights and len(weights) != len(names):
        raise UserError(
            f"data_weights {data.data_weights} are {len(weights)}, and data names {len(names)}: "
            "give one weight for each corpus"
        )
    return open_corpus(data.data, data.source, data.target, data.tag)


def _open_with_languages(name: str, source: str, target: str) -> Corpus:
    """Opens the corpus of `DATA` or `DATA@SOURCE-TARGET`, whose name for messages has both."""
    data, *languages = split_languages(name, source, target)
    corpus = _open_one(data, *languages)
    if data != name:
        corpus.name = f"{corpus.name} ({'-'.join(languages)})"
    return corpus


def _open_one(data: str, source: str, target: str) -> Corpus:
    """Opens one corpus; as for `open_corpus`."""
    if source == target:
        raise UserError(f"source and target are both {source!r}: give two languages")
    if (source, target) == (WORDS, TREES):
        if data != POCKET_TREES:
            return TreebankCorpus(data)
        return PocketTreebank()
    if data == POCKET_TREES:
        raise UserError(
            f"{POCKET_TREES} has {WORDS} and {TREES}, not {source} and {target}: "
            f"to train on trees, give --source={WORDS} --target={TREES}"
        )
    if data == "pocket":
        return PocketCorpus(source, target)
    if os.path.isdir(data):
        files = _folder_files(data, source, target)
        return FileCorpus(files, f"folder {data}", (source, target))
    if os.path.isfile(data):
        return FileCorpus({"train": (data,)}, f"file {data}", (source, target))
    if "," in data and not os.path.exists(data):
        return FileCorpus({"train": _two_files(data)}, f"files {data}", (source, target))
    if TFDS_NAME.fullmatch(data):
        return TfdsCorpus(data, source, target)
    raise UserError(f"no such data folder or file: {data}: give with --data {describe_data()}")


def _two_files(data: str) -> tuple[str, str]:
    """Splits "SOURCE_FILE,TARGET_FILE" into two paths."""
    source, target = data.split(",")
    for path in (source, target):
        if not os.path.isfile(path):
            raise UserError(f"no such file: {path}")
    return source, target


def corpus_names(data: str) -> list[str]:
    """Splits the argument `data` of `open_corpus` into the names of the corpora.

    Raises: UserError for an empty name.
    """
    names = data.split(",")
    if os.path.exists(data) or (len(names) == 2 and _are_files_of_two_languages(*names)):
        return [data]  # a name with a comma, or SOURCE_FILE,TARGET_FILE
    if len(names) > 1 and "" in names:
        raise UserError(f"data {data!r}: a name before or after a comma is missing")
    return names


def _are_files_of_two_languages(first: str, second: str) -> bool:
    """Whether two names are SOURCE_FILE,TARGET_FILE, of which one or both may be missing."""
    if os.path.exists(first) != os.path.exists(second):
        name = first if os.path.exists(first) else second
        return not _is_one_corpus(name)  # and not the name of a data set, such as train.en
    return not (_is_one_corpus(first) or _is_one_corpus(second))


def _is_one_corpus(name: str) -> bool:
    """Whether a name between commas is a corpus, and not one of SOURCE_FILE,TARGET_FILE."""
    data, *_ = split_languages(name, "", "")
    if os.path.exists(data):
        return os.path.isdir(data) or _ending(data) in PAIR_FORMATS
    has_languages = data != name
    return has_languages or TFDS_NAME.fullmatch(data) is not None or data == POCKET_TREES


def split_languages(name: str, source: str, target: str) -> tuple[str, str, str]:
    """Splits NAME@SOURCE-TARGET.

    Args:
      name: of one corpus, with or without languages.
      source, target: the languages of a name without them.
    Returns: NAME, the source and the target.
    """
    match = LANGUAGES.fullmatch(name)
    if not match or os.path.exists(name):
        return name, source, target
    return match[1], match[2], match[3]


def languages_of(data: str, source: str, target: str) -> tuple[str, str]:
    """Returns the languages of the first corpus; arguments as for `open_corpus`."""
    _, source, target = split_languages(corpus_names(data)[0], source, target)
    return source, target


def absolute_path(data: str) -> str:
    """Returns the argument `data` of `open_corpus` with absolute paths.

    Names of built-in corpora and of TFDS stay as they are.
    """
    names = corpus_names(data)
    if len(names) > 1:
        return ",".join(map(absolute_path, names))
    name, *_ = split_languages(data, "", "")
    if name in ("pocket", POCKET_TREES):
        return data
    if os.path.exists(name):
        return os.path.abspath(name) + data.removeprefix(name)
    if "," in data:
        return ",".join(os.path.abspath(path) for path in data.split(","))
    return data


class FileCorpus(Corpus):
    """Pairs from text files.

    Where `files` has no "validation", the end of "train" is held out for it, and the split "all"
    has both.

    Args:
      files: a dict from split names to the `paths` of `read_pair_files`.
      name: of the corpus, for messages.
      languages: of source and target.
    """

    def __init__(
        self, files: dict[str, tuple[str, ...]], name: str, languages: tuple[str, str]
    ) -> None:
        self.name = name
        self._languages = languages
        self._files = files
        self._hold_out = "validation" not in files
        self.splits = list(files)
        if self._hold_out:
            self.splits.append("validation")
            self.splits.append("all")

    def read_weighted(self, split: str) -> Iterator[WeightedPair]:
        """Reads the pairs of a split.

        Yields: (source, target, weight); strings without line ends.
        Raises: UserError for an unknown split, as `read_pair_files`, or for only one pair where one
          is held out.
        """
        self.known(split)
        if not self._hold_out or split not in ("train", "validation"):
            yield from self._read("train" if split == "all" else split)
            return
        first, end = range_of_split(self, split, ["validation"], self._training_pairs)
        yield from itertools.islice(self._read("train"), first, end)

    def _read(self, files: str) -> Iterator[WeightedPair]:
        return read_pair_files(self._files[files], self._languages)

    @functools.cached_property
    def _training_pairs(self) -> int:
        """The number of pairs of the training files, held-out pairs included."""
        return sum(1 for _ in self._read("train"))

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the paths, sizes and modification times of files."""
        paths = self._files.get(split, self._files["train"])
        languages = (
            self._languages if len(paths) == 1 and pair_format(paths[0]).has_languages else ()
        )
        return (split, self._hold_out, *map(file_fingerprint, paths), *languages)


def _folder_files(folder: str, source: str, target: str) -> dict[str, tuple[str, ...]]:
    """Finds the files of the splits of a folder.

    Returns: a dict from "train", "validation" (where there is one) and the test sets, sorted by
      name, to (SOURCE_FILE, TARGET_FILE), or one file of `PAIR_FORMATS`.
    Raises: UserError when there is no training text, or it is not clear which files are a split.
    """
    files: dict[str, tuple[str, ...]] = {}
    for stem, names in _names_by_stem(folder, (source, target, *PAIR_FORMATS)).items():
        split = "validation" if stem in VALIDATION_NAMES else stem
        if split not in ("train", "validation") and not stem.startswith("test"):
            continue
        by_language = _one_file_each(folder, names)
        languages = tuple(by_language) if set(by_language) & set(PAIR_FORMATS) else (source, target)
        missing = [f"{stem}.{language}" for language in languages if language not in by_language]
        if split == "validation" and missing:
            raise UserError(
                f"folder {folder} has {names[0]} without {missing[0]}: add it, or remove {names[0]}"
            )
        if split in files:
            other = " and ".join(map(os.path.basename, files[split]))
            raise UserError(
                f"folder {folder} has two validation sets, {other}, and {' and '.join(names)}: "
                "keep one"
            )
        if not missing:
            paths = (os.path.join(folder, by_language[language]) for language in languages)
            files[split] = tuple(paths)
    if "train" not in files:
        raise _no_training_files(folder, source, target)
    first = [split for split in ("train", "validation") if split in files]
    tests = sorted(set(files) - set(first))
    return {split: files[split] for split in first + tests}


def _names_by_stem(folder: str, languages: tuple[str, ...]) -> dict[str, list[str]]:
    """Groups the names STEM.LANGUAGE and STEM.LANGUAGE.gz of the files of a folder by stem."""
    stems: dict[str, list[str]] = {}
    for name in sorted(os.listdir(folder)):
        stem = name.removesuffix(".gz").rpartition(".")[0]
        if stem and _ending(name) in languages:
            stems.setdefault(stem, []).append(name)
    return stems


def _one_file_each(folder: str, names: list[str]) -> dict[str, str]:
    """Returns the names of the files of one split by their languages.

    Raises: UserError when two files have the same language, or a file of both is beside others.
    """
    by_language: dict[str, str] = {}
    for name in names:
        other = by_language.setdefault(_ending(name), name)
        if other != name:
            raise UserError(
                f"folder {folder} has {other} and {name}: keep one, or rename or move the other"
            )
    of_both = [by_language[each] for each in PAIR_FORMATS if each in by_language]
    if of_both and len(by_language) > 1:
        others = [name for name in by_language.values() if name != of_both[0]]
        raise UserError(
            f"folder {folder} has {of_both[0]} and {' and '.join(others)}: keep {of_both[0]} or "
            "the others, and rename or move what you do not use"
        )
    return by_language


def _ending(name: str) -> str:
    """Returns LANGUAGE of the name STEM.LANGUAGE or STEM.LANGUAGE.gz."""
    return name.removesuffix(".gz").rpartition(".")[2]


def _no_training_files(folder: str, source: str, target: str) -> UserError:
    """Returns the `UserError` for a folder without training files."""
    if tree_files(folder):
        return UserError(
            f"folder {folder} has trees and no train.{source}: "
            f"to train on trees, give --source={WORDS} --target={TREES}"
        )
    names = ", ".join(sorted(os.listdir(folder))) or "nothing"
    formats = " or ".join(f"train.{ending}" for ending in PAIR_FORMATS)
    return UserError(
        f"folder {folder} has no train.{source} and train.{target} (or .gz), {formats}: it has "
        f"{names}"
    )


def read_pair_files(paths: Sequence[str], languages: tuple[str, str]) -> Iterator[WeightedPair]:
    """Reads sentence pairs.

    Args:
      paths: (SOURCE_FILE, TARGET_FILE), or (FILE,) of one of `PAIR_FORMATS`.
      languages: of source and target.
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
    for pair in pair_format(path).read(read_lines(path), path, languages):
        empty = False
        yield pair
    if empty:
        raise UserError(f"{path} is empty")


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


def read_tsv(
    lines: Iterator[str], path: str | None, languages: tuple[str, str] = ("", "")
) -> Iterator[WeightedPair]:
    """Splits lines into source, target and, where the first line has it, a weight.

    Args:
      lines: of the file.
      path: of the file, for messages; None for standard input.
      languages: the columns have no names, so they do not matter.
    Yields: (source, target, weight); the weight is None where there are two columns.
    Raises: UserError for a line with another number of columns, or a weight that is no number from
      `LEAST_WEIGHT` to `MOST_WEIGHT`.
    """
    allowed = [2, 3]
    advice = "; a third column is the weight of the pair, in all lines or in none"
    for number, line in enumerate(lines, start=1):
        columns = split_tsv(line, number, path, allowed, advice)
        allowed = [len(columns)]
        weight = None
        if len(columns) == 3:
            place = f"{path or 'standard input'}:{number}"
            weight = _weight(columns[2], place, "; to remove the third column, use `cut -f 1,2`")
        yield columns[0], columns[1], weight


def read_json_lines(
    lines: Iterator[str], path: str | None, languages: tuple[str, str]
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


@dataclasses.dataclass(frozen=True)
class PairFormat:
    """A form of files with both sides of each pair."""

    name: str  # for the help
    # Reads the lines of a file: (lines, path for messages, languages) -> pairs.
    read: Callable[[Iterator[str], str | None, tuple[str, str]], Iterator[WeightedPair]]
    has_languages: bool  # whether a file can have several languages, by their codes


PAIR_FORMATS = {
    "tsv": PairFormat("TSV", read_tsv, has_languages=False),
    "jsonl": PairFormat("JSON lines", read_json_lines, has_languages=True),
}


def pair_format(path: str) -> PairFormat:
    """Returns the format of a file of pairs; that of TSV where its name has another ending."""
    return PAIR_FORMATS.get(_ending(path), PAIR_FORMATS["tsv"])


def describe_data() -> str:
    """Describes what `--data` can name, for its help and for errors."""
    formats = " or ".join(each.name for each in PAIR_FORMATS.values())
    return (
        f"pocket, a folder, a file ({formats}), SOURCE_FILE,TARGET_FILE, or a TFDS name such as "
        "wmt14_translate/de-en; for trees pocket-trees or a folder; several, separated by commas, "
        "are trained on together"
    )


class TfdsCorpus(Corpus):
    """A translation data set of TensorFlow Datasets.

    The first `read` downloads it. Where it has no split "validation", the end of "train" is held
    out for it, and the split "all" has both.

    Args:
      name: such as "wmt14_translate/de-en" or "ted_hrlr_translate/pt_to_en".
      source, target: two of its languages, in either order.
    Raises: UserError when TFDS has no such data set, or the data set lacks one of the languages.
    """

    downloads = True

    def __init__(self, name: str, source: str, target: str) -> None:
        import tensorflow_datasets as tfds  # the import is slow, and most runs do not need it

        try:
            self._builder = tfds.builder(name)
        except (tfds.core.registered.DatasetNotFoundError, ValueError, AssertionError) as error:
            first_line = str(error).strip().split("\n")[0]
            raise UserError(
                f"no data folder or file {name!r}, and no such TensorFlow data set ({first_line})"
            ) from None
        features = self._builder.info.features
        languages = list(features.keys()) if hasattr(features, "keys") else []
        for language in (source, target):
            if language not in languages:
                raise UserError(
                    f"the data set {name} has no {language!r}: it has {', '.join(languages)}"
                )
        self.name = f"the TensorFlow data set {name}"
        self._source = source
        self._target = target
        self._find_splits()

    def _find_splits(self) -> None:
        self.splits = list(self._builder.info.splits) or ["train", "validation", "test"]
        self._hold_out = "validation" not in self.splits
        if self._hold_out:
            self.splits += ["validation", "all"]

    def read(self, split: str) -> Iterator[tuple[str, str]]:
        """Reads a split.

        Yields: (source, target) strings.
        Raises: UserError for an unknown split, or when the download fails.
        """
        self._prepare()
        tfds_split = self.known(split)
        if self._hold_out and split in ("train", "validation"):
            pairs = self._builder.info.splits["train"].num_examples
            first, end = range_of_split(self, split, ["validation"], pairs)
            tfds_split = f"train[{first}:{end}]"
        elif self._hold_out and split == "all":
            tfds_split = "train"
        examples = self._builder.as_dataset(split=tfds_split, shuffle_files=False)
        for example in examples.as_numpy_iterator():
            yield _one_line(example[self._source]), _one_line(example[self._target])

    def _prepare(self) -> None:
        """Downloads the data set where necessary. Its splits are certain only afterwards."""
        try:
            self._builder.download_and_prepare()
        except Exception as error:  # of many kinds: network, checksum, disk, parser
            first_line = str(error).strip().splitlines()[0]
            raise UserError(f"{self.name} could not be prepared: {first_line}") from error
        self._find_splits()

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the version of the data set."""
        return (self._builder.info.full_name, self._source, self._target, self._hold_out, split)


def _one_line(sentence: bytes) -> str:
    """Decodes a sentence of TFDS and replaces line breaks in it by blanks."""
    return " ".join(sentence.decode("utf-8", "replace").splitlines())
