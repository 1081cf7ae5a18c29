"""The committed notebooks: executed, small, and with exercises that reject wrong answers.

`make notebooks` executes them; these tests execute nothing.
"""

import importlib
import io
import pathlib
import re
import sys
from contextlib import redirect_stdout

import nbformat
import pytest

import tf_transformer

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("[01]*.ipynb"))
SOLUTIONS = sorted(path.name for path in (FOLDER / "solutions").glob("*.ipynb"))
LOCAL_PATH = re.compile(r"[\s\"'](/home|/tmp|/root|/work|/Users|/var/folders)/")
sys.path.insert(0, str(FOLDER))
course = importlib.import_module("course")


def read(*parts):
    return nbformat.read(FOLDER.joinpath(*parts), as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def exercises(name):
    return course.exercises(int(name[:2]))


def shown_text(output):
    """The text of an output, without images."""
    data = output.get("data", {})
    parts = [content for kind, content in data.items() if not kind.startswith("image/")]
    return "".join([output.get("text", ""), *parts])


def headings(text):
    """The anchors of the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {title.strip().replace(" ", "-") for title in titles}


def test_each_notebook_has_solutions_and_is_listed_in_the_readme():
    assert NOTEBOOKS and SOLUTIONS == NOTEBOOKS
    table = (FOLDER / "README.md").read_text("utf-8")
    for name in NOTEBOOKS:
        assert f"]({name})" in table


@pytest.mark.parametrize("path", [*NOTEBOOKS, *(f"solutions/{name}" for name in SOLUTIONS)])
def test_notebook_was_executed_in_order_without_errors(path):
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert len(cells) <= 25
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    text = "".join(map(shown_text, outputs))
    assert not LOCAL_PATH.search(text), "a path of the host that executed the notebook"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_exercise_is_asked_and_solved(name):
    numbers = list(exercises(name))
    assert 3 <= len(numbers) <= 6
    for notebook in (read(name), read("solutions", name)):
        code = "\n".join(cell.source for cell in code_cells(notebook))
        assert re.findall(r'check\("([\d.]+)"', code) == numbers
    cells = code_cells(read("solutions", name))
    printed = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
    assert [number for number in numbers if f"Exercise {number}: right!" in printed] == numbers


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_wrong_answers_are_rejected_with_a_hint(name):
    for number, exercise in exercises(name).items():
        assert exercise.wrong
        for answer in (*exercise.wrong, object(), None):
            with redirect_stdout(io.StringIO()) as out:
                assert not course.check(number, answer)
            expected = "no answer yet" if answer is None else exercise.hint
            assert expected in out.getvalue()


def test_notebooks_do_not_redefine_the_package():
    for name in NOTEBOOKS:
        code = "\n".join(cell.source for cell in code_cells(read(name)))
        defined = set(re.findall(r"^(?:def|class) (\w+)", code, re.M))
        assert not defined & set(tf_transformer.__all__), name


def test_the_folder_is_small():
    paths = [
        *(FOLDER / name for name in NOTEBOOKS),
        *(FOLDER / "solutions" / name for name in SOLUTIONS),
        *FOLDER.glob("course/*.py"),
    ]
    assert sum(path.stat().st_size for path in paths) < 6e6


def test_links_and_anchors_exist():
    """Checks the links of the README and of all cells, to files and to headings of notebooks."""
    pages = {"README.md": (FOLDER / "README.md").read_text("utf-8")}
    for name in NOTEBOOKS:
        cells = read(name).cells
        pages[name] = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for name, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if "://" in path:
                continue
            assert not path or (FOLDER / path).exists(), f"{name}: {target}"
            if anchor and (path or name).endswith(".ipynb"):
                assert anchor in headings(pages[path or name]), f"{name}: {target}"
