"""The command info."""


def test_info(run, succeed, model_dir):
    folder = f"--model_dir={model_dir}"
    for flags, texts in (
        (["--preset=base"], ["63,082,496", "9.5e+17 operations", "3.3e+18", "12 hours x 8 P100"]),
        (["--preset=A4"], ["32 of d_k 16"]),
        ([folder], ["averaged.npz", "d_model 32", "12 updates"]),
    ):
        out, _ = succeed("info", *flags)
        assert all(text in out for text in texts), out
    assert "P100" not in run("info", "--preset=A4")[1]  # whose training time is not published
    assert run("info", str(model_dir)) == run("info", folder)
