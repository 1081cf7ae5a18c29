"""Invariant 7: a run that is stopped at any moment and restarted equals an uninterrupted run.

The runs are equal to the last bit. Effects on a process are tested on processes, by the command
line.
"""

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from training_process import read_until, start_process, train_command

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.model_folder import (
    all_checkpoints,
    checkpoint_step,
    read_metrics,
    step_checkpoints,
    step_path,
)
from tf_transformer.errors import UserError
from tf_transformer.training.trainer import Trainer, build_trainer

STEPS = 60
# 2 replicas with 2 gradient accumulation steps each, dropout, shuffled buckets.
FLAGS = {
    "micro_batch_tokens": 256, "logical_devices": 2, "train_steps": STEPS, "save_steps": 2,
    "max_checkpoints": 3, "eval_steps": 15,
}  # fmt: skip


def command(folder, corpus_folder, **changes):
    return train_command(folder, corpus_folder, {**FLAGS, **changes})


def start(folder, corpus_folder, **changes):
    return start_process(command(folder, corpus_folder, **changes))


def finish(folder, corpus_folder, **changes):
    """Trains to the end. Returns: the output and the log."""
    process = start(folder, corpus_folder, **changes)
    out, _ = process.communicate()
    assert process.returncode == 0, out
    return out


def arrays(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def assert_same_arrays(path, expected_path):
    found, expected = arrays(path), arrays(expected_path)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=f"{path} {name}")


def losses(folder):
    return [
        (line["step"], line["kind"], line["loss"], line.get("BLEU"))
        for line in read_metrics(str(folder))
    ]


def relative_checkpoints(folder):
    return [os.path.relpath(path, folder) for path in all_checkpoints(str(folder))]


def assert_equal_runs(folder, expected):
    """To the last bit: weights, Adam's moments, training state, all losses and scores."""
    assert losses(folder) == losses(expected)
    paths = relative_checkpoints(expected)
    assert relative_checkpoints(folder) == paths and len(paths) == 5
    for path in paths:
        assert_same_arrays(os.path.join(folder, path), os.path.join(expected, path))


def has_unfinished_checkpoint(folder):
    checkpoints = folder / "checkpoints"
    names = os.listdir(checkpoints) if checkpoints.exists() else []
    return any(name.endswith(".part") for name in names)


def wait_for_unfinished_checkpoint(folder, process):
    deadline = time.monotonic() + 5
    while not has_unfinished_checkpoint(folder):
        if time.monotonic() > deadline or process.poll() is not None:
            return


def kill_repeatedly(folder, corpus_folder, seed, kills):
    """Kills a run at random moments, some in the middle of a checkpoint, then lets it finish.

    Returns: how many times an unfinished checkpoint was left.
    """
    chance = random.Random(seed)
    unfinished = 0
    for kill in range(kills):
        process = start(folder, corpus_folder)
        if kill == 0:
            time.sleep(chance.uniform(2, 12))  # while it starts, reads, traces
        else:
            paths = step_checkpoints(str(folder))
            last = checkpoint_step(paths[-1]) if paths else 0
            read_until(process, last + chance.randint(1, 9))
            if kill % 2:
                time.sleep(chance.uniform(0, 0.3))
            else:
                wait_for_unfinished_checkpoint(folder, process)
        process.kill()
        process.communicate()
        unfinished += has_unfinished_checkpoint(folder)
    finish(folder, corpus_folder)
    return unfinished


