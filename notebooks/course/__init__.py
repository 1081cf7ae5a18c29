"""What the notebooks share: an example, sentences with numbers, figures, and exercises.

Import it first: it suppresses TensorFlow's start-up messages, and shows figures below the cells.
"""

import contextlib
import functools
import importlib
import inspect
import io
import logging
import os
import pathlib
import re
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))  # `pocket`, the grammar of the built-in corpus; `invariants`
SENTENCE = "Yesterday I bought a red car."  # the example of the course
TRANSLATION = "Gestern habe ich ein rotes Auto gekauft."  # by the built-in model


def _start_tensorflow():
    """Imports TensorFlow without the start-up messages of its C++ part."""
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
    """Shows the package's log messages, level INFO and above, below the cell."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("tf_transformer")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _small_figures():
    """Stores figures as PNG files with 256 colors, which have a third of the size."""
    import PIL.Image
    from IPython import get_ipython
    from matplotlib.figure import Figure

    def png(figure):
        full, small = io.BytesIO(), io.BytesIO()
        figure.savefig(full, format="png", dpi=figure.dpi, bbox_inches="tight")
        image = PIL.Image.open(full).convert("RGB")
        # Maximum coverage keeps the colors of thin lines.
        method, dither = PIL.Image.Quantize.MAXCOVERAGE, PIL.Image.Dither.NONE
        image.quantize(256, method=method, kmeans=1, dither=dither).save(
            small, "PNG", optimize=True
        )
        return small.getvalue()

    shell = get_ipython()
    shell.run_line_magic("matplotlib", "inline")
    shell.display_formatter.formatters["image/png"].for_type(Figure, png)


_start_tensorflow()
if "ipykernel" in sys.modules:  # in a notebook, not in the tests
    _show_log()
    _small_figures()


class Exercise(NamedTuple):
    """An exercise of a notebook, without its text.

    Fields:
      test: whether an answer is right; an exception means that it is wrong.
      hint: shown for a wrong answer: where to look, not what to write.
      wrong: plausible wrong answers, for the tests.
      own_code: whether a function as answer must not call the package.
    """

    test: Callable[[Any], bool]
    hint: str
    wrong: tuple
    own_code: bool = True


class Verdict:
    """Whether an answer is right. As the last value of a cell, it shows nothing."""

    def __init__(self, right):
        self._right = right

    def __bool__(self):
        return self._right

    def _ipython_display_(self):
        pass


def check(number, *answers):
    """Prints whether an answer is right, with a hint where it is wrong.

    Args:
      number: of the exercise, such as "02.3" or "H.2", or a blank of my_transformer.py.
      *answers: what the exercise asks for; None while there is no answer. Nothing for a blank.
    Returns: a `Verdict`.
    Raises: KeyError for an unknown exercise or blank.
    """
    if not answers:
        from course.blanks import check_blank

        return check_blank(number)
    (answer,) = answers
    exercise = exercises(number.split(".")[0])[number]
    if answer is None:
        print(f"Exercise {number}: no answer yet.")
        return Verdict(False)
    if callable(answer) and exercise.own_code:
        answer = _without_the_package(answer)
    reason = ""
    try:
        right = bool(exercise.test(answer))
    # An error of the reader's function, or for an answer of another type.
    except (Exception, SystemExit) as error:
        right = False
        reason = f" ({type(error).__name__}: {error})"
    if not right and getattr(answer, "returned_none", False):
        reason = " (your function returned None)"
    result = "right!" if right else f"not yet{reason}. Hint: {exercise.hint}"
    print(f"Exercise {number}: {result}")
    return Verdict(right)


def exercises(notebook):
    """Returns the exercises of a notebook, such as "02" or "H", by their numbers."""
    return importlib.import_module(f"course.exercises_{notebook.lower()}").EXERCISES


class UsesThePackage(Exception):
    """The reader's function calls a function that it should replace."""


@functools.cache
def not_your_code():
    """Where the code lies that an answer must not call: paths of files and folders.

    The package, the course, sacreBLEU, and the losses of Keras and TensorFlow.
    """
    import sacrebleu
    import tensorflow

    import tf_transformer

    folders = [os.path.dirname(module.__file__) for module in (tf_transformer, sacrebleu)]
    losses = os.path.join(os.path.dirname(tensorflow.__file__), "python", "ops", "losses")
    return (*folders, keras_path("losses"), losses, os.path.dirname(__file__))


def keras_path(name):
    """The path of a part of Keras."""
    import keras

    return os.path.join(os.path.dirname(keras.__file__), "src", *name.split("/"))


real_path = functools.cache(os.path.realpath)


@contextlib.contextmanager
def recorded_calls(paths, counts=lambda frame: True):
    """Records the calls of functions in some files or folders, also in threads that begin here.

    Keras's own `dot_product_attention` and normalizations are recorded too.

    Args:
      paths: of files and folders.
      counts: whether a call is recorded, by its frame.
    Yields: a list, which then has the names of the functions and classes, public ones first.
    """
    import tf_transformer

    called, paths, keras_src = [], tuple(map(real_path, paths)), real_path(keras_path(""))
    operations = "dot_product_attention", "layer_normalization", "rms_normalization"

    @functools.cache
    def is_answer(file, function):
        file = real_path(file)
        in_keras = function in operations and file.startswith(keras_src)
        return in_keras or file.startswith(paths) and file != real_path(__file__)

    def profile(frame, event, _):
        if event != "call":
            return
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED  # and not the body of a class or file
        if is_function and is_answer(code.co_filename, code.co_name) and counts(frame):
            name = getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on
            called.append(re.sub(r"\.__\w+__$", "", name))

    previous = sys.getprofile(), threading.getprofile()
    sys.setprofile(profile)
    threading.setprofile(profile)
    try:
        yield called
    finally:
        sys.setprofile(previous[0])
        threading.setprofile(previous[1])
        exported = set(dir(tf_transformer))
        called.sort(
            key=lambda name: (name.split(".")[0] not in exported, name[0] == "_" or "<" in name)
        )


def _without_the_package(function):
    """Makes a function raise `UsesThePackage` if it calls the package or the course.

    The losses of Keras and TensorFlow, the optimizers, attention and normalizations of Keras, and
    sacreBLEU are refused too.
    """

    @functools.wraps(function, updated=())
    def guarded(*args, **kwargs):
        with recorded_calls([*not_your_code(), keras_path("optimizers")]) as called:
            result = function(*args, **kwargs)
        if called:
            raise UsesThePackage(f"it calls {called[0]}; write this function yourself")
        guarded.returned_none |= result is None
        return result

    guarded.returned_none = False
    return guarded


def say(text):
    """Shows Markdown below the cell: a sentence with numbers that the cell computed."""
    from IPython.display import Markdown, display

    display(Markdown(text))
