"""Readers of corpora: what `--data` can name.

`PAIR_FORMATS` is the table of files with both sides of each pair, by the ending of their names. Any
file can be compressed, as `COMPRESSIONS` says. The other corpora are two text files, folders, data
sets of TensorFlow Datasets and of Hugging Face, treebanks, and the built-in ones.
"""

import csv
import functools
import itertools
import json
import logging
import os
import re
import textwrap
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from html.entities import name2codepoint
from typing import Any

from lxml import etree

from tf_transformer.config import HOLD_OUT_SOURCES, TREES, WORDS, DataConfig
from tf_transformer.data.corpus import Corpus, FileCorpus, WeightedPair
from tf_transformer.data.languages import LANGUAGE_NAMES, base_language, choose_code
from tf_transformer.data.mixture import MixedCorpus, parse_weights
from tf_transformer.data.pocket import PocketCorpus
from tf_transformer.data.tags import parse_tags
from tf_transformer.data.text_files import (
    LARGEST_WINDOW,
    one_line,
    open_bytes,
    parse_columns,
    parse_weight,
    read_lines,
    read_tsv,
    read_tsv_windows,
    read_two_file_windows,
    uncompressed,
)
from tf_transformer.data.trees import open_treebank
from tf_transformer.errors import UserError, explain_missing_package

logger = logging.getLogger(__name__)
_warn_once = functools.cache(logger.warning)  # a text is read several times

POCKET_TREES = "pocket-trees"  # the built-in treebank
TFDS_NAME = re.compile(r"[a-z]\w*(/[\w.-]+)*(:[\d.*]+)?")
HUGGING_FACE = "hf:"  # before the name of a data set
LANGUAGES = re.compile(r"(.+)@(\w+)-(\w+)")  # NAME@SOURCE-TARGET
VALIDATION_NAMES = ("validation", "valid", "val", "dev")
SAVED = ("state.json", "dataset_dict.json")  # one of them is in a folder of `save_to_disk`
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

CHECKED_PAIRS = 100_000  # of each text, from its start, that are searched for what is no text
# (path, languages) -> its pairs. Languages matter where a file names them.
Reader = Callable[[str, tuple[str, str]], Iterator[WeightedPair]]

HEADERS = ({"source", "target"}, {"src", "tgt"}, {"src", "trg"})
TAG = re.compile(r"</?[a-z][a-z0-9]*(\s+[a-z][\w:.-]*\s*=[^<>]*|\s*)/?>|<!--", re.I)
ENTITY = re.compile(r"&(?:([a-z]+[0-9]*)|#[0-9]+|#x[0-9a-f]+);", re.I)
ENTITIES = {name.lower() for name in (*name2codepoint, "apos")}  # of HTML 4 and XML
QUOTED = re.compile(r'"[^"]*(""[^"]*)+"')  # a cell of CSV with quotation marks in it
# The text of a segment of TMX: not native code (bpt, ept, it, ph, ut), nor a `sub` inside it.
SEGMENT_TEXT = etree.XPath(
    ".//text()[not(ancestor::*[contains('|bpt|ept|it|ph|ut|', concat('|', local-name(), '|'))])]"
)
XML_BLANKS = re.compile("[ \t\r\n]+")


def open_corpus(
    data: str, source: str, target: str, tag: str = "", hold_out: str = HOLD_OUT_SOURCES
) -> Corpus:
    """Opens the corpus, or the corpora, that `data` names.

    Args:
      data: one of
        - "pocket", the built-in corpus;
        - a folder with `train.SOURCE` and `train.TARGET`, or one `train` file of `PAIR_FORMATS`;
          with validation files named `validation`, `valid`, `val` or `dev`, and test files `test*`;
          or a folder with `NAME.SOURCE` and `NAME.TARGET`, as OPUS has for Moses;
        - a file of `PAIR_FORMATS`;
        - two files, "SOURCE_FILE,TARGET_FILE";
        - a TFDS name such as "wmt14_translate/de-en";
        - "hf:NAME/CONFIG", a data set of Hugging Face, such as "hf:Helsinki-NLP/opus-100/de-en", or
          "hf:FOLDER", one that its library `datasets` reads;
        - for trees (Sec. 6.3): "pocket-trees", the built-in treebank, or as for `open_treebank`;
        - several of these, except two files, separated by commas. After each, "@SOURCE-TARGET" are
          its languages where they are others.
      source, target: language codes, such as "en" and "de"; for trees "words" and "trees".
      tag: the tag before each source, such as "<2de>", of each corpus; "" for none.
      hold_out: what is held out for validation, as the setting.
    Returns: a `PocketCorpus`, `FileCorpus` or `TfdsCorpus`; for several corpora a `MixedCorpus`.
    Raises: UserError when there is no such corpus, or it lacks one of the languages; for another
      number of tags than corpora.
    """
    corpora: list[Corpus] = []
    parts = corpora_of(data, source, target)
    tags = parse_tags(tag, len(parts))
    for (name, *languages), tag_of_part in zip(parts, tags):
        corpus = _open_one(name, *languages)
        if languages != [source, target]:
            corpus.name = f"{corpus.name} ({'-'.join(languages)})"
        corpus.tag, corpus.hold_out = tag_of_part, hold_out
        corpora.append(corpus)
    return corpora[0] if len(corpora) == 1 else MixedCorpus(corpora)


