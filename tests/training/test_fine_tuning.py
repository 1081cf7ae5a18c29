"""Runs that start with another model."""

import os
import re
import shutil

import numpy as np
import pytest
from training_runs import arrays

from tf_transformer.checkpoints.checkpoint import average, named_weights
from tf_transformer.checkpoints.model_folder import (
    BUILT_IN_FOLDER,
    initial_settings,
    load_config,
    step_checkpoints,
    step_path,
)
from tf_transformer.cli.main import main
from tf_transformer.config import Config
from tf_transformer.errors import UserError
from tf_transformer.training.trainer import build_trainer


def test_run_from_another_model(tiny_config, model_dir, tmp_path):
    """The weights and the vocabulary are those of the model, the optimizer is new."""
    initial = tmp_path / "initial"
    shutil.copytree(model_dir, initial, ignore=shutil.ignore_patterns("training.lock"))
    average(step_checkpoints(str(initial)), str(initial / "averaged.npz"))
    config = tiny_config.replace(
        init_from=os.path.relpath(initial), train_steps=2,
        warmup_steps=1, bleu_sentences=0, logical_devices=2,
    )  # fmt: skip
    folder = tmp_path / "run"
    trainer = build_trainer(config, str(folder))
    start = arrays(initial / "averaged.npz", "model/")
    assert trainer.step == 0
    replicas = trainer.workers.strategy.experimental_local_results
    for name, variable in named_weights(trainer.model).items():
        copies = replicas(variable.value)
        assert len(copies) == 2
        for copy in copies:
            np.testing.assert_array_equal(copy.numpy(), start[name])
    _, _, *moments = trainer.optimizer.variables  # after the updates and the learning rate
    assert moments and not any(moment.numpy().any() for moment in moments)
    assert trainer.run()
    for path in (step_path(str(folder), 2), folder / "averaged.npz"):
        for name, value in arrays(path, "model/").items():
            assert not np.array_equal(value, start[name]), name
    for name in ("source.model", "target.model"):
        assert (folder / name).read_bytes() == (model_dir / name).read_bytes()
    assert load_config(str(folder)).train.init_from == str(initial)

    moved = str(tmp_path / "elsewhere" / "initial")
    resumed = build_trainer(config.replace(train_steps=3, init_from=moved), str(folder))
    assert resumed.step == 2
    resumed.directory.close()
    with pytest.raises(UserError, match=f"started with init_from {initial} .now none"):
        build_trainer(config.replace(init_from=""), str(folder))


def test_models_that_cannot_be_used(tiny_config, model_dir, tmp_path):
    config = tiny_config.replace(init_from=str(model_dir))
    cases = [
        ({"d_model": 48, "vocab_size": 600}, "has d_model 32 .now 48., vocab_size 500 .now 600.: "),
        ({"shared_vocab": False, "shared_embeddings": False}, "has shared_embeddings True .now"),
        ({"init_from": str(tmp_path)}, "--init_from=.*: .* holds no model"),
        ({"init_from": "pocket-en-de"}, "the model pocket-en-de has num_layers 2 .now 1."),
        ({"max_length": 4}, "give a larger --max_length$"),
    ]
    for changes, message in cases:
        with pytest.raises(UserError, match=message):
            build_trainer(config.replace(**changes), str(tmp_path / "model"))
    before = sorted(os.listdir(model_dir))
    with pytest.raises(UserError, match="are both .*give another --model_dir"):
        build_trainer(config, str(model_dir), overwrite=True)
    assert sorted(os.listdir(model_dir)) == before


def test_flags_of_fine_tuning(model_dir, corpus_folder, tmp_path, capsys):
    """Sizes, vocabularies and search are those of the model, the other settings of the preset."""
    built_in = load_config(os.path.join(BUILT_IN_FOLDER, "pocket-en-de"))
    settings = initial_settings("pocket-en-de")
    assert Config().replace(**settings).model == built_in.model
    assert Config().replace(**settings).decode == built_in.decode
    # A run that is resumed does not need the model any more.
    shutil.copytree(model_dir / "checkpoints", tmp_path / "run" / "checkpoints")
    for name in ("config.json", "source.model", "target.model"):
        shutil.copy(model_dir / name, tmp_path / "run")
    config = load_config(str(model_dir)).replace(init_from=f"{tmp_path}/removed")
    config.save(str(tmp_path / "run" / "config.json"))
    flags = f"--preset=base --data={corpus_folder} --model_dir={tmp_path}/run --train_steps=320 "
    flags += "--batch_tokens=1024 --max_length=64 --warmup_steps=100 --logical_devices=1"
    assert main(["train", "--dry_run", f"--init_from={tmp_path}/removed", *flags.split()]) == 0
    out = capsys.readouterr().out
    assert re.search(r"updates +320, ", out)
    assert re.search(rf"parameters +{config.model.parameters():,}", out)


def test_train_steps_of_a_decay_to_0_are_fixed(tiny_config, model_dir, tmp_path):
    """The learning rate of every update depends on them."""
    changes = {"learning_rate_schedule": "cosine", "learning_rate": 1e-3, "warmup_steps": 2}
    config = tiny_config.replace(**changes)
    shutil.copytree(model_dir, tmp_path, dirs_exist_ok=True)
    load_config(str(model_dir)).replace(**changes).save(str(tmp_path / "config.json"))
    build_trainer(config.replace(eval_steps=3), str(tmp_path)).directory.close()
    with pytest.raises(UserError, match=r"with train_steps 12 \(now 24\): give those"):
        build_trainer(config.replace(train_steps=24), str(tmp_path))
    with pytest.raises(UserError, match=r"learning_rate_schedule cosine \(now linear\)"):
        build_trainer(config.replace(learning_rate_schedule="linear"), str(tmp_path))
