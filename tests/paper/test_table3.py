"""Table 3: the rows are the paper's, and all of them can be trained, stopped and resumed."""

import dataclasses
import json
import subprocess
import time

import pytest

from tf_transformer.cli.main import main
from tf_transformer.errors import UserError
from tf_transformer.paper.table3 import (
    ROWS,
    Result,
    describe_paper,
    describe_results,
    full,
    row_config,
    run_row,
    run_rows,
    small,
)
from tf_transformer.presets import preset

# What the paper prints in each row where it differs from base.
CHANGES = {
    "A1": {"num_heads": 1}, "A2": {"num_heads": 4},
    "A3": {"num_heads": 16}, "A4": {"num_heads": 32},
    "B1": {"key_dim": 16}, "B2": {"key_dim": 32},
    "C1": {"num_layers": 2}, "C2": {"num_layers": 4}, "C3": {"num_layers": 8},
    "C4": {"d_model": 256}, "C5": {"d_model": 1024}, "C6": {"dff": 1024}, "C7": {"dff": 4096},
    "D1": {"dropout_rate": 0.0}, "D2": {"dropout_rate": 0.2},
    "D3": {"label_smoothing": 0.0}, "D4": {"label_smoothing": 0.2},
    "E": {"positional_encoding": "learned"},
}  # fmt: skip


def test_changes_of_the_rows():
    """Each row differs from base in what the paper prints, and in nothing else."""
    base = preset("base")
    assert set(CHANGES) == set(ROWS) - {"base", "big"}
    for name, changes in CHANGES.items():
        assert preset(name) == base.replace(**changes)
    assert len(ROWS) == len({preset(name) for name in ROWS}) == 20


def test_parameters_equal_the_papers_except_for_the_vocabulary():
    """The paper does not report the vocabulary size of Table 3.

    41,000 sub-words give the printed millions of every row but big.
    """
    for name, paper in ROWS.items():
        size = 35_800 if name == "big" else 41_000
        config = preset(name).replace(input_vocab_size=size, target_vocab_size=size)
        millions = config.model.parameters() / 1e6
        tolerance = 1.2 if name == "E" else 0.5  # E has learned positional encodings
        assert abs(millions - (paper.millions or 65)) <= tolerance, name


def test_small_rows_keep_the_proportions():
    divisors = {
        "num_layers": 2, "d_model": 4, "dff": 4, "key_dim": 4, "num_heads": 1, "dropout_rate": 1,
        "label_smoothing": 1, "train_steps": 200,
    }  # fmt: skip
    for name in ROWS:
        row, small_row = (
            vars(config.model) | vars(config.train) for config in (full(name), small(name))
        )
        for setting, divisor in divisors.items():
            assert small_row[setting] == row[setting] / divisor, (name, setting)
        assert small_row["positional_encoding"] == row["positional_encoding"]
        assert small_row["max_checkpoints"] == 1


def test_unknown_rows_and_updates():
    with pytest.raises(UserError, match="Table 3 has no row 'F1'"):
        row_config("F1", "small")
    assert row_config("big", "small", 10).train.train_steps == 30
    assert row_config("A1", "full", 10).train.train_steps == 10


def test_printed_table():
    header, _, *rows = describe_paper().splitlines()
    assert len(rows) == 20
    assert all(row.count("|") == header.count("|") for row in rows)
    cells = "6 | 512 | 2048 | 8 | 64 | 64 | 0.1 | 0.1 | 100,000 | 4.92 | 25.8 | 65 | 63.1"
    assert rows[0] == f"| base | {cells} |"


def test_mistakes(tmp_path, capsys, monkeypatch):
    assert main(["table3", "--data=pocket", "--rows=A1"]) == 2
    assert "--rows is for --run" in capsys.readouterr().err
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert main(["table3", "--run", f"--model_dir={tmp_path / 'rows'}"]) == 2
    assert "unset TF_CONFIG" in capsys.readouterr().err
    assert not (tmp_path / "rows").exists()


CONFIGS = {name: row_config(name, "small", 2) for name in ("base", "A1", "big")}


def result_json(name, config):
    """The content of a `result.json`."""
    result = Result(name, config.train.train_steps, 1, 2.0, 3.0, "tok:13a", None, config)
    return json.dumps(dataclasses.asdict(result))


def run_fast(folder, configs=CONFIGS):
    """Runs rows by commands that only write results. Returns: the rows that were trained."""
    trained = []

    def command(name):
        trained.append(name)
        (folder / name).mkdir(exist_ok=True)
        (folder / "next.json").write_text(result_json(name, configs[name]))
        return ["mv", str(folder / "next.json"), str(folder / name / "result.json")]

    assert run_rows(configs, command, str(folder))
    return trained


def test_rows_one_after_the_other(tmp_path):
    """A row with a result is not trained again, one with too few updates is."""
    assert run_fast(tmp_path) == ["base", "A1", "big"]
    (tmp_path / "A1/result.json").write_text(result_json("A1", row_config("A1", "small", 1)))
    assert run_fast(tmp_path) == ["A1"]
    with pytest.raises(UserError, match="row base with other data .* give another --model_dir"):
        run_fast(tmp_path, {"base": row_config("base", "small", 2, data="other")})


def test_failed_row(tmp_path):
    with pytest.raises(UserError, match="the training of row base failed"):
        run_rows(CONFIGS, lambda name: ["false"], str(tmp_path))


def test_interruption_ends_all_rows(tmp_path, monkeypatch):
    """The row's process gets SIGTERM and saves; then no other row is started."""
    program = f"trap 'touch {tmp_path}/saved-$0; exit' TERM; touch {tmp_path}/ready; "
    program += "for i in {1..6000}; do sleep 0.1; done"  # not for ever

    def interrupted(process):
        monkeypatch.undo()
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    assert not run_rows(CONFIGS, lambda name: ["bash", "-c", program, name], str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"ready", "saved-base"}


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"config": {"model": {}}}'])
def test_damaged_results(tmp_path, content):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "result.json").write_text(content)
    with pytest.raises(UserError, match="base/result.json: .* remove it"):
        run_fast(tmp_path)


@pytest.mark.slow
def test_a_row_is_trained_and_resumed(tmp_path, corpus_folder, caplog):
    tiny = {"num_layers": 1, "d_model": 16, "dff": 16, "vocab_size": 450, "max_length": 64}
    tiny |= {"batch_tokens": 512, "log_steps": 1, "logical_devices": 1, "data": str(corpus_folder)}
    config = row_config("A2", "small", 3, **tiny)
    assert run_row("A2", config, str(tmp_path))
    path = tmp_path / "A2" / "result.json"
    result = json.loads(path.read_text())
    assert result["updates"] == 3
    assert "tok:13a" in result["signature"]
    assert 0 <= result["split_bleu"] <= 100
    table = describe_results(str(tmp_path))
    assert table.count("\n") == 2
    assert "| A2 | 1 | 16 | 16 | 4 | 4 | 4 | 0.1 | 0.1 | 3 |" in table
    assert table.endswith("| 5.00 | 25.5 |")

    caplog.set_level("INFO", "tf_transformer")
    assert run_row("A2", row_config("A2", "small", 5, **tiny), str(tmp_path))
    assert "resuming from" in caplog.text
    assert json.loads(path.read_text())["updates"] == 5
