"""The names of corpora in the setting `data`: one, or several separated by commas."""

import os
import re

from tf_transformer.errors import UserError

POCKET_TREES = "pocket-trees"  # the built-in treebank
TFDS_NAME = re.compile(r"[a-z]\w*(/[\w.-]+)*(:[\d.*]+)?")
LANGUAGES = re.compile(r"(.+)@(\w+)-(\w+)")  # NAME@SOURCE-TARGET


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
        return os.path.isdir(data) or data.removesuffix(".gz").endswith((".tsv", ".jsonl"))
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
