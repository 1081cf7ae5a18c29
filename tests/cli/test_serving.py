"""The commands export, serve and client."""

import os
import re
import socket
import sys
import types

import pytest
from serving.scripted_server import scripted_server, translated

from tf_transformer.checkpoints import pretrained
from tf_transformer.checkpoints.checksums import is_intact, write_checksums
from tf_transformer.errors import UserError
from tf_transformer.serving import built_in_export, saved_model, server
from tf_transformer.serving import client as serving_client


@pytest.fixture
def in_empty_folder(tmp_path, monkeypatch):
    """The working directory of the test, an empty folder that also has the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)


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


def test_export_to_a_wrong_output(refused, model_dir, tmp_path):
    folder = f"--model_dir={model_dir}"
    assert "output / is the root folder: give a folder" in refused("export", folder, "--output=/")
    (tmp_path / "file").write_text("kept")
    message = refused("export", folder, f"--output={tmp_path}/file/")
    assert f"{tmp_path}/file is a file: give a folder" in message
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


def test_a_built_in_model_is_exported_to_the_working_directory(run, in_empty_folder):
    code, out, _ = run("export", "--model_dir=pocket-en-de", "--format=keras")
    assert code == 0
    assert out.startswith("wrote models/pocket-en-de/export/model.keras;")
    assert os.path.exists("models/pocket-en-de/export/model.keras")
    assert is_intact(os.path.join(pretrained.FOLDER, "pocket-en-de"))


class RecordedServer:
    """Stands for `Server`: records the folders of the versions that are served."""

    folders = []

    def __init__(self, folder, name, settings):
        self.folders.append(folder)

    def run(self, bound):
        pass


def test_serve_exports_the_built_in_model(run, in_empty_folder, monkeypatch):
    def export(model_dir, folder):
        assert model_dir == os.path.join(pretrained.FOLDER, "pocket-en-de")
        os.mkdir(os.path.join(folder, "1"))
        write_checksums(os.path.join(folder, "1"))

    monkeypatch.setattr(built_in_export, "export_saved_model", export)
    monkeypatch.setattr(server, "Server", RecordedServer)
    code, _, err = run("serve", "--port=0")
    assert code == 0, err
    assert "no --model_dir: using the built-in model pocket-en-de" in err
    (folder,) = RecordedServer.folders
    assert f"exporting pocket-en-de to {folder}" in err
    assert os.listdir(folder) == ["1"]
    # The name does the same, and the export is in the cache by now.
    assert run("serve", "--port=0", "--model_dir=pocket-en-de") == (0, "", "")
    assert RecordedServer.folders == [folder, folder]


def test_serve_without_a_model(refused, tmp_path):
    missing = f"{tmp_path}/none"
    message = refused("serve", f"--export_dir={missing}")
    assert f"{missing} is not a folder: export a model" in message
    message = refused("serve", f"--export_dir={tmp_path}")
    assert f"no version of a model in {tmp_path} can be loaded: export a model" in message
    (tmp_path / "file").touch()
    message = refused("serve", f"--export_dir={tmp_path}/file")
    assert f"{tmp_path}/file is not a folder: export a model" in message
    message = refused("serve", f"--model_dir={missing}")
    assert f"no model folder {missing}" in message
    assert "built-in models: pocket-en-de" in message


def test_wrong_settings_of_serve(refused, exported, monkeypatch):
    folder = f"--export_dir={os.path.dirname(exported)}"
    assert "'a/b'" in refused("serve", folder, "--name=a/b")
    assert "give at least 1" in refused("serve", folder, "--max_queue=0")
    monkeypatch.setattr(server, "Server", None)  # the port is checked before a model is loaded
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = refused("serve", folder, f"--port={port}")
    assert f"cannot listen at 127.0.0.1, port {port} (Address already in use)" in message
    message = refused("serve", folder, "--host=192.0.2.1")
    assert "cannot listen at 192.0.2.1, port 8501 (" in message


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n")
    return f"--input={tmp_path}/in.txt"


def test_client_without_a_server(refused, lines):
    address = "http://127.0.0.1:9"
    line = refused("client", "--server=127.0.0.1:9", "--max_wait=0", lines)
    assert f"no answer from {address}/v1/models/transformer:predict" in line
    line = refused("client", "--grpc=127.0.0.1:9", "--max_wait=0", lines)
    assert "127.0.0.1:9 returned UNAVAILABLE: " in line


def test_client_with_a_wrong_address(refused, lines):
    message = refused("client", "--server=ftp://localhost", lines)
    assert "server 'ftp://localhost' is not a URL: give one such as http://127.0.0.1:" in message


@pytest.mark.parametrize("flag, seconds", [([], 10), (["--max_wait=0.5"], 0.5)])
def test_interactive_use_does_not_wait_long(flag, seconds, refused, monkeypatch):
    def translate(client, lines, batch_size, concurrency, max_wait, first_line):
        assert (batch_size, concurrency, max_wait, first_line) == (1, 1, seconds, 1)
        raise UserError("away")

    monkeypatch.setattr(serving_client, "translate_lines", translate)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    assert refused("client", *flag).endswith("error: away")


def test_client_writes_in_order_and_reports_lines_that_are_too_long(run, tmp_path):
    def answer(texts):
        return (413, {"error": "too large"}) if "long" in texts else translated(texts)

    (tmp_path / "in.txt").write_text("a\nlong\n" + "b\n" * 70)
    with scripted_server(answer) as address:
        code, out, err = run("client", f"--server={address}", f"--input={tmp_path}/in.txt")
    assert (code, out) == (2, "A\n\n" + "B\n" * 70)
    assert err == (
        "tf-transformer: error: lines too long for the model or the server, with an empty "
        "translation: 2; split them\n"
    )


def test_what_is_written_to_standard_output_before_an_error(run, tmp_path):
    def answer(texts):
        return (400, {"error": "bad"}) if "bad" in texts else translated(texts)

    (tmp_path / "in.txt").write_text("a\nb\nbad\n")
    flags = f"--input={tmp_path}/in.txt", "--batch_size=1"
    with scripted_server(answer) as address:
        code, out, err = run("client", f"--server={address}", *flags)
    assert (code, out) == (2, "A\nB\n")
    assert err.endswith(
        "returned status 400: bad (in the request of line 3) (the results of lines 1 to 2 are "
        "written)\n"
    )


NO_SERVER = "status {}: this is not a TensorFlow Serving REST server; give another --server"
OTHER_MODEL = "is not one that tf-transformer exported"


@pytest.mark.parametrize(
    "status, body, expected",
    [
        (200, b"<html>\n<body>Welcome</body>\n</html>", NO_SERVER),
        (404, b"<html>\nnot found</html>", NO_SERVER),
        (405, b"\xff\x00", NO_SERVER),
        (200, b"[1, 2]", NO_SERVER),
        (200, b'{"outputs": [[1.0]]}', OTHER_MODEL),
        (200, b'{"outputs": {"translation": [], "score": []}}', OTHER_MODEL),
        (200, b'{"outputs": {"translation": [1], "score": [1]}}', OTHER_MODEL),
        (200, b'{"outputs": {"translation": ["a"], "score": ["b"]}}', OTHER_MODEL),
        (400, b'{"error": "two\\nlines"}', "status 400: two lines (in the request of line 1)"),
        (400, b'{"error": {"code": 7}}', NO_SERVER),
    ],
)
def test_client_of_a_foreign_server(status, body, expected, refused, lines):
    with scripted_server(lambda texts: (status, body)) as address:
        message = refused("client", f"--server={address}", lines)
    assert f"{address}/v1/models/transformer:predict" in message
    assert expected.format(status) in message
