"""Fixtures: a tiny corpus, and a model trained on it for a few updates."""

import contextlib
import itertools
import os
import resource
import shutil
import signal
import socket
import stat

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Threads of CTranslate2 wait in a loop, and take the cores from the other processes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A background job of a script ignores SIGINT, and so would the processes that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest

from tf_transformer.config import Config
from tf_transformer.data.pocket import read_pairs


def pytest_configure(config):
    """Chooses the devices, before TensorFlow's first operation, and the settings of Hypothesis.

    The tests run on the CPU everywhere, except with `-m gpu`. The process that only distributes
    the tests does not import TensorFlow; so a `conftest.py` imports it in its fixtures.
    """
    if config.getoption("dist", "no") != "no":
        return
    import tensorflow as tf
    from hypothesis import HealthCheck, settings

    # The same examples in each run, in bounded time.
    settings.register_profile(
        "bounded", max_examples=150, deadline=None, database=None, derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )  # fmt: skip
    settings.load_profile("bounded")
    if config.option.markexpr != "gpu":
        tf.config.set_visible_devices([], "GPU")
    # Two logical CPU devices, so that a strategy can have two replicas on a host without GPUs.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory):
    """A folder of text files: 400 pairs for training, 60 for validation, 60 for testing."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(itertools.islice(read_pairs(), 520))
    splits = {"train": pairs[:400], "val": pairs[400:460], "test": pairs[460:]}
    for name, split in splits.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in split)
            (folder / f"{name}.{language}").write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="session")
def tiny_config(corpus_folder):
    """The settings of a one-layer model on this corpus and of a run of 12 updates."""
    return Config().replace(
        data=str(corpus_folder), num_layers=1, d_model=32, num_heads=2, dff=64, vocab_size=500,
        batch_tokens=1024, max_length=64, pe_input=96, pe_target=96, train_steps=12,
        warmup_steps=100, save_steps=4, max_checkpoints=2, eval_steps=6, bleu_sentences=8,
        log_steps=4, logical_devices=1,  # each replica takes seconds to trace
    )  # fmt: skip


@pytest.fixture(scope="session")
def model_dir(tiny_config, tmp_path_factory):
    """The model folder of this run."""
    from tf_transformer.training.trainer import build_trainer

    folder = tmp_path_factory.mktemp("models") / "tiny"
    assert build_trainer(tiny_config, str(folder)).run()
    return folder


@pytest.fixture(scope="session")
def translator(model_dir):
    """The `Translator` of this model."""
    from tf_transformer.decoding.translator import Translator

    return Translator.load(str(model_dir))


@pytest.fixture(scope="module")
def free_port():
    """A function that returns a port for a server on 127.0.0.1, which stays free for the module.

    A socket that does not listen holds it: the system gives it to nobody, and a server can take it.
    """
    with contextlib.ExitStack() as stack:

        def hold():
            held = stack.enter_context(socket.socket())
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            return held.getsockname()[1]

        yield hold


@pytest.fixture
def full(tmp_path):
    """A device without space. (A test that replaces devices must not use the real one.)"""
    path = str(tmp_path / "full")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        open(path, "w").close()
    except PermissionError:
        pytest.skip("needs the right to make devices")
    return path


@pytest.fixture
def small_files():
    """Makes writing fail beyond 10 kB, like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="session")
def exported(model_dir, tmp_path_factory):
    """The path of version 1 of this model, exported for serving under the name "anna"."""
    from tf_transformer.export.saved_model import export_saved_model

    folder = tmp_path_factory.mktemp("serving") / "exported"
    return export_saved_model(str(model_dir), str(folder), name="anna")


@pytest.fixture(scope="session")
def cold_export(exported, tmp_path_factory):
    """The path of a copy of this version without warm-up requests: it loads in less time."""
    from tf_transformer.files import write_checksums

    path = tmp_path_factory.mktemp("cold") / "1"
    shutil.copytree(exported, path)
    (path / "assets.extra" / "tf_serving_warmup_requests").unlink()
    write_checksums(str(path))
    return str(path)
