"""Sources of sentence pairs: the pocket corpus, text files, TensorFlow Datasets, and treebanks.

`open_corpus` finds the `Corpus` that the flag `--data` names.
"""

import functools
import itertools
import os
from collections.abc import Hashable, Iterator

from tf_transformer.config import TREES, WORDS, DataConfig
from tf_transformer.data.corpus import Corpus, WeightedPair, file_fingerprint, held_out
from tf_transformer.data.corpus_names import (
    POCKET_TREES,
    TFDS_NAME,
    corpus_names,
    languages_of,
    split_languages,
)
from tf_transformer.data.mixture import MixedCorpus, TaggedCorpus, parse_weights
from tf_transformer.data.pair_files import is_json_lines, read_pair_files
from tf_transformer.data.pocket import PocketCorpus, PocketTreebank
from tf_transformer.data.tags import parse_tags
from tf_transformer.data.treebank import TreebankCorpus, tree_files
from tf_transformer.errors import UserError

ONE_FILE = ("tsv", "jsonl")  # the endings of the names of files with both sides
VALIDATION_NAMES = ("validation", "valid", "val", "dev")


def open_corpus(data: str, source: str, target: str, tag: str = "") -> Corpus:
    """Opens the corpus, or the corpora, that `data` names.

    Args:
      data: one of
        - "pocket", the built-in corpus;
        - a folder with `train.SOURCE` and `train.TARGET` (plain or `.gz`), `train.tsv` or
          `train.jsonl`; with validation files named `validation`, `valid`, `val` or `dev`, and
          test files `test*`;
        - a TSV file, or a file of JSON lines;
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
    raise UserError(f"no such data folder or file: {data}: give its path with --data")


def _two_files(data: str) -> tuple[str, str]:
    """Splits "SOURCE_FILE,TARGET_FILE" into two paths."""
    source, target = data.split(",")
    for path in (source, target):
        if not os.path.isfile(path):
            raise UserError(f"no such file: {path}")
    return source, target


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

    def read(self, split: str) -> Iterator[tuple[str, str]]:
        """Reads the pairs of a split.

        Yields: (source, target) strings without line ends.
        Raises: UserError for an unknown split, as `read_pair_files`, or for only one pair where one
          is held out.
        """
        for source, target, _ in self.read_weighted(split):
            yield source, target

    def read_weighted(self, split: str) -> Iterator[WeightedPair]:
        """Reads the same pairs, with their weights."""
        self.known(split)
        if not self._hold_out or split not in ("train", "validation"):
            yield from self._read("train" if split == "all" else split)
            return
        pairs = self._training_pairs
        boundary = pairs - held_out(pairs)
        first, last = (0, boundary) if split == "train" else (boundary, pairs)
        yield from itertools.islice(self._read("train"), first, last)

    def _read(self, files: str) -> Iterator[WeightedPair]:
        return read_pair_files(self._files[files], self._languages)

    @functools.cached_property
    def _training_pairs(self) -> int:
        """The number of pairs of the training files, held-out pairs included."""
        pairs = sum(1 for _ in self._read("train"))
        if pairs < 2:
            raise UserError(
                f"{self.name} has {pairs} pair: there must be at least 2, one to train on and one "
                "to hold out for validation"
            )
        return pairs

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the paths, sizes and modification times of files."""
        paths = self._files.get(split, self._files["train"])
        languages = self._languages if is_json_lines(paths[0]) else ()  # else the paths say it
        return (split, self._hold_out, *map(file_fingerprint, paths), *languages)


def _folder_files(folder: str, source: str, target: str) -> dict[str, tuple[str, ...]]:
    """Finds the files of the splits of a folder.

    Returns: a dict from "train", "validation" (where there is one) and the test sets, sorted by
      name, to (SOURCE_FILE, TARGET_FILE), or one file of `ONE_FILE`.
    Raises: UserError when there is no training text, or it is not clear which files are a split.
    """
    files: dict[str, tuple[str, ...]] = {}
    for stem, names in _names_by_stem(folder, (source, target, *ONE_FILE)).items():
        split = "validation" if stem in VALIDATION_NAMES else stem
        if split not in ("train", "validation") and not stem.startswith("test"):
            continue
        by_language = _one_file_each(folder, names)
        languages = tuple(by_language) if set(by_language) & set(ONE_FILE) else (source, target)
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
        if stem and _language(name) in languages:
            stems.setdefault(stem, []).append(name)
    return stems


def _one_file_each(folder: str, names: list[str]) -> dict[str, str]:
    """Returns the names of the files of one split by their languages.

    Raises: UserError when two files have the same language, or a file of both is beside others.
    """
    by_language: dict[str, str] = {}
    for name in names:
        other = by_language.setdefault(_language(name), name)
        if other != name:
            raise UserError(
                f"folder {folder} has {other} and {name}: keep one, or rename or move the other"
            )
    of_both = [by_language[each] for each in ONE_FILE if each in by_language]
    if of_both and len(by_language) > 1:
        others = [name for name in by_language.values() if name != of_both[0]]
        raise UserError(
            f"folder {folder} has {of_both[0]} and {' and '.join(others)}: keep {of_both[0]} or "
            "the others, and rename or move what you do not use"
        )
    return by_language


def _language(name: str) -> str:
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
    return UserError(
        f"folder {folder} has no train.{source} and train.{target} (or .gz), train.tsv or "
        f"train.jsonl: it has {names}"
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
            boundary = pairs - held_out(pairs)
            tfds_split = f"train[:{boundary}]" if split == "train" else f"train[{boundary}:]"
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
