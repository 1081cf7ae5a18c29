"""The commands serve and client."""

import os
import shutil
import socket
import sys
import types

import pytest
from serving.scripted_server import scripted_server, translated

from tf_transformer.checkpoints import pretrained
from tf_transformer.checkpoints.checksums import write_checksums
from tf_transformer.errors import UserError
from tf_transformer.export import saved_model
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

    def __init__(self, sources, settings, access):
        self.folders += [source.folder for source in sources]

    def run(self, bound):
        pass


def test_serve_exports_the_built_in_model(run, in_empty_folder, monkeypatch):
    def export(model_dir, folder):
        assert model_dir == os.path.join(pretrained.FOLDER, "pocket-en-de")
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


def test_serve_with_a_file_of_models(run, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(RecordedServer, "folders", [])
    monkeypatch.setattr(server, "Server", RecordedServer)
    configs = []
    for name in ("anna", "berta"):
        (tmp_path / name).mkdir()
        fields = f'name: "{name}" base_path: "{tmp_path}/{name}" model_platform: "tensorflow"'
        configs.append(f"config {{ {fields} }}")
    file = tmp_path / "models.config"
    file.write_text("model_config_list {" + "\n".join(configs) + "}")
    flag = f"--model_config_file={file}"
    assert run("serve", "--port=0", flag) == (0, "", "")
    assert RecordedServer.folders == [f"{tmp_path}/anna", f"{tmp_path}/berta"]
    for name in ("export_dir", "model_dir", "name"):
        message = refused("serve", flag, f"--{name}=x")
        assert f"--{name} is for one model, and --model_config_file names the models" in message
    file.write_text("model_config_list {\n config { nam: 7 } }")
    message = refused("serve", flag)
    assert f'{file}, line 2: Message type "tensorflow.serving.ModelConfig" has no field' in message
    assert "cannot read" in refused("serve", f"--model_config_file={tmp_path}/none")


def test_wrong_settings_of_serve(refused, exported, monkeypatch):
    folder = f"--export_dir={os.path.dirname(exported)}"
    assert "'a/b'" in refused("serve", folder, "--name=a/b")
    assert "give at least 1" in refused("serve", folder, "--max_queue=0")
    monkeypatch.setattr(server, "Server", None)  # the port is checked before a model is loaded
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = refused("serve", folder, f"--port={port}")
        of_grpc = refused("serve", folder, "--port=0", f"--grpc_port={port}")
    assert f"cannot listen at 127.0.0.1, port {port} (Address already in use)" in of_grpc
    assert of_grpc.rstrip().endswith("give another --host or --grpc_port")
    assert f"cannot listen at 127.0.0.1, port {port} (Address already in use)" in message
    missing = f"{os.path.dirname(exported)}/none/access.log"
    message = refused("serve", folder, f"--access_log={missing}")
    assert f"cannot write the access log {missing} (No such file or directory): give" in message
    for flag, expected in {
        "--api_key_file=none": "cannot read the API keys in none: No such file or directory",
        "--tls_key=none": "--tls_key needs --tls_certificate",
        "--tls_certificate=none": "--tls_certificate: cannot read none: No such file or directory",
        "--cors_origins=none": "--cors_origins has 'none'",
        "--rate_limit=-1": "rate_limit is -1.0: give at least 0",
        "--rate_burst=5": "--rate_burst is for --rate_limit",
        "--model_dir=pocket-en-de": "--export_dir and --model_dir: give one of them",
        "--max_connections=2147483647": "give at most 1,000,000",
    }.items():
        assert expected in refused("serve", folder, flag)
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


def test_client_flags_without_effect(refused, lines):
    message = refused("client", "--grpc=127.0.0.1:9", "--server=127.0.0.1:9", lines)
    assert "--grpc and --server: give one of them" in message
    assert "--target is for --split_sentences" in refused("client", "--target=de", lines)


def test_client_with_a_wrong_address(refused, lines):
    message = refused("client", "--server=ftp://localhost", lines)
    assert "server 'ftp://localhost' is not a URL: give one such as http://127.0.0.1:" in message


def test_client_with_a_wrong_key(refused, lines, monkeypatch):
    message = refused("client", "--api_key_file=none", lines)
    assert "cannot read the API keys in none: No such file or directory" in message
    monkeypatch.setenv("TF_TRANSFORMER_API_KEY", "short")
    assert "TF_TRANSFORMER_API_KEY: give a key of 16" in refused("client", lines)


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


def test_client_splits_sentences(run, tmp_path):
    """By the rules of --source; --target decides about the white space."""
    requests = []

    def answer(texts):
        requests.append(texts)
        return translated(texts)

    (tmp_path / "in.txt").write_text("z. B. heute.  Ja.\n\nd.\n")
    flags = f"--input={tmp_path}/in.txt", "--split_sentences", "--concurrency=1"
    with scripted_server(answer) as address:
        code, out, err = run("client", f"--server={address}", *flags, "--source=de")
        assert (code, out, err) == (0, "Z. B. HEUTE.  JA.\n\nD.\n", "")
        (tmp_path / "in.txt").write_text("One. Two.")
        assert run("client", f"--server={address}", *flags, "--target=ja")[1] == "ONE.TWO.\n"
    assert requests == [["z. B. heute.", "Ja.", "d."], ["One.", "Two."]]


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
