"""Parts of the GPU check that fail."""

import tensorflow as tf
from gpu_check.results import run_check, run_measurement


def out_of_memory():
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


def broken():
    raise ValueError("first line\nsecond line")


def test_an_error_in_a_check_is_a_failure():
    assert run_check("name", out_of_memory) == ("name", False, "out of memory")
    assert run_check("name", broken) == ("name", False, "ValueError: first line")


def test_a_check_passes_fails_or_cannot_be_made():
    assert run_check("name", lambda: (True, "0.1")) == ("name", True, "0.1")
    assert run_check("name", lambda: (False, "0.1")).passed is False
    assert run_check("name", lambda: (None, "one device")).passed is None


def test_too_little_memory_for_a_measurement_is_no_failure():
    row, failure = run_measurement("name", ("big", "1"), 4, out_of_memory)
    assert row == ("big", "1", "out of memory", "")
    assert failure is None


def test_another_error_in_a_measurement_is_a_failure():
    row, failure = run_measurement("speed of big", ("big", "1"), 4, broken)
    assert row == ("big", "1", "failed", "")
    assert failure == ("measuring speed of big", False, "ValueError: first line")


def test_a_measurement():
    assert run_measurement("name", ("big",), 3, lambda: ("1", "2")) == (("big", "1", "2"), None)
