"""Table 3: the rows are the paper's, and all of them can be trained, stopped and gone on with."""

import dataclasses
import json
import signal
import subprocess
import sys
import time

import pytest

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


def test_what_the_rows_change():
    """Each row differs from base in what the paper's row prints, and in nothing else."""
    base = preset("base")
    printed = {
        "A1": {"num_heads": 1}, "A2": {"num_heads": 4}, "A3": {"num_heads": 16}, "A4": {"num_heads": 32},
        "B1": {"key_dim": 16}, "B2": {"key_dim": 32},
        "C1": {"num_layers": 2}, "C2": {"num_layers": 4}, "C3": {"num_layers": 8}, "C4": {"d_model": 256}, "C5": {"d_model": 1024},
        "C6": {"dff": 1024}, "C7": {"dff": 4096}, "D1": {"dropout_rate": 0.0}, "D2": {"dropout_rate": 0.2}, "D3": {"label_smoothing": 0.0},
        "D4": {"label_smoothing": 0.2}, "E": {"positional_encoding": "learned"},
    }  # fmt: skip
    assert set(printed) == set(ROWS) - {"base", "big"}
    for name, changes in printed.items():
        assert preset(name) == base.replace(**changes)
    depths = {
        name: preset(name).model.d_model // preset(name).model.num_heads
        for name in ("A1", "A2", "A3", "A4", "C4", "C5")
    }
    assert depths == {
        "A1": 512,
        "A2": 128,
        "A3": 32,
        "A4": 16,
        "C4": 32,
        "C5": 128,
    }  # the paper's d_k
    assert len(ROWS) == 20 and len({preset(name) for name in ROWS}) == 20


def test_parameters_are_the_papers_but_for_the_vocabulary():
    """The paper does not tell the vocabulary of Table 3; one of 41,000 gives the printed millions of every row but big."""
    for name, printed in ROWS.items():
        size = 35_800 if name == "big" else 41_000
        found = (
            preset(name).replace(input_vocab_size=size, target_vocab_size=size).model.parameters()
            / 1e6
        )
        assert abs(found - (printed.millions or 65)) <= (1.2 if name == "E" else 0.5), (
            name
        )  # E: tables of positions


@pytest.mark.parametrize("name", list(ROWS))
def test_the_small_rows_keep_the_proportions(name):
    one, base, little = full(name), full("base"), small(name)
    for setting in ("num_layers", "d_model", "dff"):
        ratio = getattr(one.model, setting) / getattr(base.model, setting)
        assert getattr(little.model, setting) / getattr(
            small("base").model, setting
        ) == pytest.approx(ratio)
    assert (
        little.train.train_steps / small("base").train.train_steps
        == one.train.train_steps / base.train.train_steps
    )
    for setting in ("num_heads", "dropout_rate", "positions"):
        assert getattr(little.model, setting) == getattr(one.model, setting)
    assert (
        little.train.label_smoothing == one.train.label_smoothing
        and little.train.max_checkpoints == 1
    )
    assert little.model.key_dim == one.model.key_dim / 4


def test_unknown_rows_and_updates():
    with pytest.raises(UserError, match="Table 3 has no row 'F1'"):
        row_config("F1", "small")
    assert (
        row_config("big", "small", 10).train.train_steps == 30
        and row_config("A1", "full", 10).train.train_steps == 10
    )


def test_the_printed_table(monkeypatch):
    class Built:
        def count_params(self):
            return 63_082_496

    monkeypatch.setattr("tf_transformer.build_model", lambda model: Built())
    head, _, *rows = describe_paper().splitlines()
    assert len(rows) == 20 and all(row.count("|") == head.count("|") for row in rows)
    assert (
        rows[0]
        == "| base | 6 | 512 | 2048 | 8 | 64 | 64 | 0.1 | 0.1 | 100,000 | 4.92 | 25.8 | 65 | 63.1 |"
    )


def test_settings_of_a_run_without_run(capsys):
    assert main(["table3", "--data=pocket", "--rows=A1"]) == 2
    assert "--rows, --data without --run: give --run" in capsys.readouterr().err


def test_several_machines_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert (
        main(["table3", "--run", f"--model_dir={tmp_path / 'rows'}"]) == 2
        and "unset TF_CONFIG" in capsys.readouterr().err
    )
    assert not (tmp_path / "rows").exists()


def script(folder, name, body):
    path = folder / f"{name}.py"
    path.write_text(body)
    return [sys.executable, str(path)]


def of_row(config):
    return dataclasses.asdict(
        Result("A1", config.train.train_steps, 1, 2.0, 3.0, "tok:13a", None, config)
    )


