"""The command serve, and translate --server."""

import os
import shutil
import socket

import pytest
from serving.scripted_server import scripted_server, translated

from tf_transformer.checkpoints import model_folder
from tf_transformer.export import saved_model
from tf_transformer.files import write_checksums
from tf_transformer.serving import client as serving_client
from tf_transformer.serving import server


@pytest.fixture
def in_empty_folder(tmp_path, monkeypatch):
    """The working directory of the test, an empty folder that also has the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)


class RecordedServer:
    """Stands for `Server`: records the folders of the versions that are served."""

    folders = []

    def __init__(self, name, folder, settings, load):
        self.folders.append(folder)

    def run(self, bound):
        pass


def test_serve_exports_the_built_in_model(run, in_empty_folder, monkeypatch):
    def export(model_dir, folder):
        assert model_dir == os.path.join(model_folder.BUILT_IN_FOLDER, "pocket-en-de")
        os.mkdir(os.path.join(folder, "1"))
        write_checksums(os.path.join(folder, "1"))

    monkeypatch.setattr(saved_model, "export_saved_model", export)
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


def test_serve_warns_of_an_export_that_is_older_than_the_model(
    run, model_dir, tmp_path, monkeypatch
):
    monkeypatch.setattr(server, "Server", RecordedServer)
    shutil.copytree(model_dir, tmp_path / "m", ignore=shutil.ignore_patterns("export"))
    version = tmp_path / "m" / "export" / "saved_model" / "2"
    version.mkdir(parents=True)
    command = "serve", "--port=0", f"--model_dir={tmp_path}/m"
    assert run(*command) == (0, "", "")
    os.utime(version, (0, 0))
    code, _, err = run(*command)
    assert code == 0
    assert f"{version} is older than the files of the model; to export it again: `tf-tr" in err


def test_serve_without_a_model(refused, model_dir, tmp_path):
    missing = f"{tmp_path}/none"
    message = refused("serve", f"--export_dir={missing}")
    assert f"{missing} is not a folder: export a model" in message
    message = refused("serve", f"--export_dir={tmp_path}")
    assert "no version of transformer can be loaded: export a model" in message
    (tmp_path / "file").touch()
    message = refused("serve", f"--export_dir={tmp_path}/file")
    assert f"{tmp_path}/file is not a folder: export a model" in message
    shutil.copytree(model_dir, tmp_path / "m", ignore=shutil.ignore_patterns("export"))
    message = refused("serve", f"--model_dir={tmp_path}/m")
    assert f"write one with `tf-transformer export --model_dir={tmp_path}/m`" in message
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
    assert f"cannot listen at '127.0.0.1', port {port} (Address already in use): give" in message
    for flag, expected in {
        "--model_dir=pocket-en-de": "--export_dir and --model_dir: give one of them",
        "--concurrent_batches=300": "give at most 256",
        "--host=192.0.2.1": "cannot listen at '192.0.2.1', port 8501 (",
    }.items():
        assert expected in refused("serve", folder, flag)


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n")
    return f"--input={tmp_path}/in.txt"


def test_translate_with_without_a_server(refused, lines, monkeypatch):
    monkeypatch.setattr(serving_client, "ATTEMPTS", 1)
    line = refused("translate", "--server=127.0.0.1:9", lines)
    assert "no answer from http://127.0.0.1:9/v1/models/transformer:predict" in line
    message = refused("translate", "--server=ftp://localhost", lines)
    assert "server 'ftp://localhost' is not a URL: give one such as http://127.0.0.1:" in message


def test_lines_in_order_and_lines_that_are_too_long(run, refused, tmp_path):
    def answer(texts):
        return (413, {"error": "too large"}) if "long" in texts else translated(texts)

    (tmp_path / "in.txt").write_text("a\nlong\n" + "b\n" * 70)
    flags = f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.txt"
    with scripted_server(answer) as address:
        server = f"--server={address}"
        code, out, err = run("translate", server, flags[0], "--skip_long_lines")
        assert run("translate", server, *flags, "--skip_long_lines") == (0, "", err)
        assert "line 2 is too long for the model or the server" in refused(
            "translate", server, flags[0]
        )
        assert "--beam_size has no effect with --server" in refused(
            "translate", server, "--beam_size=2"
        )
    assert (code, out) == (0, "A\n\n" + "B\n" * 70)
    assert (tmp_path / "out.txt").read_text() == out
    assert "WARNING line 2 is too long for the model or the server" in err
    assert "--name is for --server" in refused("translate", "--name=x")
    assert "use `tf-transformer translate --server=URL`" in refused("client")


def test_an_output_that_is_not_complete_does_not_appear(run, tmp_path):
    def answer(texts):
        return (400, {"error": "bad"}) if "bad" in texts else translated(texts)

    (tmp_path / "in.txt").write_text("a\n" * 96 + "bad\n")
    (tmp_path / "out.txt").write_text("earlier")
    flags = f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.txt"
    with scripted_server(answer) as address:
        code, _, err = run("translate", f"--server={address}", *flags)
    assert code == 2
    assert err.endswith("returned status 400: bad (in the request from line 97 on)\n")
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt"]
    assert (tmp_path / "out.txt").read_text() == "earlier"


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
        (400, b'{"error": "two\\nlines"}', "status 400: two lines (in the request from line 1 on)"),
        (400, b'{"error": {"code": 7}}', NO_SERVER),
    ],
)
def test_translate_with_of_a_foreign_server(status, body, expected, refused, lines):
    with scripted_server(lambda texts: (status, body)) as address:
        message = refused("translate", f"--server={address}", lines)
    assert f"{address}/v1/models/transformer:predict" in message
    assert expected.format(status) in message
