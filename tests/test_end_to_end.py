"""Text in, BLEU out, as a user would: a small model learns to translate, from the command line."""

import re
import subprocess
import sys

from tf_transformer.data.pocket.numbers import number_words


def command(*words, **options):
    done = subprocess.run(
        [sys.executable, "-m", "tf_transformer", *words], capture_output=True, text=True, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_small_model_learns(tmp_path):
    """Numbers are few words with a strict order, so a minute is enough to learn them; the test sentences are not in the training text."""
    pairs = [
        (f"{city} has {en} houses.", f"{city} hat {de} Häuser.")
        for city in ("Berlin", "Paris", "Rome")
        for en, de in (number_words(n) for n in range(21, 1000))
    ]
    held_out = pairs[7::50]
    for name, part in (
        ("train", [pair for pair in pairs if pair not in held_out]),
        ("val", held_out[:20]),
        ("test", held_out[20:]),
    ):
        for side, language in enumerate(("en", "de")):
            (tmp_path / f"{name}.{language}").write_text(
                "".join(f"{pair[side]}\n" for pair in part), "utf-8"
            )
    model_dir = f"--model_dir={tmp_path / 'model'}"
    sizes = {"num_layers": 1, "d_model": 64, "num_heads": 4, "dff": 128, "vocab_size": 330, "max_length": 64, "batch_tokens": 1500,
             "train_steps": 500, "warmup_steps": 150, "save_steps": 50, "eval_steps": 500, "log_steps": 100}  # fmt: skip
    out = command(
        "train",
        f"--data={tmp_path}",
        model_dir,
        *(f"--{name}={value}" for name, value in sizes.items()),
    )
    assert out.count("reference") == 5 and "translate --model_dir=" in out
    out = command("evaluate", model_dir)
    assert float(re.search(r"BLEU ([\d.]+)", out)[1]) > 80, out
    english, _ = held_out[25]
    assert command("translate", model_dir, input=f"{english}\n").endswith("Häuser.\n")