def corpus_of_run(data: DataConfig) -> Corpus:
    """Opens the corpora of the settings of a run, and checks the settings that are about them.

    Raises: UserError as `open_corpus`; for another number of weights than corpora, and where the
      first corpus, which is validated on, has other languages than the model.
    """
    parts = corpora_of(data.data, data.source, data.target)
    name, *languages = parts[0]
    if languages != [data.source, data.target]:
        raise UserError(
            f"the first corpus, {name}, has the languages {' and '.join(languages)}, and the "
            f"model {data.source} and {data.target}: give --source={languages[0]} "
            f"--target={languages[1]}, or another first corpus"
        )
    weights = parse_weights(data.data_weights)
    if weights and len(weights) != len(parts):
        raise UserError(
            f"data_weights {data.data_weights} are {len(weights)}, and data names {len(parts)}: "
            "give one weight for each corpus"
        )
    return open_corpus(data.data, data.source, data.target, data.tag, data.hold_out)


def open_validation_text(data: str, settings: DataConfig) -> Corpus:
    """Opens a text that a run validates on beside its own: the split "validation" of the result.

    Args:
      data: a file of pairs or SOURCE_FILE,TARGET_FILE, which are whole, or another corpus of
        `open_corpus` with a validation text.
    Raises: UserError as `open_corpus`, and where there is no text.
    """
    languages, tag = (settings.source, settings.target), settings.tag.split(",")[0]
    paths = split_paths(data)
    if all(map(os.path.isfile, paths)):
        corpus: Corpus = _file_corpus(f"file {data}", {"validation": paths}, languages)
        corpus.tag = tag
    else:
        corpus = open_corpus(data, *languages, tag, settings.hold_out)
    if "validation" not in corpus.splits or not any(corpus.read("validation")):
        raise UserError(f"{data} has no validation text: give a file of pairs")
    return corpus


def _open_one(data: str, source: str, target: str) -> Corpus:
    if source == target:
        raise UserError(f"source and target are both {source!r}: give two languages")
    if data in ("pocket", POCKET_TREES):
        return PocketCorpus(data, source, target)
    if (source, target) == (WORDS, TREES):
        return open_treebank(data)
    if data.startswith(HUGGING_FACE) or _is_saved(data):
        return open_hugging_face(data.removeprefix(HUGGING_FACE), source, target)
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
    return _file_corpus(f"{kind} {data}", files, (source, target))


def _file_corpus(name: str, files: dict[str, list[str]], languages: tuple[str, str]) -> FileCorpus:
    read_files = functools.partial(read_pair_files, languages=languages)
    readers = {_reader(path) for path in itertools.chain(*files.values())}
    return FileCorpus(name, files, read_files, languages if readers - {read_tsv} else ())


def corpus_names(data: str) -> list[str]:
    """Splits the argument `data` of `open_corpus`. Raises: UserError for an empty name."""
    names = data.split(",")
    sides = [each for each in names if os.path.isfile(each) and _ending(each) not in PAIR_FORMATS]
    if os.path.exists(data) or (len(names) == 2 and sides == names):
        return [data]  # a name with a comma, or SOURCE_FILE,TARGET_FILE
    if len(names) > 1 and "" in names:
        raise UserError(f"data {data!r}: a name before or after a comma is missing")
    return names


