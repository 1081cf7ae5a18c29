"""The blanks of `my_transformer.py`: the template, the reader's file, and `check`.

`python -m course.blanks`, in the folder of the notebooks, writes the template from the solution.
The code between `# blank: NAME` and `# end` is what the reader writes.
"""

from course import ROOT, UsesThePackage, Verdict, keras_path, not_your_code, recorded_calls

import ast
import contextlib
import inspect
import io
import linecache
import pathlib
import re
import signal
import sys
import threading
import traceback
import types

import numpy as np

FILE = ROOT / "notebooks" / "my_transformer.py"  # the reader's
SOLUTION = ROOT / "notebooks" / "solutions" / "my_transformer.py"
GRAPH = (
    "Training runs in a graph, in which lengths are unknown: use `tf.shape(x)` and the functions "
    "of TensorFlow. "
)
FILLED = "blanks filled"  # the end of the name that the code of a reader's file gets
TECHNICAL = re.compile(  # what the errors of Keras and TensorFlow say before the point
    r"\x1b\[\d*m|Exception encountered when calling .*|{{.*?}} ?"
    r"|(?s:Graph execution error:.*?\n\n(.*File [^\n]*\n)?)"
)
BLANK = re.compile(
    r"^( *)# blank: (\w+) *\n((?:(?! *# (?:blank:|end *$)).*\n)*) *# end *\n", re.MULTILINE
)
EMPTY = re.compile(r"^ *\.\.\. *(#.*)?$", re.MULTILINE)  # not `...,`, which begins an index


class BrokenFile(Exception):
    """The reader's file cannot be read, or a line that begins or ends a blank is gone."""

    def _render_traceback_(self):
        """What a notebook shows: no traceback, since the mistake is not in the cell."""
        return [str(self)]


