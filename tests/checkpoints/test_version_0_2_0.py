"""Folders of version 0.2.0: a model and an interrupted run are read as that version read them.

`version_0_2_0/` has what it wrote (`config.json` has no version of its format, and the optimizer's
state is stored by its order), and in `expected.json` what it computed with them.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest

from tf_transformer.checkpoints.model_folder import read_metrics
from tf_transformer.cli.main import main
from tf_transformer.config import FORMAT_VERSION, Config
from tf_transformer.decoding.translator import Translator
from tf_transformer.training.trainer import build_trainer

FOLDER = pathlib.Path(__file__).parent / "version_0_2_0"
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A function that copies a folder, with the vocabulary, which is stored once."""
    monkeypatch.chdir(FOLDER)  # `data` is "text"

    def copy(name):
        shutil.copytree(FOLDER / name, tmp_path / name)
        shutil.copy(FOLDER / "shared.model", tmp_path / name)
        return str(tmp_path / name)

    return copy


def test_a_model_translates(folder, capsys):
    path = folder("model")
    sources = (FOLDER / "text" / "test.en").read_text("utf-8").splitlines()
    n_best = Translator.load(path).n_best(sources, 1)
    for best, (text, score) in zip(n_best, EXPECTED["translations"]):
        assert best[0][0] == text
        assert best[0][1] == pytest.approx(score, abs=1e-4)
    assert main(["evaluate", f"--model_dir={path}"]) == 0
    assert f"BLEU {EXPECTED['BLEU']}" in capsys.readouterr().out


def test_a_run_is_resumed(folder):
    """Its later losses are those of a run that was not interrupted."""
    path = folder("run")
    config = Config.load(f"{path}/config.json").replace(train_steps=12)
    assert build_trainer(config, path).run()
    losses = [[line["step"], line["kind"], line["loss"]] for line in read_metrics(path)]
    assert [line[:2] for line in losses] == [line[:2] for line in EXPECTED["losses"]]
    np.testing.assert_allclose(
        [loss for *_, loss in losses], [loss for *_, loss in EXPECTED["losses"]], rtol=1e-5
    )
    assert json.loads(pathlib.Path(path, "config.json").read_text())["format_version"] == (
        FORMAT_VERSION
    )
