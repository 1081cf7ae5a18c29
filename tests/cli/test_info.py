"""The command info."""


def test_info(run, succeed, model_dir, corpus_folder):
    folder, data = f"--model_dir={model_dir}", f"--data={corpus_folder}"
    for flags, texts in (
        (["--preset=base"], ["63,082,496", "9.5e+17 operations", "3.3e+18", "12 hours x 8 P100"]),
        (["--preset=A4"], ["32 of d_k 16"]),
        ([folder], ["averaged.npz", "d_model 32", "12 updates"]),
        ([data], ["train: 400 pairs", "test: 60 pairs"]),
        ([folder, data], ["in the model's vocabulary"]),
    ):
        out, _ = succeed("info", *flags)
        assert all(text in out for text in texts), out
    assert "P100" not in run("info", "--preset=A4")[1]  # whose training time is not published
    assert run("info", str(model_dir)) == run("info", folder)


def test_weights_of_pairs(succeed, tmp_path):
    for name in ("train", "val"):
        (tmp_path / f"{name}.tsv").write_text("a\tA\t1\nb\tB\t2\n" * 20)
    out, _ = succeed("info", f"--data={tmp_path}")
    assert "  weights of train: 1 to 2, mean 1.5, 50.0% are 1\n" in out