def test_rows_in_turn(tmp_path):
    """A row with a result is not trained again; one that ends without, or whose result is of other text, is an error that names it."""
    configs = {name: row_config(name, "small", 2) for name in ("base", "A1", "big")}
    body = "import json, pathlib; p = pathlib.Path({path!r}); p.mkdir(exist_ok=True); (p / 'result.json').write_text(json.dumps({result}))"

    def command(name):
        calls.append(name)
        return script(
            tmp_path, name, body.format(path=str(tmp_path / name), result=of_row(configs[name]))
        )

    calls = []
    assert run_rows(configs, command, str(tmp_path)) and calls == [
        "base",
        "A1",
        "big",
    ]
    (tmp_path / "A1" / "result.json").write_text(json.dumps(of_row(row_config("A1", "small", 1))))
    calls = []
    assert run_rows(configs, command, str(tmp_path)) and calls == ["A1"]
    (tmp_path / "big" / "result.json").unlink()
    with pytest.raises(UserError, match="row big was not trained to its end"):
        run_rows(
            configs,
            lambda name: script(tmp_path, name, "raise SystemExit(3)"),
            str(tmp_path),
            say=lambda line: None,
        )
    others = {"base": row_config("base", "small", 2, data="other")}
    with pytest.raises(UserError, match="holds row base of other data or another size"):
        run_rows(others, command, str(tmp_path))
    for damaged in (
        "{",
        "[]",
        "{}",
        json.dumps(of_row(configs["base"]) | {"more": 1}),
        '{"config": {"model": {}}}',
    ):
        (tmp_path / "base" / "result.json").write_text(damaged)
        with pytest.raises(UserError, match="base/result.json: not a result of this version"):
            run_rows(configs, command, str(tmp_path))


def test_a_row_is_trained_and_gone_on_with(tmp_path, corpus_folder, capsys, monkeypatch):
    words = [
        "table3",
        "--run",
        "--rows=A2",
        "--train_steps=3",
        f"--data={corpus_folder}",
        f"--model_dir={tmp_path}",
    ]
    little = {
        "num_layers": 1,
        "d_model": 16,
        "dff": 16,
        "vocab_size": 450,
        "max_length": 64,
        "batch_tokens": 512,
        "log_steps": 1,
    }
    monkeypatch.setattr(table3, "small", lambda name, small=small: small(name).replace(**little))
    assert main(words) == 0
    out = capsys.readouterr().out
    result = json.loads((tmp_path / "A2" / "result.json").read_text())
    assert result["updates"] == 3 and "tok:13a" in result["signature"]
    found = f"A2: PPL {result['perplexity']:.2f}, BLEU {result['bleu']:.2f} ({result['signature']})"
    table = (tmp_path / "results.md").read_text()
    assert found in out and table.count("\n") == 3 and 0 <= result["split_bleu"] <= 100
    assert (
        "| A2 | 1 | 16 | 16 | 4 | 4 | 4 | 0.1 | 0.1 | 3 |" in table and "| 5.00 | 25.5 |" in table
    )
    assert main(words) == 0 and capsys.readouterr().out.startswith(found)  # it is there already
    assert (
        main([*words[:3], "--train_steps=5", *words[4:]]) == 0
        and "going on from" in capsys.readouterr().out
    )


def test_interruption_reaches_the_row_at_work(tmp_path):
    """SIGTERM to the whole is SIGTERM to the row, which saves; the whole then ends."""
    (tmp_path / "row.py").write_text(
        "import pathlib, signal, sys, time\n"
        f"def end(*_): pathlib.Path({str(tmp_path)!r}, 'saved').touch(); sys.exit(0)\n"
        f"signal.signal(signal.SIGTERM, end); pathlib.Path({str(tmp_path)!r}, 'ready').touch(); time.sleep(60)\n"
    )
    (tmp_path / "whole.py").write_text(
        "import sys; from tf_transformer import table3\n"
        "configs = {name: table3.row_config(name, 'small') for name in ('base', 'A1')}\n"
        f"command = lambda name: [sys.executable, {str(tmp_path / 'row.py')!r}]\n"
        f"print(table3.run_rows(configs, command, {str(tmp_path)!r}))\n"
    )
    whole = subprocess.Popen(
        [sys.executable, str(tmp_path / "whole.py")], stdout=subprocess.PIPE, text=True
    )
    for _ in range(300):
        if (tmp_path / "ready").exists():
            break
        time.sleep(0.1)
    whole.send_signal(signal.SIGTERM)
    assert whole.communicate(timeout=30)[0].endswith("False\n") and (tmp_path / "saved").exists()
