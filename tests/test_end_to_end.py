"""Text in, BLEU out, by the command line: a small model learns to translate."""

import re

import pytest
from pocket.numbers import number_words

from tf_transformer.cli.main import main

SETTINGS = {
    "num_layers": 1, "d_model": 64, "num_heads": 4, "dff": 128, "vocab_size": 330,
    "max_length": 64, "batch_tokens": 1500, "train_steps": 500, "warmup_steps": 150,
    "save_steps": 50, "eval_steps": 500, "log_steps": 100, "logical_devices": 1,
}  # fmt: skip


def write_corpus(folder):
    """Writes sentences with numbers, which have few words in a strict order.

    A minute is enough to learn them. The held-out sentences are not in the training text.
    """
    pairs = [
        (f"{city} has {en} houses.", f"{city} hat {de} Häuser.")
        for city in ("Berlin", "Paris", "Rome")
        for en, de in (number_words(n) for n in range(21, 1000))
    ]
    held_out = pairs[7::50]
    train = [pair for pair in pairs if pair not in held_out]
    for name, split in (("train", train), ("val", held_out[:20]), ("test", held_out[20:])):
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in split)
            (folder / f"{name}.{language}").write_text(text, "utf-8")


@pytest.mark.slow
def test_a_small_model_learns(tmp_path, capsys):
    write_corpus(tmp_path)
    model_dir = f"--model_dir={tmp_path / 'model'}"
    flags = [f"--{name}={value}" for name, value in SETTINGS.items()]
    assert main(["train", f"--data={tmp_path}", model_dir, *flags]) == 0
    out, err = capsys.readouterr()
    assert out.count("reference") == 5
    assert "translate --model_dir=" in out
    steps = re.findall(r"^\S+ INFO step (\d+) \| loss ", err, re.M)
    assert steps == ["100", "200", "300", "400", "500"]
    assert main(["evaluate", model_dir]) == 0
    out = capsys.readouterr().out
    assert float(re.search(r"BLEU ([\d.]+)", out)[1]) > 80, out
    assert main(["translate", model_dir, f"--input={tmp_path / 'test.en'}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 39
    assert all(line.endswith("Häuser.") for line in lines)
