"""What the notebooks share: source code in a cell, a trained model, and self-checking exercises.

Import it first: it suppresses TensorFlow's start-up messages.
"""

import importlib
import inspect
import logging
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL_DIR = ROOT / "models" / "pocket-pocket-en-de"  # where `make train` writes it


def _start_tensorflow():
    """Imports TensorFlow without the start-up messages that its C++ part writes to stderr."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    stderr = os.dup(2)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    try:
        import tensorflow  # noqa: F401
        import tensorflow_text  # noqa: F401
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(devnull)


def _show_log():
    """Writes the package's log messages, level INFO and above, to the output of the cell."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("tf_transformer")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


_start_tensorflow()
if "ipykernel" in sys.modules:  # in a notebook, not in the tests, which import this module too
    _show_log()


class Exercise(NamedTuple):
    """An exercise of a notebook, without its text."""

    test: Callable[[Any], bool]  # whether an answer is right; an exception means that it is wrong
    hint: str  # shown for a wrong answer: where to look, not what to write
    wrong: tuple  # plausible wrong answers, for the tests


class Verdict:
    """Whether an answer is right. A cell that ends with it shows nothing below `check`'s line."""

    def __init__(self, right):
        self._right = right

    def __bool__(self):
        return self._right

    def _ipython_display_(self):
        pass


def check(number, answer):
    """Prints whether an answer is right, with a hint where it is wrong.

    Args:
      number: of the exercise, such as "2.3".
      answer: what the exercise asks for; None while there is no answer.
    Returns: a `Verdict`.
    Raises: KeyError for an unknown exercise.
    """
    exercise = exercises(int(number.split(".")[0]))[number]
    if answer is None:
        print(f"Exercise {number}: no answer yet.")
        return Verdict(False)
    reason = ""
    try:
        right = bool(exercise.test(answer))
    except Exception as error:  # of the reader's function, or for an answer of another type
        right = False
        reason = f" ({type(error).__name__}: {error})"
    result = "right!" if right else f"not yet{reason}. Hint: {exercise.hint}"
    print(f"Exercise {number}: {result}")
    return Verdict(right)


def exercises(notebook):
    """Returns the exercises of a notebook, such as 2, as a dict by their numbers."""
    return importlib.import_module(f"course.exercises_{notebook:02}").EXERCISES


def show(*objects):
    """Shows the source code of functions, classes or modules."""
    from IPython.display import HTML, Code, display

    for item in objects:  # as HTML only: a LaTeX copy would double the size of a notebook
        display(HTML(Code(inspect.getsource(item), language="python")._repr_html_()))


def trained_model():
    """Trains the model of `make train` (pocket corpus, English to German) where it is missing.

    Returns: the path of its model folder.
    Raises: RuntimeError where the training fails.
    """
    if not (MODEL_DIR / "averaged.npz").exists():
        print("There is no trained model yet. Training one takes about 4 minutes on two cores.")
        command = [sys.executable, "-m", "tf_transformer", "train", f"--model_dir={MODEL_DIR}"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return str(MODEL_DIR)
