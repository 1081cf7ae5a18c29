"""docs/paper.md: every name is defined in the file beside it, and every departure has a reason.

Its links are tested in test_docs.py.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
CLAIMS, DEPARTURES = PAGE.read_text("utf-8").split("\n## Departures\n")
LIST = re.findall(r"^- \*\*(.+?)\*\*:\s.+?\s\*Why:\*\s.+?(?=\n- |\n\n|\Z)", DEPARTURES, re.M | re.S)


def claims():
    """The rows of the tables: claim, code, test, departures."""
    lines = [line for line in CLAIMS.splitlines() if re.match(r"\|(?!---| the paper says )", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named(cell):
    """Yields (file, name) for each name in backticks, with the file of the last link before it."""
    target = None
    for link, name in re.findall(r"\]\(([^)\s]+)\)|`([^`]+)`", cell):
        target = link or target
        if name:
            assert target, f"{name} has no link before it"
            yield (PAGE.parent / target.partition("#")[0]).resolve(), name


def is_defined(name, path):
    """Whether a file defines a name, a function, class, constant or target of a Makefile.

    Of `Class.field` and `CONSTANT["key"]` it must define both parts.
    """
    text = path.read_text("utf-8")
    definition = r'^ *(def |class ){0}\b|^ *([\w-]+[ ,]+)*{0}\b[\w ,-]*(:| =)|"{0}":'
    parts = re.findall(r"[\w-]+", name)
    return all(re.search(definition.format(re.escape(part)), text, re.M) for part in parts)


@pytest.mark.parametrize(("column", "folder"), [(1, ROOT), (2, ROOT / "tests")])
def test_every_name_is_defined_in_the_file_beside_it(column, folder):
    names = [pair for row in claims() for pair in named(row[column])]
    assert len(names) > 100
    for path, name in names:
        assert path.is_relative_to(folder), f"{path} is not below {folder}"
        assert is_defined(name, path), f"{path.name} has no {name}"
        assert column == 1 or name.startswith("test_"), f"{name} is not a test"


def test_claims_without_code_or_test_say_none():
    for claim, code, test, _ in claims():
        assert "none" in code or list(named(code)), f"no code: {claim}"
        assert "none" in test or list(named(test)), f"no test: {claim}"


def test_departures_are_in_a_table_and_in_the_list_with_a_reason():
    assert len(LIST) == len(re.findall(r"^- ", DEPARTURES, re.M)) > 40
    assert len(set(LIST)) == len(LIST)
    assert set(LIST) == {name for row in claims() for name in row[3].split("; ") if name}
