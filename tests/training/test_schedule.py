"""The learning rate as Keras uses it; the values of Eq. 3 are in test_paper.py."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.config import Config
from tf_transformer.training.schedule import CustomSchedule, make_schedule


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32])
def test_steps_of_any_type_and_shape(dtype):
    schedule = CustomSchedule(16, 5)
    rates = schedule(tf.constant([[0, 1, 5], [7, 50, 100]], dtype))
    assert rates.dtype == tf.float32 and rates.shape == (2, 3)
    assert rates[0, 0] == 0.0
    np.testing.assert_allclose(rates[1, 2], schedule(100), rtol=1e-7)


def schedule_of(name, **changes):
    """The schedule of a run of 30 updates, 10 of warm-up, with the peak 0.4."""
    peak = 0.0 if name == "noam" else 0.4
    config = Config().replace(
        learning_rate_schedule=name, learning_rate=peak, train_steps=30, warmup_steps=10, **changes
    )
    return make_schedule(config.model, config.train)


@pytest.mark.parametrize(("name", "after_warmup"), [
    ("constant", [0.4, 0.4, 0.4, 0.4]),
    ("linear", [0.4, 0.3, 0.2, 0.0]),
    # 0.2 (1 + cos(pi n / 4)) for n = 0, 1, 2, 4
    ("cosine", [0.4, 0.2 + 0.1 * 2**0.5, 0.2, 0.0]),
    # 0.4 sqrt(10 / step)
    ("inverse_sqrt", [0.4, 0.4 * (10 / 15) ** 0.5, 0.4 * 0.5**0.5, 0.4 / 3**0.5]),
])  # fmt: skip
def test_schedules_by_hand(name, after_warmup):
    """A linear warm-up to the peak, then the values at the updates 10, 15, 20 and 30."""
    schedule = schedule_of(name)
    found = [float(schedule(step)) for step in (0, 1, 5, 10, 15, 20, 30)]
    np.testing.assert_allclose(found, [0.0, 0.04, 0.2, *after_warmup], rtol=1e-6, atol=1e-7)
    last = {"constant": 0.4, "inverse_sqrt": 0.4 / 10**0.5}.get(name, 0.0)
    np.testing.assert_allclose(float(schedule(100)), last, rtol=1e-6, atol=1e-7)
    again = type(schedule).from_config(json.loads(json.dumps(schedule.get_config())))
    assert again(17) == schedule(17)


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_run_that_ends_in_the_warm_up(name):
    """The rate rises to the end, as with the other schedules; the run warns of it."""
    config = Config().replace(learning_rate_schedule=name, learning_rate=0.4, train_steps=100)
    schedule = make_schedule(config.model, config.train)
    np.testing.assert_allclose([float(schedule(step)) for step in (0, 50, 99)], [0, 0.005, 0.0099])


def test_noam_is_equation_3():
    schedule = schedule_of("noam", learning_rate_scale=0.5)
    steps = tf.range(50)
    np.testing.assert_array_equal(schedule(steps), CustomSchedule(512, 10, 0.5)(steps))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    np.testing.assert_array_equal(again(steps), schedule(steps))
