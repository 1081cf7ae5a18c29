"""The package's metadata, the files of its wheel, and the files that repeat its version."""

import email
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
import yaml

from tf_transformer import __version__

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "tf_transformer"


def copy_sources(folder):
    """Copies what a build needs, so that it leaves nothing in the working tree."""
    shutil.copytree(
        PACKAGE, folder / "tf_transformer", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The package's wheel, as a `ZipFile`."""
    folder = tmp_path_factory.mktemp("wheel")
    copy_sources(folder)
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel",
         "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir=dist", "."],
        cwd=folder, check=True,
    )  # fmt: skip
    (path,) = (folder / "dist").iterdir()
    assert path.name == f"tf_transformer-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as file:
        yield file


def test_wheel_has_every_file_of_the_package(wheel):
    """All modules and data files, and nothing else: no tests."""
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    metadata = f"tf_transformer-{__version__}.dist-info/"
    assert {name for name in wheel.namelist() if not name.startswith(metadata)} == expected
    data = (
        "checkpoints/built_in/pocket-en-de/averaged.npz",
        "data/built_in/pocket.tsv.xz",
        "py.typed",
        "serving/page_files/index.html",
        "visualization/attention_display/attention.js",
        "visualization/attention_viewer.html",
    )
    assert {f"tf_transformer/{name}" for name in data} <= expected
    assert wheel.read(f"{metadata}licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_metadata(wheel):
    folder = f"tf_transformer-{__version__}.dist-info"
    metadata = email.message_from_bytes(wheel.read(f"{folder}/METADATA"))
    assert metadata["Name"] == "tf_transformer"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == "<3.14,>=3.10"
    extras = {"gpu", "serving", "ctranslate2", "huggingface", "notebooks", "docs", "dev"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    assert b"tf-transformer = tf_transformer.__main__:run" in wheel.read(
        f"{folder}/entry_points.txt"
    )


def test_files_that_repeat_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert next(heading for heading in headings if heading != "Unreleased") == f"[{__version__}]"


def test_continuous_integration_runs_existing_targets():
    """The workflow runs the same targets as `.ci/run`, and all of them exist."""
    (line,) = re.findall(r"^make (.+)$", (ROOT / ".ci/run").read_text("utf-8"), re.M)
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    runs = workflow["jobs"]["make"]["strategy"]["matrix"]["include"]
    assert {run["target"] for run in runs} == set(line.split())
    assert {run["python"] for run in runs if run["target"] == "test"} == {"3.10", "3.13"}
    targets = re.findall(r"^([\w-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert set(line.split()) <= set(targets)


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").iterdir()), ids=str)
def test_issue_templates(path):
    """GitHub hides an invalid template. A report of a bug has the output of doctor."""
    template = yaml.safe_load(path.read_text("utf-8"))
    if path.name == "config.yml":
        return
    assert {"name", "description", "body"} <= set(template)
    ids = [part["id"] for part in template["body"] if part["type"] != "markdown"]
    assert ids
    assert len(set(ids)) == len(ids)
    if path.name != "feature.yml":
        assert "tf-transformer doctor" in path.read_text("utf-8")