def read(file):
    """The text of the reader's file.

    Raises: BrokenFile, with the file and the line.
    """
    try:
        text = pathlib.Path(file).read_text("utf-8-sig")
    except OSError as error:
        raise BrokenFile(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BrokenFile(f"{file}, line {line}: not UTF-8; save the file as UTF-8") from None
    found = blanks(text)
    for name in blanks(SOLUTION.read_text("utf-8")):
        begin = re.search(rf"^ *# blank: {name} *$", text, re.MULTILINE)
        if not begin:
            raise BrokenFile(f"{file} has no line `# blank: {name}`: put it back")
        if name not in found:
            line = text.count("\n", 0, begin.start()) + 1
            raise BrokenFile(f"{file}, line {line}: `# blank: {name}` has no line `# end`")
    return text


def blanks(text):
    """The code in the blanks of a file, by name."""
    return {blank[2]: blank[3] for blank in BLANK.finditer(text)}


def template(solution):
    """The text of the solution with empty blanks."""

    def empty(blank):
        indent, name, code = blank.groups()
        lines = len(code.splitlines())
        yours = (
            f"{indent}...  # your code, {lines} line{'s' if lines > 1 else ''} in the solution\n"
        )
        return f"{indent}# blank: {name}\n{yours}{indent}# end\n"

    return BLANK.sub(empty, solution)


def unfinished(text):
    """The names of the blanks of a file that still have a line `...`."""
    return [name for name, code in blanks(text).items() if EMPTY.search(code)]


def my_transformer(file=FILE, only=()):
    """Reads the reader's file again, and fills its empty blanks from the solution.

    Args:
      file: the reader's.
      only: names of blanks; the solution fills all others. () for the empty ones.
    Returns: the module `my_transformer`, always the same object, so that a cell which was run
      before uses the new code too; another one with `only`.
    """
    text = read(file)
    solution, empty = blanks(SOLUTION.read_text("utf-8")), unfinished(text)
    for blank in BLANK.finditer(text):
        if blank[2] in empty or only and blank[2] not in only:
            text = text.replace(blank[0], blank[0].replace(blank[3], solution[blank[2]]))
    name = f"{pathlib.Path(file).name}, {'other ' if only else ''}{FILLED}"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    module = types.ModuleType("my_transformer")
    if not only:
        module = sys.modules.setdefault("my_transformer", module)
    exec(compile(text, name, "exec"), module.__dict__)
    module.__file__ = name
    return module


def progress(file=FILE):
    """Prints how many blanks are the reader's."""
    text = read(file)
    total, empty = len(blanks(SOLUTION.read_text("utf-8"))), len(unfinished(text))
    rest = "; the solution fills the others" if empty else ""
    print(f"my_transformer.py: {total - empty} of {total} blanks are yours{rest}.")


def check_blank(name, file=FILE, seconds=60):
    """Compares a blank of the reader with the package, and prints what is wrong.

    Args:
      name: of the blank.
      file: the reader's.
      seconds: of computing, after which the reader's code is stopped.
    Returns: a `Verdict`.
    Raises: KeyError for an unknown blank.
    """
    problem = _problem(name, file, seconds)
    if not problem:
        print(f"{name}: right!")
        progress(file)
    elif problem == "empty":
        print(f"{name}: not written yet. Open my_transformer.py, and look for `# blank: {name}`.")
    else:
        print(f"{name}: not yet. {problem}. If you do not see why, open the next hint.")
    return Verdict(not problem)


def _problem(name, file, seconds):
    """What is wrong with a blank, or ""."""
    try:
        text = read(file)
        if name in unfinished(text):
            own = re.sub(r"^ *#.*", "", EMPTY.sub("", blanks(text)[name]), flags=re.M).strip()
            return "The line `...` is still there: delete it" if own else "empty"
        return _first_difference(name, file, seconds)
    except BrokenFile as error:
        return str(error)
    except UsesThePackage as error:
        return f"Your file {error}: write these lines yourself"


def delegation(file, seconds=60):
    """What a file takes or calls that is not the reader's code, with the blank, or "".

    Args: as of `check_blank`.
    """
    from course.blank_cases import CASES

    for name in CASES:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                _first_difference(name, file, seconds)
        except UsesThePackage as error:
            return f'Your file {error} (found by check("{name}"))'
    return ""


def _first_difference(name, file, seconds):
    """Runs the cases of a blank: the first difference to the package or error, or "".

    Raises: UsesThePackage if the reader's code takes or calls a function of others.
    """

    def stop(*_):
        raise TimeoutError(f"it has not finished after {seconds} seconds of computing")

    def is_delegation(frame):
        if threading.get_ident() != thread:  # the thread of the case waits for the other one
            frame = sys._current_frames()[thread]
        return frame.f_code is not stop.__code__ and _is_called_by_the_reader(frame)

    thread, layers = threading.get_ident(), ("layers/attention", "layers/normalization")
    others = [*not_your_code(), str(SOLUTION.parent), *map(keras_path, layers)]
    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with recorded_calls(others, is_delegation) as called:
            problem = _run_cases(name, file)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    if called:
        raise UsesThePackage(f"calls {called[0]}, which is not your code")
    return problem


def _is_called_by_the_reader(frame):
    """Whether a function was called, directly or not, by the reader's code and not by a case."""
    from course import blank_cases

    while frame and frame.f_code.co_filename != blank_cases.__file__:
        if frame.f_code.co_filename.endswith(FILLED):
            return True
        frame = frame.f_back
    return False


def _run_cases(name, file):
    """`_first_difference`, without a limit of time, and without a look at the calls."""
    from course.blank_cases import CASES, IN_GRAPH, in_training

    cases, about = CASES[name], ""
    try:
        my_transformer(file)  # for the cells that follow
        module = my_transformer(file, [other for other in CASES if CASES[other] is cases])
        for function in _borrowed(module):
            raise UsesThePackage(f"takes {function} from elsewhere")
        for about, run in [("", cases), *[(GRAPH, in_training)] * (name in IN_GRAPH)]:
            for what, got, right, *wrong in run(module, np.random.default_rng(1)):
                difference = _difference(what, got, right, wrong[0] if wrong else {})
                if difference:
                    return about + difference
    except UsesThePackage:
        raise
    except SyntaxError as error:
        return f"Python cannot read this line:\n    {(error.text or '').strip()}\n  ({error.msg})"
    except (Exception, SystemExit) as error:
        lines = [frame.line for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename.endswith(FILLED)]  # fmt: skip
        where = f" in the line\n    {lines[-1]}\n " if lines else ""
        text = (TECHNICAL.sub("", str(error)).strip() or "?").splitlines()[0][:200].rstrip(".")
        return f"{about}{type(error).__name__}{where}: {text}"
    return ""


def _borrowed(module):
    """Yields the functions and methods of the solution that a module has from another file."""
    for node in ast.parse(SOLUTION.read_text("utf-8")).body:
        owner, functions = module, [node]
        if isinstance(node, ast.ClassDef):
            owner, functions = getattr(module, node.name, None), node.body
        for function in functions:
            if isinstance(function, ast.FunctionDef):
                value = inspect.unwrap(vars(owner).get(function.name)) if owner else None
                code = getattr(value, "__code__", None)
                if code is None or code.co_filename != module.__file__:
                    name = node.name if function is node else f"{node.name}.{function.name}"
                    yield name.removesuffix(".__init__")


def _difference(what, got, right, wrong):
    """Compares an array, or a tuple of arrays, with the right one.

    Args:
      what: the name of the result.
      got, right: the result of the reader, and of the package.
      wrong: results of typical mistakes, by what to say about them.
    Returns: what is wrong, or "".
    """
    if got is None or got is Ellipsis:
        return f"{what} is None: is there a `return`"
    if right is True:
        return "" if got else f"This must hold, and does not: {what}"
    if isinstance(right, dict):
        if not isinstance(got, dict) or got.keys() != right.keys():
            return f"the names of {what} must be {', '.join(sorted(right))}"
        each = (_difference(f"{what} {name}", got[name], right[name], {}) for name in right)
        return next(filter(None, each), "")
    if isinstance(right, tuple):
        if not isinstance(got, (tuple, list)) or len(got) != len(right):
            return f"{what} must be {len(right)} values"
        for number, pair in enumerate(zip(got, right), 1):
            chosen = {text: each[number - 1] for text, each in wrong.items()}
            difference = _difference(f"value {number} of {what}", *pair, chosen)
            if difference:
                return difference
        return ""
    got, right = np.asarray(got), np.asarray(right)
    if got.ndim and got.dtype.kind != right.dtype.kind:
        return f"{what} has the type {got.dtype}, and must have {right.dtype}"

    def is_equal(value):
        return got.shape == np.shape(value) and np.allclose(got, value, rtol=1e-3, atol=1e-4)

    if is_equal(right):
        return ""
    for text, value in wrong.items():
        if is_equal(value):
            return text
    if got.shape != right.shape:
        return f"{what} has the shape {got.shape}, and must have {right.shape}"
    if not np.isfinite(got).all():
        return f"{what} has numbers that are infinite or not a number"
    first = tuple(int(i) for i in np.argwhere(~np.isclose(got, right, rtol=1e-3, atol=1e-4))[0])
    at = f" at {list(first)}" if first else ""
    return f"{what} is {got[first]:.4g} instead of {right[first]:.4g}{at}"


if __name__ == "__main__":
    FILE.write_text(template(SOLUTION.read_text("utf-8")), "utf-8")
