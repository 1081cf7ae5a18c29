"""The model folder of a run: models without checkpoints, new runs, locks, vocabularies, disks."""

import shutil

import filelock
import numpy as np
import pytest
import sentencepiece
from tiny_model import make_model

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.model_folder import (
    find_model_dir,
    initial_settings,
    load_config,
    step_path,
)
from tf_transformer.config import TrainConfig
from tf_transformer.data.readers import open_corpus
from tf_transformer.errors import UserError
from tf_transformer.training.run_directory import BATCH_ORDER, RunDirectory, check_same_batches


def contents(folder):
    """The bytes of all files of a folder but the lock, by path."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "training.lock")
    return {path: path.read_bytes() for path in files}


@pytest.fixture
def corpus(tiny_config):
    return open_corpus(tiny_config.data.data, "en", "de")


def copy_run(model_dir, folder):
    """Copies a run, without what other tests have written into its folder."""
    shutil.copytree(
        model_dir, folder, ignore=shutil.ignore_patterns("training.lock", "evaluation", "export")
    )


@pytest.fixture
def finished(model_dir, tmp_path):
    """A copy of a finished run without its checkpoints."""
    folder = tmp_path / "finished"
    copy_run(model_dir, folder)
    shutil.rmtree(folder / "checkpoints")
    return folder


def start(config, corpus, folder, overwrite=False, max_shapes=0):
    """Prepares the vocabulary of a run, then ends it. Returns: the `Config`, the tokenizers."""
    directory = RunDirectory(str(folder), overwrite)
    try:
        prepared = directory.prepare_vocabulary(config, corpus, max_shapes)
        assert not overwrite or directory.restore(None, None) is None
        directory.begin()
        return prepared
    finally:
        directory.close()


@pytest.mark.parametrize("left", ["averaged.npz", "best.npz"])
def test_a_model_without_checkpoints_is_kept(tiny_config, corpus, finished, left):
    (finished / ({"averaged.npz", "best.npz"} - {left}).pop()).unlink()
    before = contents(finished)
    with pytest.raises(UserError, match=rf"\({left}\) without the checkpoints .*--overwrite"):
        start(tiny_config, corpus, finished)
    assert contents(finished) == before


def test_overwrite_leaves_nothing_of_the_earlier_run(tiny_config, corpus, model_dir, tmp_path):
    """Whatever its settings were. Files that are not of a run stay."""
    folder = tmp_path / "model"
    copy_run(model_dir, folder)
    (folder / "evaluation").mkdir()
    with pytest.raises(UserError, match="was started with vocab_size 500"):
        start(tiny_config.replace(vocab_size=400), corpus, folder)
    config, tokenizers = start(tiny_config.replace(vocab_size=400), corpus, folder, overwrite=True)
    kept = {"source.model", "target.model", "cache", "evaluation", "training.lock"}
    assert {path.name for path in folder.iterdir()} == kept
    assert config.model.input_vocab_size == tokenizers[0].vocab_size == 400
    for overwrite in (False, True):  # an interrupted start is repeated
        again, _ = start(tiny_config.replace(vocab_size=400), corpus, folder, overwrite)
        assert again == config


@pytest.mark.parametrize(("changes", "message"), [
    ({"tag": "<2de>"}, "has no tag <2de>"),
    ({"subword_model": "unigram"}, "has subword_model bpe"),
    ({"init_from": "", "vocab_size": 270}, "vocab_size"),
    ({"init_from": "", "data": "blank.tsv"}, "has no train text"),
])  # fmt: skip
def test_overwrite_removes_nothing_where_text_or_vocabulary_do_not_suit(
    tiny_config, finished, monkeypatch, changes, message
):
    monkeypatch.chdir(finished.parent)
    (finished.parent / "blank.tsv").write_text(" \ta\n" * 9)
    settings = {**initial_settings("pocket-en-de"), "init_from": "pocket-en-de", **changes}
    config = tiny_config.replace(**settings)
    before = contents(finished)
    with pytest.raises(UserError, match=message):
        start(config, open_corpus(config.data.data, "en", "de"), finished, overwrite=True)
    assert contents(finished) == before


def write_vocabulary(path, corpus, **options):
    """Learns a vocabulary as `spm_train` does, from both sides of a corpus."""
    options = {
        "vocab_size": 450, "pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3,
        "byte_fallback": True, "minloglevel": 2, **options,
    }  # fmt: skip
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(text for pair in corpus.read("train") for text in pair),
            model_writer=file,
            **options,
        )
    return str(path)


def test_a_vocabulary_that_was_learned_elsewhere(tiny_config, corpus, tmp_path, caplog):
    path = write_vocabulary(tmp_path / "own.model", corpus, control_symbols=["<2de>"])
    config = tiny_config.replace(vocab_model=path, tag="<2de>", max_length=9)
    saved, tokenizers = start(config, corpus, tmp_path / "run")
    assert saved.model.input_vocab_size == saved.model.target_vocab_size == 450
    assert tokenizers[0] is tokenizers[1]
    assert (tmp_path / "run" / "shared.model").read_bytes() == (tmp_path / "own.model").read_bytes()
    assert tokenizers[0].tags == {"<2de>": 4}
    # One file for each side.
    other = write_vocabulary(tmp_path / "other.model", corpus, vocab_size=400, byte_fallback=False)
    both = tiny_config.replace(
        vocab_model=f"{path},{other}", shared_vocab=False, shared_embeddings=False
    )
    saved, _ = start(both, corpus, tmp_path / "both")
    assert (saved.model.input_vocab_size, saved.model.target_vocab_size) == (450, 400)
    assert "other.model has no bytes" in caplog.text


def test_vocabularies_that_cannot_be_used(tiny_config, corpus, tmp_path):
    path = write_vocabulary(tmp_path / "own.model", corpus)
    default = write_vocabulary(tmp_path / "default.model", corpus, pad_id=-1, unk_id=0, bos_id=1)
    small = write_vocabulary(tmp_path / "small.model", corpus, vocab_size=400)
    expected = {
        default: "have the ids -1, 0, 1, 3, not 0, 1, 2, 3: .* --pad_id=0 --unk_id=1 --bos_id=2",
        str(tmp_path / "none.model"): "no such file, or no SentencePiece model",
        f"{path},{small}": "have other sub-words.*--shared_vocab=false",
        f"{path},{path},{path}": "give one file, or two",
    }
    for names, message in expected.items():
        with pytest.raises(UserError, match=message):
            start(tiny_config.replace(vocab_model=names), corpus, tmp_path / "run")
    with pytest.raises(UserError, match="has no tag <2de>.*spm_train --control_symbols"):
        start(tiny_config.replace(vocab_model=path, tag="<2de>"), corpus, tmp_path / "run")


def test_overwrite_respects_the_lock(tiny_config, corpus, model_dir, tmp_path):
    folder = tmp_path / "model"
    copy_run(model_dir, folder)
    before = contents(folder)
    with filelock.FileLock(folder / "training.lock"):  # as of another process
        with pytest.raises(UserError, match="another process trains in"):
            start(tiny_config, corpus, folder, overwrite=True)
        assert contents(folder) == before
    start(tiny_config, corpus, folder, overwrite=True)


def test_batches_of_another_version_or_text():
    for state in ({"data": 7}, {"data": 7, "batch_order": BATCH_ORDER}):
        check_same_batches(state, 7, "run")
    for state in ({"data": 8}, {"data": 7, "batch_order": BATCH_ORDER + 1}):
        with pytest.raises(UserError, match="the training text is not .*--init_from=run starts"):
            check_same_batches(state, 7, "run")


def test_the_settings_have_absolute_paths(
    tiny_config, corpus, model_dir, corpus_folder, tmp_path, monkeypatch
):
    """A model is not evaluated on another folder of the same name. Earlier runs are resumed."""
    monkeypatch.chdir(corpus_folder.parent)
    config = tiny_config.replace(data=corpus_folder.name)
    earlier = tmp_path / "earlier"
    copy_run(model_dir, earlier)
    load_config(str(earlier)).replace(data=corpus_folder.name).save(str(earlier / "config.json"))
    for folder in (tmp_path / "new", earlier):
        prepared, _ = start(config, corpus, folder)
        assert prepared.data.data == str(corpus_folder)


def test_a_run_keeps_its_number_of_shapes(tiny_config, corpus, model_dir, tmp_path):
    """That of a new run suits its devices. So a run is resumed on others."""
    copy_run(model_dir, tmp_path / "earlier")
    for folder, expected in (("new", 12), ("earlier", 0)):
        prepared, _ = start(tiny_config, corpus, tmp_path / folder, max_shapes=12)
        assert prepared.data.max_shapes == expected
    load_config(str(model_dir)).replace(max_shapes=7).save(str(tmp_path / "earlier/config.json"))
    prepared, _ = start(tiny_config, corpus, tmp_path / "earlier")
    assert prepared.data.max_shapes == 7
    with pytest.raises(UserError, match="max_shapes 7"):
        start(tiny_config.replace(max_shapes=5), corpus, tmp_path / "earlier")


def test_a_checkpoint_does_not_fit_on_the_disk(tmp_path, request):
    """The error says why; nothing is lost. What is written is what the weights were at `save`.

    An earlier average does not hide it.
    """
    (tmp_path / "averaged.npz").touch()
    directory, model = RunDirectory(str(tmp_path)), make_model()
    weight = model.trainable_variables[0]
    saved = weight.numpy()
    directory.save(model, None, {"step": 1}, TrainConfig())
    weight.assign(saved + 1)
    directory.wait()
    before = contents(tmp_path)
    assert [path.name for path in before] == ["step-00000001.npz"]
    checkpoint.restore(step_path(str(tmp_path), 1), model)
    np.testing.assert_array_equal(weight.numpy(), saved)
    request.getfixturevalue("small_files")
    directory.save(model, None, {"step": 2}, TrainConfig())
    path = step_path(str(tmp_path), 2)
    with pytest.raises(UserError, match=rf"{path} .*File too large.*: free some disk space"):
        directory.wait()
    directory.close()
    assert contents(tmp_path) == before


def test_folders_that_are_none(tmp_path):
    (tmp_path / "model").write_text("")
    for path in (str(tmp_path / "model"), find_model_dir("pocket-en-de")):
        with pytest.raises(UserError, match=f"{path} is a .*: give another --model_dir"):
            RunDirectory(path)
