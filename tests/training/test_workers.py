"""Law 6 across machines: two processes, each with one replica, equal one process with two. By the command line, on the loopback."""

import json
import os
import signal
import socket
import subprocess

import numpy as np
import pytest
from training_process import read_until, train_command

from tf_transformer.checkpoints import paths as model_folder

STEPS = 100  # enough of them are left when a test has seen one go by
FLAGS = {"train_steps": STEPS, "save_steps": 10, "max_checkpoints": 2, "eval_steps": 50}


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def command(folder, corpus_folder, **changes):
    return train_command(folder, corpus_folder, {**FLAGS, **changes})


def start_two(folder, corpus_folder, temporary, **changes):
    """Two workers, the chief first; the second one's own folder for temporary files is `temporary`."""
    ports, workers = free_ports(2), []
    for index in (0, 1):
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        environment = {**os.environ, "TF_CONFIG": config, "TMPDIR": str(temporary)}
        own = {name: values[index] for name, values in changes.items()}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        workers.append(
            subprocess.Popen(command(folder, corpus_folder, **own), env=environment, **pipes)
        )
    return workers


def figures(folder):
    lines = model_folder.read_metrics(str(folder))
    return [(line["step"], line["kind"]) for line in lines], [
        (line["loss"], line["accuracy"]) for line in lines
    ]


def test_two_machines_equal_one_with_two_replicas(corpus_folder, tmp_path):
    """A machine that dies stops the other with a clear message; when both are started again, the run goes on from its last checkpoint.

    Ctrl-C on either stops both at the same update.
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
    _, errors = chief.communicate(timeout=120)
    assert (
        chief.returncode == 2
        and "another machine has stopped" in errors
        and "Traceback" not in errors
    ), errors
    assert model_folder.step_checkpoints(str(two))
    other.communicate()

    chief, other = start_two(two, corpus_folder, temporary)
    assert "going on from" in read_until(chief, 30)
    other.send_signal(signal.SIGTERM)
    out, errors = chief.communicate(timeout=120)
    assert chief.returncode == 0 and "stopped and saved after" in out, errors
    out, errors = other.communicate(timeout=120)
    assert other.returncode == 0 and not model_folder.all_checkpoints(str(temporary)), errors

    chief, other = start_two(two, corpus_folder, temporary)
    for process in (chief, other):
        out, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    expected, found = figures(one), figures(two)
    assert expected[0] == found[0]
    np.testing.assert_allclose(expected[1], found[1], rtol=1e-5)
    for path in model_folder.all_checkpoints(str(one)):
        with np.load(path) as a, np.load(two / os.path.relpath(path, one)) as b:
            for name in set(a.files) - {"state"}:
                if (
                    name.startswith("model/") and "wk/bias" not in name
                ):  # whose gradient is zero but for rounding, which Adam enlarges
                    np.testing.assert_allclose(
                        b[name], a[name], atol=1e-4, err_msg=f"{path} {name}"
                    )


@pytest.mark.parametrize(("flag", "values", "message"), [
    ("warmup_steps", (100, 200), "worker 1 has other settings than the chief: warmup_steps 100 (now 200)"),
    ("data", ("train", "test"), "worker 1 has another train text"),
])  # fmt: skip
def test_machines_that_do_not_agree(corpus_folder, tmp_path, flag, values, message):
    if flag == "data":
        values = [f"{corpus_folder}/{name}.en,{corpus_folder}/{name}.de" for name in values]
    workers = start_two(tmp_path / "model", corpus_folder, tmp_path, **{flag: values})
    errors = [process.communicate(timeout=120)[1] for process in workers]
    assert [process.returncode for process in workers] == [2, 2] and not any(
        "Traceback" in error for error in errors
    ), errors
    assert message in errors[1] and "another machine has stopped" in errors[0], errors


@pytest.mark.parametrize(("index", "changes", "message"), [
    (1, {}, "give the machines and which one this is"), (0, {"logical_devices": 2}, "--logical_devices is for one machine"),
])  # fmt: skip
def test_a_wrong_tf_config_is_refused(corpus_folder, tmp_path, index, changes, message):
    cluster = {"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": index}}
    environment = {**os.environ, "TF_CONFIG": json.dumps(cluster)}
    done = subprocess.run(
        command(tmp_path, corpus_folder, **changes), env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, (
        done.stderr
    )
