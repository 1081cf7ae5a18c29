"""Training and search on GPUs. `make test-gpu` runs these tests; the other tests hide the GPUs."""

import re

import pytest
import tensorflow as tf
from gpu_check.__main__ import main as gpu_check
from gpu_check.checks import check_invariants, check_training
from gpu_check.measurements import random_ids
from gpu_check.results import Report
from gpu_check.short_runs import ShortRuns, pocket_pairs
from gpu_check.sizes import SIZES
from invariants import make_case

from tf_transformer.cli.main import main
from tf_transformer.presets import preset
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.run_log import memory_gb, reset_memory_peak
from tf_transformer.training.update import Update

GPUS = tf.config.get_visible_devices("GPU")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="no GPU, or not make test-gpu")]
SIZE = SIZES["full"]()


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    texts = [source for source, _ in pocket_pairs(SIZE.sentences)]
    return make_case("pocket-en-de", texts, str(tmp_path_factory.mktemp("case")))


@pytest.fixture
def report(tmp_path):
    return Report(str(tmp_path / "report.md"), "GPUs")


def test_invariants_of_the_built_in_model(case, report):
    check_invariants(case, SIZE, report)
    assert not report.failed


def test_all_ways_to_train_agree(case, tmp_path, report):
    runs = ShortRuns(SIZE, case.tokenizers)
    check_training(runs, SIZE, len(GPUS), str(tmp_path), report)
    assert not report.failed


def test_doctor_trains_on_all_gpus(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert len(set(re.findall(r"GPU:\d+", out.partition("replica")[2]))) == len(GPUS), out


def test_the_small_check_works_with_the_precision_and_xla_of_gpus(tmp_path):
    path = tmp_path / "report.md"
    code = gpu_check(["--scale=small", f"--output={path}"])
    assert code == 0, path.read_text("utf-8")


@pytest.mark.parametrize("jit_compile", [False, True])
def test_updates_need_no_more_memory_after_the_first_ones(jit_compile):
    config = preset("small").replace(input_vocab_size=4000, target_vocab_size=4000)
    strategy = make_strategy()
    update = Update(config, "float32", strategy, accumulate=False, jit_compile=jit_compile)
    assert all("GPU" in weight.value.device for weight in update.model.weights)
    inp, tar = random_ids(64, 32, 4000), random_ids(64, 33, 4000)
    peaks = []
    for _ in range(20):
        reset_memory_peak()
        update(inp, tar, tf.zeros([2]))["sums"].numpy()
        peaks.append(memory_gb())
    assert peaks[-1] <= 1.01 * peaks[4]
