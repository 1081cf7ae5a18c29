"""The command compare, and train --seeds."""

import os
import pathlib

import pytest
from fake_runs import write_run

from tf_transformer.cli import training
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
    assert "has translations of 2 pairs, and test has 60: run" in message
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
    assert "has translations of 61 pairs, and test has 60: run" in message


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

    monkeypatch.setattr(training, "run_process", run_process)
    return commands


@pytest.fixture
def groups(processes, monkeypatch):
    """Processes that run together, as those of `processes`; their names.

    A signal reaches all of a group.
    """
    names = []

    def run_side_by_side(commands, shares):
        assert shares == 2
        names.append(list(commands))
        endings = [training.run_process(command) for command in commands.values()]
        interrupted = any(ending.interrupted for ending in endings)
        return [Ending(ending.code, interrupted) for ending in endings]

    monkeypatch.setattr(training, "run_side_by_side", run_side_by_side)
    monkeypatch.setattr(training, "_number_at_once", lambda wanted: wanted)
    return names


def test_train_with_seeds(run, refused, processes, tmp_path):
    """Each process gets the flags that were given, and its own seed and folder."""
    flags = "--dff=64", "--noshared_vocab", "--quiet"
    code, out, _ = run("train", "--seeds=3,1", f"--model_dir={tmp_path}", *flags)
    assert code == 0
    given = ["--dff=64", "--quiet=True", "--shared_vocab=False"]
    assert [sorted(command[:-2]) for command in processes] == [given] * 2
    assert [command[-2:] for command in processes] == [
        [f"--seed={seed}", f"--model_dir={tmp_path}/seed-{seed}"] for seed in (3, 1)
    ]
    assert "runs 1, 2, which differ in the seed" in out


def test_seeds_at_the_same_time(run, processes, groups, tmp_path):
    flags = f"--model_dir={tmp_path}", "--parallel_seeds=2"
    code, out, err = run("train", "--seeds=3,1,2", *flags)
    assert code == 0
    assert groups == [["seed 3", "seed 1"], ["seed 2"]]
    assert [command[-2] for command in processes] == ["--seed=3", "--seed=1", "--seed=2"]
    assert all(len(command) == 2 for command in processes)  # without --parallel_seeds
    assert "training: seeds 3, 1 of 3,1,2" in err
    assert "runs 1, 2, 3, which differ in the seed" in out


def test_seeds_at_the_same_time_that_do_not_reach_their_end(
    run, refused, processes, groups, tmp_path
):
    """The exit code and the message are those of the worst ending; no other seed follows."""

    def command(pair):
        return "train", f"--seeds={pair},1", f"--model_dir={tmp_path}/{pair}", "--parallel_seeds=2"

    for pair in ("8,3", "3,8", "8,7", "7,8"):  # seed 3 is complete
        assert "the training with seed 8 failed" in refused(*command(pair))
    for pair, expected in (("6,7", 130), ("7,6", 130), ("3,6", 0)):
        code, out, _ = run(*command(pair))
        assert code == expected
        assert ("stopped and saved" in out) == (code == 0)
    assert len(groups) == 7
    assert "--seed=1" not in [command[-2] for command in processes]


def test_number_of_seeds_at_once(monkeypatch):
    """A GPU, and the cores of a container with a limit of CPU time, are for one run."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3, 4}, raising=False)
    monkeypatch.setattr(training, "number_of_cores", lambda: 3)
    monkeypatch.setattr(training, "has_nvidia_device", lambda: False)
    assert [training._number_at_once(wanted) for wanted in (1, 2, 3, 4)] == [1, 2, 3, 3]
    monkeypatch.setattr(training, "number_of_cores", lambda: 2)  # a limit below three cores
    assert training._number_at_once(2) == 1
    monkeypatch.setattr(training, "number_of_cores", lambda: 3)
    monkeypatch.setattr(training, "has_nvidia_device", lambda: True)
    assert training._number_at_once(2) == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(training, "has_nvidia_device", lambda: False)
    assert training._number_at_once(2) == 1


def test_dry_run_of_seeds(run, processes, groups, tmp_path):
    """As many runs as train at the same time."""
    flags = "--dry_run", f"--model_dir={tmp_path}"
    code, _, _ = run("train", "--seeds=3,1", *flags)
    assert (code, len(processes)) == (0, 1)
    assert "--dry_run=True" in processes[0]
    code, _, _ = run("train", "--seeds=3,8,1", *flags, "--parallel_seeds=2")
    assert (code, groups) == (2, [["seed 3", "seed 8"]])


def test_seeds_that_do_not_reach_their_end(run, refused, processes, tmp_path):
    """The exit code is 0 only where the run was saved. No other seed is trained after it."""
    given = f"--model_dir={tmp_path}"
    write_run(tmp_path / "seed-11", complete=False)  # its process got the signal itself
    for seed, expected in ((6, 0), (7, 130), (10, 130), (11, 0)):
        code, out, _ = run("train", f"--seeds={seed},1", given)
        assert code == expected
        assert ("stopped and saved" in out) == (code == 0)
        assert ("not all are saved" in out) == (code != 0)
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
    assert "seed 6 is complete" in err
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
        processes.append(command)
        pathlib.Path(folder, "metrics.jsonl").write_text("".join(lines))
        return Ending(0, True)

    monkeypatch.setattr(training, "run_process", complete_the_run)
    processes.clear()
    code, out, _ = run(*command, "--train_minutes=5", "--seeds=6,2")
    assert (code, len(processes)) == (0, 1)
    assert "stopped and saved" in out


def test_mistakes_of_seeds(refused, processes, make_run, tmp_path, monkeypatch):
    given = f"--model_dir={tmp_path}"
    assert "give whole numbers, such as 1,2,3" in refused("train", "--seeds=1,b", given)
    assert "each seed once" in refused("train", "--seeds=1,1", given)
    assert "seed is -1: give at least 0" in refused("train", "--seeds=1,-1", given)
    assert "--parallel_seeds is for --seeds" in refused("train", "--parallel_seeds=2", given)
    assert "--parallel_seeds=0: give at least 1" in refused("train", "--parallel_seeds=0")
    assert "--seeds and --seed: give one" in refused("train", "--seeds=1", "--seed=2", given)
    one_run = make_run(tmp_path / "run", 1)
    message = refused("train", "--seeds=1,2", f"--model_dir={one_run}")
    assert f"{one_run} is the model folder of one run" in message
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert "unset TF_CONFIG" in refused("train", "--seeds=1,2", given)
    assert not processes
