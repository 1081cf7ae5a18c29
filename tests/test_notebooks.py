"""The committed notebooks: executed, small, and with exercises that reject wrong answers.

`make notebooks` executes them; these tests execute nothing. `test_docs.py` has their links.
"""

import functools
import io
import pathlib
import re
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from unittest import mock

import course
import nbformat
import numpy as np
import pytest
from course.execute import CHECK, solutions

import tf_transformer

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
WITH_EXERCISES = [name for name in NOTEBOOKS if name != "01_why_attention.ipynb"]
LOCAL_PATH = re.compile(r"[\s\"'](/home|/tmp|/root|/work|/Users|/var/folders)/")


def read(name):
    return nbformat.read(FOLDER / name, as_version=4)


def number_of(name):
    """The number or letter of a notebook, such as "02" or "H"."""
    return name.split("_")[0]


def text_of(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown_text(output):
    """The text of an output, without images."""
    data = output.get("data", {})
    parts = [content for kind, content in data.items() if not kind.startswith("image/")]
    return "".join([output.get("text", ""), *parts])


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_was_executed_in_order_without_errors(name):
    cells = code_cells(read(name))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert len(cells) <= 30
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    text = "".join(map(shown_text, outputs))
    assert not LOCAL_PATH.search(text), "a path of the host that executed the notebook"


@pytest.mark.parametrize("name", WITH_EXERCISES)
def test_every_exercise_has_a_solution(name):
    """`make notebooks` executes the solutions."""
    notebook = read(name)
    asked = CHECK.findall("\n".join(cell.source for cell in code_cells(notebook)))
    assert asked == list(course.exercises(number_of(name)))
    solved = solutions(notebook)
    assert [CHECK.search(source)[1] for _, source in solved] == asked
    open_ones = re.findall(r"\*\*\w+\.\d+ \(open\)", text_of(notebook))
    summaries = re.findall("<summary>Solution</summary>", text_of(notebook))
    assert open_ones and len(summaries) == len(asked) + len(open_ones)
    for i, source in solved:  # a block of another exercise would be run at the wrong place
        exercise = [cell for cell in notebook.cells[:i] if cell.cell_type == "code"][-1]
        assert CHECK.search(exercise.source)[1] == CHECK.search(source)[1]


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
@pytest.mark.parametrize("name", WITH_EXERCISES)
def test_wrong_answers_are_rejected_with_a_hint(name):
    for number, exercise in course.exercises(number_of(name)).items():
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
        for answer in (
            own,
            lambda size: own(size) * 1,
            functools.partial(own),
            lambda size: ThreadPoolExecutor(1).submit(own, size).result(),
        ):
            text, right = printed_verdict("99.1", answer)
            assert not right and "calls create_look_ahead_mask; write this function" in text
        assert course.check("99.1", lambda size: np.triu(np.ones((size, size)), 1))
