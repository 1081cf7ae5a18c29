"""The commands export and import."""

import os
import pathlib
import re

from tf_transformer.checkpoints import model_folder
from tf_transformer.export import saved_model
from tf_transformer.files import is_intact

MARIAN = pathlib.Path(__file__).parents[1] / "export" / "marian"


def test_export(run, refused, model_dir, tmp_path):
    folder = f"--model_dir={model_dir}"
    output = tmp_path / "engine"
    flags = ("--format=ctranslate2", f"--output={output}/")
    code, out, _ = run("export", folder, "--quantization=int8", *flags)
    assert code == 0
    assert "wrote" in out
    assert (output / "model.bin").exists()
    message = refused("export", folder, *flags)
    assert str(output) in message
    assert "already" in message
    assert "--model_dir is missing" in refused("export")
    message = refused("export", folder, "--quantization=int8")
    assert "--quantization is for --format=ctranslate2" in message
    message = refused("export", folder, "--format=keras", "--beam_size=2")
    assert "--beam_size is for --format=saved_model" in message
    versions = tmp_path / "versions"
    code, out, _ = run("export", folder, f"--output={versions}", "--beam_size=2", "--name=two")
    assert code == 0
    assert f"wrote {versions}/1 for TensorFlow Serving" in out
    readme = (versions / "1" / "README.md").read_text()
    assert re.search(r"Beam size:\s2,", readme)


def test_export_keeps_the_newest_versions(run, refused, model_dir, tmp_path, monkeypatch):
    def write(*arguments, **decode):
        version = max([int(name) for name in os.listdir(tmp_path)], default=0) + 1
        (tmp_path / str(version)).mkdir()
        (tmp_path / str(version) / "saved_model.pb").touch()
        return str(tmp_path / str(version))

    monkeypatch.setattr(saved_model, "export_saved_model", write)
    flags = ("export", f"--model_dir={model_dir}", f"--output={tmp_path}")
    for _ in range(3):
        assert run(*flags)[0] == 0
    code, out, err = run(*flags, "--keep_versions=2")
    assert (code, out.splitlines()[0]) == (0, f"wrote {tmp_path}/4 for TensorFlow Serving")
    assert sorted(os.listdir(tmp_path)) == ["3", "4"]
    assert f"removed {tmp_path}/1" in err
    assert "--keep_versions" in refused(*flags, "--keep_versions=0")
    message = refused(*flags, "--keep_versions=2", "--format=keras")
    assert "--keep_versions is for --format=saved_model or ctranslate2" in message


def test_ctranslate2_export_keeps_the_newest_versions(run, refused, model_dir, tmp_path):
    flags = ("export", f"--model_dir={model_dir}", "--format=ctranslate2", "--keep_versions=2")
    for version in (9, 10, 11):
        assert run(*flags, f"--output={tmp_path}/{version}")[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["10", "11"]
    # The version that was just written stays, even if it is not one of the newest.
    assert run(*flags, f"--output={tmp_path}/8/")[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["10", "11", "8"]
    for name in ("new", "7a"):
        message = refused(*flags, f"--output={tmp_path}/{name}")
        assert f"such as {tmp_path}/{name}/1" in message
    assert sorted(os.listdir(tmp_path)) == ["10", "11", "8"]


def test_export_to_a_wrong_output(refused, model_dir, tmp_path):
    folder = f"--model_dir={model_dir}"
    (tmp_path / "file").write_text("kept")
    message = refused("export", folder, f"--output={tmp_path}/file/")
    assert f"{tmp_path}/file could not be written (File exists): choose another folder" in message
    message = refused("export", folder, "--format=ctranslate2", f"--output={tmp_path}/file")
    assert f"{tmp_path}/file already exists" in message
    message = refused("export", folder, "--format=keras", "--output=/proc/none/model.keras")
    assert re.search(r"/proc/none/model.keras could not be written \(.*\): choose", message)
    assert (tmp_path / "file").read_text() == "kept"


def test_an_interrupted_export_leaves_nothing(run, model_dir, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model, "make_signatures", interrupt)
    output = tmp_path / "versions"
    code, out, err = run("export", f"--model_dir={model_dir}", f"--output={output}")
    assert (code, out, err) == (130, "", "tf-transformer: interrupted\n")
    assert os.listdir(output) == []


def test_a_built_in_model_is_exported_to_the_working_directory(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("export", "--model_dir=pocket-en-de", "--format=keras")
    assert code == 0
    assert out.startswith("wrote models/pocket-en-de/export/model.keras;")
    assert os.path.exists("models/pocket-en-de/export/model.keras")
    assert is_intact(os.path.join(model_folder.BUILT_IN_FOLDER, "pocket-en-de"))


def test_import_then_translate(run, refused, tmp_path):
    model_dir = str(tmp_path / "new" / "model")
    code, out, err = run("import", f"--input={MARIAN}", f"--output={model_dir}/", "--target=de")
    assert code == 0, err
    assert f"translate --model_dir={model_dir}\n" in out
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(">>fra<< We see the old train station ?\na\n", "utf-8")
    flags = [f"--model_dir={model_dir}", f"--input={source}", f"--output={output}"]
    code, _, err = run("translate", *flags)
    assert code == 0, err
    assert output.read_text("utf-8") == "Wir\nein Buch\n"

    assert "already exists" in refused("import", f"--input={MARIAN}", f"--output={model_dir}")
    # The data of its training is not known.
    message = refused("evaluate", f"--model_dir={model_dir}")
    assert str(MARIAN) in message


def test_mistakes(refused, tmp_path):
    assert "--input is missing" in refused("import", f"--output={tmp_path}/model")
    assert "--output is missing" in refused("import", f"--input={MARIAN}")
    message = refused("import", f"--input={tmp_path}", f"--output={tmp_path}/model")
    assert f"no file {tmp_path}/config.json" in message


def test_huggingface_export(run, refused, tmp_path):
    flags = ["--model_dir=pocket-en-de", "--format=huggingface", f"--output={tmp_path}/marian"]
    message = refused("export", *flags, "--extra_decode_length=9")
    assert "--extra_decode_length is for --format=" in message
    code, out, err = run("export", *flags, "--beam_size=2")
    assert code == 0, err
    assert "MarianMTModel.from_pretrained" in out
    assert {path.name for path in (tmp_path / "marian").iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "source.spm", "target.spm",
        "tokenizer_config.json", "vocab.json",
    }  # fmt: skip
