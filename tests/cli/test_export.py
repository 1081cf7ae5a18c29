"""The commands export and import."""

import os
import pathlib
import re

import pytest

from tf_transformer.checkpoints import model_folder
from tf_transformer.files import is_intact

MARIAN = pathlib.Path(__file__).parents[1] / "export" / "marian"


@pytest.mark.slow
def test_saved_model(run, model_dir, tmp_path):
    (tmp_path / "6").mkdir()
    (tmp_path / "6" / "saved_model.pb").touch()
    flags = f"--output={tmp_path}", "--beam_size=2", "--name=two", "--keep_versions=1"
    code, out, err = run("export", f"--model_dir={model_dir}", *flags)
    assert (code, out.splitlines()[0]) == (0, f"wrote {tmp_path}/7 for TensorFlow Serving")
    assert f"removed {tmp_path}/6" in err
    assert re.search(r"Beam size:\s2,", (tmp_path / "7" / "README.md").read_text())
    assert 'name: "two"' in (tmp_path / "models.config").read_text()


def test_a_built_in_model_is_exported_to_the_working_directory(succeed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for form, output, function in (
        ("keras", "model.keras", "keras.models.load_model"),
        ("huggingface", "huggingface", "MarianMTModel.from_pretrained"),
    ):
        out, _ = succeed("export", "--model_dir=pocket-en-de", f"--format={form}")
        assert out.startswith(f"wrote models/pocket-en-de/export/{output};") and function in out
        assert os.path.exists(f"models/pocket-en-de/export/{output}")
    assert is_intact(os.path.join(model_folder.BUILT_IN_FOLDER, "pocket-en-de"))


def test_import_then_translate(run, succeed, refused, tmp_path):
    model_dir = str(tmp_path / "new" / "model")
    flags = f"--input={MARIAN}", f"--output={model_dir}/", "--target=de"
    out, err = succeed("import", *flags)
    assert f"translate --model_dir={model_dir}\n" in out
    (tmp_path / "in.txt").write_text(">>fra<< We see the old train station ?\na\n", "utf-8")
    code, out, err = run("translate", f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt")
    assert (code, out) == (0, "Wir\nein Buch\n"), err
    assert "already exists" in refused("import", *flags)
    # The data of its training is not known.
    assert str(MARIAN) in refused("evaluate", f"--model_dir={model_dir}")
