"""translate --pairs: training pairs from text of one language."""

LINES = ["Anna sleeps.", "", "The dog\tsees the cat.", "a" * 3000, "Tom sleeps."]
TEXTS = ["Anna sleeps.", "The dog sees the cat.", "Tom sleeps."]  # of which there are pairs


def write_lines(folder):
    (folder / "mono.en").write_text("".join(f"{line}\n" for line in LINES))
    return f"--input={folder}/mono.en"


def test_beam_search_gives_the_translations_of_translate(run, model_dir, tmp_path):
    model, text = f"--model_dir={model_dir}", write_lines(tmp_path)
    code, out, err = run("translate", "--pairs", model, text, "--beam_size=2")
    (tmp_path / "texts").write_text("".join(f"{line}\n" for line in TEXTS))
    _, translations, _ = run("translate", model, f"--input={tmp_path}/texts", "--beam_size=2")
    expected = zip(translations.splitlines(), TEXTS)
    assert code == 0
    assert out.splitlines() == [f"{source}\t{target}" for source, target in expected if source]
    assert "line 4" in err  # which is too long


def test_samples_depend_on_seed_and_line_number_alone(run, model_dir, tmp_path):
    model, text = f"--model_dir={model_dir}", write_lines(tmp_path)
    _, first, _ = run("translate", "--pairs", "--sampling", model, text, "--seed=3")
    _, other, _ = run("translate", "--pairs", "--sampling", model, text, "--seed=4")
    small = "--decode_batch_tokens=256"
    pairs = tmp_path / "pairs.tsv"
    assert (
        run(
            "translate",
            "--pairs",
            "--sampling",
            model,
            text,
            "--seed=3",
            small,
            f"--output={pairs}",
        )[0]
        == 0
    )
    assert pairs.read_text() == first != other
    assert [line.split("\t")[1] for line in first.splitlines()] == TEXTS


def test_wrong_flags(refused, model_dir):
    assert "--model_dir is missing: --pairs needs" in refused("translate", "--pairs")
    flags = "translate", "--pairs", f"--model_dir={model_dir}"
    assert "--n_best and --pairs: give one of them" in refused(*flags, "--n_best=2")
    assert "`tf-transformer translate --pairs --sampling`" in refused("back-translate")
