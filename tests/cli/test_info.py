"""The command info."""

import subprocess
import sys


def test_info(run, refused, model_dir, corpus_folder):
    code, out, _ = run("info", "--preset=base")
    assert code == 0
    assert "63,082,496" in out
    assert "9.5e+17 operations" in out
    assert "3.3e+18 operations: 12 hours x 8 P100" in out
    code, out, _ = run("info", "--preset=A4")
    assert code == 0
    assert "32 of d_k 16" in out
    assert "P100" not in out  # the paper does not report the training time of this row
    code, out, _ = run("info", str(model_dir))
    assert code == 0
    assert "averaged.npz" in out
    assert "d_model 32" in out
    assert "12 updates" in out
    assert out == run("info", f"--model_dir={model_dir}")[1]
    code, out, _ = run("info", f"--data={corpus_folder}")
    assert code == 0
    assert "train: 400 pairs" in out
    assert "test: 60 pairs" in out
    assert out.count("\n      ") == 10
    code, out, _ = run("info", f"--model_dir={model_dir}", f"--data={corpus_folder}")
    assert code == 0
    assert "in the model's vocabulary" in out
    assert "no such data" in refused("info", "--data=/no/where")
    assert "unknown preset 'huge'" in refused("info", "--preset=huge")
    message = refused("info", f"--model_dir={model_dir}", "--preset=tiny")
    assert "--model_dir and --preset: give one of them" in message
    assert "--source is for --data" in refused("info", "--source=fr")


def test_describing_models_does_not_import_tensorflow(model_dir):
    """The number of parameters is computed by the closed formula, so no model is built."""
    code = (
        "import sys; from tf_transformer.cli.main import main; "
        f"codes = [main(['info', '--preset=big']), main(['info', {str(model_dir)!r}]), "
        "main(['table3'])]; print(codes, 'tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[0, 0, 0] False"


def test_weights_of_pairs(run, corpus_folder, tmp_path):
    lines = zip(
        *((corpus_folder / f"train.{side}").read_text().splitlines() for side in ("en", "de"))
    )
    text = "".join(f"{source}\t{target}\t{1 + i % 2}\n" for i, (source, target) in enumerate(lines))
    (tmp_path / "pairs.tsv").write_text(text)
    code, out, _ = run("info", f"--data={tmp_path}/pairs.tsv")
    assert code == 0 and "  weights of train: 1 to 2, mean 1.5, 50.0% are 1\n" in out


def test_plot(run, refused, model_dir, tmp_path):
    path = tmp_path / "run.png"
    code, out, _ = run("info", str(model_dir), f"--plot={path}")
    assert code == 0
    assert out.startswith(f"model folder {model_dir}\n")
    assert out.endswith(f"\ndrew {path}\n")
    assert path.stat().st_size > 10_000
    assert "--plot is for --model_dir" in refused("info", f"--plot={path}")
