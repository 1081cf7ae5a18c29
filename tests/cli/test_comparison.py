"""The command compare, and train --seeds."""

import os
import pathlib
import shutil

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


@pytest.fixture
def two_runs(make_run, tmp_path):
    return [make_run(tmp_path / "a", 1), make_run(tmp_path / "b", 2)]


def write_translations(folder, lines):
    path = pathlib.Path(folder, "evaluation", "test.de")
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def test_compare(run, succeed, two_runs, make_run, corpus_folder, tmp_path):
    folders = [*two_runs, make_run(tmp_path / "c", 3)]
    references = (corpus_folder / "test.de").read_text("utf-8").splitlines()
    write_translations(folders[0], references)
    write_translations(folders[1], references)
    path = write_translations(folders[2], references[:30] + ["nichts"] * (len(references) - 30))
    os.utime(path, (1, 1))
    plot = f"--plot={tmp_path}/plot.png"
    out, err = succeed("compare", *folders, "--split=test", plot)
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
    assert out.endswith(f"drew {tmp_path}/plot.png\n")
    # The folder of all, and only the pairs that are equal.
    _, out, _ = run("compare", str(tmp_path), "--split=test", "--max_pairs=30", "--metrics=chrf")
    assert out.split("test: chrF")[1].split()[:3] == ["100.00"] * 3
    _, out, _ = run("compare", f"--runs={folders[0]},{folders[1]}")
    assert "test:" not in out


def test_translations_that_cannot_be_compared(refused, two_runs, tmp_path):
    first, second = two_runs
    command = "compare", first, second, "--split=test"
    assert f"`tf-transformer evaluate --model_dir={first} --split=test`" in refused(*command)
    for lines in (2, 61):
        write_translations(first, ["eins"] * lines)
        assert f"has translations of {lines} pairs, and test has 60: run" in refused(*command)
    path = os.path.join(second, "config.json")
    Config.load(path).replace(target="fr").save(path)
    assert f"{second} is for en to fr, {first} for en to de" in refused(*command)


# Seed -> how its process ends; the others are complete.
ENDINGS = {
    "6": Ending(0, True), "7": Ending(130, True), "8": Ending(2, False), "9": Ending(2, True),
    "10": Ending(-2, True), "11": Ending(0, False),
}  # fmt: skip


@pytest.fixture
def groups(make_run, monkeypatch):
    """Replaces the processes of train --seeds, which write runs.

    Returns: the arguments of those that run together, for each group. A signal reaches all of them.
    """
    groups = []

    def run_processes(commands, shares):
        assert len(commands) <= shares
        groups.append([command[4:] for command in commands.values()])
        endings = []
        for command in groups[-1]:
            flags = dict(argument.removeprefix("--").split("=") for argument in command[-2:])
            if flags["seed"] not in ENDINGS:
                make_run(pathlib.Path(flags["model_dir"]), int(flags["seed"]))
            endings.append(ENDINGS.get(flags["seed"], Ending(0, False)))
        interrupted = any(ending.interrupted for ending in endings)
        return [Ending(ending.code, interrupted) for ending in endings]

    monkeypatch.setattr(training, "run_processes", run_processes)
    set_host(monkeypatch)
    return groups


def set_host(monkeypatch, affinity=3, cores=3, gpu=False):
    monkeypatch.setattr(training, "affinity", lambda: affinity)
    monkeypatch.setattr(training, "number_of_cores", lambda: cores)
    monkeypatch.setattr(training, "has_nvidia_device", lambda: gpu)


def seeds_of(groups):
    return [",".join(command[-2].removeprefix("--seed=") for command in each) for each in groups]


def test_train_with_seeds(succeed, groups, tmp_path):
    """Each process gets the flags that were given, and its own seed and folder."""
    flags = "--dff=64", "--noshared_vocab", "--quiet"
    out, _ = succeed("train", "--seeds=3,1", f"--model_dir={tmp_path}", *flags)
    for seed, (command,) in zip((3, 1), groups, strict=True):
        assert sorted(command[:-2]) == ["--dff=64", "--quiet=True", "--shared_vocab=False"]
        assert command[-2:] == [f"--seed={seed}", f"--model_dir={tmp_path}/seed-{seed}"]
    assert "runs 1, 2, which differ in the seed" in out