def split_paths(data: str) -> list[str]:
    """Splits SOURCE_FILE,TARGET_FILE into paths. The path of one file can have a comma."""
    return [data] if os.path.exists(data) else data.split(",")


def split_languages(name: str, source: str, target: str) -> tuple[str, str, str]:
    """Splits NAME@SOURCE-TARGET into three; a name without languages has the given ones."""
    match = LANGUAGES.fullmatch(name)
    if not match or os.path.exists(name):
        return name, source, target
    return match[1], match[2], match[3]


def corpora_of(data: str, source: str, target: str) -> list[tuple[str, str, str]]:
    """Returns name, source and target of each corpus of `open_corpus`."""
    return [split_languages(name, source, target) for name in corpus_names(data)]


def absolute_path(data: str) -> str:
    """Returns the argument `data` of `open_corpus` with absolute paths; names stay as they are."""
    names = corpus_names(data)
    if len(names) > 1:
        return ",".join(map(absolute_path, names))
    if data.startswith(HUGGING_FACE):
        return HUGGING_FACE + absolute_path(data.removeprefix(HUGGING_FACE))
    name, *_ = split_languages(data, "", "")
    if name in ("pocket", POCKET_TREES):
        return data
    if os.path.exists(name):
        return os.path.abspath(name) + data.removeprefix(name)
    return ",".join(map(os.path.abspath, data.split(","))) if "," in data else data


def _folder_files(folder: str, source: str, target: str) -> dict[str, list[str]]:
    """Finds the files of the splits of a folder.

    The only files with other names, one of each language, are "train" where no file has this name.

    Returns: a dict from "train", "validation" (where there is one) and the test sets, sorted by
      name, to [SOURCE_FILE, TARGET_FILE], or one file of `PAIR_FORMATS`. Test sets that lack one of
      the languages are left out.
    Raises: UserError when there is no training text, or it is not clear which files are a split.
    """
    found: dict[str, list[tuple[str, str]]] = {"train": [], "validation": []}  # ending, name
    others: dict[str, list[tuple[str, str]]] = {}
    for name in sorted(os.listdir(folder)):
        stem, ending = _stem_and_ending(name, (source, target))
        split = _split_of(stem)
        if split in found or split.startswith("test"):
            if ending in (source, target, *PAIR_FORMATS):
                found.setdefault(split, []).append((ending, name))
        elif ending in (source, target):
            others.setdefault(stem, []).append((ending, name))
    pairs = [names for names in others.values() if len(names) == 2]
    if not found["train"] and len(pairs) == 1:
        found["train"] = pairs[0]
    files = {}
    for split, names in found.items():
        by_ending = {ending: os.path.join(folder, name) for ending, name in names}
        if len(names) == 1 and not by_ending.keys().isdisjoint(PAIR_FORMATS):
            files[split] = list(by_ending.values())
        elif len(names) == 2 and by_ending.keys() == {source, target}:
            files[split] = [by_ending[source], by_ending[target]]
        elif len(names) > 1 or (names and split == "validation"):
            raise UserError(
                f"folder {folder} has {' and '.join(name for _, name in names)} for {split}: keep "
                "one file of each language, or one file of both"
            )
    if not files:
        formats = " or ".join(f"train.{ending}" for ending in PAIR_FORMATS)
        content = ", ".join(sorted(os.listdir(folder))) or "nothing"
        advice = f": give {HUGGING_FACE}{folder} for Parquet" if ".parquet" in content else ""
        raise UserError(
            f"folder {folder} has no train.{source} and train.{target}, {formats}: it has "
            f"{content}{advice}"
        )
    return files


def _split_of(name: str) -> str:
    """Returns "validation" for each of its names, and other names as they are."""
    return "validation" if name in VALIDATION_NAMES else name


def _stem_and_ending(name: str, languages: tuple[str, str]) -> tuple[str, str]:
    """Splits the name STEM.LANGUAGE, STEM.LANGUAGE.txt, or LANGUAGE.STEM.txt as TFDS has it."""
    stem, _, ending = uncompressed(name).removesuffix(".txt").rpartition(".")
    return (ending, stem) if stem in languages else (stem, ending)


