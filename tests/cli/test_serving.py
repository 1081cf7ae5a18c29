"""The commands export, serve and client."""

import re


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
    assert re.search(r"beam (size )?(is|of)?\s*2\b", readme)


def test_serve_and_client(refused, exported, tmp_path):
    folder = f"--export_dir={tmp_path}"
    assert "no version of a model" in refused("serve", folder)
    assert "--model_dir is missing" in refused("serve")
    assert "'a/b'" in refused("serve", folder, "--name=a/b")
    assert "give at least 1" in refused("serve", folder, "--max_queue=0")
    (tmp_path / "in.txt").write_text("Anna sleeps.\n")
    address = "http://127.0.0.1:9"
    line = refused("client", f"--server={address}", "--retries=0", f"--input={tmp_path}/in.txt")
    assert f"no answer from {address}/v1/models/transformer:predict" in line
