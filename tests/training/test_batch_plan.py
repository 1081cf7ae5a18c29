"""The plan of a run's batches."""

from tf_transformer.config import Config
from tf_transformer.data.batching import Bucket
from tf_transformer.presets import PRESETS
from tf_transformer.training.batch_plan import BatchPlan, learning_rate_warning


class Batches:
    """Batches of given buckets."""

    def __init__(self, *shapes):
        self.buckets = [
            Bucket(0, length, rows, batches, rows * batches) for rows, length, batches in shapes
        ]
        self.per_epoch = sum(bucket.batches for bucket in self.buckets)


def warning(tokens, **changes):
    rows = tokens // 20
    return learning_rate_warning(Config().replace(**changes), Batches((rows, 20, 3)))


def test_warns_of_a_learning_rate_that_does_not_suit_the_batch():
    """The schedule of base with 2,000 tokens gets a warning with a scale; the presets get none."""
    assert "--learning_rate_scale=0.28" in warning(2000)
    assert "suits about 25,000" in warning(2000)
    assert warning(2000, learning_rate_scale=0.28) is None
    assert warning(25_000) is None and warning(50_000) is None
    assert warning(500_000) is not None
    assert warning(2000, learning_rate_schedule="constant", learning_rate=1e-4) is None
    for name in ("pocket", "tiny", "small"):
        assert learning_rate_warning(PRESETS[name], Batches((48, 20, 5))) is None


def test_a_warm_up_that_is_longer_than_the_run():
    for schedule in ({}, {"learning_rate_schedule": "constant", "learning_rate": 0.001}):
        assert "the warm-up ends after the run" in warning(
            48, train_steps=100, warmup_steps=100, **schedule
        )


def test_one_gpu_runs_the_recipe_of_eight():
    """25,000 tokens, at most 4,096 at once: one time on each of eight devices, seven on one."""
    batches = Batches((1000, 25, 10), (96, 256, 1))
    for replicas, steps in ((8, [1, 1]), (1, [7, 6])):
        plan = BatchPlan(Config(), batches, replicas).with_micro_batches(4096)
        assert [plan.micro_batches(bucket)[0] for bucket in batches.buckets] == steps
        assert plan.accumulation_steps == steps[0]


def test_halves():
    """The whole batch, then a half, a quarter and so on; at least the longest pair."""
    batches = Batches((1000, 25, 10), (96, 256, 1))
    for replicas in (1, 2):
        whole = BatchPlan(Config(), batches, replicas).with_micro_batches(25_000)
        assert whole.accumulation_steps == 1
        halves = whole.halved()
        assert [halves.micro_batches(bucket) for bucket in batches.buckets] == [
            (2, 500 // replicas), (2, 48 // replicas)
        ]  # fmt: skip
        plan = halves
        while plan.halved() != plan:
            plan = plan.halved()
        assert plan.micro_batches(batches.buckets[1]) == (96 // replicas, 1)


def test_the_description_has_each_shape():
    plan = BatchPlan(PRESETS["pocket"], Batches((100, 10, 4), (10, 100, 1)), 2)
    text = plan.with_micro_batches(1000).describe()
    assert "100 x 10" in text and "10 x 100" in text and "2,000, 5 an epoch: 400.0 epochs" in text