@pytest.mark.parametrize(("parallel", "host", "expected"), [
    (1, {}, ["3", "1", "2"]),
    (2, {}, ["3,1", "2"]),
    (4, {}, ["3,1,2"]),  # there are three cores
    # A GPU, and the cores of a container with a limit of CPU time, are for one run.
    (2, {"gpu": True}, ["3", "1", "2"]),
    (2, {"cores": 2}, ["3", "1", "2"]),
    (2, {"affinity": None}, ["3", "1", "2"]),
])  # fmt: skip
def test_seeds_at_the_same_time(succeed, groups, tmp_path, monkeypatch, parallel, host, expected):
    set_host(monkeypatch, **host)
    flags = f"--model_dir={tmp_path}", f"--parallel_seeds={parallel}"
    out, _ = succeed("train", "--seeds=3,1,2", *flags)
    assert seeds_of(groups) == expected
    assert all(len(command) == 2 for group in groups for command in group)
    assert "runs 1, 2, 3, which differ in the seed" in out


@pytest.mark.parametrize(("seeds", "expected"), [
    ("6", 0), ("7", 130), ("10", 130), ("11", 0), ("6,7", 130), ("7,6", 130), ("3,6", 0),
    ("8", None), ("9", None), ("3,8", None), ("8,7", None),
])  # fmt: skip
def test_seeds_that_do_not_reach_their_end(run, groups, tmp_path, seeds, expected):
    """The exit code is that of the worst ending, 0 where all are saved; no other seed follows."""
    write_run(tmp_path / "seed-11", complete=False)  # its process got the signal itself
    flags = f"--model_dir={tmp_path}", f"--parallel_seeds={1 + seeds.count(',')}"
    code, out, err = run("train", f"--seeds={seeds},1", *flags)
    assert code == (2 if expected is None else expected)
    assert ("stopped and saved" in out) == (code == 0)
    assert ("not all are saved" in out) == (code > 2)
    assert ("the training with seed " in err) == (code == 2)
    assert seeds_of(groups) == [seeds]


def test_dry_run_of_seeds(run, groups, tmp_path):
    """As many runs as train at the same time."""
    flags = "--dry_run", f"--model_dir={tmp_path}"
    assert run("train", "--seeds=3,1", *flags)[0] == 0
    assert "--dry_run=True" in groups[0][0]
    assert run("train", "--seeds=3,8,1", *flags, "--parallel_seeds=2")[0] == 2
    assert seeds_of(groups) == ["3", "3,8"]


def test_a_complete_seed_is_not_trained_further(run, groups, corpus_folder, tmp_path):
    """With --train_minutes its process would train for these minutes again."""
    settings = {"data": str(corpus_folder), "train_steps": 20, "train_minutes": 5.0}
    folder = pathlib.Path(write_run(tmp_path / "seed-6"))
    config = preset("small").replace(**settings, seed=6).with_vocabularies(500, 500)
    config.save(str(folder / "config.json"))
    flags = [f"--{name}={value}" for name, value in settings.items()]
    command = "train", "--preset=small", f"--model_dir={tmp_path}", *flags
    code, _, err = run(*command, "--seeds=6,2")
    assert (code, seeds_of(groups)) == (0, ["2"])
    assert "seed 6 is complete" in err
    # Other settings, --overwrite and a run that has not reached its end are left to the process.
    metrics = (folder / "metrics.jsonl").read_text()
    for flag in ("--train_minutes=6", "--d_model=32", "--overwrite", "--quiet"):
        if flag == "--quiet":
            (folder / "metrics.jsonl").write_text(metrics.rpartition('{"time"')[0])
        assert "stopped and saved" in run(*command, "--seeds=6,2", flag)[1]
    assert seeds_of(groups) == ["2"] + ["6"] * 4


def test_settings_of_seeds(run, refused, groups, model_dir, tmp_path):
    """The preset tiny has the peak of its own schedule, which noam does not take."""
    flags = "--preset=tiny", "--learning_rate_schedule=noam", f"--model_dir={tmp_path}/noam"
    assert run("train", *flags, "--seeds=1")[0] == 0
    # The settings that a run took over from its initial model are in the folder of each seed.
    shutil.copytree(model_dir, tmp_path / "seed-2")
    flags = "--seeds=6,2", "--init_from=gone", "--max_length=64", f"--model_dir={tmp_path}"
    assert run("train", *flags)[0] == 0
    assert "--init_from=gone" in refused("train", *flags, "--overwrite")
    assert seeds_of(groups) == ["1", "6"]
