"""Published test sets: those of sacreBLEU, and files of WMT in SGML or XML."""

import os
from collections.abc import Sequence

import sacrebleu
from lxml import etree

from tf_transformer.data.scripts import base_language
from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError


def read_segments(name: str, source: str, target: str) -> tuple[list[str], list[list[str]]]:
    """Reads a test set.

    Args:
      name: one of sacreBLEU, such as "wmt14/full", which is downloaded to its cache at the first
        use; an XML file of WMT 2021 and later; or two SGML files, "SOURCE_FILE,REFERENCE_FILE".
      source, target: language codes.
    Returns: the source sentences, and a list of references for each translator.
    Raises: UserError for an unknown test set, another language pair, or files that cannot be read.
    """
    paths = [name] if os.path.isfile(name) else name.split(",")
    if all(map(os.path.isfile, paths)) and len(paths) <= 2:
        return _read_xml(paths[0]) if len(paths) == 1 else _read_sgml(paths)
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
    """Reads the segments of two files of WMT before 2021, which are not always well formed."""
    sides = []
    for path in paths:
        parser = etree.HTMLParser(encoding="utf-8")
        root = _parse(path, parser)
        sides.append([_text(segment) for segment in root.iter("seg")])
    sources, references = sides
    if not sources or len(sources) != len(references):
        raise UserError(
            f"{paths[0]} has {len(sources):,} segments (<seg>), and {paths[1]} {len(references):,}"
        )
    return sources, [references]


def _read_xml(path: str) -> tuple[list[str], list[list[str]]]:
    """Reads the segments that have a reference; those of test suites do not count."""
    sources: list[str] = []
    rows: list[dict[str, str]] = []  # translator -> reference, for each source
    for document in _parse(path).iter("doc"):
        if "testsuite" in document.attrib:
            continue
        texts = {segment.get("id"): _text(segment) for segment in document.iterfind(".//src//seg")}
        for number, text in texts.items():
            row = {
                each.get("translator", ""): _text(segment)
                for each in document.iterfind(".//ref")
                for segment in each.iter("seg")
                if segment.get("id") == number
            }
            if any(row.values()):
                sources.append(text)
                rows.append(row)
    if not sources:
        raise UserError(f"{path} has no segments (<seg>) with a source and a reference")
    translators = sorted({translator for row in rows for translator in row})
    return sources, [[row.get(each, "") for row in rows] for each in translators]


def _parse(path: str, parser: etree.HTMLParser | None = None) -> etree._Element:
    try:
        return etree.parse(path, parser).getroot()
    except etree.XMLSyntaxError as error:
        raise UserError(f"{path}: not XML of WMT ({error})") from None


def _text(segment: etree._Element) -> str:
    return " ".join("".join(segment.itertext()).split())
