"""The notebooks as they are committed: executed, small, and with exercises that tell right from wrong.

`make notebooks` executes them; here nothing is executed.
"""

import importlib
import io
import pathlib
import re
import sys
from contextlib import redirect_stdout

import nbformat
import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("[01]*.ipynb"))
SOLUTIONS = sorted(path.name for path in (FOLDER / "solutions").glob("*.ipynb"))
sys.path.insert(0, str(FOLDER))
course = importlib.import_module("course")


def read(*parts):
    return nbformat.read(FOLDER.joinpath(*parts), as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def exercises(name):
    return course.exercises(int(name[:2]))


def test_each_notebook_has_solutions_and_stands_in_the_table():
    assert NOTEBOOKS and SOLUTIONS == NOTEBOOKS
    table = (FOLDER / "README.md").read_text("utf-8")
    for name in NOTEBOOKS:
        assert f"]({name})" in table


@pytest.mark.parametrize("path", [*NOTEBOOKS, *(f"solutions/{name}" for name in SOLUTIONS)])
def test_a_notebook_was_executed_in_order_without_an_error(path):
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)) and len(
        cells
    ) <= 25
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    shown = [
        data
        for output in outputs
        for kind, data in output.get("data", {}).items()
        if not kind.startswith("image/")
    ]
    text = "".join([*(output.get("text", "") for output in outputs), *shown])
    assert not re.search(r"[\s\"'](/home|/tmp|/root|/work|/Users|/var/folders)/", text), (
        "a path of the machine that executed it"
    )


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_exercise_is_asked_and_solved(name):
    numbers = list(exercises(name))
    assert 3 <= len(numbers) <= 6
    for notebook in (read(name), read("solutions", name)):
        code = "\n".join(cell.source for cell in code_cells(notebook))
        assert re.findall(r'check\("([\d.]+)"', code) == numbers
    printed = "".join(
        output.get("text", "")
        for cell in code_cells(read("solutions", name))
        for output in cell.outputs
    )
    assert [number for number in numbers if f"Exercise {number}: right!" in printed] == numbers


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_wrong_answers_are_told_so_with_a_hint(name):
    for number, exercise in exercises(name).items():
        assert exercise.wrong
        for answer in (*exercise.wrong, object(), None):
            with redirect_stdout(io.StringIO()) as out:
                assert not course.check(number, answer)
            assert (
                "no answer yet" in out.getvalue()
                if answer is None
                else exercise.hint in out.getvalue()
            )


def test_notebooks_never_redefine_the_package():
    import tf_transformer

    for name in NOTEBOOKS:
        code = "\n".join(cell.source for cell in code_cells(read(name)))
        assert not set(re.findall(r"^(?:def|class) (\w+)", code, re.M)) & set(
            tf_transformer.__all__
        ), name


def test_the_folder_is_small():
    paths = [
        *(FOLDER / name for name in NOTEBOOKS),
        *(FOLDER / "solutions" / name for name in SOLUTIONS),
        *FOLDER.glob("course/*.py"),
    ]
    assert sum(path.stat().st_size for path in paths) < 6e6


def test_links_lead_somewhere():
    """From the README and from cells: to files, and to headings of notebooks."""
    pages = {"README.md": (FOLDER / "README.md").read_text("utf-8")}
    for name in NOTEBOOKS:
        pages[name] = "\n\n".join(
            cell.source for cell in read(name).cells if cell.cell_type == "markdown"
        )
    for name, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if "://" in path:
                continue
            assert not path or (FOLDER / path).exists(), f"{name}: {target}"
            if anchor and (path or name).endswith(".ipynb"):
                headings = {
                    heading.strip().replace(" ", "-")
                    for heading in re.findall(r"^#+ (.+)$", pages[path or name], re.M)
                }
                assert anchor in headings, f"{name}: {target}"
