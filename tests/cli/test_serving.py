"""The command serve."""

import os
import re
import shutil
import subprocess

import pytest

from tf_transformer.checkpoints import model_folder
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

    def export(command, **options):
        flags = dict(flag.split("=") for flag in command if flag.startswith("--"))
        exported.append(flags["--model_dir"])
        version = os.path.join(flags["--output"], "1")
        os.mkdir(version)
        write_checksums(version)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", export)  # of a process that takes a minute
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
