"""The training run: its folder, its figures, its repeatability."""

import json
import os
import time

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints import paths as model_folder
from tf_transformer.errors import UserError
from tf_transformer.training.build import build_trainer
from tf_transformer.training.metrics import MetricsAccumulator


def weights(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "state"}


def test_what_a_run_leaves(model_dir):
    names = set(os.listdir(model_dir)) - {"evaluation"}
    assert names == {
        "config.json",
        "shared.model",
        "cache",
        "checkpoints",
        "best.npz",
        "averaged.npz",
        "metrics.jsonl",
        "tensorboard",
    }
    assert sorted(os.listdir(model_dir / "checkpoints")) == [
        "step-00000008.npz",
        "step-00000012.npz",
    ]  # max_checkpoints=2
    lines = [json.loads(line) for line in (model_dir / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["kind"]) for line in lines] == [
        (4, "train"), (6, "validation"), (8, "train"), (12, "train"), (12, "validation"), (12, "average"),
    ]  # fmt: skip
    train, validation = lines[0], lines[1]
    assert {
        "loss",
        "accuracy",
        "learning_rate",
        "target_tokens_per_second",
        "non_padding_fraction",
    } <= set(train)
    assert {"loss", "perplexity", "accuracy", "BLEU"} <= set(validation)
    assert validation["perplexity"] == pytest.approx(np.exp(validation["loss"]))
    assert 0.5 < train["non_padding_fraction"] <= 1
    assert lines[3]["loss"] < lines[0]["loss"]
    events = tf.data.TFRecordDataset([str(path) for path in (model_dir / "tensorboard").iterdir()])
    assert sum(1 for _ in events) > 10


def test_the_averaged_weights_are_the_mean(model_dir):
    steps = [weights(path) for path in model_folder.step_checkpoints(str(model_dir))]
    for name, value in weights(model_dir / "averaged.npz").items():
        np.testing.assert_allclose(
            value, np.mean([step[name] for step in steps], axis=0), atol=1e-7
        )


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    tiny_config, model_dir, tmp_path
):
    """Also when the run is done in two parts: 7 updates, then the rest."""
    first = build_trainer(tiny_config.replace(train_steps=7), str(tmp_path / "parts"))
    assert first.run()
    second = build_trainer(tiny_config, str(tmp_path / "parts"))
    assert second.step == 7 and second.run()
    for name in ("averaged.npz", "checkpoints/step-00000012.npz"):
        once, parts = weights(model_dir / name), weights(tmp_path / "parts" / name)
        for key, value in once.items():
            np.testing.assert_array_equal(parts[key], value, err_msg=key)

    other = build_trainer(tiny_config.replace(seed=2, train_steps=1), str(tmp_path / "other"))
    table = checkpoint.named_weights(other.model)["embedding/table"].numpy()
    assert not np.array_equal(table, once["model/embedding/table"])


def test_another_configuration_in_the_same_folder_is_refused(tiny_config, model_dir):
    with pytest.raises(
        UserError, match=r"was begun with d_model 32 \(now 48\), warmup_steps 100 \(now 9\)"
    ):
        build_trainer(tiny_config.replace(d_model=48, warmup_steps=9), str(model_dir))
    with pytest.raises(UserError, match=r"vocab_size 500 \(now 600\)"):
        build_trainer(tiny_config.replace(vocab_size=600), str(model_dir))
    assert (
        build_trainer(
            tiny_config.replace(train_steps=99, log_steps=1, train_minutes=3.0), str(model_dir)
        ).step
        == 12
    )
    build_trainer(tiny_config, str(model_dir))  # the folder's configuration is as it was
    assert (model_dir / "averaged.npz").exists()  # nothing is lost before there is something new


def test_what_goes_on_is_what_was_trained(tiny_config, tmp_path):
    """The average is not trained on; the best score survives; an average of before does not hide what follows."""
    build_trainer(tiny_config.replace(train_steps=6), str(tmp_path)).run()
    last = weights(model_folder.step_checkpoints(str(tmp_path))[-1])
    again = build_trainer(tiny_config, str(tmp_path))
    for name, variable in checkpoint.named_weights(again.model).items():
        np.testing.assert_array_equal(variable.numpy(), last[f"model/{name}"])
    assert again.best[0] == "BLEU"
    again.optimizer.iterations.assign(7)
    again._save()  # from here on the average is of older weights than the newest
    assert not (tmp_path / "averaged.npz").exists()


def test_a_folder_with_a_model_but_no_checkpoints_is_not_begun_anew(tiny_config, tmp_path):
    build_trainer(tiny_config.replace(train_steps=2, bleu_sentences=0), str(tmp_path)).run()
    for path in model_folder.step_checkpoints(str(tmp_path)):
        os.remove(path)
    with pytest.raises(UserError, match="was begun with"):
        build_trainer(tiny_config.replace(d_model=48), str(tmp_path))


