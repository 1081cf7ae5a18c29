"""The metrics of a run."""

import json

import numpy as np
import pytest

from tf_transformer.training.run_log import MetricsAccumulator


def result(sums, replica_tokens, norm=1.0, skipped=0.0):
    """The result of an update, as `Update` returns it."""
    return {
        "sums": np.array(sums),
        "replica_tokens": np.array(replica_tokens),
        "gradient_norm": norm,
        "skipped": skipped,
    }


def test_accumulator_takes_means():
    """Skipped updates count for speed, padding and replicas, and not for loss and norm."""
    accumulator = MetricsAccumulator()
    accumulator.add(result([6.0, 3.0, 1.0, 3.0, 5.0], [2.0, 1.0]), 8)
    resumed = MetricsAccumulator(json.loads(json.dumps(accumulator.state())))
    for each in (accumulator, resumed):
        each.add(result([2.0, 1.0, 1.0, 1.0, 1.0], [1.0, 0.0], 3.0), 2)
        each.add(result([np.nan, 4.0, 0.0, np.nan, 2.0], [1.0, 3.0], np.nan, skipped=1.0), 2)
    values = accumulator.means()
    assert values["loss"] == 2.0
    assert values["accuracy"] == 0.5
    assert values["gradient_norm"] == 2.0
    assert values["perplexity"] == np.exp(1.0)  # (3 + 1) nats without smoothing over 4 tokens
    np.testing.assert_allclose(values["tokens_per_replica"], [4 / 3, 4 / 3])
    assert values["non_padding_fraction"] == 16 / 24
    assert values["memory_gb"] > 0.1
    speeds = values["target_tokens_per_second"], values["source_tokens_per_second"]
    assert speeds[0] / speeds[1] == pytest.approx(8 / 8)
    assert resumed.means()["loss"] == values["loss"]
