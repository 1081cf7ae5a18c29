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


def test_checkpoints_of_a_folder(tmp_path):
    """They are sorted by their update; the average and the best come first."""
    folder = str(tmp_path)
    assert model_folder.step_checkpoints(folder) == []
    (tmp_path / "checkpoints").symlink_to("checkpoints")  # it cannot be read
    with pytest.raises(OSError, match="checkpoints"):
        model_folder.step_checkpoints(folder)
    (tmp_path / "checkpoints").unlink()
    with pytest.raises(UserError, match="no trained model"):
        model_folder.find(folder)
    steps = [model_folder.step_path(folder, step) for step in (5, 20, 100)]
    for path in (steps[2], steps[0], steps[1], f"{folder}/checkpoints/step-00000007.npz.damaged"):
        touch(path)
    assert model_folder.step_checkpoints(folder) == steps
    assert [model_folder.checkpoint_step(path) for path in steps] == [5, 20, 100]
    assert model_folder.find(folder) == model_folder.find(folder, "latest") == steps[2]
    assert model_folder.find(folder, steps[0]) == steps[0]
    with pytest.raises(UserError, match="no checkpoint 'best'"):
        model_folder.find(folder, "best")
    for name in ("best", "averaged"):
        touch(tmp_path / f"{name}.npz")
        assert model_folder.find(folder) == str(tmp_path / f"{name}.npz")
    named = [f"{folder}/averaged.npz", f"{folder}/best.npz"]
    assert model_folder.all_checkpoints(folder) == [*named, *steps]
    assert model_folder.find(folder, "latest") == steps[2]


def test_read_metrics_skips_a_partial_line(tmp_path):
    assert model_folder.read_metrics(str(tmp_path)) == []
    lines = [{"step": step, "kind": "train", "time": 1.5} for step in (1, 2)]
    first, second = map(json.dumps, lines)
    (tmp_path / "metrics.jsonl").write_text(f'{first}\n{second}\n{{"st')
    assert model_folder.read_metrics(str(tmp_path)) == lines


DEFAULT_FOLDERS = {
    "pocket": "pocket",
    "wmt14_translate/de-en": "wmt14_translate-de-en",
    "data/europarl/": "europarl",
    "data/pairs.tsv": "pairs.tsv",
    "data/train.en,data/train.de": "train.en-train.de",
    "/missing/europarl": "europarl",
}


def default_folder(data):
    config = Config().replace(data=data, source="de", target="en")
    return model_folder.default_model_dir("base", config.data)


def default_of_the_makefile(data):
    command = ["make", "--no-print-directory", f"--makefile={REPOSITORY}/Makefile", "PRESET=base"]
    command += [f"DATA={data}", "SOURCE=de", "TARGET=en"]
    command += ["--eval", "print: ; @echo '$(MODEL_DIR)'", "print"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("default", [default_folder, default_of_the_makefile])
@pytest.mark.parametrize("data", DEFAULT_FOLDERS)
def test_default_model_dir(data, default, tmp_path, monkeypatch):
    if default is default_of_the_makefile and not shutil.which("make"):
        pytest.skip("needs make")
    (tmp_path / "data" / "europarl").mkdir(parents=True)
    (tmp_path / "data" / "pairs.tsv").touch()
    monkeypatch.chdir(tmp_path)
    assert default(data) == f"models/base-{DEFAULT_FOLDERS[data]}-de-en"


@pytest.mark.parametrize(("folders", "checkpoints", "models"), [
    ("a", None, [("a", None)]),
    ("a,b", None, [("a", None), ("b", None)]),
    ("a", "best,latest", [("a", "best"), ("a", "latest")]),
    ("a,b", "best", [("a", "best"), ("b", "best")]),
    ("a,b", "x,y", [("a", "x"), ("b", "y")]),
    ("c,d", "c,d/e,f.npz", [("c,d", "c,d/e,f.npz")]),  # which exist
    ("a,b", "x,y,z", None), ("a,b,c", "x,y", None), ("a,,b", None, None), ("a", ",", None),
])  # fmt: skip
def test_folders_and_checkpoints(tmp_path, monkeypatch, folders, checkpoints, models):
    monkeypatch.chdir(tmp_path)
    touch("c,d/e,f.npz")
    if models:
        assert model_folder.model_list(folders, checkpoints) == models
        assert model_folder.first_model_dir(folders) == models[0][0]
    else:
        with pytest.raises(UserError, match="--model_dir|--checkpoint"):
            model_folder.model_list(folders, checkpoints)


@pytest.mark.parametrize(("text", "about", "examples"), [
    ("", "", []),
    ("# Name\n\nFirst\nparagraph.\n\n---\n\nSecond.\n", "First paragraph.", []),
    ("---\nwidget:\n- text: One: two.\n- text: Ü.\n---\n\n# Name\n\nA.\n\n- text: x", "A.",
     ["One: two.", "Ü."]),
])  # fmt: skip
def test_read_card(tmp_path, text, about, examples):
    assert model_folder.read_card(str(tmp_path)) == {}
    (tmp_path / "README.md").write_text(text, "utf-8")
    assert model_folder.read_card(str(tmp_path)) == {"about": about, "examples": examples}
