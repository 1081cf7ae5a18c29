"""The committed notebooks: executed, small, and with exercises that reject wrong answers.

`make notebooks` executes them; these tests execute nothing. `test_docs.py` has their links.
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


def text_of(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown_text(output):
    """The text of an output, without images."""
    data = output.get("data", {})
    parts = [content for kind, content in data.items() if not kind.startswith("image/")]
    return "".join([output.get("text", ""), *parts])


def test_each_notebook_has_solutions():
    assert NOTEBOOKS and SOLUTIONS == NOTEBOOKS


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
    numbers = list(course.exercises(name[:2]))
    asked, solved = read(name), read("solutions", name)
    for notebook in (asked, solved):
        code = "\n".join(cell.source for cell in code_cells(notebook))
        assert re.findall(r'check\("([A\d.]+)"', code) == numbers
    outputs = [output for cell in code_cells(solved) for output in cell.outputs]
    printed = "".join(output.get("text", "") for output in outputs)
    assert [number for number in numbers if f"Exercise {number}: right!" in printed] == numbers
    open_ones = re.compile(r"(?:\*\*|## )([A\d.]+) \(open\)")
    assert open_ones.findall(text_of(asked)) == open_ones.findall(text_of(solved)) != []


def passes(exercise, answer):
    """Whether an answer is right, without the guard of `check` against the package."""
    try:
        return bool(exercise.test(answer))
    except Exception:  # as `check`
        return False


def printed_verdict(number, answer):
    """What `check` prints, and whether the answer is right."""
    with redirect_stdout(io.StringIO()) as out:
        right = bool(course.check(number, answer))
    return out.getvalue(), right


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of wrong answers
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_wrong_answers_are_rejected_with_a_hint(name):
    for number, exercise in course.exercises(name[:2]).items():
        assert exercise.wrong
        for answer in exercise.wrong:
            assert not passes(exercise, answer), f"{number}: {answer}"
        for answer in (exercise.wrong[0], object(), None):
            text, right = printed_verdict(number, answer)
            assert not right, f"{number}: {answer}"
            assert ("no answer yet" if answer is None else exercise.hint) in text


def test_the_package_is_refused_as_an_answer():
    """`check` refuses the function that an exercise asks for, and functions that call it."""
    exercise = course.Exercise(lambda function: function(3)[0, 1] == 1, "a hint", ())
    module = types.ModuleType("course.exercises_99")
    module.EXERCISES = {"99.1": exercise}
    own = tf_transformer.create_look_ahead_mask
    with mock.patch.dict(sys.modules, {"course.exercises_99": module}):
        for answer in (own, lambda size: own(size) * 1, functools.partial(own)):
            text, right = printed_verdict("99.1", answer)
            assert not right and "write this function yourself" in text
        assert course.check("99.1", lambda size: np.triu(np.ones((size, size)), 1))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_answers_to_predictions_are_hidden(name):
    """The output that answers "Predict" is collapsed until the reader opens it."""
    cells = read(name).cells
    for i, cell in enumerate(cells):
        if cell.cell_type == "markdown" and re.search(r"\*Predict", cell.source):
            answer = next(cell for cell in cells[i:] if cell.cell_type == "code")
            assert answer.metadata.get("jupyter") == {"outputs_hidden": True}, answer.source
            assert answer.metadata.get("tags") == ["hide-output"], "for the documentation site"
