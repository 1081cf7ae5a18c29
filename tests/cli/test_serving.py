"""The command serve, and translate --server."""

import os
import re
import shutil

import pytest
from serving.scripted_server import scripted_server, translated

from tf_transformer.checkpoints import model_folder
from tf_transformer.export import saved_model
from tf_transformer.files import write_checksums


@pytest.fixture
def served(replace_server):
    """The folders that are served; nothing is loaded from them."""
    folders = []
    replace_server(lambda folder, load: folders.append(folder))
    return folders


def test_serve_exports_the_built_in_models(run, succeed, served, tmp_path, monkeypatch):
    names = model_folder.SERVED_MODELS
    exported = []

    def export(model_dir, folder):
        exported.append(model_dir)
        os.mkdir(os.path.join(folder, "1"))
        write_checksums(os.path.join(folder, "1"))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(saved_model, "export_saved_model", export)
    _, err = succeed("serve", "--port=0")
    assert exported == [os.path.join(model_folder.BUILT_IN_FOLDER, name) for name in names]
    for name, folder in zip(names, served, strict=True):
        assert f"no --model_dir: using the built-in model {name}" in err
        assert f"exporting {name} to {folder}" in err
        assert os.listdir(folder) == ["1"]
    # The names do the same, and the exports are in the cache by now.
    assert run("serve", "--port=0", f"--model_dir={','.join(names)}") == (0, "", "")
    assert served[2:] == served[:2]


def test_serve_warns_of_an_export_that_is_older_than_the_model(
    run, succeed, served, model_dir, tmp_path
):
    shutil.copytree(model_dir, tmp_path / "m", ignore=shutil.ignore_patterns("export"))
    version = tmp_path / "m" / "export" / "saved_model" / "2"
    version.mkdir(parents=True)
    command = "serve", "--port=0", f"--model_dir={tmp_path}/m"
    assert run(*command) == (0, "", "")
    os.utime(version, (0, 0))
    _, err = succeed(*command)
    assert re.search(f"{version} is older .* `tf-transformer export --model_dir={tmp_path}/m`", err)


@pytest.fixture
def translate(tmp_path):
    """The command translate with an input of one line."""
    (tmp_path / "in.txt").write_text("Anna sleeps.\n")
    return "translate", f"--input={tmp_path}/in.txt"


def test_lines_in_order_and_lines_that_have_no_translation(run, refused, translate, tmp_path):
    def answer(texts):
        if "bad" in texts:
            return 400, {"error": "bad"}
        if len(texts) > 9:
            return 504, {"error": "too late"}
        return (413, {"error": "too large"}) if "long" in texts else translated(texts)

    (tmp_path / "in.txt").write_text("a\nlong\n" + "b\n" * 70)
    output = tmp_path / "out.txt"
    with scripted_server(answer) as address:
        command = *translate, f"--server={address}"
        assert "line 2 is too long" in refused(*command)
        command = *command, "--skip_long_lines", f"--output={output}"
        code, out, err = run(*command)
        expected = "A\n\n" + "B\n" * 70
        assert (code, out, output.read_text()) == (0, "", expected)
        assert "WARNING line 2 is too long" in err
        # An output that is not complete does not appear.
        with open(tmp_path / "in.txt", "a") as file:
            file.write("b\n" * 24 + "bad\n")
        assert "status 400: bad (in the request from line 97 on)" in run(*command)[2]
    assert output.read_text() == expected
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt"]


def test_truncated_translations_of_a_server(run, translate, caplog):
    def answer(texts):
        status, body = translated(texts)
        body["outputs"]["truncated"] = [True] * len(texts)
        return status, body

    with scripted_server(answer) as address:
        assert run(*translate, f"--server={address}") == (0, "ANNA SLEEPS.\n", "")
    assert "cut off at the longest output: 1, the first in line 1" in caplog.text


NO_SERVER = "status {}: this is not a TensorFlow Serving REST server; give another --server"
OTHER_MODEL = "is not one that tf-transformer exported"


@pytest.mark.parametrize(("status", "body", "expected"), [
    (404, b"<html>\nnot found</html>", NO_SERVER),
    (200, b'{"outputs": [[1.0]]}', OTHER_MODEL),
    (200, b'{"outputs": {"translation": [], "score": []}}', OTHER_MODEL),
    (400, b'{"error": "two\\nlines"}', "status 400: two lines (in the request from line 1 on)"),
])  # fmt: skip
def test_translate_with_a_foreign_server(refused, translate, status, body, expected):
    with scripted_server(lambda texts: (status, body)) as address:
        message = refused(*translate, f"--server={address}")
    assert f"{address}/v1/models/transformer:predict" in message
    assert expected.format(status) in message
