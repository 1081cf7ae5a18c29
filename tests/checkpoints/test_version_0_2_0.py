"""Folders of version 0.2.0: a model and an interrupted run are read as that version read them.

`version_0_2_0/` has what it wrote (`config.json` has no version of its format, and the optimizer's
state is stored by its order), and in `expected.json` what it computed with them.
"""

import json
import logging
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


GONE = {"bpe_dropout": 0.1, "r_drop": 5.0, "ema_decay": 0.99, "plateau_steps": 3}


def add_gone_settings(path):
    """The moving average of the weights stood in the optimizer's state after its first number."""
    settings = pathlib.Path(path, "config.json")
    parts = json.loads(settings.read_text())
    for part in parts.values():
        part |= {name: value for name, value in GONE.items() if name in part}
    settings.write_text(json.dumps(parts))
    (checkpoint,) = pathlib.Path(path, "checkpoints").iterdir()
    with np.load(checkpoint) as file:
        arrays, state = dict(file), json.loads(str(file["state"]))
    moments = [arrays.pop(name) for name in sorted(arrays) if name.startswith("optimizer/")]
    moments[1:1] = [np.full_like(array, 9) for name, array in arrays.items() if name != "state"]
    arrays |= {f"optimizer/{i:04d}": array for i, array in enumerate(moments)}
    state["arrays"] = [name for name in arrays if name != "state"]
    np.savez(checkpoint, **arrays | {"state": np.array(json.dumps(state))})


@pytest.mark.parametrize("gone", [{}, GONE], ids=["", "settings that are gone"])
def test_a_run_is_resumed(folder, caplog, gone):
    """Its later losses are as if it had not been interrupted. Settings that are gone are named."""
    path = folder("run")
    if gone:
        add_gone_settings(path)
    with caplog.at_level(logging.WARNING, "tf_transformer"):
        assert Translator.load(path)("Anna sleeps.")
        config = Config.load(f"{path}/config.json").replace(train_steps=12)
        assert build_trainer(config, path).run()
    losses = [[line["step"], line["kind"], line["loss"]] for line in read_metrics(path)]
    assert [line[:2] for line in losses] == [line[:2] for line in EXPECTED["losses"]]
    expected = [loss for *_, loss in EXPECTED["losses"]]
    np.testing.assert_allclose([loss for *_, loss in losses], expected, rtol=1e-5)
    assert f'"format_version": {FORMAT_VERSION}' in pathlib.Path(path, "config.json").read_text()
    lines = [each for each in caplog.messages if "gone" in each]
    named = [f"{path}/config.json: {name} {value} has no effect" for name, value in gone.items()]
    assert len(lines) == len(gone)
    assert all(any(line.startswith(each) for line in lines) for each in named)
