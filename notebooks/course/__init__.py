"""What the notebooks share: the package's code on show, a trained model, and exercises that check themselves.

Import it first: it keeps TensorFlow's start-up messages out of the pages.
"""

import importlib
import inspect
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL_DIR = ROOT / "models" / "pocket-pocket-en-de"  # where `make train` writes it


def _quiet_start():
    """Starts TensorFlow without the lines that its C++ part writes to stderr, which tell a reader nothing."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import tensorflow  # noqa: F401
        import tensorflow_text  # noqa: F401
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


_quiet_start()


class Exercise(NamedTuple):
    """A question of a notebook, as the one who checks the answers sees it."""

    test: Callable[[Any], bool]  # whether an answer is right; an exception means that it is not
    hint: str  # for the one whose answer is not right: where to look, not what to write
    wrong: tuple  # answers that one might give and that must not pass, for the tests


class Verdict:
    """Whether an answer is right: true or false, and nothing to show beneath the line that `check` prints."""

    def __init__(self, right):
        self._right = right

    def __bool__(self):
        return self._right

    def _ipython_display_(self):
        pass


def check(number, answer):
    """Says whether an answer is right, and gives a hint where it is not.

    Args:
      number: of the exercise, such as "2.3".
      answer: what the exercise asks for; None while there is none.
    Returns: a `Verdict`. Raises: KeyError for an exercise that is not there.
    """
    exercise = exercises(int(number.split(".")[0]))[number]
    if answer is None:
        print(f"Exercise {number}: no answer yet.")
        return Verdict(False)
    try:
        right, reason = bool(exercise.test(answer)), ""
    except (
        Exception
    ) as error:  # of the reader's function, or of a test that meets a type that it did not expect
        right, reason = False, f" ({type(error).__name__}: {error})"
    print(
        f"Exercise {number}: " + ("right!" if right else f"not yet{reason}. Hint: {exercise.hint}")
    )
    return Verdict(right)


def exercises(notebook):
    """The exercises of a notebook, such as 2, by their numbers."""
    return importlib.import_module(f"course.exercises_{notebook:02}").EXERCISES


def show(*things):
    """Shows the source code of functions, classes or modules."""
    from IPython.display import HTML, Code, display

    for thing in things:  # without the copy in LaTeX, which would double the size of a notebook
        display(HTML(Code(inspect.getsource(thing), language="python")._repr_html_()))


def trained_model():
    """The folder of the model of `make train` (pocket corpus, English to German), which is trained now where it is missing."""
    if not (MODEL_DIR / "averaged.npz").exists():
        print(
            "There is no trained model yet: training one, which takes about 4 minutes on two cores."
        )
        command = [sys.executable, "-m", "tf_transformer", "train", f"--model_dir={MODEL_DIR}"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return str(MODEL_DIR)