def test_a_run_is_bounded_by_minutes(tiny_config, tmp_path):
    config = tiny_config.replace(
        train_steps=10_000,
        train_minutes=0.5,
        bleu_sentences=0,
        eval_steps=10_000,
        save_steps=10_000,
    )
    start = time.monotonic()
    trainer = build_trainer(config, str(tmp_path))
    assert trainer.run() and 0 < trainer.step < 10_000
    assert time.monotonic() - start < 90
    assert len(model_folder.step_checkpoints(str(tmp_path))) == 1


def test_separate_vocabularies(tiny_config, tmp_path):
    from tf_transformer.decoding.translator import Translator

    config = tiny_config.replace(
        shared_vocab=False, train_steps=1, vocab_size=450, bleu_sentences=0
    )
    trainer = build_trainer(config, str(tmp_path))
    assert trainer.run() and {"source.model", "target.model"} <= set(os.listdir(tmp_path))
    assert "final_layer/kernel" in checkpoint.named_weights(trainer.model)
    assert isinstance(Translator.load(str(tmp_path))("Anna sleeps."), str)


def test_tally_takes_means():
    def result(sums, load, norm=1.0, skipped=0.0):
        return {
            "sums": np.array(sums),
            "load": np.array(load),
            "gradient_norm": norm,
            "skipped": skipped,
        }

    tally = MetricsAccumulator()
    tally.add(result([6.0, 3.0, 1.0, 3.0, 5.0], [2.0, 1.0]), 8)
    again = MetricsAccumulator(
        json.loads(json.dumps(tally.state()))
    )  # a run that goes on from here
    for one in (tally, again):
        one.add(result([2.0, 1.0, 1.0, 1.0, 1.0], [1.0, 0.0], 3.0), 2)
        one.add(result([np.nan, 4.0, 0.0, np.nan, 2.0], [1.0, 3.0], np.nan, skipped=1.0), 2)
    values = tally.take()
    assert values["loss"] == 2.0 and values["accuracy"] == 0.5 and values["gradient_norm"] == 2.0
    assert values["perplexity"] == np.exp(1.0)  # (3 + 1) nats without smoothing over 4 tokens
    assert (
        values["load"] == [0.5, 0.5]
        and values["non_padding_fraction"] == 16 / 24
        and values["memory_gb"] > 0.1
    )
    assert values["target_tokens_per_second"] / values["source_tokens_per_second"] == pytest.approx(
        8 / 8
    )
    assert again.take()["loss"] == values["loss"]
    tally.add(result([1.0, 1.0, 0.0, 1.0, 1.0], [1.0, 0.0]), 2)
    assert tally.take()["loss"] == 1.0


def test_a_run_that_diverges_stops_and_keeps_what_is_good(tiny_config, tmp_path):
    """No weight that is not a number takes the place of a good one, and the sentences of the batch are there to be looked at."""
    build_trainer(tiny_config.replace(train_steps=4), str(tmp_path)).run()
    trainer = build_trainer(tiny_config.replace(max_skipped_steps=2), str(tmp_path))
    trainer.model.trainable_variables[0].assign(trainer.model.trainable_variables[0] * float("nan"))
    with pytest.raises(
        UserError,
        match="diverged at update 6: .*2 skipped in a row.*last good checkpoint: .*step-00000004.npz",
    ):
        trainer.run()
    lines = (tmp_path / "batch-of-update-6.tsv").read_text().splitlines()
    sources = {source for source, _ in trainer.corpus.read("train")}
    assert len(lines) > 3 and all(line.split("\t")[0] in sources for line in lines)
    for path in [*model_folder.step_checkpoints(str(tmp_path)), tmp_path / "best.npz"]:
        assert all(np.isfinite(value).all() for value in weights(path).values())
    assert build_trainer(tiny_config, str(tmp_path)).step == 4


def test_one_graph_serves_all_shapes(tiny_config, tmp_path):
    """A graph for each shape would cost half a minute each."""
    trainer = build_trainer(tiny_config.replace(train_steps=4, batch_tokens=512), str(tmp_path))
    shapes = {(bucket.rows, bucket.length) for bucket in trainer.batches.buckets}
    assert trainer.run() and len(shapes) > 2
    assert {shape for place in range(4) for shape in [trainer.batches.order(0)[place][1]]} > {
        trainer.batches.order(0)[0][1]
    }
    search = trainer._translator._search(1)
    assert [
        graph.experimental_get_tracing_count()
        for graph in (trainer._train_step, trainer._eval_step, search)
    ] == [1, 1, 1]


def test_samples_fit_the_model(tiny_config, tmp_path):
    trainer = build_trainer(tiny_config.replace(max_length=20, train_steps=1), str(tmp_path))
    found = trainer.samples("validation", 60)
    assert 0 < len(found) < 60
    assert max(trainer.tokenizers[0].encode([source for source, _ in found]).row_lengths()) <= 20
