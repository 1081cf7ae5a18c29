"""Published test sets: those of sacreBLEU, and files of WMT in SGML or XML."""

import collections
import os
import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import unescape

import sacrebleu
from lxml import etree

from tf_transformer.data.scripts import base_language
from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError

_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)
_QUOTES = {"&quot;": '"', "&apos;": "'"}


def read_segments(name: str, source: str, target: str) -> tuple[list[str], list[list[str]]]:
    """Reads a test set.

    Args:
      name: one of sacreBLEU, such as "wmt14/full", which is downloaded to its cache at the first
        use; an XML file of WMT 2021 and later; or SGML files, "SOURCE_FILE,REFERENCE_FILE", with a
        file for each translator.
      source, target: language codes.
    Returns: the source sentences, and a list of references for each translator.
    Raises: UserError for an unknown test set, another language pair, or files that cannot be read.
    """
    paths = [name] if os.path.isfile(name) else name.split(",")
    if all(map(os.path.isfile, paths)):
        return _read_xml(paths[0], source, target) if len(paths) == 1 else _read_sgml(paths)
    known = sacrebleu.get_available_testsets()
    if name not in known:
        raise UserError(
            f"no test set {name!r} and no such file: sacreBLEU has {', '.join(sorted(known))}"
        )
    pair = f"{base_language(source)}-{base_language(target)}"
    if pair not in sacrebleu.get_langpairs_for_testset(name):
        pairs = ", ".join(sorted(sacrebleu.get_langpairs_for_testset(name)))
        raise UserError(f"the test set {name} has no {pair}: it has {pairs}")
    try:
        paths = [
            sacrebleu.get_source_file(name, pair),
            *sacrebleu.get_reference_files(name, pair),
        ]
    except (OSError, SystemExit) as error:  # sacreBLEU exits where the download is damaged
        raise UserError(
            f"the test set {name} could not be downloaded ({error}): try again with a network, or "
            "copy sacreBLEU's cache (~/.sacrebleu) from another computer"
        ) from None
    sources, *references = (list(read_lines(path)) for path in paths)
    return sources, references


def _read_sgml(paths: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Reads the segments of files of WMT before 2021, which are not always well formed.

    As in sacreBLEU, all that stands in a segment is text, such as "<unk>" and "a < b".
    """
    sides = []
    for path in paths:
        segments = _SEGMENT.findall("\n".join(read_lines(path)))
        sides.append([" ".join(unescape(text, _QUOTES).split()) for text in segments])
        if not segments or len(segments) != len(sides[0]):
            raise UserError(
                f"{paths[0]} has {len(sides[0]):,} segments (<seg>), and {path} {len(segments):,}: "
                "give files of the same segments"
            )
    return sides[0], sides[1:]


def _read_xml(path: str, source: str, target: str) -> tuple[list[str], list[list[str]]]:
    """Reads the segments that have a reference; those of test suites do not count."""
    sources: list[str] = []
    rows: list[dict[str, str]] = []  # translator -> reference, for each source
    try:
        root = etree.parse(path).getroot()
    except etree.XMLSyntaxError as error:
        raise UserError(
            f"{path}: not XML of WMT ({error}); SGML has two files: give SOURCE_FILE,REFERENCE_FILE"
        ) from None
    for document in root.iter("doc"):
        if "testsuite" in document.attrib:
            continue
        texts = {number: text for number, _, text in _segments(document, "src", source)}
        of_segment: dict[str, dict[str, str]] = collections.defaultdict(dict)
        for number, translator, text in _segments(document, "ref", target):
            of_segment[number][translator] = text
        for number, text in texts.items():
            row = of_segment[number]
            if any(row.values()):
                sources.append(text)
                rows.append(row)
    if not sources:
        raise UserError(
            f"{path} has no segments (<seg>) in {source} with a reference in {target}; SGML "
            "has two files: give SOURCE_FILE,REFERENCE_FILE"
        )
    translators = sorted({translator for row in rows for translator in row})
    return sources, [[row.get(each, "") for row in rows] for each in translators]


def _segments(document: etree._Element, side: str, language: str) -> Iterator[tuple[str, str, str]]:
    """Yields the number, the translator and the text of each segment in a language."""
    for part in document.iter(side):
        if base_language(part.get("lang", language)) == base_language(language):
            for segment in part.iter("seg"):
                text = " ".join("".join(segment.itertext()).split())
                yield segment.get("id"), part.get("translator", ""), text
