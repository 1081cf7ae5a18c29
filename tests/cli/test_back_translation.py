"""translate --pairs: training pairs from text of one language."""

import pytest


@pytest.mark.parametrize("flags", [["--beam_size=2"], ["--sampling", "--top_k=9", "--seed=3"]])
def test_pairs_are_the_translations_of_translate(run, model_dir, tmp_path, flags):
    """In batches of any size, and without lines that are blank, too long or not translated."""
    lines = ["Anna sleeps.", "", "The dog\tsees the cat.", "a" * 3000, "Tom sleeps."]
    (tmp_path / "mono.en").write_text("".join(f"{line}\n" for line in lines))
    command = (
        "translate", f"--model_dir={model_dir}", f"--input={tmp_path}/mono.en",
        "--extra_decode_length=5", *flags,
    )  # fmt: skip
    code, out, err = run(*command, "--pairs", "--decode_batch_tokens=64")
    _, translations, _ = run(*command, "--skip_long_lines")
    expected = zip(translations.splitlines(), lines, strict=True)
    assert code == 0
    assert out.splitlines() == [
        f"{translation}\t{line}".replace("dog\t", "dog ")
        for translation, line in expected
        if translation
    ]
    assert out.count("\n") == 3
    assert "line 4" in err  # which is too long
