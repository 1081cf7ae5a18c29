"""Law 7: a run that is stopped at any moment, in any way, and started again equals one that never was, to the last bit.

What happens to a process is tested on processes, by the command line.
"""

import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time

import numpy as np
import pytest
from training_process import read_until, train_command

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints import paths as model_folder
from tf_transformer.errors import UserError
from tf_transformer.training.build import build_trainer
from tf_transformer.training.trainer import Trainer

STEPS = 60
# 2 replicas with 2 micro-steps each, dropout, shuffled buckets; a checkpoint every 2 updates and a validation every 15.
FLAGS = {
    "micro_batch_tokens": 256, "logical_devices": 2, "train_steps": STEPS, "save_steps": 2, "max_checkpoints": 3, "eval_steps": 15,
}  # fmt: skip


def command(folder, corpus_folder, **changes):
    return train_command(folder, corpus_folder, {**FLAGS, **changes})


def start(folder, corpus_folder, **changes):
    # A shell starts background jobs with Ctrl-C ignored, and what they start would ignore it too.
    options = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command(folder, corpus_folder, **changes), **pipes, **options)


def finish(folder, corpus_folder, **changes):
    done = subprocess.run(command(folder, corpus_folder, **changes), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def arrays(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def losses(folder):
    return [
        (line["step"], line["kind"], line["loss"], line.get("BLEU"))
        for line in model_folder.read_metrics(str(folder))
    ]


def assert_equal_runs(one, other):
    """To the last bit: all weights, Adam's state, the training state; all losses and scores on the way."""
    assert losses(one) == losses(other)
    paths = [os.path.relpath(path, one) for path in model_folder.all_checkpoints(str(one))]
    assert (
        paths == [os.path.relpath(path, other) for path in model_folder.all_checkpoints(str(other))]
        and len(paths) == 5
    )
    for path in paths:
        expected, found = arrays(os.path.join(one, path)), arrays(os.path.join(other, path))
        assert expected.keys() == found.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{path} {name}")


def half_a_checkpoint(folder):
    names = os.listdir(folder / "checkpoints") if (folder / "checkpoints").exists() else []
    return any(name.endswith(".tmp") for name in names)


def killed_again_and_again(folder, corpus_folder, seed, kills):
    """Kills a training at so many random moments, some of them in the middle of writing a checkpoint, and then lets it end.

    Returns: how many times half a checkpoint was left.
    """
    chance, halves = random.Random(seed), 0
    for kill in range(kills):
        process = start(folder, corpus_folder)
        if kill == 0:
            time.sleep(chance.uniform(2, 12))  # while it starts, reads, traces
        else:
            paths = model_folder.step_checkpoints(str(folder))
            read_until(
                process,
                (model_folder.checkpoint_step(paths[-1]) if paths else 0) + chance.randint(1, 9),
            )
            if kill % 2:
                time.sleep(chance.uniform(0, 0.3))
            else:
                deadline = time.monotonic() + 5
                while (
                    not half_a_checkpoint(folder)
                    and time.monotonic() < deadline
                    and process.poll() is None
                ):
                    pass
        process.kill()
        process.communicate()
        halves += half_a_checkpoint(folder)
    finish(folder, corpus_folder)
    return halves


@pytest.fixture(scope="module")
def whole_run(corpus_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "model"
    finish(folder, corpus_folder)
    return folder


def test_killed_at_random_moments(whole_run, corpus_folder, tmp_path):
    """`kill -9`, ten times, in two runs of five."""
    folders = [tmp_path / "a", tmp_path / "b"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        halves = list(
            pool.map(lambda i: killed_again_and_again(folders[i], corpus_folder, i, 5), (0, 1))
        )
    print(f"half a checkpoint was left {sum(halves)} times")
    for folder in folders:
        assert_equal_runs(whole_run, folder)
        assert not half_a_checkpoint(folder) and not (folder / "training.lock").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(whole_run, corpus_folder, tmp_path, number):
    """Ctrl-C and SIGTERM save at once, at an update which is no multiple of anything, and say how to go on."""
    folder = tmp_path / "model"
    process = start(folder, corpus_folder)
    assert read_until(process, 20)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err, err
    assert (
        "stopped and saved after" in out and f"--model_dir={folder}" in out and number.name in err
    )
    assert "going on from" in finish(folder, corpus_folder)
    assert_equal_runs(whole_run, folder)


def test_a_second_ctrl_c_stops_at_once(corpus_folder, tmp_path):
    process = start(tmp_path, corpus_folder, train_steps=100_000, num_layers=6)
    for line in process.stdout:
        if "replicas" in line:
            break
    time.sleep(
        3
    )  # in the middle of building the graph of six layers, which no first Ctrl-C cuts short
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    process.communicate(timeout=5)
    assert process.returncode == -signal.SIGINT


def test_two_trainings_in_one_folder(corpus_folder, tmp_path):
    """The second is refused, and told who the first is; the first goes on unharmed."""
    first = start(tmp_path, corpus_folder, train_steps=100_000)
    assert read_until(first, 1)
    second = subprocess.run(
        command(tmp_path, corpus_folder, train_steps=100_000), capture_output=True, text=True
    )
    assert (
        second.returncode == 2
        and f"(process {first.pid} on {socket.gethostname()})" in second.stderr
    ), second.stderr
    assert read_until(first, 10)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    assert first.returncode == 0 and not (tmp_path / "training.lock").exists()


def test_no_room_for_a_checkpoint(corpus_folder, tmp_path):
    """The error tells the file, and all that was there before is there still. A limit on file sizes stands for a full disk."""
    import resource

    finish(tmp_path, corpus_folder, train_steps=4)
    before = {
        path: os.stat(path).st_mtime_ns for path in model_folder.all_checkpoints(str(tmp_path))
    }
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # noqa: E731
    done = subprocess.run(
        command(tmp_path, corpus_folder), capture_output=True, text=True, preexec_fn=limit
    )
    assert (
        done.returncode == 2
        and "step-00000006.npz could not be written" in done.stderr
        and "Traceback" not in done.stderr
    ), done.stderr
    assert {
        path: os.stat(path).st_mtime_ns for path in model_folder.all_checkpoints(str(tmp_path))
    } == before
    assert not half_a_checkpoint(tmp_path)


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "cut short":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["cut short", "a bit flipped"])
def test_the_newest_checkpoint_is_damaged(tiny_config, model_dir, tmp_path, capsys, how):
    """It is named, the one before is used, and the run comes to the same end."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    newest = folder / "checkpoints" / "step-00000012.npz"
    damage(newest, how)
    trainer = build_trainer(tiny_config, str(folder))
    out = capsys.readouterr().out
    assert f"{newest} is damaged" in out and "going on from" in out and trainer.step == 8
    assert trainer.run()
    for name, value in arrays(model_dir / "checkpoints" / newest.name).items():
        np.testing.assert_array_equal(arrays(newest)[name], value)
    assert (folder / "checkpoints" / f"{newest.name}.damaged").exists()


def test_all_checkpoints_are_damaged(tiny_config, model_dir, tmp_path):
    """Then nothing is begun anew over what may be rescued."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    for path in (folder / "checkpoints").iterdir():
        damage(path, "cut short")
    with pytest.raises(UserError, match="all 2 checkpoints in .* are damaged"):
        build_trainer(tiny_config, str(folder))
    assert len(model_folder.step_checkpoints(str(folder))) == 2


def test_half_a_checkpoint_and_half_a_line_are_cleared_away(tiny_config, model_dir, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    (folder / "checkpoints" / "step-00000016.npz.tmp").write_bytes(b"PK")
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 16, "kind": "train", "loss": 9.0}) + '\n{"step": 17, "kin')
    assert build_trainer(tiny_config.replace(train_steps=13), str(folder)).run()
    assert not half_a_checkpoint(folder)
    assert [line["step"] for line in model_folder.read_metrics(str(folder))][-3:] == [13, 13, 13]


def test_another_text_is_refused(tiny_config, model_dir, tmp_path, corpus_folder):
    """The order of the batches would be another, so the run would not be the one that was begun."""
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
    """Lets a training be interrupted, or killed, when it has made so many updates."""
    read_results = Trainer._read_results

    def stopping(self, in_flight, remaining):
        if self.step == step and how == "killed":
            raise KeyboardInterrupt
        self._preemption.requested |= self.step == step
        return read_results(self, in_flight, remaining)

    monkeypatch.setattr(Trainer, "_read_results", stopping)


@pytest.mark.parametrize("step", [6, 12])
def test_interrupted_at_a_validation(tiny_config, model_dir, tmp_path, monkeypatch, step):
    """It is made up for, once: at an update with one, and at the last update; also when the run is then killed."""
    with monkeypatch.context() as patch:
        stop_at(patch, step, "interrupted")
        assert build_trainer(tiny_config, str(tmp_path)).run() is False
    state = checkpoint.read_state(model_folder.step_checkpoints(str(tmp_path))[-1])
    assert state["progress"]["validated"][0] == step - 6
    with monkeypatch.context() as patch:
        stop_at(patch, 8, "killed")
        if step == 6:
            with pytest.raises(KeyboardInterrupt):
                build_trainer(tiny_config, str(tmp_path)).run()
    assert build_trainer(tiny_config, str(tmp_path)).run()
    assert [line for line in losses(tmp_path) if line[1] != "train"] == [
        line for line in losses(model_dir) if line[1] != "train"
    ]
    for name in ("averaged.npz", "best.npz"):
        expected, found = arrays(model_dir / name), arrays(tmp_path / name)
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value, err_msg=f"{name} {key}")


