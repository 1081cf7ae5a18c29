"""The command info."""

import os
import subprocess
import sys

from fake_runs import write_run


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


def test_plot_in_the_environment_of_a_notebook(tmp_path):
    """Whose backend of matplotlib is in a package that only its kernel has."""
    folder, plot = write_run(tmp_path / "run"), tmp_path / "plot.png"
    command = [sys.executable, "-m", "tf_transformer", "info", folder, f"--plot={plot}"]
    environment = {**os.environ, "MPLBACKEND": "of_a_notebook"}
    subprocess.run(command, env=environment, check=True)
    assert plot.exists()
