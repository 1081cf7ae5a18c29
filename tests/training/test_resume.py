"""Invariant 7: a run that is stopped at any moment and restarted equals an uninterrupted run.

The runs are equal to the last bit. Effects on a process are tested on processes, by the command
line.
"""

import functools
import json
import os
import random
import re
import shutil
import signal
import time

import numpy as np
import pytest
from training_runs import (
    assert_same_arrays,
    losses,
    make_trainer,
    read_until,
    start_process,
    stopped,
    train_command,
)

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.model_folder import (
    all_checkpoints,
    checkpoint_step,
    read_metrics,
    step_checkpoints,
    step_path,
)
from tf_transformer.cli.comparison import read_run
from tf_transformer.cli.main import main
from tf_transformer.config import Config
from tf_transformer.errors import UserError
from tf_transformer.training.run_log import Progress
from tf_transformer.training.trainer import Trainer, build_trainer
from tf_transformer.training.update import Update
from tf_transformer.visualization.history import describe_history


def last_state(folder):
    return checkpoint.read_state(step_checkpoints(str(folder))[-1])


def assert_equal_runs(folder, expected):
    """To the last bit: weights, Adam's moments, training state, all losses and scores."""
    assert losses(folder) == losses(expected)
    names, expected_names = (
        [os.path.relpath(path, each) for path in all_checkpoints(str(each))]
        for each in (folder, expected)
    )
    assert names == expected_names and len(names) >= 4
    for name in names:
        assert_same_arrays(os.path.join(folder, name), os.path.join(expected, name))


