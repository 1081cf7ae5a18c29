"""A model folder: checkpoints, metrics, the default folder, and several models in one flag."""

import json
import pathlib
import shutil
import subprocess

import pytest

from tf_transformer.checkpoints import model_folder
from tf_transformer.config import Config
from tf_transformer.errors import UserError

REPOSITORY = pathlib.Path(__file__).parents[2]


def touch(path):
    path = pathlib.Path(path)
    path.parent.mkdir(exist_ok=True)
    path.touch()


def test_step_checkpoints_are_sorted_by_step(tmp_path):
    folder = str(tmp_path)
    assert model_folder.step_checkpoints(folder) == []
    for step in (5, 100, 20):
        touch(model_folder.step_path(folder, step))
    touch(tmp_path / "checkpoints" / "step-00000007.npz.damaged")
    checkpoints = model_folder.step_checkpoints(folder)
    assert [model_folder.checkpoint_step(path) for path in checkpoints] == [5, 20, 100]
    touch(tmp_path / "best.npz")
    assert model_folder.all_checkpoints(folder) == [str(tmp_path / "best.npz"), *checkpoints]


def test_find(tmp_path):
    folder = str(tmp_path)
    with pytest.raises(UserError, match="no trained model"):
        model_folder.find(folder)
    for step in (5, 100, 20):
        touch(model_folder.step_path(folder, step))
    assert (
        model_folder.find(folder)
        == model_folder.find(folder, "latest")
        == model_folder.step_path(folder, 100)
    )
    with pytest.raises(UserError, match="no checkpoint 'best'"):
        model_folder.find(folder, "best")
    for name in ("best", "averaged"):
        touch(tmp_path / f"{name}.npz")
        assert model_folder.find(folder) == str(tmp_path / f"{name}.npz")
    assert model_folder.find(folder, "latest") == model_folder.step_path(folder, 100)
    assert model_folder.find(folder, model_folder.step_path(folder, 5)) == model_folder.step_path(
        folder, 5
    )


def test_read_metrics_skips_a_partial_line(tmp_path):
    assert model_folder.read_metrics(str(tmp_path)) == []
    lines = [{"step": step, "kind": "train", "time": 1.5} for step in (1, 2)]
    first, second = map(json.dumps, lines)
    (tmp_path / "metrics.jsonl").write_text(f'{first}\n{second}\n{{"st')
    assert model_folder.read_metrics(str(tmp_path)) == lines


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
    assert model_folder.default_model_dir("base", config.data) == expected


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


def test_folders_and_checkpoints():
    assert model_folder.model_list("a") == [("a", None)]
    assert model_folder.model_list("a,b") == [("a", None), ("b", None)]
    assert model_folder.model_list("a", "best,latest") == [("a", "best"), ("a", "latest")]
    assert model_folder.model_list("a,b", "best") == [("a", "best"), ("b", "best")]
    assert model_folder.model_list("a,b", "x,y") == [("a", "x"), ("b", "y")]
    assert model_folder.first_model_dir("a,b") == "a"


def test_a_path_with_a_comma_is_one_model(tmp_path):
    folder = tmp_path / "a,b"
    folder.mkdir()
    file = folder / "c,d.npz"
    file.touch()
    assert model_folder.model_list(str(folder), str(file)) == [(str(folder), str(file))]


@pytest.mark.parametrize("values", [("a,b", "x,y,z"), ("a,b,c", "x,y"), ("a,,b", None), ("a", ",")])
def test_numbers_that_do_not_fit_and_empty_names(values):
    with pytest.raises(UserError, match="--model_dir|--checkpoint"):
        model_folder.model_list(*values)
