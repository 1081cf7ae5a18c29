"""The command compare, and train --seeds."""

import os
import pathlib

import pytest
from fake_runs import write_run

from tf_transformer.cli import seeds
from tf_transformer.config import Config
from tf_transformer.presets import preset
from tf_transformer.training.child_process import Ending


@pytest.fixture
def make_run(corpus_folder):
    """A function that writes a run on this corpus, and returns its folder."""
    return lambda folder, seed: write_run(folder, seed=seed, data=str(corpus_folder))


def write_translations(folder, lines):
    os.makedirs(os.path.join(folder, "evaluation"), exist_ok=True)
    with open(os.path.join(folder, "evaluation", "test.de"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_compare(run, make_run, corpus_folder, tmp_path):
    folders = [make_run(tmp_path / name, seed) for seed, name in enumerate("abc", start=1)]
    references = (corpus_folder / "test.de").read_text("utf-8").splitlines()
    write_translations(folders[0], references)
    write_translations(folders[1], references)
    write_translations(folders[2], [*references[:30], *["nichts"] * (len(references) - 30)])
    plot = f"--plot={tmp_path}/plot.png"
    code, out, err = run("compare", *folders, "--split=test", plot)
    assert code == 0, err
    rows = {line[:28].strip(): line[28:].split() for line in out.splitlines() if line[:2] == "  "}
    assert rows["seed"] == ["1", "2", "3"]
    first, second, third = map(float, out.split("test: BLEU")[1].split()[:3])
    assert first == second == 100.0 > third
    assert out.split("p-value against run 1")[1].split()[:2] == ["-", "-"]
    assert float(out.split("p-value against run 1")[1].split()[2]) < 0.01
    assert "runs 1, 2, 3, which differ in the seed" in out
    assert "bs:1000" in out
    assert out.endswith(f"drew {tmp_path}/plot.png\n")
    # The folder of all, and only the pairs that are equal.
    _, out, _ = run("compare", str(tmp_path), "--split=test", "--max_pairs=30", "--metrics=chrf")
    assert out.split("test: chrF")[1].split()[:3] == ["100.00"] * 3
    _, out, _ = run("compare", f"--runs={folders[0]},{folders[1]}")
    assert "test:" not in out


def test_mistakes_of_compare(refused, run, make_run, tmp_path):
    first, second = make_run(tmp_path / "a", 1), make_run(tmp_path / "b", 2)
    assert "--runs is missing" in refused("compare")
    assert "at least two runs" in refused("compare", first)
    assert "--data is for --split" in refused("compare", first, second, "--data=pocket")
    command = f"run `tf-transformer evaluate --model_dir={first} --split=test`"
    assert command in refused("compare", first, second, "--split=test")
    assert "unexpected 'x'" in refused("compare", f"--runs={first},{second}", "x")
    write_translations(first, ["eins", "zwei"])
    message = refused("compare", first, second, "--split=test")
    assert "has translations of 2 of 60 pairs" in message
    assert "give --max_pairs=2" in message
    other = Config.load(os.path.join(second, "config.json")).replace(target="fr")
    other.save(os.path.join(second, "config.json"))
    message = refused("compare", first, second, "--split=test")
    assert f"{second} is for en to fr, {first} for en to de" in message


def test_all_runs_are_compared_on_the_test_set_of_the_first(refused, make_run, tmp_path):
    """A run on another text: its translations of its own test set say nothing here."""
    first = make_run(tmp_path / "a", 1)
    second = write_run(tmp_path / "b", seed=2, data="pocket")
    for folder in (first, second):
        write_translations(folder, ["eins"] * 60)
    message = refused("compare", first, second, "--split=test")
    assert f"{second} has no translations of test: run `tf-transformer evaluate" in message
    assert f"--model_dir={second} --data=" in message
    write_translations(first, ["eins"] * 61)
    message = refused("compare", first, second, "--split=test")
    assert "has translations of 61 pairs, but test has 60" in message


def test_stored_translations_that_are_older_than_the_model(run, make_run, tmp_path):
    folders = [make_run(tmp_path / "a", 1), make_run(tmp_path / "b", 2)]
    for folder in folders:
        write_translations(folder, ["eins"] * 60)
    os.utime(os.path.join(folders[0], "evaluation", "test.de"), (1, 1))
    _, _, err = run("compare", *folders, "--split=test", "--metrics=bleu")
    assert err.count("is older than the model") == 1


@pytest.fixture
def processes(make_run, monkeypatch):
    """Replaces the processes of train --seeds, which write runs; their commands."""
    commands = []
    endings = {
        "6": Ending(0, True), "7": Ending(130, True), "8": Ending(2, False), "9": Ending(2, True),
        "10": Ending(-2, True), "11": Ending(0, False),
    }  # fmt: skip

    def run_process(command):
        commands.append(command[4:])
        flags = dict(argument.removeprefix("--").split("=") for argument in command[-2:])
        if flags["seed"] not in endings:
            make_run(pathlib.Path(flags["model_dir"]), int(flags["seed"]))
        return endings.get(flags["seed"], Ending(0, False))

    monkeypatch.setattr(seeds, "run_process", run_process)
    return commands


def test_train_with_seeds(run, refused, processes, tmp_path):
    """Each process gets the flags that were given, and its own seed and folder."""
    flags = "--dff=64", "--noshared_vocab", "--quiet"
    code, out, _ = run("train", "--seeds=3,1", f"--model_dir={tmp_path}", *flags)
    assert code == 0
    assert [sorted(command[:-2]) for command in processes] == [sorted(flags)] * 2
    assert [command[-2:] for command in processes] == [
        [f"--seed={seed}", f"--model_dir={tmp_path}/seed-{seed}"] for seed in (3, 1)
    ]
    assert "runs 1, 2, which differ in the seed" in out


def test_seeds_that_do_not_reach_their_end(run, refused, processes, tmp_path):
    """The exit code is 0 only where the run was saved. No other seed is trained after it."""
    given = f"--model_dir={tmp_path}"
    write_run(tmp_path / "seed-11", complete=False)  # its process got the signal itself
    for seed, expected in ((6, 0), (7, 130), (10, 130), (11, 0)):
        code, out, _ = run("train", f"--seeds={seed},1", given)
        assert code == expected
        assert ("stopped and saved" in out) == (code == 0)
        assert ("was not saved" in out) == (code != 0)
    for seed in (8, 9):
        assert f"the training with seed {seed} failed" in refused(
            "train", f"--seeds={seed},1", given
        )
    assert len(processes) == 6


def test_a_complete_seed_is_not_trained_further(
    run, processes, corpus_folder, tmp_path, monkeypatch
):
    """With --train_minutes its process would train for these minutes again."""
    flags = [f"--data={corpus_folder}", "--train_steps=20", f"--model_dir={tmp_path}"]
    config = preset("small").replace(
        data=str(corpus_folder), train_steps=20, train_minutes=5.0, seed=6
    )
    folder = write_run(tmp_path / "seed-6")
    config.with_vocabularies(500, 500).save(f"{folder}/config.json")
    command = "train", "--preset=small", *flags
    code, _, err = run(*command, "--train_minutes=5", "--seeds=6,2")
    assert code == 0
    assert "seed 6, 1 of 2, is complete" in err
    assert [command[-2] for command in processes] == ["--seed=2"]
    # Other settings and --overwrite are left to the process.
    for flag in ("--train_minutes=6", "--train_steps=30", "--d_model=32", "--overwrite"):
        processes.clear()
        code, out, _ = run(*command, "--train_minutes=5", "--seeds=6", flag)
        assert (code, len(processes)) == (0, 1), flag
        assert "stopped and saved" in out
    # A run that has not reached its end.
    lines = pathlib.Path(folder, "metrics.jsonl").read_text().splitlines(keepends=True)
    pathlib.Path(folder, "metrics.jsonl").write_text("".join(lines[:-1]))
    processes.clear()
    run(*command, "--train_minutes=5", "--seeds=6")
    assert len(processes) == 1

    def complete_the_run(command):  # Ctrl-C just before its end
        pathlib.Path(folder, "metrics.jsonl").write_text("".join(lines))
        return Ending(0, True)

    monkeypatch.setattr(seeds, "run_process", complete_the_run)
    code, out, _ = run(*command, "--train_minutes=5", "--seeds=6,2")
    assert code == 0
    assert "stopped; the run with seed 6 is complete" in out


def test_mistakes_of_seeds(refused, processes, make_run, tmp_path, monkeypatch):
    given = f"--model_dir={tmp_path}"
    assert "give whole numbers, such as 1,2,3" in refused("train", "--seeds=1,b", given)
    assert "each seed once" in refused("train", "--seeds=1,1", given)
    assert "seed is -1: give at least 0" in refused("train", "--seeds=1,-1", given)
    assert "--seeds and --seed: give one" in refused("train", "--seeds=1", "--seed=2", given)
    assert "--seeds and --dry_run" in refused("train", "--seeds=1", "--dry_run", given)
    one_run = make_run(tmp_path / "run", 1)
    message = refused("train", "--seeds=1,2", f"--model_dir={one_run}")
    assert f"{one_run} is the model folder of one run" in message
    (tmp_path / "file").touch()
    message = refused("train", "--seeds=1,2", f"--model_dir={tmp_path / 'file'}")
    assert f"--model_dir={tmp_path / 'file'} is a file" in message
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert "unset TF_CONFIG" in refused("train", "--seeds=1,2", given)
    assert not processes