def stop_in(owner, name, trainer, step, number):
    """Stops a run in a function: by a signal, or without an end, as `kill -9` does."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def stopping(*arguments, **options):
        if trainer.step == step:
            if not number:
                raise KeyboardInterrupt
            os.kill(os.getpid(), number)
        return function(*arguments, **options)

    setattr(owner, name, stopping)


def test_stopped_at_every_kind_of_moment(tiny_config, model_dir, tmp_path):
    """Step and last validation of the checkpoint that is resumed show where the run stopped.

    A validation that was interrupted, or killed before the next checkpoint, is made again.
    """
    for name, step, number, saved in (
        ("update", 2, signal.SIGTERM, [3, 0]),  # with results of updates that are not read
        ("update", 5, signal.SIGUSR1, [6, 0]),  # before a validation
        ("encode", 6, signal.SIGXCPU, [6, 0]),  # in its translation
        ("update", 7, None, [6, 0]),
        ("validate", 12, signal.SIGTERM, [12, 6]),
    ):
        trainer = build_trainer(tiny_config, str(tmp_path))
        owner = trainer.tokenizers[0] if name == "encode" else trainer
        stop_in(owner, name, trainer, step, number)
        if number is None:
            with pytest.raises(KeyboardInterrupt):
                trainer.run()
        else:
            assert trainer.run() is False
        state = last_state(tmp_path)
        assert [state["step"], state["progress"]["validated"][0]] == saved
    assert build_trainer(tiny_config, str(tmp_path)).run()
    assert_equal_runs(tmp_path, model_dir)


def test_a_run_of_an_earlier_format_keeps_what_it_holds_out(corpus_folder, tmp_path, capsys):
    """The same command resumes it: other batches, as of another text, would be refused."""
    sides = ((corpus_folder / f"train.{each}").read_text("utf-8") for each in ("en", "de"))
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(map("{}\t{}\n".format, *map(str.splitlines, sides))), "utf-8")
    flags = {"data": path, "logical_devices": 1, "eval_steps": 2, "bleu_sentences": 0}
    command = train_command(tmp_path, corpus_folder, flags)[3:]
    assert main([*command, "--hold_out=end", "--train_steps=2"]) == 0
    config = tmp_path / "config.json"
    values = json.loads(config.read_text())
    del values["data"]["hold_out"]
    config.write_text(json.dumps({**values, "format_version": 1}))
    assert main([*command, "--train_steps=4"]) == 0
    assert losses(tmp_path)[-1][:2] == (4, "average")
    assert Config.load(str(config)).data.hold_out == "end"
    assert main([*command, "--hold_out=sources", "--train_steps=4"]) == 2
    assert "was started with hold_out end (now sources)" in capsys.readouterr().err


@pytest.fixture
def everything(corpus_folder, tmp_path):
    """Settings whose state a checkpoint has, in addition to weights and moments.

    Corpora of several tags and weights, one with weights of its pairs; the loss scale of float16.
    """
    text = {}
    for name in ("train.en", "train.de", "val.en", "val.de"):
        text[name] = (corpus_folder / name).read_text("utf-8").splitlines()[:100]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text[name]), "utf-8")
    path = tmp_path / "weighted.tsv"
    pairs = zip(text["train.en"], text["train.de"])
    path.write_text("".join(f"{s}\t{t}\t{1 + i % 5}\n" for i, (s, t) in enumerate(pairs)), "utf-8")
    return {
        "data": f"{tmp_path},{tmp_path}@de-en,{path}", "tag": "<2de>,<2en>,<2de>",
        "data_weights": "3,1,1", "precision": "mixed_float16",
    }  # fmt: skip


def test_resumed_in_the_middle_of_an_epoch(tiny_config, everything, tmp_path):
    config = tiny_config.replace(
        **everything, train_steps=14, save_steps=3, max_checkpoints=5, eval_steps=5,
        log_steps=1, bleu_sentences=0,
    )  # fmt: skip
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    trainer = build_trainer(config, str(whole))
    assert trainer.run()
    assert trainer.train_batches.weighted and 3 < trainer.train_batches.per_epoch < 14
    shutil.copytree(whole, parts)
    for path in step_checkpoints(str(parts))[1:]:
        os.remove(path)
    assert build_trainer(config, str(parts)).run()
    assert_equal_runs(parts, whole)


def test_what_a_crash_leaves(tiny_config, model_dir, tmp_path, caplog):
    """Unfinished files and lines are removed. Of a damaged checkpoint, the one before is used."""
    folder = shutil.copytree(model_dir, tmp_path / "model")
    (folder / "checkpoints" / ".tmp-step-00000016.npz-a1b2.part").write_bytes(b"PK")
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 16, "kind": "train", "loss": 9.0}) + '\n{"step": 17, "kin')
    newest = folder / "checkpoints" / "step-00000012.npz"
    os.truncate(newest, 5000)
    caplog.set_level("INFO", "tf_transformer")
    trainer = build_trainer(tiny_config, str(folder))
    assert f"{newest} is damaged" in caplog.text and trainer.step == 8
    assert trainer.run()
    assert_equal_runs(folder, model_dir)
    assert set(os.listdir(folder / "checkpoints")) == {
        "step-00000008.npz", "step-00000012.npz", "step-00000012.npz.damaged"
    }  # fmt: skip


def test_all_checkpoints_are_damaged(tiny_config, model_dir, tmp_path):
    """Then nothing is overwritten: something may still be rescued."""
    folder = shutil.copytree(model_dir, tmp_path / "model")
    for path in (folder / "checkpoints").iterdir():
        os.truncate(path, 5000)
    with pytest.raises(UserError, match="all 2 checkpoints in .* are damaged"):
        build_trainer(tiny_config, str(folder))
    assert len(step_checkpoints(str(folder))) == 2


def test_killed_before_old_checkpoints_are_removed(tiny_config, model_dir, tmp_path):
    """The average is without that of an interruption; a finished command changes nothing."""
    folder = shutil.copytree(model_dir, tmp_path / "model")
    for step in (4, 11):
        shutil.copy(step_path(str(folder), 8), step_path(str(folder), step))
    assert build_trainer(tiny_config, str(folder)).run()
    assert_equal_runs(folder, model_dir)


def test_other_text_is_refused(tiny_config, model_dir, tmp_path, corpus_folder):
    """With another order of batches the run would not be the one that was started."""
    folder, text = tmp_path / "model", tmp_path / "text"
    shutil.copytree(model_dir, folder)
    shutil.copytree(corpus_folder, text)
    lines = (text / "train.en").read_text().splitlines()
    (text / "train.en").write_text("".join(f"{line}\n" for line in reversed(lines)))
    with pytest.raises(UserError, match="the training text is not the one with which"):
        build_trainer(tiny_config.replace(data=str(text)), str(folder))


def test_metrics_cannot_be_written(tiny_config, tmp_path):
    (tmp_path / "tensorboard").write_text("a file instead of a folder")
    with pytest.raises(UserError, match="cannot write metrics.jsonl or tensorboard in"):
        build_trainer(tiny_config, str(tmp_path)).run()


class Scored(Trainer):
    """A trainer whose validations have given figures."""

    figures = iter(())

    def validate(self):
        return {"perplexity": 1.0, "accuracy": 0.0, **next(self.figures)}


def test_early_stopping_resumes(tiny_config, tmp_path, caplog):
    """Validations without a better score are counted across an interruption, after the warm-up."""
    Scored.figures = iter([{"loss": x} for x in (3.0, 2.0, 2.5, 2.9, 2.8, 1.0, 1.0)])
    config = tiny_config.replace(
        train_steps=100, eval_steps=2, save_steps=2, early_stopping_patience=2, warmup_steps=4
    )
    # The last score of the first part, 2.5, is that of the average.
    assert make_trainer(config.replace(train_steps=4), tmp_path, Scored).run()
    trainer = make_trainer(config, tmp_path, Scored)
    assert trainer.progress.best == ["loss", -2.0]
    with caplog.at_level("INFO", "tf_transformer"):
        assert trainer.run() and trainer.step == 8
    assert "stopped early at update 8: loss was best at update 4" in caplog.text
    progress = last_state(tmp_path)["progress"]
    assert progress["best_of"] == {"loss": [2.0, 4, 2]}
    assert progress["best"] == ["loss", -2.0]
    again = make_trainer(config, tmp_path, Scored)
    assert again.run() and again.step == 8  # the run has ended
    assert "stopped early at update 8: loss was best at update 4" in describe_history(str(tmp_path))
    assert read_run(str(tmp_path)).state == "stopped early"
    Scored.figures = iter([{"loss": x} for x in (3.0, 2.0, 2.9, 2.8, 1.0)])
    assert make_trainer(config.replace(train_steps=8), tmp_path / "last", Scored).run()
    assert "stopped_early" not in read_metrics(str(tmp_path / "last"))[-1]  # at its last update


@pytest.mark.parametrize(("falls", "last_step", "found"), [
    (True, 14, ""),  # the loss falls until the end
    (False, 10, "loss was best at update 2, BLEU was best at update 2, chrF was best at update 2"),
])  # fmt: skip
def test_metrics_of_early_stopping(falls, last_step, found):
    """A validation every two updates, up to the one that ends the run; other texts do not count.

    It does not end before two validations after the warm-up.
    """
    progress = Progress()
    for number in range(1, 8):
        values = {"loss": 3 - number / 10 if falls else 3.0, "BLEU": 9 - number, "chrF": 1.0}
        values |= {"news/loss": 9.0 - number, "news/BLEU": number}
        progress.record_validation(2 * number, values, warmup_steps=6)
        if progress.stalled(patience=2):
            break
    assert (progress.validated[0], progress.stalled(patience=2)) == (last_step, found)
    assert progress.stalled(patience=0) == ""


def test_further_validation_texts(tiny_config, tmp_path, corpus_folder):
    """The run's own text, given again, has the same figures."""
    own = [str(next(corpus_folder.glob(f"val*.{side}"))) for side in ("en", "de")]
    text = f"own={corpus_folder};files={','.join(own)}"
    found = make_trainer(tiny_config.replace(validation=text), tmp_path).validate()
    for name in ("own", "files"):
        assert found[f"{name}/BLEU"] == found["BLEU"] and found[f"{name}/chrF"] == found["chrF"]
        np.testing.assert_allclose(found[f"{name}/loss"], found["loss"], rtol=1e-3)


