"""A run on two corpora with weights and tags: its vocabulary and its use."""

import numpy as np
import pytest

from tf_transformer.cli.main import main
from tf_transformer.data.tokenizer import load_tokenizers
from tf_transformer.decoding.text_batches import Translation
from tf_transformer.decoding.translator import Translator
from tf_transformer.training.trainer import build_trainer


@pytest.fixture(scope="module")
def mixed_config(tiny_config):
    """Both directions of the tiny corpus, the second with a quarter of the pairs."""
    folder = tiny_config.data.data
    return tiny_config.replace(
        data=f"{folder},{folder}@de-en", tag="<2de>,<2en>", data_weights="3,1", train_steps=6,
        save_steps=3, eval_steps=6, bleu_sentences=0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def mixed_run(mixed_config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed") / "whole"
    assert build_trainer(mixed_config, str(folder)).run()
    return folder


@pytest.fixture
def texts(monkeypatch):
    """A list of the texts of each call of `Translator.n_best`, which only returns them."""
    calls = []

    def recorded(self, lines, *arguments, **options):
        calls.append(list(lines))
        return [[Translation((line, 0.0))] for line in lines]

    monkeypatch.setattr(Translator, "n_best", recorded)
    return calls


def test_an_epoch_has_the_shares_of_the_weights(mixed_config, mixed_run):
    trainer = build_trainer(mixed_config, str(mixed_run))
    trainer.directory.close()
    tags = trainer.tokenizers[0].tags
    first = np.concatenate([inp.numpy()[:, 0] for inp, _ in trainer.train_batches.epoch(1)])
    counts = {tag: np.count_nonzero(first == tag) for tag in tags.values()}
    # A few pairs are dropped, and each length has at least one pair.
    expected = {tags["<2de>"]: 600, tags["<2en>"]: 200}
    assert counts == pytest.approx(expected, abs=3)
    inp, _ = next(iter(trainer.validation_texts[0].batches.epoch(0)))
    assert set(inp.numpy()[:, 0]) <= {0, tags["<2de>"]}


def test_the_flag_of_translate_and_evaluate(mixed_run, texts, tmp_path, capfdbinary):
    """`--tag` equals the tag in the text; evaluate puts that of the first corpus."""
    assert set(load_tokenizers(str(mixed_run))[0].tags) == {"<2de>", "<2en>"}
    model = f"--model_dir={mixed_run}"
    dog, anna = "The dog sleeps.", "Anna sees the man."
    for flags, expected in (
        (["--tag=<2de>"], [f"<2de> {dog} {anna}", ""]),
        (["--tag=<2en>", "--split_sentences"], [f"<2en> {dog}", f"<2en> {anna}"]),
        ([], [f"{dog} {anna}", ""]),
    ):
        (tmp_path / "in").write_text(f"{dog} {anna}\n\n")
        files = f"--input={tmp_path}/in", f"--output={tmp_path}/out"
        assert main(["translate", model, "--beam_size=1", *files, *flags]) == 0
        assert texts.pop() == expected
    assert main(["evaluate", model, "--split=test", "--max_pairs=2"]) == 0
    assert all(text.startswith("<2de> ") for text in texts.pop())
    for command in ("translate", "evaluate"):
        assert main([command, model, "--tag=<2fr>"]) == 2
        message = b"--tag=<2fr>: the model has no such tag: its tags are <2de>, <2en>"
        assert message in capfdbinary.readouterr().err


@pytest.mark.parametrize("engine", ["tensorflow", "ctranslate2"])
def test_a_warning_of_a_tag_that_is_missing_or_not_known(
    mixed_run, engine, tmp_path, monkeypatch, capfdbinary
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "in").write_text("<2en> Der Hund.\nDer Hund.\nDer Hund.\n<2fr> Der Hund.\n")
    flags = f"--engine={engine}", f"--input={tmp_path}/in", f"--output={tmp_path}/out"
    assert main(["translate", f"--model_dir={mixed_run}", *flags, "--beam_size=1"]) == 0
    messages = capfdbinary.readouterr().err.decode()
    assert messages.count("has no tag") == messages.count("line 2 has no tag, and the model") == 1
    assert "line 4: the model does not know the tag <2fr>" in messages
    assert messages.count("it knows <2de>, <2en>") == 2


def test_back_translation_writes_no_tag(mixed_run, tmp_path):
    """A tag of the lines chooses the language of the translations; it is no text."""
    (tmp_path / "in.txt").write_text("<2en> Der Hund schläft.\nDer <2en> Hund.\n")
    files = f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.tsv"
    assert main(["translate", "--pairs", "--sampling", f"--model_dir={mixed_run}", *files]) == 0
    targets = [line.split("\t")[1] for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert set(targets) <= {"Der Hund schläft.", "Der <2en> Hund."} and targets
