"""The command import, and export --format=huggingface."""

import pathlib

MARIAN = pathlib.Path(__file__).parents[1] / "interchange" / "marian"


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


def test_export(run, refused, tmp_path):
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
