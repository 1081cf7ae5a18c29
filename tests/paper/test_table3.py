"""Table 3: the rows are the paper's, and all of them can be trained, stopped and resumed."""

import dataclasses
import json
import re
import signal
import subprocess
import sys
import time

import pytest

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.cli.main import main
from tf_transformer.errors import UserError
from tf_transformer.paper import table3
from tf_transformer.paper.table3 import (
    ROWS,
    Result,
    describe_paper,
    full,
    row_config,
    run_rows,
    small,
)
from tf_transformer.presets import preset

# What the paper prints in each row where it differs from base.
CHANGES = {
    "A1": {"num_heads": 1},
    "A2": {"num_heads": 4},
    "A3": {"num_heads": 16},
    "A4": {"num_heads": 32},
    "B1": {"key_dim": 16},
    "B2": {"key_dim": 32},
    "C1": {"num_layers": 2},
    "C2": {"num_layers": 4},
    "C3": {"num_layers": 8},
    "C4": {"d_model": 256},
    "C5": {"d_model": 1024},
    "C6": {"dff": 1024},
    "C7": {"dff": 4096},
    "D1": {"dropout_rate": 0.0},
    "D2": {"dropout_rate": 0.2},
    "D3": {"label_smoothing": 0.0},
    "D4": {"label_smoothing": 0.2},
    "E": {"positional_encoding": "learned"},
}
DEPTHS = {"A1": 512, "A2": 128, "A3": 32, "A4": 16, "C4": 32, "C5": 128}  # the paper's d_k


def test_changes_of_the_rows():
    """Each row differs from base in what the paper prints, and in nothing else."""
    base = preset("base")
    assert set(CHANGES) == set(ROWS) - {"base", "big"}
    for name, changes in CHANGES.items():
        assert preset(name) == base.replace(**changes)
    for name, depth in DEPTHS.items():
        model = preset(name).model
        assert model.d_model // model.num_heads == depth
    assert len(ROWS) == 20
    assert len({preset(name) for name in ROWS}) == 20


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


@pytest.mark.parametrize(
    "config",
    [preset("pocket"), preset("parsing-pocket"), small("base"), small("B1"), small("E")],
    ids=["pocket", "parsing-pocket", "small base", "small B1", "small E"],
)
def test_parameters_equal_those_of_a_built_model(config):
    """`info` and `table3` print the closed formula."""
    size = config.data.vocab_size
    model_config = config.with_vocabularies(size, size).model
    assert build_model(model_config).count_params() == model_config.parameters()


@pytest.mark.parametrize("name", list(ROWS))
def test_small_rows_keep_the_proportions(name):
    full_row = full(name)
    full_base = full("base")
    small_row = small(name)
    small_base = small("base")
    for setting in ("num_layers", "d_model", "dff"):
        ratio = getattr(full_row.model, setting) / getattr(full_base.model, setting)
        small_ratio = getattr(small_row.model, setting) / getattr(small_base.model, setting)
        assert small_ratio == pytest.approx(ratio)
    small_ratio = small_row.train.train_steps / small_base.train.train_steps
    assert small_ratio == full_row.train.train_steps / full_base.train.train_steps
    for setting in ("num_heads", "dropout_rate", "positional_encoding"):
        assert getattr(small_row.model, setting) == getattr(full_row.model, setting)
    assert small_row.train.label_smoothing == full_row.train.label_smoothing
    assert small_row.train.max_checkpoints == 1
    assert small_row.model.key_dim == full_row.model.key_dim / 4


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


def test_flags_of_a_run_without_run(capsys):
    assert main(["table3", "--data=pocket", "--rows=A1"]) == 2
    assert "--rows is for --run" in capsys.readouterr().err


def test_several_workers_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert main(["table3", "--run", f"--model_dir={tmp_path / 'rows'}"]) == 2
    assert "unset TF_CONFIG" in capsys.readouterr().err
    assert not (tmp_path / "rows").exists()


def script(folder, name, code):
    """Writes a Python program. Returns: the command that runs it."""
    path = folder / f"{name}.py"
    path.write_text(code)
    return [sys.executable, str(path)]


def result_dict(config):
    """The content of a `result.json`."""
    result = Result("A1", config.train.train_steps, 1, 2.0, 3.0, "tok:13a", None, config)
    return dataclasses.asdict(result)


class FakeTraining:
    """A command that only writes the result of a row; it remembers for which rows it was made."""

    def __init__(self, folder, configs):
        self.folder = folder
        self.configs = configs
        self.calls = []

    def __call__(self, name):
        self.calls.append(name)
        path = self.folder / name
        result = json.dumps(result_dict(self.configs[name]))
        code = (
            f"import pathlib; path = pathlib.Path({str(path)!r}); path.mkdir(exist_ok=True); "
            f"(path / 'result.json').write_text({result!r})"
        )
        return script(self.folder, name, code)


