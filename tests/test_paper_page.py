"""docs/paper.md: every link leads somewhere, every name is in the file beside it, every departure is in a table and in the list."""

import ast
import functools
import json
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "paper.md"
CLAIMS, DEPARTURES = PAGE.read_text("utf-8").split("\n## Departures\n")
HEADS = ["the paper says", "code", "test", "departure"], ["departure", "here", "why"]


def tables(text):
    """The rows of all tables, lists of cells, without the rules under the heads."""
    lines = [
        line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def rows(text, head):
    return [row for row in tables(text) if row != head]


def links_and_names(text):
    """For each link (target, None), and for each name in backticks after it, up to the next link, (target, name)."""
    target = None
    for link, name in re.findall(r"\]\(([^)\s]+)\)|`([^`]+)`", text):
        target = link or target
        yield target, name or None


@functools.cache
def definitions(path):
    """What a file defines: functions, classes, constants, `Class.method`, `Class.field` and `CONSTANT["key"]`; a Makefile its targets."""
    text = path.read_text("utf-8")
    if path.name == "Makefile":
        return {name for names in re.findall(r"^([\w -]+):", text, re.M) for name in names.split()}
    return set(_defined(ast.parse(text).body)) if path.suffix == ".py" else set()


def _defined(body, before=""):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield before + node.name
        if isinstance(node, ast.ClassDef):
            yield from _defined(node.body, f"{before}{node.name}.")
        for target in [
            *getattr(node, "targets", []),
            *([node.target] if isinstance(node, ast.AnnAssign) else []),
        ]:
            for name in (leaf.id for leaf in ast.walk(target) if isinstance(leaf, ast.Name)):
                yield before + name
                keys = node.value.keys if isinstance(node.value, ast.Dict) else []
                yield from (
                    f'{before}{name}["{key.value}"]'
                    for key in keys
                    if isinstance(key, ast.Constant)
                )


def anchors(path):
    """The headings of a notebook or a page as they stand in links."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = (cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    found = [heading.strip().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.M)]
    return found if path.suffix == ".ipynb" else [heading.lower() for heading in found]


def named(column):
    """(file, name) of all names in a column of the claims."""
    for row in rows(CLAIMS, HEADS[0]):
        for target, name in links_and_names(row[column]):
            if name:
                assert target, f"{name} stands beside no link: {row[0]}"
                yield (PAGE.parent / target.partition("#")[0]).resolve(), name


def test_what_a_file_defines(tmp_path):
    code = 'A, B = 1, 2\nC = {"k": 1}\nclass D:\n    e: int = 1\n    def f(self):\n        g = 1\n'
    (tmp_path / "x.py").write_text(code)
    assert definitions(tmp_path / "x.py") == {"A", "B", "C", 'C["k"]', "D", "D.e", "D.f"}
    (tmp_path / "Makefile").write_text("a-b c: d\n\techo e: f\n.PHONY: x\nA := y: z\n")
    assert {"a-b", "c"} <= definitions(tmp_path / "Makefile") and "d" not in definitions(
        tmp_path / "Makefile"
    )
    assert list(links_and_names("`a` [x](y.py) `b`, `c`; [z](w)")) == [
        (None, "a"), ("y.py", None), ("y.py", "b"), ("y.py", "c"), ("w", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "part, head", [(CLAIMS, HEADS[0]), (DEPARTURES, HEADS[1])], ids=["claims", "departures"]
)
def test_all_tables_have_the_same_columns(part, head):
    found = tables(part)
    assert head in found and {len(row) for row in found} == {len(head)}
    assert all(all(row[: len(head) - (part is CLAIMS)]) for row in found), "a blank cell"


def test_links_lead_somewhere():
    for target, name in links_and_names(CLAIMS + "\n## Departures\n" + DEPARTURES):
        if name or target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        assert (PAGE.parent / path).exists() or not path, target
        if anchor:
            assert anchor in anchors(PAGE.parent / path if path else PAGE), target


def test_every_name_is_defined_in_the_file_beside_it():
    found = list(named(1))
    assert len(found) > 100
    for path, name in found:
        assert name in definitions(path), f"{path.name} has no {name}"


def test_every_test_is_in_the_file_beside_it():
    found = list(named(2))
    assert len(found) > 100
    for path, name in found:
        assert path.parent.name == "tests" and name.startswith("test_"), f"{name} is no test"
        assert name in definitions(path), f"{path.name} has no {name}"


def test_what_has_no_code_or_no_test_says_so():
    for claim, code, test, _ in rows(CLAIMS, HEADS[0]):
        assert code.startswith("none") or list(links_and_names(code)), f"no code: {claim}"
        assert "none" in test or "test_" in test, f"no test: {claim}"


def test_departures_are_in_a_table_and_in_the_list():
    listed = [row[0] for row in rows(DEPARTURES, HEADS[1])]
    named_in_tables = {
        name for row in rows(CLAIMS, HEADS[0]) for name in row[3].split("; ") if name
    }
    assert len(set(listed)) == len(listed)
    assert set(listed) - named_in_tables == set(), "listed, but in no table"
    assert named_in_tables - set(listed) == set(), "in a table, but not listed"


def test_every_section_equation_table_and_figure_has_its_place():
    headings = re.findall(r"^## (.+)$", CLAIMS, re.M)
    assert [
        heading.split()[0] for heading in headings[:-1]
    ] == "3 3.1 3.2 3.3 3.4 3.5 4 5.1 5.2 5.3 5.4 6.1 6.2 6.3".split()
    for number in (1, 2, 3, 4):
        assert sum(f"Table {number}" in heading for heading in headings) == 1
    claims = "\n".join(row[0] for row in rows(CLAIMS, HEADS[0]))
    for place in (*(f"Eq. {n}:" for n in (1, 2, 3)), *(f"Figure {n}" for n in (1, 2, 3, 4, 5))):
        assert place in claims
