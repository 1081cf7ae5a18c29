"""The plan of a run."""

import re

import pytest

from tf_transformer.cli.main import main
from tf_transformer.config import Config
from tf_transformer.data.batching import Bucket
from tf_transformer.presets import PRESETS
from tf_transformer.training import memory_plan


class Batches:
    """Batches of given buckets."""

    def __init__(self, *shapes):
        self.buckets = [
            Bucket(0, length, rows, batches, rows * batches) for rows, length, batches in shapes
        ]
        self.per_epoch = sum(bucket.batches for bucket in self.buckets)


def warning(tokens, **changes):
    rows = tokens // 20
    return memory_plan.learning_rate_warning(Config().replace(**changes), Batches((rows, 20, 3)))


def test_warns_of_a_learning_rate_that_does_not_suit_the_batch():
    """The schedule of base with 2,000 tokens gets a warning with a scale; the presets get none."""
    assert "--learning_rate_scale=0.28" in warning(2000)
    assert "suits about 25,000" in warning(2000)
    assert warning(2000, learning_rate_scale=0.28) is None
    assert warning(25_000) is None and warning(50_000) is None
    assert warning(500_000) is not None
    assert warning(2000, learning_rate_schedule="constant", learning_rate=1e-4) is None
    for name in ("pocket", "tiny", "small"):
        preset = PRESETS[name]
        assert memory_plan.learning_rate_warning(preset, Batches((48, 20, 5))) is None


def test_a_warm_up_that_is_longer_than_the_run():
    for schedule in ({}, {"learning_rate_schedule": "constant", "learning_rate": 0.001}):
        assert "the warm-up ends after the run" in warning(
            48, train_steps=100, warmup_steps=100, **schedule
        )


def test_one_gpu_runs_the_recipe_of_eight():
    """25,000 tokens in shards of at most 4,096: one on each of eight devices, seven on one."""
    batches = Batches((1000, 25, 10), (96, 256, 1))
    for replicas, steps in ((8, [1, 1]), (1, [7, 6])):
        plan = memory_plan.Plan(Config(), batches, replicas, "float32").with_micro_batches(4096)
        assert [plan.shards(bucket)[0] for bucket in batches.buckets] == steps
        assert plan.accumulation_steps == steps[0]


def test_the_largest_micro_batches_that_fit():
    """Those of the whole batch, or a half, a quarter and so on; at least the longest pair."""
    batches = Batches((1000, 25, 10), (96, 256, 1))
    for replicas in (1, 2):
        whole = memory_plan.Plan(Config(), batches, replicas, "float32").fitting(1e15)
        assert whole.accumulation_steps == 1
        halves = whole.halved()
        assert [halves.shards(bucket) for bucket in batches.buckets] == [
            (2, 500 // replicas), (2, 48 // replicas)
        ]  # fmt: skip
        assert halves.accumulation_steps == 2
        assert sum(halves.replica_bytes()) < sum(whole.replica_bytes())
        for plan in (whole, halves):
            assert whole.fitting(sum(plan.replica_bytes())) == plan
        assert whole.fitting(0).shards(batches.buckets[1]) == (96 // replicas, 1)


def test_the_largest_bucket_is_the_one_with_the_most_memory():
    config = Config().replace(
        num_layers=2, d_model=64, num_heads=8, dff=128, input_vocab_size=100, target_vocab_size=100
    )
    batches = Batches((100, 10, 4), (10, 100, 1))  # equal tokens; attention grows with length
    plan = memory_plan.Plan(config, batches, 2, "float32")
    bucket, rows = plan.largest()
    assert (bucket.length, rows) == (100, 5)
    r_drop = config.replace(r_drop=1.0)
    assert memory_plan.Plan(r_drop, batches, 2, "float32").largest()[1] == 10
    text = plan.describe(cpu_replicas=0)
    assert "100 x 10" in text and "10 x 100" in text and "20,000.0 epochs" in text
    half, single = (
        memory_plan.activation_bytes(Config().model, 64, 64, precision)
        for precision in ("mixed_bfloat16", "float32")
    )
    assert half < single


# The most resident memory of a process that made updates in float32: settings, sub-words, replicas,
# shape of a micro-batch of all replicas, micro-batches, bytes.
MEASURED = [
    ({"num_layers": 1, "d_model": 32, "num_heads": 2, "dff": 64}, 500, 1, (2, 4), 1, 0.809e9),
    (PRESETS["small"], 4000, 1, (32, 32), 1, 1.135e9),
    (PRESETS["small"], 4000, 2, (32, 32), 1, 1.384e9),
    (PRESETS["base"], 37_000, 1, (2, 4), 1, 2.357e9),
    (PRESETS["base"], 37_000, 1, (128, 32), 1, 4.460e9),
    (PRESETS["base"], 37_000, 2, (128, 32), 1, 6.260e9),
    (PRESETS["base"], 37_000, 2, (244, 33), 3, 9.4e9),
    ({"num_encoder_layers": 12, "num_decoder_layers": 1}, 2000, 1, (128, 16), 1, 2.598e9),
    ({"num_encoder_layers": 1, "num_decoder_layers": 12}, 2000, 1, (128, 16), 1, 3.186e9),
]


@pytest.mark.parametrize("settings, vocab_size, replicas, batch, micro_batches, measured", MEASURED)
def test_the_plan_is_within_ten_per_cent_of_what_was_measured(
    settings, vocab_size, replicas, batch, micro_batches, measured
):
    config = Config().replace(**settings) if isinstance(settings, dict) else settings
    model = config.with_vocabularies(vocab_size, vocab_size).model
    rows, length = batch
    replica = memory_plan.state_bytes(model, micro_batches)
    replica += memory_plan.activation_bytes(model, rows // replicas, length, "float32")
    planned = memory_plan.process_bytes(model, replicas, replica)
    assert planned == pytest.approx(measured, rel=0.1)


def test_dry_run(capsys, corpus_folder, tmp_path):
    """It prints the plan, makes an update, and leaves no model. Log lines go to standard error."""
    sizes = {
        "num_layers": 1, "d_model": 32, "num_heads": 2, "dff": 64, "vocab_size": 500,
        "max_length": 64, "train_steps": 32, "batch_tokens": 1024, "micro_batch_tokens": 200,
    }  # fmt: skip
    flags = [f"--{name}={value}" for name, value in sizes.items()]
    flags += [f"--data={corpus_folder}", f"--model_dir={tmp_path}", "--precision=float32"]
    assert main(["train", "--dry_run", *flags]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"plan for {tmp_path}\n") and " INFO " not in out
    assert " INFO learning a vocabulary of 500 sub-words" in err and "plan for" not in err
    assert "32, 16 an epoch: 2.0 epochs" in out and "37,376" in out
    assert re.search(r"about 0\.8\d GB for this process: 2 replicas", out)
    rows = [line.split() for line in out.splitlines() if re.match(r" +\d+ x \d+ ", line)]
    assert len(rows) == 9 and sum(int(row[4]) for row in rows) == 16
    for row in rows:
        assert int(row[0]) * int(row[2]) <= 1024 and int(row[6]) * int(row[2]) <= 200
        assert int(row[5]) * int(row[6]) * 2 >= int(row[0])
    loss = float(re.search(r"an update +of \d+ x \d+: .*; loss ([\d.]+)", out)[1])
    assert loss == pytest.approx(6.6, abs=0.6)
    assert not (tmp_path / "checkpoints").exists() and not (tmp_path / "config.json").exists()
