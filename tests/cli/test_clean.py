"""The command clean."""

import gzip
import io
import types

import pytest

PAIRS = [
    ("A good sentence.", "Ein guter Satz."),
    ("A <b>bold</b> word", "Ein fettes Wort"),
    ("A good sentence.", "Ein guter Satz."),
    ("", "Ja."),
    ("Another one, naïve", "Noch einer, größer"),
]
KEPT = [PAIRS[0], PAIRS[4]]
TABLE = "kept 2 40.00% empty side 1 20.00% HTML 1 20.00% duplicate pair 1 20.00%"


@pytest.fixture
def data(tmp_path):
    """The paths of two files."""
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (tmp_path / f"in.{language}").write_text(text, "utf-8")
    return f"{tmp_path}/in.en,{tmp_path}/in.de"


def test_two_compressed_files(run, data, tmp_path):
    new = tmp_path / "new"
    outputs = f"--output={new}/train.en.gz,{new}/train.de.gz"
    command = "clean", f"--data={data}", outputs, f"--rejected={new}/rejected.tsv"
    code, out, _ = run(*command)
    assert (code, " ".join(out.split())) == (0, f"all of files {data}: 5 pairs {TABLE}")
    for side, language in enumerate(("en", "de")):
        compressed = (new / f"train.{language}.gz").read_bytes()
        lines = gzip.decompress(compressed).decode("utf-8").splitlines()
        assert lines == [pair[side] for pair in KEPT]
    assert (new / "rejected.tsv").read_text("utf-8").splitlines() == [
        "HTML\tA <b>bold</b> word\tEin fettes Wort",
        "duplicate pair\tA good sentence.\tEin guter Satz.",
        "empty side\t\tJa.",
    ]


def test_standard_streams(succeed, monkeypatch):
    text = "".join(f"{source}\t{target}\n" for source, target in PAIRS).encode()
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(text)))
    out, err = succeed("clean", "--source=tlh")
    assert out.splitlines() == ["\t".join(pair) for pair in KEPT]
    assert "WARNING --min_script does not check tlh: the script is not known" in err
    assert "INFO standard input: 5 pairs" in err
    assert " 40.00%" in err


def test_pairs_held_out_for_validation_are_cleaned_too(run, data, tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for language in ("en", "de"):
        text = (tmp_path / f"in.{language}").read_bytes()
        (folder / f"train.{language}").write_bytes(text)
        (folder / f"test.{language}").write_bytes(text)
    _, out, _ = run("clean", f"--data={folder}", f"--output={tmp_path}/out.tsv")
    assert out.startswith(f"all of folder {folder}: 5 pairs\n")
    _, out, _ = run("clean", f"--data={folder}", "--split=validation", f"--output={tmp_path}/v")
    assert out.startswith(f"validation of folder {folder}: 1 pairs\n")


def test_the_script_is_that_of_the_languages_of_a_corpus(succeed, tmp_path):
    (tmp_path / "ru.tsv").write_text("Кошка спит.\tThe cat sleeps.\n" * 2, "utf-8")
    (tmp_path / "de.tsv").write_text("The dog sleeps.\tDer Hund schläft.\n" * 2, "utf-8")
    data = f"--data={tmp_path}/de.tsv,{tmp_path}/ru.tsv@ru-en"
    out, _ = succeed("clean", data)
    assert out == "The dog sleeps.\tDer Hund schläft.\nКошка спит.\tThe cat sleeps.\n"


def test_weights_are_kept(run, tmp_path):
    path, rejected = tmp_path / "in.tsv", tmp_path / "rejected.tsv"
    path.write_text("".join(f"{s}\t{t}\t{i / 4}\n" for i, (s, t) in enumerate(PAIRS, 1)))
    code, out, _ = run("clean", f"--data={path}", f"--rejected={rejected}")
    assert (code, out) == (
        0, "A good sentence.\tEin guter Satz.\t0.25\nAnother one, naïve\tNoch einer, größer\t1.25\n"
    )  # fmt: skip
    assert "duplicate pair\tA good sentence.\tEin guter Satz.\t0.75\n" in rejected.read_text()
    path = tmp_path / "in.jsonl"
    one = '{"en": "One cat.", "de": "Eine Katze."}\n'
    path.write_text(one + '{"en": "A", "de": "B", "weight": 0.1234567}\n')
    expected = "One cat.\tEine Katze.\t1\nA\tB\t0.1234567\n"
    assert run("clean", f"--data={path}")[:2] == (0, expected)
    path.write_text(one * 2)
    outputs = f"--output={tmp_path}/a,{tmp_path}/b"
    assert run("clean", f"--data={path}", outputs)[0] == 0  # all weights are 1
