"""A training run: its files, its metrics, its repeatability."""

import json
import os
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.model_folder import step_checkpoints, step_path
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.training.run_directory import RunDirectory
from tf_transformer.training.trainer import build_trainer


def weights(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "state"}


def test_files_of_a_run(model_dir):
    names = set(os.listdir(model_dir)) - {"evaluation", "training.lock"}
    assert names == {
        "config.json", "shared.model", "cache", "checkpoints", "best.npz", "averaged.npz",
        "metrics.jsonl", "tensorboard",
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


def test_averaged_weights_are_the_mean(tiny_config, model_dir, tmp_path, caplog):
    """Of the checkpoints of the last eighth of the updates."""
    caplog.set_level("INFO")
    shutil.copytree(model_dir, tmp_path / "model", ignore=shutil.ignore_patterns("averaged.npz"))
    kept = step_checkpoints(str(tmp_path / "model"))
    settings = tiny_config.replace(max_checkpoints=3).train
    directory = RunDirectory(str(tmp_path / "model"))
    model = Translator.load(str(model_dir), "latest").model
    try:
        for old, new in zip(kept, (92, 100), strict=True):
            os.replace(old, step_path(directory.path, new))
        start = step_path(directory.path, 84)  # 16 of 100 updates before the end
        shutil.copy(model_dir / "best.npz", start)
        directory.average(model, settings, 0)
    finally:
        directory.close()
    first, last = (weights(path) for path in step_checkpoints(str(model_dir)))
    averaged = weights(tmp_path / "model" / "averaged.npz")
    for name, value in averaged.items():
        np.testing.assert_allclose(value, (first[name] + last[name]) / 2, atol=1e-7)
    for name, variable in checkpoint.named_weights(model).items():
        np.testing.assert_array_equal(variable.numpy(), averaged[f"model/{name}"])
    assert "averaged the last 2 of 3 checkpoints" in caplog.text
    assert os.path.exists(start)


def test_seed_determines_the_weights(tiny_config, model_dir, tmp_path):
    """Also when the run is in two parts: 7 updates, then the rest."""
    first = build_trainer(tiny_config.replace(train_steps=7), str(tmp_path / "parts"))
    assert first.run()
    second = build_trainer(tiny_config, str(tmp_path / "parts"))
    assert second.step == 7 and second.run()
    for name in ("averaged.npz", "checkpoints/step-00000012.npz"):
        expected, found = weights(model_dir / name), weights(tmp_path / "parts" / name)
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value, err_msg=key)

    other = build_trainer(tiny_config.replace(seed=2, train_steps=1), str(tmp_path / "other"))
    table = checkpoint.named_weights(other.model)["embedding/table"].numpy()
    assert not np.array_equal(table, expected["model/embedding/table"])


def test_other_settings_in_the_same_folder_are_refused(tiny_config, model_dir):
    message = r"was started with d_model 32 \(now 48\), warmup_steps 100 \(now 9\)"
    with pytest.raises(UserError, match=message):
        build_trainer(tiny_config.replace(d_model=48, warmup_steps=9), str(model_dir))
    with pytest.raises(UserError, match=r"vocab_size 500 \(now 600\)"):
        build_trainer(tiny_config.replace(vocab_size=600), str(model_dir))
    may_change = tiny_config.replace(train_steps=99, log_steps=1, train_minutes=3.0)
    assert build_trainer(may_change, str(model_dir)).step == 12
    build_trainer(tiny_config, str(model_dir))  # the folder's settings have not changed
    assert (model_dir / "averaged.npz").exists()  # nothing is removed before a new checkpoint


def test_training_resumes_from_the_last_checkpoint(tiny_config, tmp_path):
    """Not from the average; the best score is kept; an old average does not hide new weights."""
    build_trainer(tiny_config.replace(train_steps=6, save_steps=3), str(tmp_path)).run()
    checkpoint.average(step_checkpoints(str(tmp_path)), str(tmp_path / "averaged.npz"))
    last = weights(step_checkpoints(str(tmp_path))[-1])
    resumed = build_trainer(tiny_config, str(tmp_path))
    for name, variable in checkpoint.named_weights(resumed.model).items():
        np.testing.assert_array_equal(variable.numpy(), last[f"model/{name}"])
    assert resumed.progress.best[0] == "BLEU"
    resumed.optimizer.iterations.assign(7)
    resumed._save()  # the average is now of older weights than the newest checkpoint
    assert not (tmp_path / "averaged.npz").exists()


def test_folder_with_a_model_but_no_checkpoints_is_not_overwritten(tiny_config, tmp_path):
    build_trainer(tiny_config.replace(train_steps=2, bleu_sentences=0), str(tmp_path)).run()
    for path in step_checkpoints(str(tmp_path)):
        os.remove(path)
    with pytest.raises(UserError, match="without the checkpoints"):
        build_trainer(tiny_config.replace(d_model=48), str(tmp_path))


