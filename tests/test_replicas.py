"""Which devices there are. That they give what one gives is a law (`test_laws.py`)."""

import os
import subprocess
import sys

import pytest

CODE = """
import os; os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow as tf
from tf_transformer.replicas import divide_processor, make_strategy
tf.ones(1) if {late} else None
divide_processor()
print(make_strategy().num_replicas_in_sync)
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core cannot be divided")
@pytest.mark.parametrize(("late", "replicas"), [(False, "2"), (True, "1")])
def test_a_processor_is_divided_unless_tensorflow_is_at_work(late, replicas):
    done = subprocess.run([sys.executable, "-c", CODE.format(late=late)], capture_output=True, text=True)
    assert done.stdout.split()[-1] == replicas, done.stderr