def _ending(name: str) -> str:
    """Returns FORMAT of the name STEM.FORMAT, where .gz or another compression can follow."""
    return uncompressed(name).rpartition(".")[2]


def read_pair_files(paths: Sequence[str], languages: tuple[str, str]) -> Iterator[WeightedPair]:
    """Reads the pairs of `read_pair_windows`, without the first line where that is a header.

    The first pair of a file that has markup, or another thing that is no text, is a warning.

    Raises: UserError as `read_pair_windows`, and where there are no pairs.
    """
    pairs = itertools.chain.from_iterable(read_pair_windows(paths, languages))
    name, number = " and ".join(paths), 0
    readers = set(map(_reader, paths))
    found: set[str] = set()
    for number, pair in enumerate(itertools.islice(pairs, CHECKED_PAIRS), start=1):
        is_header = number == 1 and readers <= {read_tsv, read_csv} and _is_header(pair, languages)
        advice = "is a header, and is left out" if is_header else _no_text(pair, readers)
        if advice and advice not in found:
            found.add(advice)
            _warn_once(f"{name}: pair {number}, {' - '.join(pair[:2])[:80]!r}, {advice}")
        if not is_header:
            yield pair
    if not number:
        raise UserError(f"{name}: there is no text")
    yield from pairs


def _is_header(pair: WeightedPair, languages: tuple[str, str]) -> bool:
    """Whether the sides of a pair are names of languages, or codes of the ones that are read."""
    sides = {side.strip().lower() for side in pair[:2]}
    codes = set(map(base_language, languages))
    return (
        sides <= set(LANGUAGE_NAMES) or sides in HEADERS or set(map(base_language, sides)) == codes
    )


def _no_text(pair: WeightedPair, readers: Collection[Reader]) -> str:
    """Says what in a pair a model should not learn, and what to do; "" for nothing."""
    sides = pair[:2]
    if any(map(_has_markup, sides)):
        return (
            "has markup: take the text of SGML and XML only, undo Moses' entities with its "
            "deescape-special-chars.perl, or drop such pairs (docs/guides/data.md)"
        )
    if read_tsv in readers and any(map(QUOTED.fullmatch, sides)):
        return "has quotation marks of CSV: write the file with commas, and as .csv"
    return ""


def _has_markup(text: str) -> bool:
    """Whether a text has a tag, such as <br>, or an entity of HTML or XML, such as &amp;."""
    if "<" in text and TAG.search(text):
        return True
    # "R&D;" has no entity.
    names = ENTITY.findall(text) if "&" in text else []
    return any(not name or name.lower() in ENTITIES for name in names)


def read_pair_windows(
    paths: Sequence[str], languages: tuple[str, str]
) -> Iterator[list[WeightedPair]]:
    """Reads sentence pairs in windows.

    Args:
      paths: (SOURCE_FILE, TARGET_FILE), or (FILE,) of one of `PAIR_FORMATS`; () for TSV on standard
        input.
      languages: of source and target.
    Yields: lists of (source, target, weight), none of them empty. The weight is None where the file
      has no weights; in JSON lines it is 1 where a line has none.
    Raises: UserError for two files with different line counts or with both sides of each pair,
      invalid UTF-8, and a line of another form.
    """
    path = paths[0] if paths else None
    if len(paths) > 2 or (paths[1:] and not set(PAIR_FORMATS).isdisjoint(map(_ending, paths))):
        raise UserError(f"{','.join(paths)}: give one file of pairs, or SOURCE_FILE,TARGET_FILE")
    if len(paths) == 2:
        for lines in read_two_file_windows(paths[0], paths[1]):
            yield [(source, target, None) for source, target in lines]
    elif path is None or _reader(path) is read_tsv:
        yield from read_tsv_windows(path)
    else:
        pairs = _reader(path)(path, languages)
        while window := list(itertools.islice(pairs, LARGEST_WINDOW)):
            yield window


