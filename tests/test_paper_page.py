"""The links, names and departures of docs/paper.md.

Every link is valid, every name is defined in the file beside it, and every departure is in a table
and in the list.
"""

import ast
import functools
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
CLAIMS, DEPARTURES = PAGE.read_text("utf-8").split("\n## Departures\n")
CLAIM_HEADER = ["the paper says", "code", "test", "departure"]
DEPARTURE = re.compile(r"^- \*\*(.+?)\*\*:\s(.+?)\s\*Why:\*\s(.+?)(?=\n- |\n\n|\Z)", re.M | re.S)


def tables(text):
    """The rows of all tables as lists of cells, without the lines under the headers."""
    lines = [
        line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def rows(text, header):
    return [row for row in tables(text) if row != header]


def links_and_names(text):
    """Yields (target, None) for each link.

    Yields (target, name) for each name in backticks between it and the next link.
    """
    target = None
    for link, name in re.findall(r"\]\(([^)\s]+)\)|`([^`]+)`", text):
        target = link or target
        yield target, name or None


@functools.cache
def definitions(path):
    """The names that a file defines.

    In Python: functions, classes, constants, `Class.method`, `Class.field` and `CONSTANT["key"]`;
    in a Makefile: targets.
    """
    text = path.read_text("utf-8")
    if path.name == "Makefile":
        return {name for names in re.findall(r"^([\w -]+):", text, re.M) for name in names.split()}
    return set(_defined(ast.parse(text).body)) if path.suffix == ".py" else set()


def _defined(body, prefix=""):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _defined(node.body, f"{prefix}{node.name}.")
        targets = list(getattr(node, "targets", []))
        if isinstance(node, ast.AnnAssign):
            targets.append(node.target)
        for target in targets:
            for name in (leaf.id for leaf in ast.walk(target) if isinstance(leaf, ast.Name)):
                yield prefix + name
                keys = node.value.keys if isinstance(node.value, ast.Dict) else []
                for key in keys:
                    if isinstance(key, ast.Constant):
                        yield f'{prefix}{name}["{key.value}"]'


def anchors(path):
    """The headings of a notebook or a page in the form of link anchors."""
    text = path.read_text("utf-8")
    notebook = path.suffix == ".ipynb"
    if notebook:
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    names = [heading.strip().replace(" ", "-") for heading in headings]
    return names if notebook else [name.lower() for name in names]


def named(column):
    """Yields (file, name) for all names in a column of the claims."""
    for row in rows(CLAIMS, CLAIM_HEADER):
        for target, name in links_and_names(row[column]):
            if name:
                assert target, f"{name} has no link before it: {row[0]}"
                yield (PAGE.parent / target.partition("#")[0]).resolve(), name


def test_definitions_of_a_file(tmp_path):
    code = 'A, B = 1, 2\nC = {"k": 1}\nclass D:\n    e: int = 1\n    def f(self):\n        g = 1\n'
    (tmp_path / "x.py").write_text(code)
    assert definitions(tmp_path / "x.py") == {"A", "B", "C", 'C["k"]', "D", "D.e", "D.f"}
    (tmp_path / "Makefile").write_text("a-b c: d\n\techo e: f\n.PHONY: x\nA := y: z\n")
    targets = definitions(tmp_path / "Makefile")
    assert {"a-b", "c"} <= targets
    assert "d" not in targets
    assert list(links_and_names("`a` [x](y.py) `b`, `c`; [z](w)")) == [
        (None, "a"), ("y.py", None), ("y.py", "b"), ("y.py", "c"), ("w", None),
    ]  # fmt: skip


def test_tables_have_the_same_columns():
    """Only the last column of the claims may be blank."""
    all_rows = tables(CLAIMS)
    assert CLAIM_HEADER in all_rows
    assert {len(row) for row in all_rows} == {len(CLAIM_HEADER)}
    assert all(all(row[:-1]) for row in all_rows), "a blank cell"


def test_every_departure_has_a_reason():
    assert len(DEPARTURE.findall(DEPARTURES)) == len(re.findall(r"^- ", DEPARTURES, re.M)) > 40


def test_links_are_valid():
    for target, name in links_and_names(CLAIMS + "\n## Departures\n" + DEPARTURES):
        if name or target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        assert (PAGE.parent / path).exists() or not path, target
        if anchor:
            assert anchor in anchors(PAGE.parent / path if path else PAGE), target


def test_every_name_is_defined_in_the_file_beside_it():
    names = list(named(1))
    assert len(names) > 100
    for path, name in names:
        assert name in definitions(path), f"{path.name} has no {name}"


def test_every_test_is_in_the_file_beside_it():
    names = list(named(2))
    assert len(names) > 100
    for path, name in names:
        assert path.is_relative_to(ROOT / "tests"), f"{path} is not below tests"
        assert name.startswith("test_"), f"{name} is not a test"
        assert name in definitions(path), f"{path.name} has no {name}"


def test_claims_without_code_or_test_say_none():
    for claim, code, test, _ in rows(CLAIMS, CLAIM_HEADER):
        assert code.startswith("none") or list(links_and_names(code)), f"no code: {claim}"
        assert "none" in test or "test_" in test, f"no test: {claim}"


def test_departures_are_in_a_table_and_in_the_list():
    listed = [name for name, _, _ in DEPARTURE.findall(DEPARTURES)]
    in_claims = {name for row in rows(CLAIMS, CLAIM_HEADER) for name in row[3].split("; ") if name}
    assert len(set(listed)) == len(listed)
    assert set(listed) - in_claims == set(), "listed, but in no table"
    assert in_claims - set(listed) == set(), "in a table, but not listed"


def test_every_section_equation_table_and_figure_is_covered():
    headings = re.findall(r"^## (.+)$", CLAIMS, re.M)
    sections = [heading.split()[0] for heading in headings[:-1]]
    assert sections == "3 3.1 3.2 3.3 3.4 3.5 4 5.1 5.2 5.3 5.4 6.1 6.2 6.3".split()
    for number in (1, 2, 3, 4):
        assert sum(f"Table {number}" in heading for heading in headings) == 1
    claims = "\n".join(row[0] for row in rows(CLAIMS, CLAIM_HEADER))
    equations = [f"Eq. {n}:" for n in (1, 2, 3)]
    figures = [f"Figure {n}" for n in (1, 2, 3, 4, 5)]
    for item in equations + figures:
        assert item in claims
