"""Published test sets: sacreBLEU's, from its cache, and files of WMT."""

import os
import subprocess
import sys

import pytest

from tf_transformer.errors import UserError
from tf_transformer.evaluation.test_sets import read_segments

SOURCE = """<srcset setid="news" srclang="any">
<doc docid="a" origlang="en">
<p>
<seg id="1">Tom &amp; Jerry  sleep.</seg>
<seg id="2">Is a <b and <unk> &lt; c?</seg>
</p>
</doc>
</srcset>
"""
REFERENCE = """<refset setid="news" srclang="any" trglang="de">
<doc docid="a" origlang="en">
<seg id="1">Tom & Jerry schlafen.</seg>
<seg id="2">Es regnet.</seg>
</doc>
</refset>
"""
XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="news"><collection id="general">
<doc origlang="en" id="a">
<src lang="en"><p><seg id="1">It rains.</seg><seg id="2">Not translated.</seg></p></src>
<ref lang="de" translator="A"><p><seg id="1">Es regnet.</seg><seg id="2"/></p></ref>
<ref lang="de" translator="B"><p><seg id="1">Regen fällt.</seg></p></ref>
</doc>
<doc origlang="en" id="b" testsuite="names">
<src lang="en"><seg id="1">Left out.</seg></src><ref lang="de"><seg id="1">Fehlt.</seg></ref>
</doc>
</collection></dataset>
"""
READ = """
import sys
from tf_transformer.errors import UserError
from tf_transformer.evaluation.test_sets import read_segments
try:
    print(*read_segments(*sys.argv[1:]))
except UserError as error:
    print(error)
"""


def write(folder, **texts):
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return ",".join(str(folder / name) for name in texts)


def test_files_of_wmt(tmp_path):
    references = ["Tom & Jerry schlafen.", "Es regnet."]
    sgml = write(tmp_path, source=SOURCE, reference=REFERENCE, other=REFERENCE)
    assert read_segments(sgml, "en", "de") == (
        ["Tom & Jerry sleep.", "Is a <b and <unk> < c?"], [references, references],
    )  # fmt: skip
    xml = write(tmp_path, xml=XML)
    assert read_segments(xml, "eng", "de_DE") == (["It rains."], [["Es regnet."], ["Regen fällt."]])


@pytest.mark.parametrize(("texts", "message"), [
    ({"xml": "plain text"}, "not XML of WMT"),
    ({"xml": "<dataset/>"}, "no segments"),
    ({"xml": XML.replace('"de"', '"ja"')}, "no segments .* in en with a reference in de"),
    ({"source": SOURCE}, "SGML has two files: give SOURCE_FILE,REFERENCE_FILE"),
    ({"source": SOURCE, "reference": "<seg>Nur eins.</seg>"}, "2 segments .* 1"),
])  # fmt: skip
def test_wrong_files(texts, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read_segments(write(tmp_path, **texts), "en", "de")


@pytest.mark.parametrize(("name", "message"), [
    ("wmt1", "no test set 'wmt1' and no such file"), ("wmt14", "wmt14 has no en-ja: it has cs-en"),
])  # fmt: skip
def test_unknown_test_sets(name, message):
    with pytest.raises(UserError, match=message):
        read_segments(name, "en", "ja")


def test_a_test_set_of_sacrebleu(tmp_path):
    """It is read from sacreBLEU's cache. Without a download, there is one clear message."""
    folder = tmp_path / "wmt14"
    folder.mkdir()
    fields = {"src": "It rains.", "ref": "Es regnet.", "docid": "a", "genre": "", "origlang": "en"}
    write(folder, **{f"wmt14.en-de.{name}": f"{text}\n" for name, text in fields.items()})
    environment = {**os.environ, "SACREBLEU": str(tmp_path), "https_proxy": "http://127.0.0.1:1"}

    def read(*arguments):
        command = [sys.executable, "-c", READ, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True).stdout

    assert read("wmt14", "eng", "de_DE") == "['It rains.'] [['Es regnet.']]\n"
    assert read("wmt15", "en", "de").startswith("the test set wmt15 could not be downloaded")
