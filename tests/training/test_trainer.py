"""A training run: its files, its metrics, and how it ends."""

import itertools
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from training_runs import arrays, assert_same_arrays, make_trainer

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.model_folder import all_checkpoints, step_checkpoints, step_path
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.training.run_directory import RunDirectory
from tf_transformer.training.trainer import build_trainer
from tf_transformer.training.update import Update


def test_files_of_a_run(model_dir):
    names = set(os.listdir(model_dir)) - {"evaluation", "training.lock"}
    assert names == {
        "config.json", "source.model", "target.model", "cache", "checkpoints", "best.npz",
        "averaged.npz", "metrics.jsonl", "tensorboard",
    }  # fmt: skip
    checkpoints = sorted(os.listdir(model_dir / "checkpoints"))
    assert checkpoints == ["step-00000008.npz", "step-00000012.npz"]  # max_checkpoints=2
    events = tf.data.TFRecordDataset([str(path) for path in (model_dir / "tensorboard").iterdir()])
    assert sum(1 for _ in events) > 10


def test_metrics_of_a_run(model_dir):
    lines = [json.loads(line) for line in (model_dir / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["kind"]) for line in lines] == [
        (4, "train"), (6, "validation"), (8, "train"), (12, "train"), (12, "validation"),
        (12, "average"),
    ]  # fmt: skip
    train, validation = lines[0], lines[1]
    assert {
        "loss", "accuracy", "learning_rate", "target_tokens_per_second", "non_padding_fraction",
        "tokens_per_replica", "skipped_steps",
    } <= set(train)  # fmt: skip
    assert {"loss", "perplexity", "accuracy", "BLEU"} <= set(validation)
    assert validation["perplexity"] == pytest.approx(np.exp(validation["loss"]))
    assert 0.5 < train["non_padding_fraction"] <= 1
    assert lines[3]["loss"] < lines[0]["loss"]


def test_blank_references_of_the_validation_text(tiny_config, corpus_folder, tmp_path, caplog):
    """They are not scored, and a warning has their number."""
    folder = shutil.copytree(corpus_folder, tmp_path / "text")
    lines = (folder / "val.de").read_text("utf-8").splitlines()
    blank = "".join(f"{'' if number % 2 else line}\n" for number, line in enumerate(lines))
    (folder / "val.de").write_text(blank, "utf-8")
    trainer = build_trainer(tiny_config.replace(data=str(folder)), str(tmp_path / "run"))
    (text,) = trainer.validation_texts
    assert [target for _, target in text.pairs] == lines[:16:2]  # bleu_sentences are 8
    assert "30 for an empty side" in caplog.text
    trainer.directory.close()


def test_the_longest_outputs_are_those_that_the_text_needs(tiny_config, tmp_path):
    """Of each corpus, 99.9% of the targets; at least those of the settings."""
    sources = [" ".join(letters) for letters in itertools.product("acdefghijklmnopqrst", repeat=3)]
    for name, lengths in (("long", [80] + [70] * 1999), ("short", [5] * 2000)):
        pairs = zip(sources, lengths)
        text = "".join(f"{source}\t{source}{' b' * (size - 3)}\n" for source, size in pairs)
        (tmp_path / f"{name}.tsv").write_text(text)
    both = f"{tmp_path}/short.tsv,{tmp_path}/long.tsv"
    # A target of 70 sub-words and the end token, of a source of three, leaves room for one.
    for data, extra, coverage, expected in (
        ("long.tsv", 50, 0.999, 69),
        ("long.tsv", 50, 1.0, 79),
        ("long.tsv", 50, 0.0, 50),
        ("long.tsv", 100, 0.999, 100),
        ("short.tsv", 50, 0.999, 50),
        (both, 50, 0.999, 69),
    ):
        config = tiny_config.replace(
            data=os.path.join(tmp_path, data), max_length=96, max_length_ratio=99.0,
            extra_decode_length=extra, decode_length_coverage=coverage, vocab_size=300,
            hold_out="end",  # there are two sources
        )  # fmt: skip
        trainer = build_trainer(config, str(tmp_path / "model"))
        assert trainer.config.decode.extra_decode_length == expected, (data, extra, coverage)
        trainer.directory.close()


def test_a_validation_of_two_replicas_is_that_of_one(tiny_config, model_dir, tmp_path):
    config = tiny_config.replace(init_from=str(model_dir))
    one, two = (
        build_trainer(
            config.replace(logical_devices=number), str(tmp_path / str(number))
        ).validate()
        for number in (1, 2)
    )
    assert one["chrF"] > 0 and one.pop("signature") == two.pop("signature")
    assert one == pytest.approx(two, rel=1e-5)


