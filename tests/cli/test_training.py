"""The commands train and average."""

import shutil

from tf_transformer.config import Config


def test_average(run, model_dir, tmp_path):
    for number, (flags, checkpoints) in enumerate([
        ([], "step-00000012.npz"),  # the last eighth of the updates
        (["--last=2"], "step-00000008.npz, step-00000012.npz"),
        (["--best=1"], "step-00000012.npz"),  # the only one with a validation score
    ]):  # fmt: skip
        output = tmp_path / f"{number}.npz"
        code, out, _ = run("average", f"--model_dir={model_dir}", f"--output={output}", *flags)
        assert (code, out) == (0, f"averaged {checkpoints} into {output}\n")
        assert output.exists()


def test_average_of_a_run_with_a_moving_average(run, refused, model_dir, tmp_path):
    """`averaged.npz` has the moving average, and validations are of it."""
    folder, path = tmp_path / "run", tmp_path / "run" / "config.json"
    shutil.copytree(model_dir, folder)
    Config.load(str(path)).replace(ema_decay=0.9).save(str(path))
    before = (folder / "averaged.npz").read_bytes()
    command, output = ("average", f"--model_dir={folder}"), f"--output={tmp_path}/mean.npz"
    assert "and --output=FILE" in refused(*command)
    assert "give --last" in refused(*command, "--best=1", output)
    assert run(*command, "--last=2", output)[0] == 0
    assert (folder / "averaged.npz").read_bytes() == before
    assert (tmp_path / "mean.npz").exists()
