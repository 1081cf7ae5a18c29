"""The comparisons of the GPU check, with trainings whose losses are given."""

import numpy as np
from gpu_check import checks
from gpu_check.short_runs import History
from gpu_check.sizes import SIZES, Tolerance, Variant


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


def same_training(losses, most, skipped=0):
    return checks._same_training(Runs(losses, skipped), Tolerance(Variant(tf32=True), most))


def test_the_difference_is_relative_to_the_largest_loss():
    passed, measured = same_training([8.0, 7.0, 6.0, 5.08], 0.02)
    assert passed
    assert "differ from those of one replica in float32 by 0.01 (at most 0.02)" in measured
    assert not same_training([8.0, 7.0, 6.0, 5.08], 0.005)[0]


def test_losses_that_are_not_finite_fail():
    assert not same_training([8.0, 7.0, 6.0, np.nan], 0.02)[0]
    assert not same_training([8.0, 7.0, 6.0, np.inf], 0.02)[0]


def test_many_skipped_updates_fail():
    passed, measured = same_training([8.0, 7.0, 6.0, 5.0], 0.02, skipped=2)
    assert passed
    assert "2 updates skipped" in measured
    assert not same_training([8.0, 7.0, 6.0, 5.0], 0.02, skipped=6)[0]


def test_the_losses_side_by_side():
    table = checks.losses_table(Runs([8.0, 7.0, 6.0, 5.5]), SIZES["full"]())
    assert table.columns == ("update", "float32", "TF32")  # the others were not computed
    assert table.rows[0] == ("1", "8.0000", "8.0000")
    assert table.rows[-1] == ("4", "5.0000", "5.5000")


def test_no_losses():
    runs = Runs([])
    runs.known = {}
    assert checks.losses_table(runs, SIZES["full"]()).rows == []