def read_csv(path: str, languages: tuple[str, str]) -> Iterator[WeightedPair]:
    """Reads the pairs of a CSV file.

    A first line with codes of the languages, and "weight" where there are weights, says which
    columns they are, of any number. Without it, the columns are as in a TSV file.
    """
    rows = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    header: list[str] = []
    try:
        for row in rows:
            place, row = f"{path}:{rows.line_num}", list(map(one_line, row))
            names = [cell.strip() for cell in row]
            if rows.line_num == 1:
                columns = {choose_code(each, tuple(names)): each for each in languages}
                if any(columns):
                    header = [columns.get(name, name) for name in names]
                    if missing := set(languages) - set(header):
                        raise UserError(
                            f"{place}: the first line has {', '.join(names)}: it lacks "
                            f"{missing.pop()}"
                        )
                    continue
            if not header or not any(names):
                yield parse_columns(row, place, is_csv=True)
            elif len(row) != len(header):
                raise UserError(
                    f"{place}: {len(row)} columns, and the first line has {len(header)}: correct "
                    "the line, with quotation marks around a text with a comma"
                )
            else:
                yield _pair_of(dict(zip(header, row)), place, languages, None)
    except csv.Error as error:
        raise UserError(f"{path}:{rows.line_num}: {error}: correct the quotation marks") from None


def read_tmx(path: str, languages: tuple[str, str]) -> Iterator[WeightedPair]:
    """Reads the units of a TMX file that have both languages, by `choose_code`."""
    found: set[str] = set()
    units = 0
    with open_bytes(path) as file:
        try:
            # Entities of other files are errors, and so are entities that expand without end.
            for _, unit in etree.iterparse(file, tag="{*}tu", resolve_entities="internal"):
                texts: dict[str, Any] = {}
                for variant in unit.iterfind("{*}tuv"):
                    code = variant.get(XML_LANGUAGE) or variant.get("lang", "")
                    texts.setdefault(code, variant.find("{*}seg"))
                codes = [choose_code(each, tuple(texts)) for each in languages]
                sides: list[Any] = [None if code is None else texts[code] for code in codes]
                if codes[0] != codes[1] and all(side is not None for side in sides):
                    texts_of = (SEGMENT_TEXT(x) if len(x) else [x.text or ""] for x in sides)
                    lines = ("".join(each).strip(" \t\r\n") for each in texts_of)
                    source, target = (XML_BLANKS.sub(" ", line) for line in lines)
                    yield source, target, None
                    units += 1
                found.update(texts)
                unit.clear()
                while unit.getprevious() is not None:  # so that a large file fits into the memory
                    del unit.getparent()[0]
        except etree.XMLSyntaxError as error:
            raise UserError(
                f"{path}:{error.lineno}: not TMX ({error.msg}): correct the line; a character "
                "needs no entity, or one that the file declares"
            ) from None
    if not units:
        raise UserError(
            f"{path}: no unit has both {' and '.join(languages)}: the file has "
            f"{', '.join(sorted(found)) or 'nothing'}"
        )


def read_json(path: str, languages: tuple[str, str]) -> Iterator[WeightedPair]:
    """Reads the pairs of JSON lines, or of one array of JSON, which has to fit into the memory."""
    lines = read_lines(path)
    first = next(lines, None)
    if first is not None and first.lstrip().startswith("["):
        records = _load_json("\n".join([first, *lines]), f"{path}:1", languages)
        for number, record in enumerate(records, start=1):
            yield _pair_of(record, f"{path}: object {number}", languages)
    elif first is not None:
        for number, line in enumerate(itertools.chain([first], lines), start=1):
            place = f"{path}:{number}"
            if line.strip():
                yield _pair_of(_load_json(line, place, languages), place, languages)
            else:
                yield "", "", 1.0


def _load_json(text: str, place: str, languages: tuple[str, str]) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _no_pair(place, languages) from None


def _pair_of(
    record: Any, place: str, languages: tuple[str, str], weight: float | None = 1.0
) -> WeightedPair:
    """The pair of a record such as {"en": "a cat", "de": "eine Katze", "weight": 0.5}.

    The texts can also be in an object "translation", as in data sets of Hugging Face.

    Args:
      record: should be a dict. The text None is a blank one.
      place: of the record, for messages.
      weight: of a record without one.
    Raises: UserError for another record.
    """
    try:
        texts = record.get("translation", record)
        sides = ["" if texts[each] is None else texts[each] for each in languages]
        # `encode` refuses half of a surrogate pair.
        source, target = (one_line(side.encode().decode()) for side in sides)
        weight = record.get("weight", weight)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _no_pair(place, languages) from None
    return source, target, None if weight is None else parse_weight(weight, place)


