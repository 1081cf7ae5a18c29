"""Invariant 6 across workers: two processes with one replica each equal one process with two."""

import json
import os
import signal
import subprocess

import numpy as np
import pytest
from serving.fake_models import SECONDS
from training_runs import losses, start_process, stopped, train_command

from tf_transformer.checkpoints.model_folder import all_checkpoints, step_checkpoints
from tf_transformer.training.trainer import Trainer
from tf_transformer.training.update import Update

pytestmark = pytest.mark.slow

FLAGS = {"train_steps": 100, "save_steps": 10, "max_checkpoints": 2, "eval_steps": 50}


def command(folder, corpus_folder, **changes):
    return train_command(folder, corpus_folder, {**FLAGS, **changes})


@pytest.fixture
def environments(free_port):
    """Those of two workers, the chief first."""
    cluster = {"worker": [f"127.0.0.1:{free_port()}" for _ in range(2)]}
    configs = ({"cluster": cluster, "task": {"type": "worker", "index": n}} for n in (0, 1))
    return [{**os.environ, "TF_CONFIG": json.dumps(config)} for config in configs]


@pytest.fixture
def run_two(environments, corpus_folder):
    """A function that runs two workers to their ends, the chief first.

    Its arguments are the chief's model folder, the folder in which the second worker makes its
    temporary folder, the method, number and signals of `stopped` for the second worker, and flags
    with a value for each worker. It returns their exit codes and outputs.
    """

    def run(folder, temporary, *stop, **changes):
        workers = []
        for index, environment in enumerate(environments):
            flags = {name: values[index] for name, values in changes.items()}
            arguments = command(folder, corpus_folder, **flags)
            if stop and index:
                arguments = stopped(arguments, *stop)
            workers.append(start_process(arguments, env={**environment, "TMPDIR": str(temporary)}))
        outputs = [process.communicate(timeout=SECONDS)[0] for process in workers]
        return [process.returncode for process in workers], outputs

    return run


def assert_close(path, expected_path):
    """Compares weights, without key biases: their gradient is zero except for rounding."""
    with np.load(path) as found, np.load(expected_path) as expected:
        for name in expected.files:
            if name.startswith("model/") and "wk/bias" not in name:
                np.testing.assert_allclose(
                    found[name], expected[name], atol=1e-4, err_msg=f"{path} {name}"
                )


def test_two_workers_equal_one_with_two_replicas(run_two, corpus_folder, tmp_path):
    """A worker that dies stops the other; restarted, the run resumes from its last checkpoint.

    SIGTERM to either worker stops both at the same update, here in its validation.
    """
    one, two, temporary = tmp_path / "one", tmp_path / "two", tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        command(one, corpus_folder, logical_devices=2), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr

    codes, (out, _) = run_two(two, temporary, Update.__call__, 12, signal.SIGKILL)
    assert codes == [2, -signal.SIGKILL], out
    assert "another worker has stopped" in out and "Traceback" not in out, out
    assert step_checkpoints(str(two))

    codes, (out, of_other) = run_two(two, temporary, Trainer.validate, 0, signal.SIGTERM)
    assert codes == [0, 0], (out, of_other)
    assert "resuming from" in out and "stopped and saved after 50 updates" in out, out
    assert not all_checkpoints(str(temporary))
    assert "encodes the" not in of_other, of_other  # it opens the chief's shards

    codes, outputs = run_two(two, temporary)
    assert codes == [0, 0], outputs
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
def test_workers_that_do_not_agree(run_two, corpus_folder, tmp_path, flag, values, message):
    if flag == "data":
        values = [f"{corpus_folder}/{name}.en,{corpus_folder}/{name}.de" for name in values]
    codes, outputs = run_two(tmp_path / "model", tmp_path, **{flag: values})
    assert codes == [2, 2], outputs
    assert not any("Traceback" in output for output in outputs), outputs
    if flag == "data":
        message += values[1]
    assert message in outputs[1] and "another worker has stopped" in outputs[0], outputs
    own_text = "worker 1 encodes the train text itself: it does not share the text and"
    assert (own_text in outputs[1]) == (flag == "data"), outputs


@pytest.mark.parametrize("index", [0, 1])
def test_waiting_for_the_other_worker(environments, corpus_folder, tmp_path, index):
    """SIGTERM and a limit end it."""
    environment = environments[index]
    waiting = start_process(command(tmp_path / "model", corpus_folder), env=environment)
    while "waiting for" not in waiting.stdout.readline():
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGTERM)
    out, _ = waiting.communicate(timeout=SECONDS)
    assert waiting.returncode == 128 + signal.SIGTERM and "terminated" in out, out
    limited = command(tmp_path / "model", corpus_folder, worker_minutes=0.001)
    done = subprocess.run(limited, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and f"worker {1 - index} (127.0.0.1:" in done.stderr, done.stderr
