"""The wheel in an empty environment: its commands, as a user runs them.

`make test-wheel` runs it. It needs the package index or pip's cache, and some minutes.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile

import pytest
from serving.fake_models import SECONDS, wait_until

from tf_transformer import __version__

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder():
    """An empty working directory, beside the environment. All is removed at the end."""
    with tempfile.TemporaryDirectory() as root:
        source, dist, work = (pathlib.Path(root, name) for name in ("source", "dist", "work"))
        source.mkdir()
        work.mkdir()
        # A copy, so that the build leaves nothing in the working tree.
        no_caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "tf_transformer", source / "tf_transformer", ignore=no_caches)
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        build = [*pip, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={dist}", source]
        subprocess.run(build, check=True)
        (wheel,) = dist.iterdir()
        subprocess.run([sys.executable, "-m", "venv", f"{root}/venv"], check=True)
        pip[0] = f"{root}/venv/bin/python"
        subprocess.run([*pip, "install", "--upgrade", "pip"], check=True)
        subprocess.run([*pip, "install", f"{wheel}[serving]"], check=True)
        yield work


def start(folder, *arguments, program="tf-transformer", **options):
    """Starts an installed program in the working directory, without this environment's paths."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "TF_"))
    }
    environment["XDG_CACHE_HOME"] = str(folder.parent / "cache")  # without the user's exports
    path = str(folder.parent / "venv/bin" / program)
    return subprocess.Popen([path, *arguments], cwd=folder, env=environment, text=True, **options)


def run(folder, *arguments, text=None, program="tf-transformer"):
    """Runs an installed program. Returns: its standard output."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = start(folder, *arguments, program=program, **pipes)
    out, err = process.communicate(text)
    assert process.returncode == 0, f"{arguments}\n{out}\n{err}"
    return out


def test_version_and_help(folder):
    assert run(folder, "--version") == f"{__version__}\n"
    assert "tf-transformer COMMAND" in run(folder, "--help")
    assert list(folder.iterdir()) == []


def test_wheel_has_every_file_of_the_package(folder):
    """All modules and data files, and nothing else: no tests."""
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tf_transformer").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    (path,) = (folder.parent / "dist").iterdir()
    assert path.name == f"tf_transformer-{__version__}-py3-none-any.whl"
    metadata = f"tf_transformer-{__version__}.dist-info/"
    with zipfile.ZipFile(path) as wheel:
        assert {name for name in wheel.namelist() if not name.startswith(metadata)} == expected
        assert wheel.read(f"{metadata}licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_doctor(folder):
    assert run(folder, "doctor").endswith("OK: training works here\n")
    # Which tensorflow-datasets needs to prepare a data set, and does not declare.
    run(folder, "-c", "import importlib_resources", program="python")


def test_the_sentences_of_the_guide_to_the_layers(folder):
    """Its table of an English-Spanish program has what the built-in model says."""
    guide = (ROOT / "docs" / "guides" / "keras.md").read_text("utf-8")
    rows = re.findall(r"^\| ([A-Z][^|]+\.) \|.* \| ([^|(]+\.)(?: \(.+\))? \|$", guide, re.M)
    assert len(rows) == 6
    text, translations = ("".join(f"{line}\n" for line in lines) for lines in zip(*rows))
    assert run(folder, "translate", "--model_dir=tatoeba-en-es", text=text) == translations


def answer_of(url, data):
    """The JSON of an answer; None while the server loads its model."""
    with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url, data) as response:
        return json.load(response)


def test_built_in_models(folder):
    """The package contains them: they translate, are exported and served without other flags."""
    text, model = "The boy reads a book.\n", "--model_dir=pocket-en-de"
    assert run(folder, "translate", model, text=text) == "Der Junge liest ein Buch.\n"
    assert run(folder, "translate", text=text).startswith("Der Junge")
    log = folder / "serve.log"
    with open(log, "w") as file:
        server = start(folder, "serve", "--port=0", stderr=file)
    try:  # it exports its models first
        found = wait_until(lambda: re.search("listening at (.*)\n", log.read_text()))
        url, data = f"{found[1]}/v1/models/tatoeba-en-de:predict", b'{"instances": ["I sleep."]}'
        answer = wait_until(lambda: answer_of(url, data))
        assert len(answer["predictions"]) == 1
        server.send_signal(signal.SIGTERM)
        assert server.wait(SECONDS) == 0
    finally:
        server.kill()
        server.wait()