def _no_pair(place: str, languages: tuple[str, str]) -> UserError:
    return UserError(
        f'{place}: give an object of JSON with two texts, such as {{"{languages[0]}": "...", '
        f'"{languages[1]}": "..."}}, and "weight" where a pair has one; one on each line, or an '
        "array of them"
    )


PAIR_FORMATS: dict[str, Reader] = {  # by the ending
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_json,
    "json": read_json,
    "tmx": read_tmx,
}


def _reader(path: str) -> Reader:
    """Returns the reader of a file of pairs; of TSV where its name has another ending."""
    return PAIR_FORMATS.get(_ending(path), read_tsv)


def describe_data() -> str:
    """Describes what `--data` can name, for its help and for errors."""
    return (
        f"pocket, a folder, a file (.{', .'.join(PAIR_FORMATS)}), SOURCE_FILE,TARGET_FILE, a "
        "TFDS name such as wmt14_translate/de-en, or hf:NAME/CONFIG or hf:FOLDER for a data set of "
        "Hugging Face; for trees pocket-trees or a folder; several, separated by commas, are "
        "trained on together"
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
        return {_split_of(each): each for each in splits}

    def read_text(self, text: str) -> Iterator[WeightedPair]:
        """Yields the pairs of a split of the data set."""
        examples = self._builder.as_dataset(split=text, shuffle_files=False)
        for example in examples.as_numpy_iterator():
            texts = (example[language].decode("utf-8", "replace") for language in self._languages)
            source, target = map(one_line, texts)
            yield source, target, None

    def text_fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the version of the data set."""
        return (self._builder.info.full_name, *self._languages, bool(self.held_out), split)


def _is_saved(folder: str) -> bool:
    """Whether `save_to_disk` of Hugging Face's `datasets` wrote a folder."""
    return any(os.path.exists(os.path.join(folder, file)) for file in SAVED)


def open_hugging_face(name: str, source: str, target: str) -> FileCorpus:
    """Opens a data set with the library `datasets` of Hugging Face.

    The first use downloads it. Its text stays in memory-mapped files.

    Args:
      name: NAME or NAME/CONFIG, or the path of a folder: with files that the library reads, such as
        Parquet, or one of `save_to_disk`.
      source, target: keys of its columns, or of its records "translation".
    Raises: UserError when the library is not installed, when there is no such data set or it cannot
      be downloaded, and when it lacks one of the languages.
    """
    with explain_missing_package("datasets", "datasets"):
        import datasets

    title = f"the Hugging Face data set {name}"
    parts = name.split("/", 2)
    # The arguments of `load_dataset`. Two parts are NAMESPACE/NAME, or else NAME/CONFIG.
    candidates = [["/".join(parts[:2]), *parts[2:]]] + [parts] * (len(parts) == 2)
    load = datasets.load_from_disk if _is_saved(name) else datasets.load_dataset
    if os.path.isdir(name):
        candidates = [[os.path.abspath(name)]]  # names such as "text" are readers of the library
    problems = []
    for arguments in candidates:
        try:
            loaded = load(*arguments)
            break
        except Exception as error:  # of many kinds: no such name, network, disk, parser
            problems.append(textwrap.shorten(str(error.__cause__ or error), 300))
    else:
        raise UserError(
            f"{title} could not be loaded: {problems[0]}: check the name and the network, or give "
            f"{HUGGING_FACE} and the path of a folder"
        )
    splits = {"train": loaded} if isinstance(loaded, datasets.Dataset) else dict(loaded)
    features = next(iter(splits.values())).features
    columns = features.get("translation")
    languages = getattr(columns, "languages", columns if isinstance(columns, dict) else features)
    for language in (source, target):
        if language not in languages:
            raise UserError(f"{title} has no {language!r}: it has {', '.join(languages)}")

    def read_files(paths: Sequence[str]) -> Iterator[WeightedPair]:
        tables = (datasets.Dataset.from_file(path).with_format("arrow") for path in paths)
        batches = (batch.to_pylist() for table in tables for batch in table.iter(1000))
        for number, record in enumerate(itertools.chain.from_iterable(batches), start=1):
            yield _pair_of(record, f"{title}, row {number}", (source, target), None)

    texts = {
        _split_of(split): [file["filename"] for file in text.cache_files]
        for split, text in splits.items()
    }
    return FileCorpus(title, texts, read_files, (source, target))
