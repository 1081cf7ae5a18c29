"""The commands train and average."""

import shutil

import pytest

from tf_transformer.cli import training
from tf_transformer.cli.main import parse
from tf_transformer.config import Config
from tf_transformer.errors import UserError


def test_other_settings_than_the_run(refused, model_dir, corpus_folder):
    message = refused("train", f"--data={corpus_folder}", f"--model_dir={model_dir}")
    assert "was started with" in message
    assert "d_model 32 (now 128)" in message
    assert "vocab_size 500 (now 2000)" in message
    assert "--overwrite and --dry_run: give one of them" in refused(
        "train", f"--model_dir={model_dir}", "--overwrite", "--dry_run"
    )


def test_results_and_log_lines_are_separate(run, model_dir, corpus_folder, tiny_config):
    """The plan of a dry run goes to standard output, log lines to standard error."""
    config = tiny_config.model
    code, out, err = run(
        "train",
        "--dry_run",
        f"--data={corpus_folder}",
        f"--model_dir={model_dir.parent / 'dry'}",
        f"--num_layers={config.num_layers}",
        f"--d_model={config.d_model}",
        f"--dff={config.dff}",
        "--vocab_size=500",
    )
    assert code == 0
    assert out.startswith(f"plan for {model_dir.parent / 'dry'}\n")
    assert "an update" in out
    assert " INFO " not in out
    assert " INFO learning a vocabulary of 500 sub-words" in err
    assert "plan for" not in err


def test_settings_without_an_effect(refused, model_dir, tmp_path):
    """The preset tiny has the peak of its own schedule, which noam does not take."""
    values = parse("train", ["--preset=tiny", "--learning_rate_schedule=noam"])
    assert training._config(values)[0].train.learning_rate == 0.0
    flags = "--preset=tiny", f"--model_dir={tmp_path}"
    message = refused("train", *flags, "--learning_rate_scale=2")
    assert "--learning_rate_scale is for --learning_rate_schedule=noam, and this one is" in message
    # Runs that were started with such flags can be resumed with them.
    resumed = ["--preset=tiny", f"--model_dir={model_dir}", "--learning_rate_scale=2"]
    assert training._config(parse("train", resumed))[0].train.learning_rate_scale == 2
    message = refused("train", *flags, "--learning_rate_schedule=noam", "--learning_rate=1")
    assert "learning_rate 1 has no effect on the schedule noam" in message


def test_seeds_resume_without_the_initial_model(model_dir, tmp_path):
    """The settings that a run took over from it are in the folder of each seed."""
    shutil.copytree(model_dir, tmp_path / "seed-2")
    flags = ["--seeds=1,2", "--init_from=gone", "--max_length=64", f"--model_dir={tmp_path}"]
    config, _ = training._config(parse("train", flags))
    assert (config.model.d_model, config.data.vocab_size) == (32, 500)
    with pytest.raises(UserError, match="--init_from=gone"):
        training._config(parse("train", [*flags, "--overwrite"]))


def test_average(run, refused, model_dir, tmp_path):
    folder = f"--model_dir={model_dir}"
    code, out, _ = run("average", folder, "--last=2", f"--output={tmp_path}/mean.npz")
    assert code == 0
    assert "step-00000008.npz, step-00000012.npz" in out
    assert (tmp_path / "mean.npz").exists()
    code, out, _ = run("average", folder, f"--output={tmp_path}/default.npz")
    assert code == 0
    assert "averaged step-00000012.npz into" in out  # the last eighth of the updates
    message = refused("average", folder, "--last=3")
    assert f"{model_dir} has 2 checkpoints (train keeps --max_checkpoints of them)" in message
    code, out, _ = run("average", folder, "--best=1", f"--output={tmp_path}/best.npz")
    assert code == 0
    assert "averaged step-00000012.npz into" in out  # the only one with a validation score
    assert "1 were validated" in refused("average", folder, "--best=2")
    assert "give one of them" in refused("average", folder, "--best=1", "--last=1")


def test_average_of_a_run_with_a_moving_average(run, refused, model_dir, tmp_path):
    """`averaged.npz` has the moving average, and validations are of it."""
    folder = tmp_path / "run"
    shutil.copytree(model_dir, folder)
    Config.load(str(folder / "config.json")).replace(ema_decay=0.9).save(
        str(folder / "config.json")
    )
    before = (folder / "averaged.npz").read_bytes()
    assert "and --output=FILE" in refused("average", f"--model_dir={folder}")
    output = f"--output={tmp_path}/mean.npz"
    assert "give --last" in refused("average", f"--model_dir={folder}", "--best=1", output)
    assert run("average", f"--model_dir={folder}", "--last=2", output)[0] == 0
    assert (folder / "averaged.npz").read_bytes() == before and (tmp_path / "mean.npz").exists()