def test_killed_before_old_checkpoints_are_removed(tiny_config, model_dir, tmp_path):
    """The average is of as many checkpoints as ever, and running a finished command again changes nothing."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    shutil.copy(
        folder / "checkpoints" / "step-00000008.npz", folder / "checkpoints" / "step-00000004.npz"
    )
    assert build_trainer(tiny_config, str(folder)).run()
    for name, value in arrays(model_dir / "averaged.npz").items():
        np.testing.assert_array_equal(arrays(folder / "averaged.npz")[name], value)
    assert losses(folder) == losses(model_dir)


def test_no_room_for_the_figures(tiny_config, tmp_path, monkeypatch):
    (tmp_path / "tensorboard").write_text("a file where the folder should be")
    with pytest.raises(UserError, match="cannot write metrics.jsonl or tensorboard in"):
        build_trainer(tiny_config, str(tmp_path)).run()


def test_early_stopping_counts_on(tiny_config, tmp_path, monkeypatch):
    """Training stops after so many validations without a better score, those before an interruption included."""
    scores = iter([3.0, 2.0, 2.5, 2.9, 2.8, 1.0, 1.0])
    monkeypatch.setattr(
        Trainer, "validate", lambda self: {"loss": next(scores), "perplexity": 1.0, "accuracy": 0.0}
    )
    config = tiny_config.replace(
        train_steps=100, eval_steps=2, save_steps=2, early_stopping_patience=2
    )
    assert build_trainer(
        config.replace(train_steps=4), str(tmp_path)
    ).run()  # the last score is of the average
    trainer = build_trainer(config, str(tmp_path))
    progress = trainer.progress
    assert progress.best == ["loss", -2.0] and progress.validations_since_best == 0
    assert trainer.run() and trainer.step == 8
    state = checkpoint.read_state(model_folder.step_checkpoints(str(tmp_path))[-1])["progress"]
    assert state["validations_since_best"] == 2 and state["best"] == ["loss", -2.0]
    again = build_trainer(config, str(tmp_path))
    assert again.run() and again.step == 8  # out of patience it stays
