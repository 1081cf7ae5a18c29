"""Readers of corpora: what `--data` can name.

`PAIR_FORMATS` is the table of files with both sides of each pair, by the ending of their names. Any
file can be compressed, `.gz`. The other corpora are two text files, folders, data sets of
TensorFlow Datasets, treebanks, and the built-in ones.
"""

import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from tf_transformer.config import TREES, WORDS, DataConfig
from tf_transformer.data.corpus import Corpus, FileCorpus, WeightedPair
from tf_transformer.data.mixture import MixedCorpus, parse_weights
from tf_transformer.data.pocket import PocketCorpus
from tf_transformer.data.tags import add_tag, parse_tags
from tf_transformer.data.text_files import (
    parse_tsv,
    parse_weight,
    read_lines,
    read_two_file_windows,
)
from tf_transformer.data.trees import open_treebank
from tf_transformer.errors import UserError

POCKET_TREES = "pocket-trees"  # the built-in treebank
TFDS_NAME = re.compile(r"[a-z]\w*(/[\w.-]+)*(:[\d.*]+)?")
LANGUAGES = re.compile(r"(.+)@(\w+)-(\w+)")  # NAME@SOURCE-TARGET
VALIDATION_NAMES = ("validation", "valid", "val", "dev")


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
    Returns: a `PocketCorpus`, `FileCorpus` or `TfdsCorpus`; for several corpora a `MixedCorpus`.
    Raises: UserError when there is no such corpus, or it lacks one of the languages; for another
      number of tags than corpora.
    """
    names = corpus_names(data)
    tags = parse_tags(tag, len(names))
    corpora = []
    for name, tag in zip(names, tags):
        data, *languages = split_languages(name, source, target)
        corpus = _open_one(data, *languages)
        if data != name:
            corpus.name = f"{corpus.name} ({'-'.join(languages)})"
        corpus.tag = tag
        corpora.append(corpus)
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


def read_validation_text(data: str, settings: DataConfig) -> list[tuple[str, str]]:
    """Reads a text that a run validates on beside its own.

    Args:
      data: a file of pairs or SOURCE_FILE,TARGET_FILE, which are read whole, or another corpus of
        `open_corpus`, of which its validation text is read.
      settings: of the run's text.
    Raises: UserError as `open_corpus`, and where there is no text.
    """
    languages, tag = (settings.source, settings.target), settings.tag.split(",")[0]
    paths = [data] if os.path.isfile(data) else data.split(",")
    if all(map(os.path.isfile, paths)):
        texts = read_pair_files(paths, languages)
        return [(add_tag(tag, source), target) for source, target, _ in texts]
    pairs = list(open_corpus(data, *languages, tag).read("validation"))
    if not pairs:
        raise UserError(f"{data} has no validation text: give a file of pairs")
    return pairs


def _open_one(data: str, source: str, target: str) -> Corpus:
    """Opens one corpus; as for `open_corpus`."""
    if source == target:
        raise UserError(f"source and target are both {source!r}: give two languages")
    if data in ("pocket", POCKET_TREES):
        return PocketCorpus(data, source, target)
    if (source, target) == (WORDS, TREES):
        return open_treebank(data)
    if os.path.isdir(data):
        kind, files = "folder", _folder_files(data, source, target)
    elif os.path.isfile(data):
        kind, files = "file", {"train": [data]}
    elif "," in data:
        kind, files = "files", {"train": data.split(",")}
    elif TFDS_NAME.fullmatch(data):
        return TfdsCorpus(data, source, target)
    else:
        raise UserError(f"no such data folder or file: {data}: give with --data {describe_data()}")
    read_files = functools.partial(read_pair_files, languages=(source, target))
    parsers = {_parser(path) for path in itertools.chain(*files.values())}
    key = (source, target) if parsers - {parse_tsv} else ()
    return FileCorpus(f"{kind} {data}", files, read_files, key)


def corpus_names(data: str) -> list[str]:
    """Splits the argument `data` of `open_corpus` into the names of the corpora.

    Raises: UserError for an empty name.
    """
    names = data.split(",")
    if os.path.exists(data) or (len(names) == 2 and all(map(_is_one_side, names))):
        return [data]  # a name with a comma, or SOURCE_FILE,TARGET_FILE
    if len(names) > 1 and "" in names:
        raise UserError(f"data {data!r}: a name before or after a comma is missing")
    return names


def _is_one_side(name: str) -> bool:
    """Whether a name is that of a file with one side of each pair, beside one of the other side."""
    return os.path.isfile(name) and _ending(name) not in PAIR_FORMATS


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
    return ",".join(map(os.path.abspath, data.split(","))) if "," in data else data


def _folder_files(folder: str, source: str, target: str) -> dict[str, list[str]]:
    """Finds the files of the splits of a folder.

    Returns: a dict from "train", "validation" (where there is one) and the test sets, sorted by
      name, to [SOURCE_FILE, TARGET_FILE], or one file of `PAIR_FORMATS`. Test sets that lack one of
      the languages are left out.
    Raises: UserError when there is no training text, or it is not clear which files are a split.
    """
    found: dict[str, list[str]] = {"train": [], "validation": []}
    for name in sorted(os.listdir(folder)):
        stem = name.removesuffix(".gz").rpartition(".")[0]
        split = "validation" if stem in VALIDATION_NAMES else stem
        is_split = split in found or split.startswith("test")
        if is_split and _ending(name) in (source, target, *PAIR_FORMATS):
            found.setdefault(split, []).append(name)
    files = {}
    for split, names in found.items():
        by_ending = {_ending(name): os.path.join(folder, name) for name in names}
        if len(names) == 1 and not by_ending.keys().isdisjoint(PAIR_FORMATS):
            files[split] = list(by_ending.values())
        elif len(names) == 2 and by_ending.keys() == {source, target}:
            files[split] = [by_ending[source], by_ending[target]]
        elif len(names) > 1 or (names and split == "validation"):
            raise UserError(
                f"folder {folder} has {' and '.join(names)} for {split}: keep one file of each "
                "language, or one file of both"
            )
    if "train" not in files:
        formats = " or ".join(f"train.{ending}" for ending in PAIR_FORMATS)
        raise UserError(
            f"folder {folder} has no train.{source} and train.{target} (or .gz), {formats}: it has "
            f"{', '.join(sorted(os.listdir(folder))) or 'nothing'}"
        )
    return files


def _ending(name: str) -> str:
    """Returns LANGUAGE of the name STEM.LANGUAGE or STEM.LANGUAGE.gz."""
    return name.removesuffix(".gz").rpartition(".")[2]


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
    pairs: Iterable[WeightedPair]
    if len(paths) == 2:
        windows = read_two_file_windows(paths[0], paths[1])
        pairs = ((source, target, None) for window in windows for source, target in window)
    else:
        (path,) = paths
        parse = _parser(path)
        lines = enumerate(read_lines(path), start=1)
        pairs = (parse(line, f"{path}:{number}", languages) for number, line in lines)
    empty = True
    for pair in pairs:
        empty = False
        yield pair
    if empty:
        raise UserError(f"{' and '.join(paths)}: there is no text")


def parse_json(line: str, place: str, languages: tuple[str, str]) -> WeightedPair:
    """Parses a line such as {"en": "a cat", "de": "eine Katze", "weight": 0.5}.

    The texts can also be in an object "translation", as in data sets of Hugging Face.
    """
    try:
        record = json.loads(line)
        texts = record.get("translation", record)
        # `encode` refuses half of a surrogate pair.
        sides = [texts[language].encode().decode().splitlines() for language in languages]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UserError(
            f'{place}: give an object of JSON with two texts, such as {{"{languages[0]}": '
            f'"...", "{languages[1]}": "..."}}, and "weight" where a pair has one'
        ) from None
    source, target = map(" ".join, sides)
    return source, target, parse_weight(record.get("weight", 1.0), place)


# (line, its place for messages, languages) -> its pair. Languages matter where a file can have
# several.
Parser = Callable[[str, str, tuple[str, str]], WeightedPair]
PAIR_FORMATS: dict[str, Parser] = {"tsv": parse_tsv, "jsonl": parse_json}  # by the ending


def _parser(path: str) -> Parser:
    """Returns the parser of a file of pairs; that of TSV where its name has another ending."""
    return PAIR_FORMATS.get(_ending(path), parse_tsv)


def describe_data() -> str:
    """Describes what `--data` can name, for its help and for errors."""
    return (
        f"pocket, a folder, a file (.{', .'.join(PAIR_FORMATS)}), SOURCE_FILE,TARGET_FILE, or a "
        "TFDS name such as wmt14_translate/de-en; for trees pocket-trees or a folder; several, "
        "separated by commas, are trained on together"
    )


class TfdsCorpus(Corpus):
    """A translation data set of TensorFlow Datasets.

    The first use of its text downloads it; its splits are certain only then.

    Args:
      name: such as "wmt14_translate/de-en" or "ted_hrlr_translate/pt_to_en".
      source, target: two of its languages, in either order.
    Raises: UserError when TFDS has no such data set, or the data set lacks one of the languages.
    """

    def __init__(self, name: str, source: str, target: str) -> None:
        import tensorflow_datasets as tfds  # the import is slow, and most runs do not need it

        try:
            self._builder = tfds.builder(name)
        except (tfds.core.registered.DatasetNotFoundError, ValueError, AssertionError) as error:
            first_line = str(error).strip().split("\n")[0]
            raise UserError(
                f"no data folder or file {name!r}, and no such TensorFlow data set ({first_line})"
            ) from None
        languages = list(getattr(self._builder.info.features, "keys", list)())
        for language in (source, target):
            if language not in languages:
                raise UserError(
                    f"the data set {name} has no {language!r}: it has {', '.join(languages)}"
                )
        self.name = f"the TensorFlow data set {name}"
        self._languages = source, target

    @functools.cached_property
    def texts(self) -> dict[str, str]:  # type: ignore[override]
        """The names of its splits. Raises: UserError when the download fails."""
        try:
            self._builder.download_and_prepare()
        except Exception as error:  # of many kinds: network, checksum, disk, parser
            first_line = str(error).strip().splitlines()[0]
            raise UserError(f"{self.name} could not be prepared: {first_line}") from error
        # The mock of TFDS has no splits.
        splits = list(self._builder.info.splits) or ["train", "validation", "test"]
        return dict(zip(splits, splits))

    @functools.cached_property
    def training_pairs(self) -> int:
        """The number of pairs of the text of "train", held-out ones included."""
        return self._builder.info.splits["train"].num_examples

    def read_training_text(self, first: int, end: int) -> Iterator[WeightedPair]:
        """Yields some pairs of the text of "train"; those before them are not read."""
        return self.read_text(f"train[{first}:{end}]")

    def read_text(self, text: str) -> Iterator[WeightedPair]:
        """Yields the pairs of a split of the data set."""
        examples = self._builder.as_dataset(split=text, shuffle_files=False)
        for example in examples.as_numpy_iterator():
            source, target = (_one_line(example[language]) for language in self._languages)
            yield source, target, None

    def text_fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the version of the data set."""
        return (self._builder.info.full_name, *self._languages, bool(self.held_out), split)


def _one_line(sentence: bytes) -> str:
    """Decodes a sentence of TFDS and replaces line breaks in it by blanks."""
    return " ".join(sentence.decode("utf-8", "replace").splitlines())
