"""Sentence pairs: from the pocket corpus, from text files, or from TensorFlow Datasets.

`open_corpus` understands what `--data` may say and returns a corpus: `splits` (names), `read(split)` (an iterator of pairs of
strings) and `fingerprint(split)` (changes when the text may have changed).
"""

import itertools
import os
import re

from tf_transformer.config import TREES, WORDS
from tf_transformer.data.corpus import Corpus, held_out, read_lines
from tf_transformer.data.treebank import TreebankCorpus, tree_files
from tf_transformer.errors import UserError

VALIDATION_NAMES = ("validation", "valid", "val", "dev")
POCKET_TREES = "pocket-trees"  # the built-in treebank


def open_corpus(data, source, target):
    """Finds the sentence pairs that `data` names.

    Args:
      data: "pocket"; a folder with `train.SOURCE` and `train.TARGET` (also `val`, `valid`, `validation` or `dev`, and `test*`; plain
        or `.gz`; or `train.tsv`); a TSV file; two files "SOURCE_FILE,TARGET_FILE"; or a TFDS name such as "wmt14_translate/de-en".
      source, target: language codes, such as "en" and "de"; or "words" and "trees", and then `data` is "pocket-trees" or a folder with
        `.mrg` files (Sec. 6.3).
    Returns: a `PocketCorpus`, `FileCorpus`, `TfdsCorpus`, `PocketTreebank` or `TreebankCorpus`.
    Raises: UserError when there is nothing of that name, or when it lacks one of the languages.
    """
    if source == target:
        raise UserError(f"source and target are both {source!r}: give two languages")
    if (source, target) == (WORDS, TREES):
        if data != POCKET_TREES:
            return TreebankCorpus(data)
        from tf_transformer.data.pocket.sources import PocketTreebank  # only where it is asked for

        return PocketTreebank()
    if data == POCKET_TREES:
        raise UserError(
            f"{POCKET_TREES} has {WORDS} and {TREES}, not {source} and {target}: give --source={WORDS} --target={TREES}"
        )
    if data == "pocket":
        from tf_transformer.data.pocket.sources import PocketCorpus

        return PocketCorpus(source, target)
    if os.path.isdir(data):
        return FileCorpus(_folder_files(data, source, target), f"folder {data}")
    if "," in data and not os.path.exists(data):
        paths = data.split(",")
        if len(paths) != 2:
            raise UserError(
                f"data {data!r}: give two files, SOURCE_FILE,TARGET_FILE, not {len(paths)}"
            )
        for path in paths:
            if not os.path.isfile(path):
                raise UserError(f"no such file: {path}")
        return FileCorpus({"train": tuple(paths)}, f"files {data}")
    if os.path.isfile(data):
        return FileCorpus({"train": (data,)}, f"file {data}")
    if re.fullmatch(r"[a-z]\w*(/[\w.-]+)*(:[\d.*]+)?", data):
        return TfdsCorpus(data, source, target)
    raise UserError(f"no such data folder or file: {data}")


class FileCorpus(Corpus):
    """Pairs of lines from text files.

    Args:
      files: split name -> (SOURCE_FILE, TARGET_FILE) or (TSV_FILE,). Without "validation", the end of "train" is held out for it; where
        there is nothing but "train", the split "all" is the whole of it.
      name: what to call it in messages.
    """

    def __init__(self, files, name):
        self.name, self._files = name, files
        self._hold_out = "validation" not in files
        self.splits = list(files) + ["validation"] * self._hold_out + ["all"] * (len(files) == 1)

    def read(self, split):
        """Yields (source, target) lines without their ends.

        Raises: UserError for different line counts, text that is not UTF-8, a TSV line without a tab, or an empty file.
        """
        self.known(split)
        if not self._hold_out or split not in ("train", "validation"):
            yield from _read_files(self._files["train" if split == "all" else split])
            return
        number = sum(1 for _ in _read_files(self._files["train"]))
        kept = number - held_out(number)
        first, last = (0, kept) if split == "train" else (kept, number)
        yield from itertools.islice(_read_files(self._files["train"]), first, last)

    def fingerprint(self, split):
        """A tuple that changes with the files' names, sizes and times."""
        files = self._files.get(split, self._files["train"])
        stats = [os.stat(path) for path in files]
        return (
            split,
            self._hold_out,
            *((os.path.abspath(p), s.st_size, s.st_mtime_ns) for p, s in zip(files, stats)),
        )


