"""Text in, BLEU out, by the command line: a small model learns to translate."""

import re
import subprocess
import sys

from pocket.numbers import number_words

SETTINGS = {
    "num_layers": 1,
    "d_model": 64,
    "num_heads": 4,
    "dff": 128,
    "vocab_size": 330,
    "max_length": 64,
    "batch_tokens": 1500,
    "train_steps": 500,
    "warmup_steps": 150,
    "save_steps": 50,
    "eval_steps": 500,
    "log_steps": 100,
}


def run(*arguments, **options):
    """Runs a command. Returns its output and its messages."""
    command = [sys.executable, "-m", "tf_transformer", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def write_corpus(folder):
    """Writes sentences with numbers, which have few words in a strict order.

    A minute is enough to learn them. The held-out sentences are not in the training text.

    Returns: the held-out pairs.
    """
    pairs = [
        (f"{city} has {en} houses.", f"{city} hat {de} Häuser.")
        for city in ("Berlin", "Paris", "Rome")
        for en, de in (number_words(n) for n in range(21, 1000))
    ]
    held_out = pairs[7::50]
    splits = {
        "train": [pair for pair in pairs if pair not in held_out],
        "val": held_out[:20],
        "test": held_out[20:],
    }
    for name, split in splits.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in split)
            (folder / f"{name}.{language}").write_text(text, "utf-8")
    return held_out


def test_a_small_model_learns(tmp_path):
    held_out = write_corpus(tmp_path)
    model_dir = f"--model_dir={tmp_path / 'model'}"
    flags = [f"--{name}={value}" for name, value in SETTINGS.items()]
    out, err = run("train", f"--data={tmp_path}", model_dir, *flags)
    assert out.count("reference") == 5
    assert "translate --model_dir=" in out
    for step in (100, 200, 300, 400, 500):
        assert re.search(rf"^\d\d:\d\d:\d\d INFO step {step} \| loss ", err, re.MULTILINE), err
    assert "step 500" not in out
    out, _ = run("evaluate", model_dir)
    assert float(re.search(r"BLEU ([\d.]+)", out)[1]) > 80, out
    english, _ = held_out[25]
    out, _ = run("translate", model_dir, input=f"{english}\n")
    assert out.endswith("Häuser.\n")
