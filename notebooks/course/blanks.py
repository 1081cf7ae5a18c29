"""Checks the blanks of notebook 04, the parts of the model that the reader writes.

`check(1)` takes the cell that defines blank 1 and runs it in a process of its own (see
`blank_runner`) with random inputs and weights. It compares the outputs with those of a
NumPy function, and, if they differ, with those of wrong versions of that function (see
`blank_references`), so that the verdict says what is wrong. `blank_cases` makes the inputs.
"""

from course import ROOT, Verdict
from course.blank_cases import BLANKS

import ast
import io
import os
import pathlib
import pickle
import re
import subprocess
import sys
from typing import NamedTuple

import numpy as np

RUNNER = pathlib.Path(__file__).with_name("blank_runner.py")
SECONDS = 30  # for one answer, without the start of TensorFlow
START_SECONDS = 300
RTOL, ATOL = 5e-4, 1e-4  # of float32 against float64
ADVICE = {  # for inf and nan
    1: (
        "Add -1e9, not -inf, to hidden scores, and take tf.nn.softmax, in which exp "
        "does not overflow"
    ),
    3: "Is epsilon inside the square root?",
    7: "For a small probability, log(softmax(x)) is log(0): take tf.nn.log_softmax",
}


def verdict(number, case, answer):
    """Compares the outputs of a case with the right ones.

    Args:
      number: of the blank.
      case: a `Case`.
      answer: what `blank_runner.run_job` returned.
    Returns: what is wrong, or "".
    """
    blank = BLANKS[number]
    values = answer["values"]
    if len(values) != len(blank.outputs) or answer["is_group"] != (len(values) > 1):
        names = ", ".join(blank.outputs)
        count = f"{len(values)} values" if answer["is_group"] else "one value"
        return f"it returns {count}, and must return {len(blank.outputs)}: {names}"
    for name, value in zip(blank.outputs, values):
        if isinstance(value, str):
            return f"{name} is not a tensor, but of the type {value}"
        if value.dtype.kind not in "fiu":
            return f"{name} has the type {value.dtype}"
    right = case.expected("")
    if _equal(values, right):
        return _details(blank, values, answer)
    for wrong, message in blank.wrong.items():
        if _equals_wrong_version(case, values, wrong):
            same_shapes = all(v.shape == np.shape(r) for v, r in zip(values, right))
            if not same_shapes:
                return message
            return f"{message}.\n  {_first_wrong_number(blank.outputs, values, right)}"
    for name, value, correct in zip(blank.outputs, values, right):
        if value.shape != np.shape(correct):
            return f"{name} has the shape {value.shape}, and must have {np.shape(correct)}"
    for name, value in zip(blank.outputs, values):
        if not np.isfinite(value).all():
            advice = f". {ADVICE[number]}" if number in ADVICE else ""
            return f"{name} has values that are inf or nan{advice}"
    problem = ""
    if blank.weights is not None:
        problem = weight_problem(values[blank.weights], case.mask)
    if "everything is hidden" in case.what and not problem:
        return ""  # any finite weights that sum to 1
    return problem or _first_wrong_number(blank.outputs, values, right)


def weight_problem(weights, mask):
    """What is wrong with attention weights, whatever the scores are, or ""."""
    sums = weights.sum(-1)
    off = np.argwhere(np.abs(sums - 1) > 1e-3)
    if len(off):
        where = tuple(map(int, off[0]))
        return (
            f"the rows of the weights do not sum to 1: row {list(where)} sums to {sums[where]:.4g}"
        )
    if mask is not None:
        hidden = np.broadcast_to(mask, weights.shape) * (weights > 1e-6)
        hidden = hidden * (np.min(mask, axis=-1, keepdims=True) == 0)
        if hidden.any():
            where = tuple(map(int, np.argwhere(hidden)[0]))
            return (
                f"hidden positions still get weight: {weights[where]:.4g} at "
                f"{list(where)}; add -1e9 to their scores"
            )
    return ""


def _equal(values, right, rtol=RTOL, atol=ATOL):
    return all(
        value.shape == np.shape(correct) and np.allclose(value, correct, rtol, atol)
        for value, correct in zip(values, right)
    )


def _equals_wrong_version(case, values, wrong):
    """Whether the outputs are those of a wrong version; some have other shapes."""
    with np.errstate(all="ignore"):
        try:
            expected = case.expected(wrong)
        except ValueError:  # the shapes do not fit in this case
            return False
    return _equal(values, expected) and not _equal(expected, case.expected(""))


def _details(blank, values, answer):
    """What is wrong although the numbers are right: the type, the gradient; or ""."""
    for name, value in zip(blank.outputs, values):
        if value.dtype != np.float32:
            return f"{name} has the type {value.dtype}, and must have float32: tf.cast"
    name = blank.outputs[0]
    if not all(answer["gradients"]):
        return f"{name} has no gradient: compute it with TensorFlow, not with NumPy"
    return ""


def _first_wrong_number(names, values, right):
    for name, value, correct in zip(names, values, right):
        correct = np.asarray(correct, float)
        off = ~np.isclose(value, correct, RTOL, ATOL)
        if off.any():
            where = tuple(map(int, np.argwhere(off)[0]))
            place = f"{name}{list(where)}" if where else f"the {name}"
            return (
                f"{place} is {float(value[where]):.5g}, and must be "
                f"{float(correct[where]):.5g} ({off.sum()} of {off.size} numbers "
                "differ)"
            )
    return "the outputs differ"


class Finding(NamedTuple):
    """What `examine` found out about an answer.

    Fields:
      message: what is wrong with it, or "".
      printed: what it printed.
      cases: the cases that it was called with, in words.
    """

    message: str
    printed: str
    cases: list[str]


