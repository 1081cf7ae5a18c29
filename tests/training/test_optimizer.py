"""`FusedAdam` gives the results of `keras.optimizers.Adam`."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.training.optimizer import FusedAdam
from tf_transformer.training.schedule import CustomSchedule


def test_equals_the_adam_of_keras():
    random = np.random.default_rng(0)
    start = random.normal(size=(5, 3))
    gradients = random.normal(size=(20, 5, 3)) * 10.0 ** random.integers(-6, 2, (20, 5, 3))
    results = []
    for kind in (keras.optimizers.Adam, FusedAdam, "apply_if"):
        weight = keras.Variable(start, dtype="float32")
        optimizer = (FusedAdam if kind == "apply_if" else kind)(
            CustomSchedule(64, 4), 0.9, 0.98, 1e-9
        )
        optimizer.build([weight])
        for gradient in tf.constant(gradients, tf.float32):
            if kind == "apply_if":
                optimizer.apply_if(True, [gradient], [weight])
            else:
                optimizer.apply_gradients([(gradient, weight)])
        assert optimizer.iterations.numpy() == 20
        results.append(weight.numpy())
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-6)


def apply_if_finite(optimizer, weight, gradient):
    optimizer.apply_if(tf.reduce_all(tf.math.is_finite(gradient)), [gradient], [weight])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_changes_no_weight_and_no_moment(bad):
    """Every bit stays, in an eager call and in a graph; the next update is the usual one."""
    results = []
    for gradients in ([[1.0, -2.0], [bad, 3.0], [0.5, 0.25]], [[1.0, -2.0], None, [0.5, 0.25]]):
        weight = keras.Variable([1.0, -0.0])
        optimizer = FusedAdam(0.1, 0.9, 0.98, 1e-9)
        optimizer.build([weight])
        apply = functools.partial(apply_if_finite, optimizer, weight)
        for function in (apply, tf.function(apply, autograph=False)):
            for gradient in gradients:
                if gradient is None:
                    optimizer.iterations.assign_add(1)
                else:
                    function(tf.constant(gradient))
        results.append([variable.numpy() for variable in (weight, *optimizer.variables)])
    for left, right in zip(*results):
        assert left.tobytes() == right.tobytes()
