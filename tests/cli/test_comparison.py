"""Runs side by side: their table, what cannot be compared, the mean over seeds, and test sets."""

import os
import pathlib

import pytest
from fake_runs import write_run

from tf_transformer.cli.comparison import Row, describe_runs, find_runs
from tf_transformer.config import Config
from tf_transformer.errors import UserError


@pytest.fixture
def make_run(tmp_path):
    """A function that writes a run in a folder of this name, and returns its path."""
    return lambda name, *values, **settings: write_run(tmp_path / name, *values, **settings)


def rows_of(text):
    """The rows of the table: a dict from their titles to their cells."""
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    return {line[:28].strip(): line[28:].split() for line in lines}


def test_the_table(make_run):
    paths = [make_run("small", d_model=64), make_run("large", 3.0, 25.5, complete=False)]
    text = describe_runs(find_runs(paths))
    rows = rows_of(text)
    assert "dff" not in rows  # an equal setting
    expected = {
        "d_model": ["64", "512"],
        "state": ["complete", "unfinished"],
        "updates": ["20", "20"],
        "minutes of training": ["1.0", "1.0"],  # 20 s and 40 s
        "lowest validation loss": ["4.0000", "3.0000"],
        "after updates": ["10", "10"],
        "last validation loss": ["5.0000", "4.0000"],
        "highest BLEU": ["20.00", "25.50"],
        "average: loss": ["6.0000", "-"],
        "average: BLEU": ["21.00", "-"],
    }
    assert {name: rows[name] for name in expected} == expected
    assert "±" not in text


def test_the_mean_over_seeds(make_run, tmp_path):
    """Of the losses 1, 2 and 6 the mean is 3 and the sample variance (4 + 1 + 9) / 2 = 7."""
    for seed, loss in ((1, 1.0), (2, 2.0), (3, 6.0)):
        make_run(f"seeds/seed-{seed}", loss, seed=seed)
    make_run("seeds/unfinished", 9.0, complete=False, seed=4)
    make_run("seeds/wide", 9.0, seed=5, dff=4096)
    runs = find_runs([str(tmp_path / "seeds")])
    assert [run.config.train.seed for run in runs] == [1, 2, 3, 4, 5]
    score = Row("test: BLEU", [30.0, 31.0, 32.0, 40.0, 50.0], ".2f", is_result=True)
    text = describe_runs(runs, [score])
    _, _, mean = text.partition("runs 1, 2, 3, which differ in the seed\n")
    rows = {line[:28].strip(): line[28:].strip() for line in mean.splitlines()}
    assert rows["lowest validation loss"] == "3.0000 ± 2.6458"
    assert rows["highest BLEU"] == "20.00 ± 0.00"
    assert rows["average: loss"] == "5.0000 ± 2.6458"
    assert rows["test: BLEU"] == "31.00 ± 1.00"
    assert "parameters" not in rows
    with open(f"{runs[1].path}/metrics.jsonl", "a") as file:  # as after --train_minutes
        file.write('{"step": 1234, "kind": "average", "time": 1e9, "loss": 6.0}\n')
    text = describe_runs(find_runs([str(tmp_path / "seeds")]))
    assert "and in the number of updates, from 20 to 1,234\n" in text


def test_exports_are_no_runs(make_run, tmp_path):
    """They have a config.json as well."""
    folder = tmp_path / "runs"
    paths = [make_run("runs/a"), make_run("runs/b")]
    for export in (folder / "export", folder / "a" / "export"):
        export.mkdir()
        (export / "config.json").write_text('{"model_type": "marian"}')
    assert [run.path for run in find_runs([str(folder)])] == paths
    # A run without settings yet, such as one that learns its vocabulary.
    (folder / "a" / "config.json").unlink()
    with pytest.raises(UserError, match="a holds no model"):
        find_runs([f"{folder}/a", paths[1]])


@pytest.mark.parametrize(("changes", "note"), [
    ({}, ""),
    ({"data": "other"}, "different data"),
    ({"target": "fr"}, "different data"),
    ({"vocabulary": "b"}, "different vocabularies"),
    ({"bleu_sentences": 3}, "different numbers of sentences"),
])  # fmt: skip
def test_what_cannot_be_compared(make_run, changes, note):
    text = describe_runs(find_runs([make_run("a"), make_run("b", **changes)]))
    assert note in text
    assert ("different" in text) == bool(note)
    assert "±" not in text  # a copy of a run is not another seed


def test_mistakes(make_run, tmp_path):
    path = make_run("run")
    with pytest.raises(UserError, match="at least two runs, and got .*run: give more folders"):
        find_runs([path, f"{path}/"])
    with pytest.raises(UserError, match="no model folder .*none"):
        find_runs([path, f"{path}/none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty holds no model"):
        find_runs([path, str(tmp_path / "empty")])


def test_a_run_without_a_history(make_run, tmp_path):
    paths = [make_run("a"), make_run("new")]
    (tmp_path / "new" / "metrics.jsonl").unlink()
    rows = rows_of(describe_runs(find_runs(paths)))
    assert rows["state"] == ["complete", "unfinished"]
    assert rows["updates"] == ["20", "0"]
    assert rows["lowest validation loss"] == ["4.0000", "-"]


@pytest.fixture
def three_runs(make_run, corpus_folder):
    return [make_run(name, seed=n, data=str(corpus_folder)) for n, name in enumerate("abc", 1)]


def write_translations(folder, lines):
    path = pathlib.Path(folder, "evaluation", "test.de")
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def test_compare(run, succeed, three_runs, corpus_folder, tmp_path):
    folders = three_runs
    references = (corpus_folder / "test.de").read_text("utf-8").splitlines()
    write_translations(folders[0], references)
    write_translations(folders[1], references)
    path = write_translations(folders[2], references[:30] + ["nichts"] * (len(references) - 30))
    os.utime(path, (1, 1))
    out, err = succeed("compare", *folders, "--split=test")
    assert err.count("is older than the model") == 1
    seeds, scores, p_values = (
        out.split(f"  {name} ")[1].split()[:3]
        for name in ("seed", "test: BLEU", "p-value against run 1")
    )
    assert seeds == ["1", "2", "3"]
    assert scores[:2] == ["100.00"] * 2 and float(scores[2]) < 100
    assert p_values[:2] == ["-", "-"] and float(p_values[2]) < 0.01
    assert "runs 1, 2, 3, which differ in the seed" in out
    assert "bs:1000" in out
    # The folder of all, and only the pairs that are equal.
    _, out, _ = run("compare", str(tmp_path), "--split=test", "--max_pairs=30", "--metrics=chrf")
    assert out.split("test: chrF")[1].split()[:3] == ["100.00"] * 3
    _, out, _ = run("compare", f"--runs={folders[0]},{folders[1]}")
    assert "test:" not in out


def test_translations_that_cannot_be_compared(refused, three_runs):
    first, second, _ = three_runs
    command = "compare", first, second, "--split=test"
    assert f"`tf-transformer evaluate --model_dir={first} --split=test`" in refused(*command)
    for lines in (2, 61):
        write_translations(first, ["eins"] * lines)
        assert f"has translations of {lines} pairs, and test has 60: run" in refused(*command)
    path = os.path.join(second, "config.json")
    Config.load(path).replace(target="fr").save(path)
    assert f"{second} is for en to fr, {first} for en to de" in refused(*command)
