"""The parts of the GPU check that fail, and its comparisons of trainings with given losses."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from gpu_check.checks import check_training
from gpu_check.report import Report, as_markdown
from gpu_check.results import Result, run_check, run_measurement
from gpu_check.short_runs import History
from gpu_check.sizes import SIZES, Tolerance, Variant

FULL = SIZES["full"]()


class Runs:
    """As `ShortRuns`, with given losses instead of trainings."""

    def __init__(self, losses, skipped=0):
        expected = np.array([8.0, 7.0, 6.0, 5.0])
        self.known = {
            Variant(): History(expected, np.ones(4), 0),
            Variant(tf32=True): History(np.array(losses), np.ones(4), skipped),
        }

    def history(self, variant):
        return self.known[variant]


@pytest.mark.parametrize(
    ("last_loss", "most", "skipped", "passes"),
    [
        (5.08, 0.02, 5, True),  # 0.01 of the largest loss, 8
        (5.08, 0.005, 0, False),
        (np.nan, 0.02, 0, False),
        (5.0, 0.02, 6, False),
    ],
)
def test_losses_are_compared(last_loss, most, skipped, passes):
    sizes = FULL._replace(variants={"TF32": Tolerance(Variant(tf32=True), most)})
    runs = Runs([8.0, 7.0, 6.0, last_loss], skipped)
    replicas, tf32 = itertools.islice(check_training(runs, sizes, 1, "unused"), 2)
    assert replicas.passed is None  # there is one device
    assert tf32[:2] == ("TF32", passes)


def out_of_memory():
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


def broken():
    raise ValueError("first line\nsecond line")


def test_an_error_in_a_check_is_a_failure():
    assert run_check("name", out_of_memory) == ("name", False, "out of memory")
    assert run_check("name", broken) == ("name", False, "ValueError: first line")


def test_too_little_memory_for_a_measurement_is_no_failure():
    row, failure = run_measurement("name", ("big", "1"), 4, out_of_memory)
    assert (row, failure) == (("big", "1", "out of memory", ""), None)
    row, failure = run_measurement("speed of big", ("big", "1"), 4, broken)
    assert row == ("big", "1", "failed", "")
    assert failure == ("measuring speed of big", False, "ValueError: first line")


def test_failures_in_the_report():
    results = [Result("padding", False, "by |1|"), Result("XLA", None, "no"), Result("a", True, "")]
    text = as_markdown(Report(["GPU:0"], 60.0, results, []), "versions")
    assert "Failed: padding." in text
    assert "| padding | **FAILED** | by \\|1\\| |" in text  # the bars end no cell
    assert "| XLA | not checked | no |" in text
