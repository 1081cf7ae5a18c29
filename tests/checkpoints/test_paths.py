"""Paths of a model folder: checkpoints, metrics, and the default folder."""

import json
import pathlib
import shutil
import subprocess

import pytest

from tf_transformer.checkpoints import paths
from tf_transformer.config import Config
from tf_transformer.errors import UserError

REPOSITORY = pathlib.Path(__file__).parents[2]


def touch(path):
    path = pathlib.Path(path)
    path.parent.mkdir(exist_ok=True)
    path.touch()


def test_step_checkpoints_are_sorted_by_step(tmp_path):
    folder = str(tmp_path)
    assert paths.step_checkpoints(folder) == []
    for step in (5, 100, 20):
        touch(paths.step_path(folder, step))
    touch(tmp_path / "checkpoints" / "step-00000007.npz.damaged")
    checkpoints = paths.step_checkpoints(folder)
    assert [paths.checkpoint_step(path) for path in checkpoints] == [5, 20, 100]
    touch(tmp_path / "best.npz")
    assert paths.all_checkpoints(folder) == [str(tmp_path / "best.npz"), *checkpoints]


def test_find(tmp_path):
    folder = str(tmp_path)
    with pytest.raises(UserError, match="no trained model"):
        paths.find(folder)
    for step in (5, 100, 20):
        touch(paths.step_path(folder, step))
    assert paths.find(folder) == paths.find(folder, "latest") == paths.step_path(folder, 100)
    with pytest.raises(UserError, match="no checkpoint 'best'"):
        paths.find(folder, "best")
    for name in ("best", "averaged"):
        touch(tmp_path / f"{name}.npz")
        assert paths.find(folder) == str(tmp_path / f"{name}.npz")
    assert paths.find(folder, "latest") == paths.step_path(folder, 100)
    assert paths.find(folder, paths.step_path(folder, 5)) == paths.step_path(folder, 5)


def test_read_metrics_skips_partial_and_damaged_lines(tmp_path):
    assert paths.read_metrics(str(tmp_path)) == []
    lines = [{"step": step, "kind": "train", "time": 1.5} for step in (1, 2)]
    first, second = map(json.dumps, lines)
    (tmp_path / "metrics.jsonl").write_text(f'{first}\n[1]\n{{"step": 2}}\n{second}\n{{"st')
    assert paths.read_metrics(str(tmp_path)) == lines


DEFAULT_FOLDERS = {
    "pocket": "pocket",
    "wmt14_translate/de-en": "wmt14_translate-de-en",
    "wmt16_translate/de-en": "wmt16_translate-de-en",
    "data/europarl": "europarl",
    "data/europarl/": "europarl",
    "data/pairs.tsv": "pairs.tsv",
    "data/train.en,data/train.de": "train.en-train.de",
    "./missing/europarl": "europarl",
    "/missing/europarl": "europarl",
}


@pytest.fixture
def in_folder_with_data(tmp_path, monkeypatch):
    (tmp_path / "data" / "europarl").mkdir(parents=True)
    (tmp_path / "data" / "pairs.tsv").touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("data", DEFAULT_FOLDERS)
def test_default_model_dir(data, in_folder_with_data):
    config = Config().replace(data=data, source="de", target="en")
    expected = f"models/base-{DEFAULT_FOLDERS[data]}-de-en"
    assert paths.default_model_dir("base", config.data) == expected


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("data", DEFAULT_FOLDERS)
def test_the_makefile_has_the_same_default_model_dir(data, in_folder_with_data):
    variables = ["PRESET=base", f"DATA={data}", "SOURCE=de", "TARGET=en"]
    command = [
        "make",
        "--no-print-directory",
        "--makefile",
        str(REPOSITORY / "Makefile"),
        *variables,
    ]
    command += ["--eval", "print: ; @echo '$(MODEL_DIR)'", "print"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == f"models/base-{DEFAULT_FOLDERS[data]}-de-en\n"
