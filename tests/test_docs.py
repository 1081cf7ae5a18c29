"""README.md and docs/: size, links, commands, make targets, flags and error messages."""

import ast
import functools
import importlib.util
import inspect
import json
import pathlib
import re
import sys
import types
from contextlib import redirect_stdout
from io import StringIO

import pytest

from tf_transformer.cli.main import COMMANDS, parse

ROOT = pathlib.Path(__file__).parents[1]
README = ROOT / "README.md"
FOLDERS = ("benchmarks", "deploy")
PAGES = [
    README,
    *(ROOT / folder / "README.md" for folder in FOLDERS),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SITE_PAGES = {"docs/changelog.md", "docs/commands.md", "docs/contributing.md", "docs/license.md"}
EXTERNAL = ("https://", "http://")
WORDS_AFTER_MAKE = {"inside"}  # prose such as "make inside make"
names = [path.relative_to(ROOT).as_posix() for path in PAGES]


def without_code(text):
    """The text without code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def code(text):
    """The code blocks and the code in backticks, one piece a line; continued lines are joined."""
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.M | re.S)
    spans = re.findall(r"`([^`]+)`", without_code(text))
    pieces = "\n".join([*blocks, *(span.replace("\n", " ") for span in spans)])
    return pieces.replace("\\\n", " ").splitlines()


@functools.cache
def anchors(path):
    """The anchors of the headings of a page or a notebook."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
        return {
            heading.strip().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.M)
        }
    headings = re.findall(r"^#+ (.+)$", without_code(text), re.M)
    return {
        re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def links(text):
    """The relative links of a page."""
    text = without_code(text)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    return [target for target in targets if not target.startswith(EXTERNAL)]


@functools.cache
def flags_of(command):
    """The flags of a command, from its help text."""
    with redirect_stdout(StringIO()) as out:
        assert parse(command, ["--help"]) is None
    return set(re.findall(r"^  --(\w+)", out.getvalue(), re.M))


@functools.cache
def make_targets():
    text = (ROOT / "Makefile").read_text("utf-8")
    return {name for line in re.findall(r"^([\w -]+):", text, re.M) for name in line.split()}


def test_readme_is_one_screen():
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.parametrize("path", PAGES, ids=names)
def test_table_cells_are_short(path):
    """A long cell is unreadable; links do not count. docs/paper.md has a sentence in a cell."""
    limit = 420 if path.name == "paper.md" else 120
    for line in without_code(path.read_text("utf-8")).splitlines():
        if line.startswith("|"):
            cells = re.sub(r"\]\([^)]*\)", "]", line).strip("|").split("|")
            assert max(len(cell.strip()) for cell in cells) <= limit, line


@pytest.mark.parametrize("path", PAGES, ids=names)
def test_links_and_anchors_exist(path):
    for target in links(path.read_text("utf-8")):
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        if linked.is_relative_to(ROOT) and linked.relative_to(ROOT).as_posix() in SITE_PAGES:
            continue  # written by the build of the site
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


@pytest.mark.parametrize("path", PAGES, ids=names)
def test_commands_and_flags_exist(path):
    for line in code(path.read_text("utf-8")):
        for command, arguments in re.findall(r"tf-transformer ([a-z][\w-]*)([^|#]*)", line):
            assert command in COMMANDS, line
            unknown = set(re.findall(r"--(\w+)", arguments)) - flags_of(command)
            assert not unknown, f"{command} has no {unknown}: {line}"


@pytest.mark.parametrize("path", PAGES, ids=names)
def test_flags_alone_exist(path):
    """A flag in backticks without a command is a flag of some command, script or other program."""
    known = set().union(*(flags_of(command) for command in COMMANDS))
    scripts = "".join(file.read_text("utf-8") for file in (ROOT / "benchmarks").glob("*.py"))
    known |= set(re.findall(r'"--([\w-]+)"', scripts))
    spans = re.findall(r"`--(\w+)[^`]*`", without_code(path.read_text("utf-8")))
    assert not set(spans) - known


@pytest.mark.parametrize("path", PAGES, ids=names)
def test_make_targets_exist(path):
    for line in code(path.read_text("utf-8")):
        for targets in re.findall(r"(?:^|\s)make ((?:[a-z][\w-]* ?)+)", line.partition("#")[0]):
            unknown = set(targets.split()) - make_targets()
            assert not unknown, line


def message_parts():
    """The constant parts of the strings of the package."""
    for path in (ROOT / "tf_transformer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_messages_of_the_troubleshooting_page_are_those_of_the_package():
    text = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    entries = re.findall(r"^(`.+`)\n:  ", text, re.M)
    messages = [message for entry in entries for message in re.findall(r"`([^`]+)`", entry)]
    assert len(messages) > 50
    known = "\0".join(message_parts())
    for message in messages:
        for part in message.split("…"):
            assert part in known, message


def test_the_functions_of_the_equations_are_in_their_modules():
    page = ROOT / "docs" / "equations.md"
    rows = re.findall(r"^\|.+?\]\((\S+\.py)\) \| (`.+`) \|$", page.read_text("utf-8"), re.M)
    assert len(rows) > 25
    for path, cell in rows:
        text = (page.parent / path).read_text("utf-8")
        for name in re.findall(r"`(\w+)`", cell):
            assert re.search(rf"^(def |class )?{name}\b", text, re.M), f"{path} has no {name}"


def test_the_api_reference_has_all_modules():
    """A page shows a subpackage with its modules; one page has the modules at the top."""
    folder = ROOT / "docs" / "api"
    shown = {
        name
        for page in folder.glob("*.md")
        for name in re.findall(r"^::: (.+)$", page.read_text(), re.M)
    }
    package = ROOT / "tf_transformer"
    parts = [path.parent.name for path in package.glob("*/__init__.py")]
    parts += [path.stem for path in package.glob("*.py") if not path.stem.startswith("__")]
    assert {f"tf_transformer.{part}" for part in parts} <= shown


def load(name):
    """A module of tools/docs."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_are_rewritten_for_the_parser(monkeypatch):
    """The build of the site installs griffe; its base class is all that this test needs."""
    monkeypatch.setitem(sys.modules, "griffe", types.SimpleNamespace(Extension=object))
    sections = load("docstrings").sections
    text = """Reads a file.

    Args:
      path: of the file.
    Returns: the lines: a list
      of strings.
    Raises: UserError when it is missing; then nothing changes. DamagedError, with
      the line number, for another text.
    """
    expected = """Reads a file.

Args:
  path: of the file.

Returns:
    : the lines: a list
    of strings.


Raises:
    UserError: when it is missing; then nothing changes.
    DamagedError: with the line number, for another text.
"""
    assert sections(inspect.cleandoc(text)) == expected
    assert sections("Loads it. Raises: ValueError for 0.") == (
        "Loads it.\n\n\nRaises:\n    ValueError: for 0.\n"
    )
    assert sections("Raises: as `f`.") == "\n**Raises:** as `f`.\n"
    assert sections("One line.") == "One line."


def test_the_architecture_diagrams_are_up_to_date():
    """The committed files are those of the script, and every subpackage is in the picture."""
    diagrams = load("diagrams")
    drawn = diagrams.draw(diagrams.PACKAGES, diagrams.IMPORTS, "The subpackages and their imports")
    assert drawn == (ROOT / "docs" / "packages.svg").read_text("utf-8")
    folders = {path.parent.name for path in (ROOT / "tf_transformer").glob("*/__init__.py")}
    assert folders <= set(diagrams.PACKAGES)