@pytest.fixture(scope="module")
def whole_run(corpus_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "model"
    finish(folder, corpus_folder)
    return folder


def test_killed_at_random_moments(whole_run, corpus_folder, tmp_path):
    """`kill -9`, four times in one run."""
    folder = tmp_path / "model"
    count = kill_repeatedly(folder, corpus_folder, seed=1, kills=4)
    print(f"an unfinished checkpoint was left {count} times")
    assert_equal_runs(folder, whole_run)
    assert not has_unfinished_checkpoint(folder)


def test_first_signal_saves_and_stops(whole_run, corpus_folder, tmp_path):
    """Ctrl-C and SIGTERM save at any update, and the output says how to resume."""
    folder = tmp_path / "model"
    for number, step in ((signal.SIGINT, 20), (signal.SIGTERM, 40)):
        process = start(folder, corpus_folder)
        assert read_until(process, step)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0 and "Traceback" not in out, out
        assert "stopped and saved after" in out and f"--model_dir={folder}" in out, out
        assert number.name in out, out
    assert "resuming from" in finish(folder, corpus_folder)
    assert_equal_runs(folder, whole_run)


def test_second_ctrl_c_stops_at_once(corpus_folder, tmp_path):
    process = start(tmp_path, corpus_folder, train_steps=100_000, num_layers=6)
    for line in process.stdout:
        if "replicas" in line:
            break
    time.sleep(3)  # in the middle of tracing six layers, which the first Ctrl-C does not stop
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    process.communicate(timeout=5)
    assert process.returncode == -signal.SIGINT


def test_two_runs_in_one_folder(corpus_folder, tmp_path):
    """The second is refused; the first is not disturbed."""
    first = start(tmp_path, corpus_folder, train_steps=100_000)
    assert read_until(first, 1)
    second = subprocess.run(
        command(tmp_path, corpus_folder, train_steps=100_000), capture_output=True, text=True
    )
    assert second.returncode == 2, second.stderr
    assert f"another process trains in {tmp_path}" in second.stderr, second.stderr
    assert "Traceback" not in second.stderr, second.stderr
    assert read_until(first, 10)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_disk_full(corpus_folder, tmp_path):
    """The error names the file, and nothing is lost. A limit on file sizes acts as a full disk."""

    def times():
        return {path: os.stat(path).st_mtime_ns for path in all_checkpoints(str(tmp_path))}

    finish(tmp_path, corpus_folder, train_steps=4)
    before = times()
    # 390 blocks of 512 bytes.
    limited = ["sh", "-c", 'ulimit -f 390 && exec "$@"', "sh", *command(tmp_path, corpus_folder)]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "step-00000006.npz" in done.stderr and "File too large" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert times() == before
    assert not has_unfinished_checkpoint(tmp_path)


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "cut short":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["cut short", "a bit flipped"])
def test_newest_checkpoint_is_damaged(tiny_config, model_dir, tmp_path, caplog, how):
    """The log names it, the one before is used, and the run ends equally."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    newest = folder / "checkpoints" / "step-00000012.npz"
    damage(newest, how)
    with caplog.at_level(logging.INFO, "tf_transformer"):
        trainer = build_trainer(tiny_config, str(folder))
    assert f"{newest} is damaged" in caplog.text and "resuming from" in caplog.text
    assert trainer.step == 8
    assert trainer.run()
    assert_same_arrays(newest, model_dir / "checkpoints" / newest.name)
    assert (folder / "checkpoints" / f"{newest.name}.damaged").exists()


def test_all_checkpoints_are_damaged(tiny_config, model_dir, tmp_path):
    """Then nothing is overwritten: something may still be rescued."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    for path in (folder / "checkpoints").iterdir():
        damage(path, "cut short")
    with pytest.raises(UserError, match="all 2 checkpoints in .* are damaged"):
        build_trainer(tiny_config, str(folder))
    assert len(step_checkpoints(str(folder))) == 2


def test_unfinished_files_are_removed(tiny_config, model_dir, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    (folder / "checkpoints" / ".tmp-step-00000016.npz-a1b2.part").write_bytes(b"PK")
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 16, "kind": "train", "loss": 9.0}) + '\n{"step": 17, "kin')
    assert build_trainer(tiny_config.replace(train_steps=13), str(folder)).run()
    assert not has_unfinished_checkpoint(folder)
    assert [line["step"] for line in read_metrics(str(folder))][-3:] == [13, 13, 13]