def examine(answers, seconds=SECONDS):
    """Examines several answers in one process, with new random cases.

    Args:
      answers: pairs (number of the blank, list of cells). A cell is a pair (name,
        source); the last one is the answer, those before it are what it needs.
      seconds: the time limit of each answer.
    Returns: a `Finding` for each answer.
    """
    rng = np.random.default_rng()
    cases = [BLANKS[number].cases(rng) for number, _ in answers]
    tasks = [
        {"sources": sources, "jobs": [case.job for case in own]}
        for (_, sources), own in zip(answers, cases)
    ]
    return [
        Finding(_message(number, own, result), result["printed"], [case.what for case in own])
        for (number, _), own, result in zip(answers, cases, _run(tasks, seconds))
    ]


def _run(tasks, seconds):
    """Runs tasks in a new process. Returns its answers."""
    folders = [ROOT / name for name in ("notebooks", "tests", "tf_transformer")]
    contents = {"tasks": tasks, "seconds": seconds, "folders": list(map(str, folders))}
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    environment.pop("PYTHONPATH", None)
    process = subprocess.run(
        [sys.executable, str(RUNNER)],
        input=pickle.dumps(contents),
        capture_output=True,
        env=environment,
        timeout=START_SECONDS + seconds * len(tasks),
    )
    results = []
    stream = io.BytesIO(process.stdout)
    while stream.tell() < len(process.stdout):
        results.append(pickle.load(stream))
    if not results:
        raise RuntimeError(f"the check did not run:\n{process.stderr.decode()[-2000:]}")
    return results


def _message(number, cases, result):
    """What is wrong with an answer, or ""."""
    for case, answer in zip(cases, result["outputs"]):
        problem = verdict(number, case, answer)
        if problem:
            return f"{case.what}, {problem}."
    if result["error"]:
        return _error_message(cases, result)
    return ""


def _error_message(cases, result):
    error = result["error"]
    line = ""
    if "line" in error:
        code = (error["code"] or "").strip()
        line = f"\n  {error['cell']}, line {error['line']}: {code}"
    if error["type"] == "Stopped":
        return f"it does not come to an end, and was stopped.{line}"
    if error["type"] == "Refused":
        return f"{error['message']}.{line}"
    if error["type"] == "Unused":
        name = error["message"]
        return f"`call` does not use self.{name}."
    text = re.sub(r"\{\{function_node \S+\}\} | \[Op:.*", "", error["message"].strip())
    text = text if len(text) < 600 else f"{text[:600]} ..."
    what = ""
    if len(result["outputs"]) < len(cases):
        what = f"{cases[len(result['outputs'])].what}, "
    advice = ""
    if error["type"] == "NameError":
        advice = (
            "\n  The check runs this cell and those that it needs in a new process: "
            "define helpers in the same cell."
        )
    return f"{what}{error['type']}: {text}{line}{advice}"


_right: dict[int, str] = {}  # the sources that were found right, by blank


def check(number):
    """Prints whether a blank is right, or what is wrong with it.

    Args:
      number: of the blank, 1 to 7.
    Returns: a `Verdict`.
    """
    sources = _sources(number)
    problem = sources if isinstance(sources, str) else ""
    if problem:
        print(f"Blank {number}{problem}")
        return Verdict(False)
    (finding,) = examine([(number, sources)])
    if finding.printed:
        print(finding.printed.rstrip())
    if finding.message:
        print(f"Blank {number} is not right yet: {finding.message}")
        return Verdict(False)
    _right[number] = sources[-1][1]
    print(f"Blank {number}: right! ({'; '.join(finding.cases)})")
    return Verdict(True)


def ready(*numbers):
    """Whether blanks are filled in; prints which ones are not.

    A cell that uses blanks begins with `if blanks.ready(1, 2):`.
    """
    missing = [number for number in numbers if empty_lines(_cell(BLANKS[number].name))]
    if missing:
        print(f"This cell waits for {_list_of_blanks(missing)}.")
        return False
    wrong = [n for n in numbers if _right.get(n) != _cell(BLANKS[n].name)]
    if wrong:
        print(f"Not found right yet, so expect wrong numbers: {_list_of_blanks(wrong)}.")
    return True


def _list_of_blanks(numbers):
    return f"blank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _sources(number):
    """The cells that a blank needs and its own, or why there are none."""
    blank = BLANKS[number]
    own = _cell(blank.name)
    lines = empty_lines(own)
    if lines:
        where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
        return f" is not filled in yet ({where})."
    sources = []
    for name in blank.given:
        sources.append((f"the cell of {name}", _definition(_cell(name), name)))
    for needed in blank.needs:
        source = _cell(BLANKS[needed].name)
        if empty_lines(source) or _right.get(needed) != source:
            return f" uses blank {needed}, which is not right yet. Run its cell first."
        sources.append((f"blank {needed}", source))
    return [*sources, (f"blank {number}", own)]


def empty_lines(source):
    """The numbers of the lines of a cell that still have `...`, outside of an index."""
    tree = ast.parse(source)
    indices = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        for part in ast.walk(node.slice)
    }
    return sorted(
        {
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value is Ellipsis and id(node) not in indices
        }
    )


def _cell(name):
    """The source of the last executed cell that defines a name, or "..."."""
    from IPython import get_ipython

    for source in reversed(get_ipython().user_ns["In"]):
        try:
            body = ast.parse(source).body
        except SyntaxError:  # a cell that did not run
            continue
        if any(name in _defined(node) for node in body):
            return source
    return "..."


def _definition(source, name):
    """The part of a cell that defines a name."""
    nodes = [node for node in ast.parse(source).body if name in _defined(node)]
    return "\n".join(ast.get_source_segment(source, node) for node in nodes)


def _defined(node):
    """The names that a statement of a cell defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []
