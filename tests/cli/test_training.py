"""The commands train and average."""


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