def test_a_copied_folder_is_a_run_of_its_own(tiny_config, model_dir, tmp_path):
    """Two copies that are open at the same time give equal runs. Neither changes the other."""
    one, two = tmp_path / "one", tmp_path / "two"
    shutil.copytree(model_dir, one)
    shutil.copytree(one, two)
    config = tiny_config.replace(train_steps=15)
    trainers = [build_trainer(config, str(folder)) for folder in (one, two)]
    assert trainers[0].run()
    shutil.copyfile(one / "averaged.npz", tmp_path / "before.npz")
    assert trainers[1].run()
    assert_same_arrays(one / "averaged.npz", tmp_path / "before.npz")
    assert_same_arrays(two / "averaged.npz", one / "averaged.npz")
    assert losses(one) == losses(two)
    assert relative_checkpoints(one) == relative_checkpoints(two)
    shutil.rmtree(one)
    assert build_trainer(config.replace(train_steps=17), str(two)).run(), "it needs nothing of one"


def test_other_text_is_refused(tiny_config, model_dir, tmp_path, corpus_folder):
    """With another order of batches the run would not be the one that was started."""
    folder, text = tmp_path / "model", tmp_path / "text"
    shutil.copytree(model_dir, folder)
    shutil.copytree(corpus_folder, text)
    lines = (text / "train.en").read_text().splitlines()
    (text / "train.en").write_text("".join(f"{line}\n" for line in reversed(lines)))
    config = (folder / "config.json").read_text().replace(str(corpus_folder), str(text))
    (folder / "config.json").write_text(config)
    with pytest.raises(UserError, match="the training text is not the one with which"):
        build_trainer(tiny_config.replace(data=str(text)), str(folder))


def stop_at(monkeypatch, step, how):
    """Makes a run be interrupted, or killed, after an update."""
    read_results = Trainer._read_results

    def stopping(self, remaining):
        if self.step == step and how == "killed":
            raise KeyboardInterrupt
        self.preemption.requested |= self.step == step
        return read_results(self, remaining)

    monkeypatch.setattr(Trainer, "_read_results", stopping)


def validations(folder):
    return [line for line in losses(folder) if line[1] != "train"]


@pytest.mark.parametrize("step", [6, 12])
def test_interrupted_before_a_validation(tiny_config, model_dir, tmp_path, monkeypatch, step):
    """The restarted run makes the validation, and again where it is then killed."""
    with monkeypatch.context() as patch:
        stop_at(patch, step, "interrupted")
        assert build_trainer(tiny_config, str(tmp_path)).run() is False
    state = checkpoint.read_state(step_checkpoints(str(tmp_path))[-1])
    assert state["progress"]["validated"][0] == step - 6
    with monkeypatch.context() as patch:
        stop_at(patch, 8, "killed")
        if step == 6:
            with pytest.raises(KeyboardInterrupt):
                build_trainer(tiny_config, str(tmp_path)).run()
    assert build_trainer(tiny_config, str(tmp_path)).run()
    assert validations(tmp_path) == validations(model_dir)
    for name in ("averaged.npz", "best.npz"):
        assert_same_arrays(tmp_path / name, model_dir / name)


def test_interrupted_in_the_translation_of_the_validation_text(
    tiny_config, model_dir, tmp_path, monkeypatch
):
    def interrupted(self, translated=0):
        self.preemption.requested |= translated > 0
        return check(self, translated)

    check = Trainer._check_interrupted
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_check_interrupted", interrupted)
        assert build_trainer(tiny_config, str(tmp_path)).run() is False
    state = checkpoint.read_state(step_checkpoints(str(tmp_path))[-1])
    assert (state["step"], state["progress"]["validated"][0]) == (6, 0)
    assert build_trainer(tiny_config, str(tmp_path)).run()
    assert losses(tmp_path) == losses(model_dir)