def test_averaged_weights_are_the_mean(tiny_config, model_dir, tmp_path, caplog):
    """Of the checkpoints of the last eighth of the updates, without damaged ones."""
    caplog.set_level("INFO")
    folder = str(shutil.copytree(model_dir, tmp_path / "model"))
    for old, new in ((8, 92), (12, 100)):
        os.replace(step_path(folder, old), step_path(folder, new))
    for step in (84, 95):  # the first one is too old
        shutil.copy(model_dir / "best.npz", step_path(folder, step))
    os.truncate(step_path(folder, 95), 2000)
    directory = RunDirectory(folder)
    model = Translator.load(str(model_dir), "latest").model
    directory.average(model, tiny_config.replace(max_checkpoints=9, save_steps=1).train)
    directory.close()
    first, last = (arrays(path, "model/") for path in step_checkpoints(str(model_dir)))
    averaged = arrays(os.path.join(folder, "averaged.npz"), "model/")
    for name, value in averaged.items():
        np.testing.assert_allclose(value, (first[name] + last[name]) / 2, atol=1e-7)
    for name, variable in checkpoint.named_weights(model).items():
        np.testing.assert_array_equal(variable.numpy(), averaged[name])
    assert "averaged the last 2 of 4 checkpoints" in caplog.text
    assert os.path.exists(f"{step_path(folder, 95)}.damaged")
    assert step_checkpoints(folder) == [step_path(folder, step) for step in (84, 92, 100)]


def test_other_settings_in_the_same_folder_are_refused(tiny_config, model_dir):
    before = (model_dir / "config.json").read_bytes()
    message = r"was started with d_model 32 \(now 48\), warmup_steps 100 \(now 9\): .*--init_from"
    with pytest.raises(UserError, match=message):
        build_trainer(tiny_config.replace(d_model=48, warmup_steps=9), str(model_dir))
    may_change = tiny_config.replace(train_steps=99, log_steps=1, train_minutes=3.0)
    trainer = build_trainer(may_change, str(model_dir))
    trainer.directory.close()
    assert trainer.step == 12
    assert (model_dir / "config.json").read_bytes() == before
    assert (model_dir / "averaged.npz").exists()  # nothing is removed before a new checkpoint


def test_run_killed_after_its_first_validation_resumes(tiny_config, tmp_path):
    """The validation comes before the first regular checkpoint here."""

    class Killed(RunDirectory):
        def save_weights(self, *arguments):
            super().save_weights(*arguments)
            raise KeyboardInterrupt

    config = tiny_config.replace(train_steps=4, eval_steps=2, save_steps=100, bleu_sentences=0)
    with pytest.raises(KeyboardInterrupt):
        make_trainer(config, tmp_path, directory=Killed).run()
    resumed = build_trainer(config, str(tmp_path))
    assert resumed.step == 2
    assert resumed.run()
    assert resumed.progress.validated[0] == 4


def test_memory_that_is_short_halves_the_micro_batches(tiny_config, tmp_path, monkeypatch, caplog):
    """The log describes the division that the run then has."""

    def rehearse(self, bucket):
        if next(tries) < 2:
            raise tf.errors.ResourceExhaustedError(None, None, "no memory")

    def update(*_, **__):
        raise KeyboardInterrupt

    tries = itertools.count()
    monkeypatch.setattr(Update, "rehearse", rehearse)
    monkeypatch.setattr(Update, "__call__", update)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: {})
    config = tiny_config.replace(logical_devices=0, precision="float32", jit_compile="off")
    caplog.set_level("INFO", "tf_transformer.training.trainer")
    with pytest.raises(KeyboardInterrupt):
        build_trainer(config, str(tmp_path)).run()
    assert [each for each in caplog.messages if "accumulation" in each or "memory" in each] == [
        "out of memory: going on with micro-batches of 252 tokens",
        "out of memory: going on with micro-batches of 126 tokens",
        "37,376 parameters; 2 replicas (CPU:0, CPU:1), gradient accumulation steps: 4; float32, "
        "XLA off",
    ]


def test_train_minutes_limits_a_run(tiny_config, tmp_path):
    """One that is too short for an update ends as soon as the first results are read."""
    config = tiny_config.replace(
        train_steps=10_000, train_minutes=1e-6, bleu_sentences=0, eval_steps=10_000,
        save_steps=10_000,
    )  # fmt: skip
    trainer = build_trainer(config, str(tmp_path))
    assert trainer.run()
    assert 0 < trainer.step < 10
    assert step_checkpoints(str(tmp_path)) == [step_path(str(tmp_path), trainer.step)]
    assert trainer.progress.validated[0] == trainer.step


def test_diverged_run_stops_and_keeps_good_weights(tiny_config, model_dir, tmp_path):
    """Weights that are not finite replace no checkpoint; the sentences of the batch are saved."""
    folder = shutil.copytree(model_dir, tmp_path / "model")
    config = tiny_config.replace(train_steps=20, bleu_sentences=0)
    for changes, message in (
        (
            {"max_skipped_steps": 2, "precision": "mixed_float16"},
            "update 14: the gradients of 2 updates in a row are not finite.* with "
            "--precision=mixed_bfloat16, a smaller .*last good checkpoint: .*step-00000012.npz",
        ),
        ({"save_steps": 1}, "update 13: the weights .* are not finite.* with a smaller"),
    ):
        trainer = build_trainer(config.replace(**changes), str(folder))
        weight = trainer.model.trainable_variables[0]
        weight.assign(weight * float("nan"))
        with pytest.raises(UserError, match=message):
            trainer.run()
        for path in all_checkpoints(str(model_dir)):
            assert_same_arrays(folder / os.path.relpath(path, model_dir), path)
        assert len(step_checkpoints(str(folder))) == 2
    lines = (folder / "batch-of-update-14.tsv").read_text().splitlines()
    sources = {source for source, _ in trainer.corpus.read("train")}
    assert len(lines) > 3
    assert all(line.split("\t")[0] in sources for line in lines)
