"""A run on two corpora with weights and tags: its vocabulary, exact resume, and its use."""

import io
import json
import shutil

import numpy as np
import pytest

from tf_transformer.cli.main import main
from tf_transformer.data.tokenizer import load_tokenizers
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.training.trainer import build_trainer


@pytest.fixture(scope="module")
def mixed_config(tiny_config):
    """Both directions of the tiny corpus, the second with a quarter of the pairs."""
    folder = tiny_config.data.data
    return tiny_config.replace(
        data=f"{folder},{folder}@de-en", tag="<2de>,<2en>", data_weights="3,1", train_steps=6,
        save_steps=3, eval_steps=6, bleu_sentences=0, logical_devices=2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def mixed_run(mixed_config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed") / "whole"
    assert build_trainer(mixed_config, str(folder)).run()
    return folder


def arrays(folder):
    with np.load(folder / "checkpoints" / "step-00000006.npz") as file:
        return {name: file[name] for name in file.files if name != "state"}


def losses(folder):
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [(line["step"], line["kind"], line["loss"]) for line in lines]


def test_three_and_three_updates_are_six(mixed_config, mixed_run, tmp_path):
    assert build_trainer(mixed_config.replace(train_steps=3), str(tmp_path)).run()
    trainer = build_trainer(mixed_config, str(tmp_path))
    assert trainer.step == 3 and trainer.run()
    expected = arrays(mixed_run)
    for name, value in arrays(tmp_path).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    assert losses(tmp_path)[-2:] == losses(mixed_run)[-2:]


def test_an_epoch_has_the_shares_of_the_weights(mixed_config, mixed_run):
    trainer = build_trainer(mixed_config, str(mixed_run))
    trainer.directory.close()
    tags = trainer.tokenizers[0].tags
    counts = dict.fromkeys(tags.values(), 0)
    for inp, _ in trainer.train_batches.epoch(1):
        for token in inp.numpy()[:, 0]:
            if token:
                counts[int(token)] += 1
    # A few pairs are dropped, and each length has at least one pair.
    expected = {tags["<2de>"]: 600, tags["<2en>"]: 200}
    assert counts == pytest.approx(expected, abs=3)
    inp, _ = next(iter(trainer.validation_batches.epoch(0)))
    assert set(inp.numpy()[:, 0]) <= {0, tags["<2de>"]}


@pytest.mark.parametrize(("changes", "message"), [
    ({"data_weights": "1,1"}, r"data_weights 3,1 \(now 1,1\)"),
    ({"tag": "<2de>,<2fr>"}, r"tag <2de>,<2en> \(now <2de>,<2fr>\)"),
])  # fmt: skip
def test_a_run_is_not_resumed_with_others(mixed_config, mixed_run, changes, message):
    with pytest.raises(UserError, match=message):
        build_trainer(mixed_config.replace(**changes), str(mixed_run))


def test_fine_tuning_needs_a_vocabulary_with_the_tags(mixed_config, mixed_run, tmp_path):
    changes = {"init_from": str(mixed_run), "tag": "<2de>,<2fr>"}
    with pytest.raises(UserError, match="has no tag <2fr>: its tags are <2de>, <2en>"):
        build_trainer(mixed_config.replace(**changes), str(tmp_path))


def test_the_flag_of_translate_and_evaluate(mixed_run, corpus_folder, monkeypatch, capfdbinary):
    """`--tag` equals the tag in the text; evaluate puts that of the first corpus."""
    assert set(load_tokenizers(str(mixed_run), True)[0].tags) == {"<2de>", "<2en>"}
    texts = []
    n_best = Translator.n_best

    def recorded(self, lines, *arguments, **options):
        texts.append(list(lines))
        return n_best(self, lines, *arguments, **options)

    monkeypatch.setattr(Translator, "n_best", recorded)
    model = f"--model_dir={mixed_run}"
    lines = "The dog sleeps. Anna sees the man.\n\n"
    for flags, expected in (
        (["--tag=<2de>"], ["<2de> The dog sleeps. Anna sees the man.", ""]),
        (
            ["--tag=<2en>", "--split_sentences"],
            ["<2en> The dog sleeps.", "<2en> Anna sees the man."],
        ),
        ([], ["The dog sleeps. Anna sees the man.", ""]),
    ):
        stdin = io.TextIOWrapper(io.BytesIO(lines.encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["translate", model, "--beam_size=1", *flags]) == 0
        assert texts.pop() == expected
    for flags, tag in (
        (["--split=test"], "<2de>"),
        ([f"--data={corpus_folder}", "--split=test", "--tag=<2en>"], "<2en>"),
        ([f"--data={corpus_folder}", "--split=test"], "<2de>"),
        ([f"--data={corpus_folder}@de-en", "--split=test"], "<2en>"),
        (["--split=test", "--tag=<2en>"], "<2en>"),
    ):
        assert main(["evaluate", model, "--beam_size=1", "--max_pairs=2", *flags]) == 0
        assert all(text.startswith(f"{tag} ") for text in texts.pop())
    for command in ("translate", "evaluate"):
        assert main([command, model, "--tag=<2fr>"]) == 2
        assert b"--tag=<2fr>: the model has no such tag" in capfdbinary.readouterr().err


def test_each_model_of_a_comparison_gets_its_own_tag(
    mixed_run, model_dir, corpus_folder, tmp_path, monkeypatch, capfdbinary
):
    sources = []

    def recorded(self, lines, *arguments, **options):
        sources.append(list(lines))
        return [[("x", 0.0)] for _ in lines]

    monkeypatch.setattr(Translator, "n_best", recorded)
    for model, baseline in ((mixed_run, model_dir), (model_dir, mixed_run)):
        flags = [f"--model_dir={model}", f"--baseline={baseline}", "--split=test"]
        assert main(["evaluate", *flags, "--max_pairs=2", "--metrics=bleu"]) == 0
    plain = [line.split("\n")[0] for line in open(corpus_folder / "test.en", encoding="utf-8")][:2]
    tagged = [f"<2de> {line}" for line in plain]
    assert sources == [plain, tagged, tagged, plain]
    # Other names of the same languages.
    for side, name in (("en", "eng"), ("de", "deu")):
        shutil.copy(corpus_folder / f"test.{side}", tmp_path / f"train.{name}")
    flags = [f"--model_dir={mixed_run}", f"--data={tmp_path}@eng-deu", "--max_pairs=2"]
    assert main(["evaluate", *flags, f"--baseline={model_dir}", "--metrics=bleu"]) == 0
    assert sources[4:] == [plain, tagged]
    flags = [f"--model_dir={mixed_run}", f"--data={corpus_folder}@de-en", "--split=test"]
    assert main(["evaluate", *flags, f"--baseline={model_dir}"]) == 2
    message = capfdbinary.readouterr().err.decode()
    assert "translates en to de, and the test set has de and en" in message


def test_back_translation_writes_no_tag(mixed_run, tmp_path):
    """A tag of the lines chooses the language of the translations; it is no text."""
    (tmp_path / "in.txt").write_text("<2en> Der Hund schläft.\nDer <2en> Hund.\n")
    files = f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.tsv"
    assert main(["translate", "--pairs", "--sampling", f"--model_dir={mixed_run}", *files]) == 0
    targets = [line.split("\t")[1] for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert set(targets) <= {"Der Hund schläft.", "Der <2en> Hund."} and targets
