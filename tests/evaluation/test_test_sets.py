"""The test sets of sacreBLEU, from its cache."""

import os
import subprocess
import sys

import pytest

from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import read_segments

READ = "import sys; from tf_transformer.evaluation.bleu import read_segments as read; "
READ += "print(*read(*sys.argv[1:]))"


@pytest.mark.parametrize(("name", "message"), [
    ("wmt1", "no test set 'wmt1': sacreBLEU has"), ("wmt14", "wmt14 has no en-ja: it has cs-en"),
])  # fmt: skip
def test_unknown_test_sets(name, message):
    with pytest.raises(UserError, match=message):
        read_segments(name, "en", "ja")


def test_a_test_set_of_sacrebleu(tmp_path):
    """It is read from sacreBLEU's cache. Without a download, there is one clear message."""
    folder = tmp_path / "wmt14"
    folder.mkdir()
    fields = {"src": "It rains.", "ref": "Es regnet.", "docid": "a", "genre": "", "origlang": "en"}
    for name, text in fields.items():
        (folder / f"wmt14.en-de.{name}").write_text(f"{text}\n")
    environment = {**os.environ, "SACREBLEU": str(tmp_path), "https_proxy": "http://127.0.0.1:1"}

    def read(*arguments):
        command = [sys.executable, "-c", READ, *arguments]
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        return run.stdout or run.stderr

    assert read("wmt14", "eng", "de_DE") == "['It rains.'] [['Es regnet.']]\n"
    assert "the test set wmt15 could not be downloaded" in read("wmt15", "en", "de")