@pytest.fixture
def configs():
    return {name: row_config(name, "small", 2) for name in ("base", "A1", "big")}


def test_rows_one_after_the_other(tmp_path, configs):
    """A row with a result is not trained again, one with too few updates is."""
    training = FakeTraining(tmp_path, configs)
    assert run_rows(configs, training, str(tmp_path))
    assert training.calls == ["base", "A1", "big"]
    shorter = json.dumps(result_dict(row_config("A1", "small", 1)))
    (tmp_path / "A1" / "result.json").write_text(shorter)
    training = FakeTraining(tmp_path, configs)
    assert run_rows(configs, training, str(tmp_path))
    assert training.calls == ["A1"]


def test_failed_row(tmp_path, configs):
    def failing(name):
        return script(tmp_path, name, "raise SystemExit(3)")

    with pytest.raises(UserError, match="the training of row base failed"):
        run_rows(configs, failing, str(tmp_path))


def test_result_of_other_data(tmp_path, configs):
    training = FakeTraining(tmp_path, configs)
    assert run_rows(configs, training, str(tmp_path))
    others = {"base": row_config("base", "small", 2, data="other")}
    with pytest.raises(UserError, match="row base with other data .* or another size"):
        run_rows(others, training, str(tmp_path))


def test_damaged_results(tmp_path, configs):
    (tmp_path / "base").mkdir()
    contents = [
        "{",
        "[]",
        "{}",
        json.dumps(result_dict(configs["base"]) | {"more": 1}),
        '{"config": {"model": {}}}',
    ]
    for content in contents:
        (tmp_path / "base" / "result.json").write_text(content)
        with pytest.raises(UserError, match="base/result.json: not a result of this version"):
            run_rows(configs, FakeTraining(tmp_path, configs), str(tmp_path))


def test_a_row_is_trained_and_resumed(tmp_path, corpus_folder, capsys, monkeypatch):
    tiny = {
        "num_layers": 1,
        "d_model": 16,
        "dff": 16,
        "vocab_size": 450,
        "max_length": 64,
        "batch_tokens": 512,
        "log_steps": 1,
    }
    monkeypatch.setattr(table3, "small", lambda name: small(name).replace(**tiny))
    flags = ["--rows=A2", f"--data={corpus_folder}", f"--model_dir={tmp_path}"]
    assert main(["table3", "--run", "--train_steps=3", *flags]) == 0
    log = capsys.readouterr().err
    result = json.loads((tmp_path / "A2" / "result.json").read_text())
    assert result["updates"] == 3
    assert "tok:13a" in result["signature"]
    assert 0 <= result["split_bleu"] <= 100
    line = f"A2: PPL {result['perplexity']:.2f}, BLEU {result['bleu']:.2f} ({result['signature']})"
    assert line in log
    table = (tmp_path / "results.md").read_text()
    assert table.count("\n") == 3
    assert "| A2 | 1 | 16 | 16 | 4 | 4 | 4 | 0.1 | 0.1 | 3 |" in table
    assert "| 5.00 | 25.5 |" in table

    assert main(["table3", "--run", "--train_steps=3", *flags]) == 0
    log = capsys.readouterr().err
    assert re.match(rf"\d\d:\d\d:\d\d INFO {re.escape(line)}", log)  # it is complete already

    assert main(["table3", "--run", "--train_steps=5", *flags]) == 0
    assert "resuming from" in capsys.readouterr().err


ROW_PROGRAM = """
import pathlib, signal, sys, time
folder = pathlib.Path({folder!r})
def end(*_):
    (folder / "saved").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
(folder / "ready").touch()
time.sleep(60)
"""

ALL_ROWS_PROGRAM = """
from tf_transformer.paper import table3
configs = {{name: table3.row_config(name, "small") for name in ("base", "A1")}}
print(table3.run_rows(configs, lambda name: {command!r}, {folder!r}))
"""


def test_interruption_reaches_the_current_row(tmp_path):
    """SIGTERM is passed on to the process of the row, which saves; then no other row is started."""
    folder = str(tmp_path)
    row_command = script(tmp_path, "row", ROW_PROGRAM.format(folder=folder))
    code = ALL_ROWS_PROGRAM.format(command=row_command, folder=folder)
    process = subprocess.Popen(
        script(tmp_path, "all_rows", code), stdout=subprocess.PIPE, text=True
    )
    for _ in range(300):
        if (tmp_path / "ready").exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0].endswith("False\n")
    assert (tmp_path / "saved").exists()
