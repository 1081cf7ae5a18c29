"""Invariant 6 across workers: two processes with one replica each equal one process with two."""

import json
import os
import signal
import socket
import subprocess

import numpy as np
import pytest
from training_runs import losses, read_until, start_process, train_command

from tf_transformer.checkpoints.model_folder import all_checkpoints, step_checkpoints

pytestmark = pytest.mark.slow

STEPS = 100  # enough that some are left when a test has read one
FLAGS = {"train_steps": STEPS, "save_steps": 10, "max_checkpoints": 2, "eval_steps": 50}


def command(folder, corpus_folder, **changes):
    return train_command(folder, corpus_folder, {**FLAGS, **changes})


def environments():
    """Those of two workers, the chief first."""
    address = ("127.0.0.1", 0)
    with socket.create_server(address) as one, socket.create_server(address) as other:
        cluster = {"worker": [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other)]}
    configs = ({"cluster": cluster, "task": {"type": "worker", "index": n}} for n in (0, 1))
    return [{**os.environ, "TF_CONFIG": json.dumps(config)} for config in configs]


def start_two(folder, corpus_folder, temporary, **changes):
    """Starts two workers, the chief first.

    Args:
      folder: the chief's model folder.
      corpus_folder: of the text.
      temporary: where the second worker makes its temporary folder.
      **changes: flags, with a value for each worker.
    """
    workers = []
    for index, environment in enumerate(environments()):
        environment["TMPDIR"] = str(temporary)
        flags = {name: values[index] for name, values in changes.items()}
        workers.append(start_process(command(folder, corpus_folder, **flags), env=environment))
    return workers


def assert_close(path, expected_path):
    """Compares weights, without key biases: their gradient is zero except for rounding."""
    with np.load(path) as found, np.load(expected_path) as expected:
        for name in expected.files:
            if name.startswith("model/") and "wk/bias" not in name:
                np.testing.assert_allclose(
                    found[name], expected[name], atol=1e-4, err_msg=f"{path} {name}"
                )


def test_two_workers_equal_one_with_two_replicas(corpus_folder, tmp_path):
    """A worker that dies stops the other; restarted, the run resumes from its last checkpoint.

    SIGTERM to either worker stops both at the same update, here in or after its validation.
    """
    one, two, temporary = tmp_path / "one", tmp_path / "two", tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        command(one, corpus_folder, logical_devices=2), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr

    chief, other = start_two(two, corpus_folder, temporary)
    assert read_until(chief, 12)
    other.kill()
    out, _ = chief.communicate(timeout=120)
    assert chief.returncode == 2, out
    assert "another worker has stopped" in out and "Traceback" not in out, out
    assert step_checkpoints(str(two))
    other.communicate()

    chief, other = start_two(two, corpus_folder, temporary)
    assert "resuming from" in read_until(chief, 50)
    other.send_signal(signal.SIGTERM)
    out, _ = chief.communicate(timeout=120)
    assert chief.returncode == 0 and "stopped and saved after" in out, out
    out, _ = other.communicate(timeout=120)
    assert other.returncode == 0 and not all_checkpoints(str(temporary)), out
    assert "encodes the" not in out, out  # it opens the chief's shards

    for process in start_two(two, corpus_folder, temporary):
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0, out
    for found, expected in zip(losses(two), losses(one), strict=True):
        assert found[:2] == expected[:2]
        np.testing.assert_allclose(found[2], expected[2], rtol=1e-5)
        assert found[3] == pytest.approx(expected[3], abs=1)  # or None; a token can be a tie
    for path in all_checkpoints(str(one)):
        assert_close(two / os.path.relpath(path, one), path)


@pytest.mark.parametrize(("flag", "values", "message"), [
    ("warmup_steps", (100, 200), "worker 1 has other settings than the chief: warmup_steps 100"),
    ("data", ("train", "test"), "worker 1 has another train text than the chief, train of files "),
])  # fmt: skip
def test_workers_that_do_not_agree(corpus_folder, tmp_path, flag, values, message):
    if flag == "data":
        values = [f"{corpus_folder}/{name}.en,{corpus_folder}/{name}.de" for name in values]
    workers = start_two(tmp_path / "model", corpus_folder, tmp_path, **{flag: values})
    outputs = [process.communicate(timeout=120)[0] for process in workers]
    assert [process.returncode for process in workers] == [2, 2], outputs
    assert not any("Traceback" in output for output in outputs), outputs
    if flag == "data":
        message += values[1]
    assert message in outputs[1] and "another worker has stopped" in outputs[0], outputs
    own_text = "worker 1 encodes the train text itself: it does not share the text and"
    assert (own_text in outputs[1]) == (flag == "data"), outputs


@pytest.mark.parametrize("index", [0, 1])
def test_waiting_for_the_other_worker(corpus_folder, tmp_path, index):
    """SIGTERM and a limit end it."""
    environment = environments()[index]
    waiting = start_process(command(tmp_path / "model", corpus_folder), env=environment)
    while "waiting for" not in waiting.stdout.readline():
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGTERM)
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 128 + signal.SIGTERM and "terminated" in out, out
    limited = command(tmp_path / "model", corpus_folder, worker_minutes=0.001)
    done = subprocess.run(limited, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and f"worker {1 - index} (127.0.0.1:" in done.stderr, done.stderr
