"""Comparisons of the GPU check: trainings with given losses."""

import itertools

import numpy as np
import pytest
from gpu_check.checks import check_training
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