def test_a_damaged_checkpoint_is_left_out_of_the_average(tiny_config, model_dir, tmp_path, caplog):
    """It does not end the run, whose later checkpoints are complete."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    first, last = step_checkpoints(str(folder))
    first = shutil.move(first, step_path(str(folder), 11))  # in the last eighth of the updates
    with open(first, "r+b") as file:
        file.truncate(os.path.getsize(first) // 2)
    assert build_trainer(tiny_config.replace(save_steps=1), str(folder)).run()
    assert f"{first} is damaged" in caplog.text
    assert os.path.exists(f"{first}.damaged") and step_checkpoints(str(folder)) == [last]


@pytest.mark.parametrize("step", [6, 12])
def test_interrupted_twice_in_a_validation(tiny_config, model_dir, tmp_path, monkeypatch, step):
    """The first time after the update of the validation, then at the start of the resumed run."""
    validate = Trainer.validate

    def interrupted(self):
        self.preemption.requested |= self.step == step
        return validate(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "validate", interrupted)
        for _ in range(2):
            assert build_trainer(tiny_config, str(tmp_path)).run() is False
            state = checkpoint.read_state(step_checkpoints(str(tmp_path))[-1])
            assert (state["step"], state["progress"]["validated"][0]) == (step, step - 6)
    assert build_trainer(tiny_config, str(tmp_path)).run()
    assert losses(tmp_path) == losses(model_dir)
    for name in ("averaged.npz", "best.npz"):
        assert_same_arrays(tmp_path / name, model_dir / name)


def test_interrupted_with_updates_in_flight(tiny_config, model_dir, tmp_path, monkeypatch):
    """The signal comes when the results of two updates have not been read."""
    read_results = Trainer._read_results

    def then_interrupted(self, remaining):
        stop = read_results(self, remaining)
        self.preemption.requested |= self.step == 3
        return stop

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_read_results", then_interrupted)
        assert build_trainer(tiny_config, str(tmp_path)).run() is False
    assert build_trainer(tiny_config, str(tmp_path)).run()
    assert losses(tmp_path) == losses(model_dir)


def test_killed_before_old_checkpoints_are_removed(tiny_config, model_dir, tmp_path):
    """The average is without that of an interruption; a finished command changes nothing."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    checkpoints = folder / "checkpoints"
    for step in (4, 11):
        shutil.copy(checkpoints / "step-00000008.npz", step_path(str(folder), step))
    assert build_trainer(tiny_config, str(folder)).run()
    assert set(os.listdir(checkpoints)) == set(os.listdir(model_dir / "checkpoints"))
    assert_same_arrays(folder / "averaged.npz", model_dir / "averaged.npz")
    assert losses(folder) == losses(model_dir)


def test_metrics_cannot_be_written(tiny_config, tmp_path):
    (tmp_path / "tensorboard").write_text("a file instead of a folder")
    with pytest.raises(UserError, match="cannot write metrics.jsonl or tensorboard in"):
        build_trainer(tiny_config, str(tmp_path)).run()


def test_early_stopping_resumes(tiny_config, tmp_path, monkeypatch):
    """Validations without a better score are counted across an interruption."""
    scores = iter([3.0, 2.0, 2.5, 2.9, 2.8, 1.0, 1.0])

    def validate(self):
        return {"loss": next(scores), "perplexity": 1.0, "accuracy": 0.0}

    monkeypatch.setattr(Trainer, "validate", validate)
    config = tiny_config.replace(
        train_steps=100, eval_steps=2, save_steps=2, early_stopping_patience=2
    )
    # The last score of the first part, 2.5, is that of the average.
    assert build_trainer(config.replace(train_steps=4), str(tmp_path)).run()
    trainer = build_trainer(config, str(tmp_path))
    assert trainer.progress.best == ["loss", -2.0]
    assert trainer.progress.validations_since_best == 0
    assert trainer.run() and trainer.step == 8
    progress = checkpoint.read_state(step_checkpoints(str(tmp_path))[-1])["progress"]
    assert progress["validations_since_best"] == 2
    assert progress["best"] == ["loss", -2.0]
    again = build_trainer(config, str(tmp_path))
    assert again.run() and again.step == 8  # the run has ended
