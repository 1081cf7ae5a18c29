"""The committed notebooks: executed, small, and with exercises that reject wrong answers.

`make notebooks` executes them; these tests execute nothing.
"""

import functools
import io
import pathlib
import re
import sys
import types
from contextlib import redirect_stdout
from unittest import mock

import course
import nbformat
import numpy as np
import pytest

import tf_transformer

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
SOLUTIONS = sorted(path.name for path in (FOLDER / "solutions").glob("*.ipynb"))
LOCAL_PATH = re.compile(r"[\s\"'](/home|/tmp|/root|/work|/Users|/var/folders)/")


def read(*parts):
    return nbformat.read(FOLDER.joinpath(*parts), as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def exercises(name):
    return course.exercises(name[:2])


def text_of(notebook):
    """The markdown cells of a notebook."""
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


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
    assert len(cells) <= 30
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
        assert re.findall(r'check\("([A\d.]+)"', code) == numbers
    cells = code_cells(read("solutions", name))
    printed = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
    assert [number for number in numbers if f"Exercise {number}: right!" in printed] == numbers


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of wrong answers
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_wrong_answers_are_rejected_with_a_hint(name):
    """Also without the guard against the package, which refuses the functions of this file."""
    for number, exercise in exercises(name).items():
        assert exercise.wrong
        for answer in (*exercise.wrong, object()):
            assert not passes(exercise, answer), f"{number}: {answer}"
        for answer in (*exercise.wrong, object(), None):
            with redirect_stdout(io.StringIO()) as out:
                assert not course.check(number, answer)
            expected = "no answer yet" if answer is None else exercise.hint
            assert expected in out.getvalue()


def passes(exercise, answer):
    try:
        return bool(exercise.test(answer))
    except Exception:  # as `check`
        return False


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_open_exercises_are_discussed(name):
    asked, discussed = (
        re.findall(r"(?:\*\*|## )([A\d.]+) \(open\)", text_of(notebook))
        for notebook in (read(name), read("solutions", name))
    )
    assert len(asked) >= 2 and asked == discussed


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_answers_to_predictions_are_hidden(name):
    """The output that answers "Predict" is collapsed until the reader opens it."""
    cells = read(name).cells
    asked = [
        i
        for i, cell in enumerate(cells)
        if cell.cell_type == "markdown" and re.search(r"\*Predict", cell.source)
    ]
    for i in asked:
        answer = next(cell for cell in cells[i:] if cell.cell_type == "code")
        assert answer.metadata.get("jupyter") == {"outputs_hidden": True}, answer.source
        assert answer.metadata.get("tags") == ["hide-output"], "for the documentation site"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_code_of_a_notebook_is_teaching_code(name):
    for cell in code_cells(read(name)):
        assert max(map(len, cell.source.split("\n"))) <= 88, cell.source
        found = re.findall(r"raw_ops|BaseException|\bmock\b|except\b", cell.source)
        assert not found, f"{found} in {cell.source}"


def test_notebooks_do_not_redefine_the_package():
    """Except where the reader writes the model."""
    for name in NOTEBOOKS:
        if name.startswith("04"):
            continue
        code = "\n".join(cell.source for cell in code_cells(read(name)))
        defined = set(re.findall(r"^(?:def|class) (\w+)", code, re.M))
        assert not defined & set(tf_transformer.__all__), name


def test_the_package_is_refused_as_an_answer():
    """`check` refuses the function that an exercise asks for, and functions that call it."""
    exercise = course.Exercise(
        test=lambda function: function(3)[0, 1] == 1, hint="a hint", wrong=()
    )
    module = types.ModuleType("course.exercises_99")
    module.EXERCISES = {"99.1": exercise}
    answers = (
        tf_transformer.create_look_ahead_mask,
        lambda size: tf_transformer.create_look_ahead_mask(size) * 1,
        functools.partial(tf_transformer.create_look_ahead_mask),
    )
    with mock.patch.dict(sys.modules, {"course.exercises_99": module}):
        for answer in answers:
            with redirect_stdout(io.StringIO()) as out:
                assert not course.check("99.1", answer)
            assert "write this function yourself" in out.getvalue()
        assert course.check("99.1", lambda size: np.triu(np.ones((size, size)), 1))


def test_the_folder_is_small():
    paths = [
        *(FOLDER / name for name in NOTEBOOKS),
        *(FOLDER / "solutions" / name for name in SOLUTIONS),
        *FOLDER.glob("course/*.py"),
        *FOLDER.glob("poster*"),
    ]
    assert sum(path.stat().st_size for path in paths) < 8e6


def test_links_and_anchors_exist():
    """Checks the links of the README and of all cells, to files and to headings of notebooks."""
    pages = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    for name in NOTEBOOKS:
        pages[name] = text_of(read(name))
    broken = []
    for name, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if "://" in path:
                continue
            page = path or name
            if path and not (FOLDER / path).exists():
                broken.append(f"{name}: {target}")
            elif anchor and page.endswith(".ipynb") and anchor not in headings(pages[page]):
                broken.append(f"{name}: {target}")
    assert not broken
