"""Runs with sub-word regularisation."""

import glob
import os
import shutil

import numpy as np
import pytest
from training_process import read_until, start_process, train_command

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.model_folder import read_metrics, step_checkpoints
from tf_transformer.errors import UserError
from tf_transformer.training.trainer import build_trainer


def losses(folder):
    return {line["step"]: line["loss"] for line in read_metrics(folder) if line["kind"] == "train"}


@pytest.mark.parametrize(("settings", "difference"), [
    ({"bpe_dropout": 0.1}, "bpe_dropout 0.1"),
    ({"subword_model": "unigram", "sentencepiece_alpha": 0.3}, "sentencepiece_alpha 0.3"),
])  # fmt: skip
def test_resume_across_epochs(tiny_config, tmp_path, settings, difference):
    """A run that is resumed in the middle of an epoch equals one that is not, to the last bit."""
    config = tiny_config.replace(
        **settings, batch_tokens=4096, train_steps=12, save_steps=3, max_checkpoints=4, log_steps=1,
        bleu_sentences=0, logical_devices=1,
    )  # fmt: skip
    folders = [str(tmp_path / name) for name in ("whole", "parts")]
    assert build_trainer(config, folders[0]).run()
    shutil.copytree(*folders)
    for path in step_checkpoints(folders[1])[1:]:
        os.remove(path)
    assert build_trainer(config, folders[1]).run()
    last = [step_checkpoints(folder)[-1] for folder in folders]
    batches = [checkpoint.read_state(path)["batches"] for path in last]
    assert batches[0] == batches[1]
    assert batches[0]["epoch_starts"][0] == 0 and 3 < batches[0]["epoch_starts"][1] < 7
    assert losses(folders[0]) == losses(folders[1])
    whole, parts = (np.load(path) for path in last)
    for name in whole.files:
        np.testing.assert_array_equal(whole[name], parts[name], err_msg=name)
    epochs = set(glob.glob(f"{folders[0]}/cache/epoch-*"))
    assert "plan for" in build_trainer(config, folders[0]).dry_run()
    assert epochs and epochs <= set(glob.glob(f"{folders[0]}/cache/epoch-*"))
    name = difference.split()[0]
    with pytest.raises(UserError, match=rf"was started with {difference} \(now 0.2\)"):
        build_trainer(config.replace(**{name: 0.2}), folders[0])


def test_a_killed_run_draws_the_same_epochs(corpus_folder, tmp_path):
    """`kill -9` twice, in different epochs, with other processes that draw the next one."""
    flags = {
        "bpe_dropout": 0.1, "batch_tokens": 4096, "train_steps": 14, "save_steps": 2,
        "log_steps": 1, "bleu_sentences": 0, "logical_devices": 1,
    }  # fmt: skip
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, kills in ((whole, ()), (parts, (4, 9))):
        for step in kills:
            process = start_process(train_command(folder, corpus_folder, flags))
            assert read_until(process, step)
            process.kill()
            process.communicate()
        process = start_process(train_command(folder, corpus_folder, flags))
        output, _ = process.communicate()
        assert process.returncode == 0, output
    last = [step_checkpoints(str(folder))[-1] for folder in (whole, parts)]
    assert len(checkpoint.read_state(last[0])["batches"]["epoch_starts"]) > 2
    assert losses(str(parts)) == losses(str(whole))
    arrays = [np.load(path) for path in last]
    for name in arrays[0].files:
        np.testing.assert_array_equal(arrays[0][name], arrays[1][name], err_msg=name)