# 2 replicas with 2 gradient accumulation steps each, dropout and shuffled buckets.
FLAGS = {
    "micro_batch_tokens": 256, "logical_devices": 2, "train_steps": 60, "save_steps": 2,
    "max_checkpoints": 3, "eval_steps": 15,
}  # fmt: skip


def start(folder, corpus_folder):
    return start_process(train_command(folder, corpus_folder, FLAGS))


def finish(folder, corpus_folder):
    """Trains to the end. Returns: the output and the log."""
    process = start(folder, corpus_folder)
    out, _ = process.communicate()
    assert process.returncode == 0, out
    return out


@pytest.mark.slow
def test_killed_at_random_moments(corpus_folder, tmp_path):
    """`kill -9`, four times in one run, also in the middle of a checkpoint."""
    folder, whole, chance = tmp_path / "model", tmp_path / "whole", random.Random(1)
    finish(whole, corpus_folder)
    for kill in range(4):
        process = start(folder, corpus_folder)
        if kill == 0:
            time.sleep(chance.uniform(2, 12))  # while it starts, reads, traces
        else:
            paths = step_checkpoints(str(folder))
            last = checkpoint_step(paths[-1]) if paths else 0
            read_until(process, last + chance.randint(1, 9))
            end = time.monotonic() + (chance.uniform(0, 0.3) if kill % 2 else 5)
            while time.monotonic() < end and process.poll() is None:
                if kill % 2 == 0 and any(folder.glob("checkpoints/.*.part")):
                    break
        process.kill()
        process.communicate()
    log = finish(folder, corpus_folder)
    assert_equal_runs(folder, whole)
    assert FLAGS["train_steps"] > 2 * int(re.search("train: .* ([0-9]+) batches", log)[1])
    assert not any(folder.glob("checkpoints/.*.part"))


@pytest.mark.slow
def test_second_ctrl_c_stops_at_once(corpus_folder, tmp_path):
    """Here before the first update, whose graph takes long: the first Ctrl-C does not stop it."""
    command = train_command(tmp_path, corpus_folder, FLAGS)
    process = start_process(stopped(command, Update.__call__, 0, signal.SIGINT, signal.SIGINT))
    out, _ = process.communicate()
    assert "SIGINT: saving after this update" in out
    assert process.returncode == -signal.SIGINT, out