class TfdsCorpus(Corpus):
    """A translation data set of TensorFlow Datasets, downloaded when it is first read.

    Args:
      name: such as "wmt14_translate/de-en" or "ted_hrlr_translate/pt_to_en".
      source, target: two of its languages, in either direction.
    Raises: UserError when TFDS has no such data set, or it has not these languages.
    """

    def __init__(self, name, source, target):
        import tensorflow_datasets as tfds  # only here: it takes a moment, and most runs do not need it

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
        self.name, self._source, self._target = f"the TensorFlow data set {name}", source, target
        self._name_splits()

    def _name_splits(self):
        """Without "validation", the end of "train" is held out for it, as with files."""
        self.splits = list(self._builder.info.splits) or ["train", "validation", "test"]
        self._hold_out = "validation" not in self.splits
        self.splits += ["validation"] * self._hold_out

    def read(self, split):
        """Yields (source, target) sentences of a split."""
        self._prepare()
        part = self.known(split)
        if self._hold_out and split in ("train", "validation"):
            number = self._builder.info.splits["train"].num_examples
            kept = number - held_out(number)
            part = f"train[:{kept}]" if split == "train" else f"train[{kept}:]"
        for example in self._builder.as_dataset(
            split=part, shuffle_files=False
        ).as_numpy_iterator():
            pair = (
                example[language].decode("utf-8", "replace")
                for language in (self._source, self._target)
            )
            yield tuple(" ".join(sentence.splitlines()) for sentence in pair)

    def _prepare(self):
        """Downloads the data where that was not done yet; only then are its splits known for certain."""
        try:
            self._builder.download_and_prepare()
        except Exception as error:  # of many kinds: network, checksum, disk, parser
            raise UserError(
                f"{self.name} could not be prepared: {str(error).strip().splitlines()[0]}"
            ) from error
        self._name_splits()

    def fingerprint(self, split):
        """A tuple that changes with the data set's version."""
        return (self._builder.info.full_name, self._source, self._target, self._hold_out, split)


def _folder_files(folder, source, target):
    """Maps the splits of a folder to their files: train, validation, and every stem that begins with "test"."""
    found = {}
    for name in sorted(os.listdir(folder)):
        stem, _, language = name.removesuffix(".gz").rpartition(".")
        if stem and language in (source, target, "tsv"):
            found.setdefault(stem, {})[language] = os.path.join(folder, name)
    files = {}
    for stem, by_language in found.items():
        split = "validation" if stem in VALIDATION_NAMES else stem
        if split not in ("train", "validation") and not stem.startswith("test"):
            continue
        languages = ("tsv",) if "tsv" in by_language else (source, target)
        whole = set(languages) <= set(by_language)
        if split == "validation" and (split in files or not whole):
            trouble = (
                "two validation sets"
                if split in files
                else f"{stem}.{' '.join(by_language)} without the other language"
            )
            raise UserError(
                f"folder {folder} has {trouble}: keep one whole set, in {source} and {target}"
            )
        if whole:
            files[split] = tuple(by_language[language] for language in languages)
    if "train" not in files and tree_files(folder):
        raise UserError(
            f"folder {folder} has trees and no train.{source}: give --source={WORDS} --target={TREES}"
        )
    if "train" not in files:
        wanted = f"train.{source} and train.{target} (or .gz), or train.tsv"
        raise UserError(
            f"folder {folder} has no {wanted}: it has {', '.join(sorted(os.listdir(folder))) or 'nothing'}"
        )
    return dict(
        sorted(
            files.items(), key=lambda item: (item[0] != "train", item[0] != "validation", item[0])
        )
    )


def _read_files(files):
    if len(files) == 1:
        yield from _read_tsv(files[0])
        return
    counts = [0, 0]
    for pair in itertools.zip_longest(read_lines(files[0]), read_lines(files[1])):
        counts = [count + (line is not None) for count, line in zip(counts, pair)]
        if None not in pair:
            yield pair
    for path, count in zip(files, counts):
        if not count:
            raise UserError(f"{path} is empty")
    if counts[0] != counts[1]:
        lines = " and ".join(f"{path} has {count:,} lines" for path, count in zip(files, counts))
        raise UserError(f"{lines}: the two sides must have one line for each pair")


def _read_tsv(path):
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{path}:{number}: {len(columns)} columns: give source, one tab, target"
            )
        yield tuple(columns)
    if not number:
        raise UserError(f"{path} is empty")
