"""README.md, docs/ and notebooks/: links, commands, make targets, flags, messages, the version."""

import ast
import functools
import json
import pathlib
import re
import runpy
import shutil
import subprocess
import zipfile
from contextlib import redirect_stdout
from io import StringIO

import pytest
import yaml

from tf_transformer import __version__
from tf_transformer.cli.command import GONE_FLAGS
from tf_transformer.cli.main import COMMANDS, parse

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "deploy" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
NOTEBOOKS = [path for kind in ("md", "ipynb") for path in (ROOT / "notebooks").glob(f"*.{kind}")]
SITE_PAGES = {"docs/changelog.md", "docs/commands.md", "docs/contributing.md", "docs/license.md"}
EXTERNAL = ("https://", "http://")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


every_page = pytest.mark.parametrize("path", PAGES, ids=name_of)


def markdown(path):
    """The text of a page or of a notebook, without code blocks."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def code(path):
    """The code blocks and the code in backticks, one piece a line; continued lines are joined."""
    blocks = re.findall(r"^```.*?\n(.*?)^```", path.read_text("utf-8"), re.M | re.S)
    spans = re.findall(r"`([^`]+)`", markdown(path))
    pieces = "\n".join([*blocks, *(span.replace("\n", " ") for span in spans)])
    return pieces.replace("\\\n", " ").splitlines()


@functools.cache
def anchors(path):
    """The anchors of the headings of a page or a notebook."""
    headings = re.findall(r"^#+ (.+)$", markdown(path), re.M)
    if path.suffix != ".ipynb":
        headings = [re.sub(r"[^\w\s-]", "", heading).lower() for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in headings}


def links(path):
    """The relative links of a page or a notebook."""
    text = markdown(path)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    return [target for target in targets if not target.startswith(EXTERNAL)]


@functools.cache
def flags_of(command):
    """The flags of a command, from its help text."""
    with redirect_stdout(StringIO()) as out:
        assert parse(command, ["--help"]) is None
    return set(re.findall(r"^  --(\w+)", out.getvalue(), re.M))


@pytest.mark.parametrize("path", [*PAGES, *sorted(NOTEBOOKS)], ids=name_of)
def test_links_and_anchors_exist(path):
    for target in links(path):
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        if linked.is_relative_to(ROOT) and name_of(linked) in SITE_PAGES:
            continue  # written by the build of the site
        assert linked.exists(), target
        if anchor and linked.suffix != ".html":  # the page's states: tests/course
            assert anchor in anchors(linked), target


@every_page
def test_commands_and_flags_exist(path):
    for line in code(path):
        for command, arguments in re.findall(r"tf-transformer ([a-z][\w-]*)([^|#]*)", line):
            assert command in COMMANDS, line
            unknown = set(re.findall(r"--(\w+)", arguments)) - flags_of(command)
            assert not unknown, f"{command} has no {unknown}: {line}"
    # A flag in backticks without a command is a flag of some command, script or other program.
    known = set().union(*(flags_of(command) for command in COMMANDS))
    scripts = "".join(file.read_text("utf-8") for file in (ROOT / "benchmarks").glob("*.py"))
    known |= set(re.findall(r'"--([\w-]+)"', scripts))
    if name_of(path) in ("docs/results.md", "docs/upgrade.md"):
        known |= GONE_FLAGS
    spans = re.findall(r"`--(\w+)[^`]*`", markdown(path))
    assert not set(spans) - known


@every_page
def test_make_targets_exist(path):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    known = {name for line in re.findall(r"^([\w -]+):", makefile, re.M) for name in line.split()}
    for line in code(path):
        for targets in re.findall(r"(?:^|\s)make ((?:[a-z][\w-]* ?)+)", line.partition("#")[0]):
            assert set(targets.split()) <= known, line


def test_messages_of_the_troubleshooting_page_are_those_of_the_package():
    text = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    entries = re.findall(r"^(`.+`)\n:  ", text, re.M)
    messages = [message for entry in entries for message in re.findall(r"`([^`]+)`", entry)]
    assert len(messages) > 50
    modules = (ROOT / "tf_transformer").rglob("*.py")
    nodes = (node for path in modules for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    known = "\0".join(value for value in constants if isinstance(value, str))
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
    pages = (page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    shown = {name for page in pages for name in re.findall(r"^::: (.+)$", page, re.M)}
    package = ROOT / "tf_transformer"
    parts = [path.parent.name for path in package.glob("*/__init__.py")]
    parts += [path.stem for path in package.glob("*.py") if not path.stem.startswith("__")]
    assert {f"tf_transformer.{part}" for part in parts} <= shown


def test_the_architecture_diagram_is_up_to_date():
    """The committed file is that of the script, and every subpackage is in the picture."""
    script = runpy.run_path(str(ROOT / "tools" / "docs" / "diagrams.py"))
    packages, arrows = script["PACKAGES"], script["IMPORTS"]
    drawn = script["draw"](packages, arrows, "The subpackages and their imports")
    assert drawn == (ROOT / "docs" / "packages.svg").read_text("utf-8")
    assert {path.parent.name for path in (ROOT / "tf_transformer").glob("*/__init__.py")} <= set(
        packages
    )


def test_files_that_repeat_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert next(heading for heading in headings if heading != "Unreleased") == f"[{__version__}]"


@pytest.mark.skipif(not shutil.which("unzip"), reason="needs unzip")
def test_the_first_cell_on_colab_keeps_the_learners_files(tmp_path):
    """It is run again in each notebook."""
    text = (ROOT / "notebooks" / "README.md").read_text("utf-8")
    cell = re.search(r"^!(.*unzip.*)$", text, re.M)[1]
    with zipfile.ZipFile(tmp_path / "tf_transformer.zip", "w") as file:
        file.writestr("notebooks/my_transformer.py", "empty")
    own = tmp_path / "project" / "notebooks" / "my_transformer.py"
    for content in ("empty", "written"):
        subprocess.run(
            ["bash", "-c", f"pip() {{ :; }}; {cell}"], cwd=tmp_path, stdin=subprocess.DEVNULL
        )
        assert own.read_text() == content == (tmp_path / "my_transformer.py").read_text()
        own.write_text("written")


@pytest.mark.slow
def test_program_of_the_guide_to_the_layers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "guides" / "keras.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    variables = {}
    exec("\n".join(blocks), variables)
    assert variables["texts"] == ["Der alte Mann liest ein Buch.", "Anna schläft."]