def test_run_killed_after_its_first_validation_resumes(tiny_config, tmp_path, monkeypatch):
    """The validation comes before the first regular checkpoint here."""
    config = tiny_config.replace(train_steps=4, eval_steps=2, save_steps=100, bleu_sentences=0)
    save_weights = RunDirectory.save_weights

    def save_best_and_stop(*arguments):
        save_weights(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "save_weights", save_best_and_stop)
        trainer = build_trainer(config, str(tmp_path))
        with pytest.raises(KeyboardInterrupt):
            trainer.run()
    resumed = build_trainer(config, str(tmp_path))
    assert resumed.step == 2
    assert resumed.run()
    assert resumed.progress.validated[0] == 4


def test_train_minutes_limits_a_run(tiny_config, tmp_path):
    config = tiny_config.replace(
        train_steps=10_000, train_minutes=0.2, bleu_sentences=0, eval_steps=10_000,
        save_steps=10_000,
    )  # fmt: skip
    start = time.monotonic()
    trainer = build_trainer(config, str(tmp_path))
    assert trainer.run()
    assert 0 < trainer.step < 10_000
    assert time.monotonic() - start < 90
    assert len(step_checkpoints(str(tmp_path))) == 1


def test_separate_vocabularies(tiny_config, tmp_path):
    config = tiny_config.replace(
        shared_vocab=False, train_steps=1, vocab_size=450, bleu_sentences=0
    )
    trainer = build_trainer(config, str(tmp_path))
    assert trainer.run()
    assert {"source.model", "target.model"} <= set(os.listdir(tmp_path))
    assert "final_layer/kernel" in checkpoint.named_weights(trainer.model)
    assert isinstance(Translator.load(str(tmp_path))("Anna sleeps."), str)


def test_diverged_run_stops_and_keeps_good_weights(tiny_config, tmp_path):
    """Weights that are not finite replace no checkpoint; the sentences of the batch are saved."""
    build_trainer(tiny_config.replace(train_steps=4), str(tmp_path)).run()
    trainer = build_trainer(tiny_config.replace(max_skipped_steps=2), str(tmp_path))
    weight = trainer.model.trainable_variables[0]
    weight.assign(weight * float("nan"))
    message = (
        "diverged at update 6: the gradients of 2 updates in a row are not finite.*"
        "another --model_dir with a smaller .*last good checkpoint: .*step-00000004.npz"
    )
    with pytest.raises(UserError, match=message):
        trainer.run()
    lines = (tmp_path / "batch-of-update-6.tsv").read_text().splitlines()
    sources = {source for source, _ in trainer.corpus.read("train")}
    assert len(lines) > 3
    assert all(line.split("\t")[0] in sources for line in lines)
    for path in [*step_checkpoints(str(tmp_path)), tmp_path / "best.npz"]:
        assert all(np.isfinite(value).all() for value in weights(path).values())
    assert build_trainer(tiny_config, str(tmp_path)).step == 4


def test_advice_where_float16_diverges(tiny_config, tmp_path):
    config = tiny_config.replace(precision="mixed_float16", bleu_sentences=0)
    trainer = build_trainer(config, str(tmp_path))
    weight = trainer.model.trainable_variables[0]
    weight.assign(weight * float("inf"))
    trainer.optimizer.iterations.assign(1)
    message = "the weights .*table are not finite.* with --precision=mixed_bfloat16, a smaller"
    with pytest.raises(UserError, match=message):
        trainer._save()
    trainer.directory.close()


def test_one_graph_for_all_shapes(tiny_config, tmp_path):
    """A graph for each shape would cost half a minute each."""
    trainer = build_trainer(tiny_config.replace(train_steps=4, batch_tokens=512), str(tmp_path))
    batches = trainer.train_batches
    assert len({(bucket.rows, bucket.length) for bucket in batches.buckets}) > 2
    assert trainer.run()
    buckets = [bucket for _, bucket in batches.order(0)[:4]]
    assert len(set(buckets)) > 1
    functions = (trainer.update._run, trainer._eval_step)
    assert [f.experimental_get_tracing_count() for f in functions] == [1, 1]


def test_samples_fit_the_model(tiny_config, tmp_path):
    trainer = build_trainer(tiny_config.replace(max_length=20, train_steps=1), str(tmp_path))
    pairs = trainer.samples("validation", 60)
    assert 0 < len(pairs) < 60
    lengths = trainer.tokenizers[0].encode([source for source, _ in pairs]).row_lengths()
    assert max(lengths) <= 20
