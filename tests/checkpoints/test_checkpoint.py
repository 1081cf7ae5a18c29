"""Checkpoints: save, restore, average; damaged files and files of other models."""

import os
import shutil
from itertools import islice

import keras
import numpy as np
import pytest

from tf_transformer.checkpoints import checkpoint, model_folder
from tf_transformer.checkpoints.loading import build_model, load_model
from tf_transformer.config import ModelConfig
from tf_transformer.data.pocket import read_pairs
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import DamagedError, UserError

SIZES = {
    "num_layers": 1,
    "d_model": 16,
    "num_heads": 2,
    "dff": 32,
    "input_vocab_size": 20,
    "target_vocab_size": 20,
}


def make(seed, **changes):
    keras.utils.set_random_seed(seed)
    return build_model(ModelConfig(**{**SIZES, **changes}))


def make_optimizer(model):
    """An Adam optimizer after one update of the model."""
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    gradients = [variable * 0.5 for variable in model.trainable_variables]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return optimizer


def weights(model):
    return {name: variable.numpy() for name, variable in checkpoint.named_weights(model).items()}


def assert_equal_weights(actual, expected):
    assert actual.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(actual[name], expected[name])


@pytest.fixture
def arrays_read(monkeypatch):
    """A list of the names of the arrays that are read from `.npz` files during the test."""
    names = []
    read = np.lib.npyio.NpzFile.__getitem__

    def record(self, name):
        names.append(name)
        return read(self, name)

    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", record)
    return names


def test_names_are_paths_that_do_not_depend_on_earlier_models():
    names = set(checkpoint.named_weights(make(1)))
    assert {
        "embedding/table",
        "encoder/layer1/mha/wq/kernel",
        "decoder/layer1/mha2/dense/bias",
        "decoder/layer1/ffn/inner/kernel",
    } <= names
    assert names == set(checkpoint.named_weights(make(2)))


def test_round_trip(tmp_path):
    """Of the weights, the optimizer's state, and the training state."""
    path = str(tmp_path / "deep" / "x.npz")
    saved = make(1)
    restored = make(2)
    saved_optimizer = make_optimizer(saved)
    restored_optimizer = keras.optimizers.Adam(0.1)
    restored_optimizer.build(restored.trainable_variables)
    checkpoint.save(path, saved, saved_optimizer, {"step": 7, "best": None})
    state = checkpoint.restore(path, restored, restored_optimizer)
    assert state == {"step": 7, "best": None}
    assert_equal_weights(weights(restored), weights(saved))
    assert len(restored_optimizer.variables) == len(saved_optimizer.variables)
    for actual, expected in zip(restored_optimizer.variables, saved_optimizer.variables):
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())
    assert os.listdir(tmp_path / "deep") == ["x.npz"]


def test_average_against_numpy(tmp_path):
    """Sec. 6.1."""
    models = [make(seed) for seed in (1, 2, 3)]
    files = [str(tmp_path / f"{i}.npz") for i in range(3)]
    for i, model in enumerate(models):
        checkpoint.save(files[i], model, state={"step": i})
    checkpoint.average(files, str(tmp_path / "mean.npz"))
    mean = make(4)
    state = checkpoint.restore(str(tmp_path / "mean.npz"), mean)
    assert state == {"step": 2, "averaged": ["0.npz", "1.npz", "2.npz"]}
    for name, value in weights(mean).items():
        expected = np.mean([weights(model)[name].astype(np.float64) for model in models], axis=0)
        np.testing.assert_allclose(value, expected, rtol=1e-7)


def test_the_last_eighth_of_the_updates():
    files = [model_folder.step_path("run", step) for step in (87, 88, 100)]
    for first_step, expected in ((0, files[1:]), (3, files[1:]), (4, files[2:]), (60, files[2:])):
        assert checkpoint.last_eighth(files, first_step) == expected
    assert checkpoint.last_eighth(files[-1:], 0) == files[-1:]


def test_average_needs_checkpoints_of_one_model(tmp_path):
    files = [str(tmp_path / name) for name in ("a.npz", "b.npz")]
    checkpoint.save(files[0], make(1))
    checkpoint.save(files[1], make(2, d_model=32))
    with pytest.raises(UserError, match="b.npz is of another model than .*a.npz"):
        checkpoint.average(files, str(tmp_path / "mean.npz"))
    with pytest.raises(UserError, match="no checkpoint to average"):
        checkpoint.average([], str(tmp_path / "mean.npz"))
    assert not (tmp_path / "mean.npz").exists()


def test_average_does_not_read_the_optimizer_state(tmp_path, arrays_read):
    """Adam's moments are two thirds of a checkpoint."""
    model = make(1)
    files = [str(tmp_path / name) for name in ("a.npz", "b.npz")]
    for path in files:
        checkpoint.save(path, model, make_optimizer(model))
    checkpoint.average(files, str(tmp_path / "mean.npz"))
    expected = [f"model/{name}" for name in checkpoint.named_weights(model)] + ["state"]
    assert sorted(arrays_read) == sorted(2 * expected)


def test_load_model_does_not_read_the_optimizer_state(model_dir, arrays_read):
    path = model_folder.find(str(model_dir), "latest")
    with np.load(path) as file:
        assert any(name.startswith("optimizer/") for name in file.files)
    model, _, _ = load_model(str(model_dir), path)
    expected = [f"model/{name}" for name in checkpoint.named_weights(model)] + ["state"]
    assert sorted(arrays_read) == sorted(expected)


def test_read_state_reads_no_arrays(tmp_path, arrays_read):
    path = str(tmp_path / "x.npz")
    checkpoint.save(path, make(1), state={"step": 3})
    assert checkpoint.read_state(path) == {"step": 3}
    assert arrays_read == ["state"]


def save_validated(path, model, step, validated):
    state = {"step": step, "progress": {"validated": validated}}
    checkpoint.save(path, model, state=state)


def test_best_checkpoints(tmp_path):
    """The score is BLEU, or the loss where there is no BLEU.

    A checkpoint that was not validated at its own update has no score.
    """
    model = make(1)
    files = [str(tmp_path / f"{step}.npz") for step in (1, 2, 3, 4)]
    save_validated(files[0], model, 1, [1, {"loss": 2.0}])
    save_validated(files[1], model, 2, [2, {"loss": 1.0}])
    save_validated(files[2], model, 3, [2, {"loss": 1.0}])
    save_validated(files[3], model, 4, [4, {"loss": 3.0}])
    assert checkpoint.best_checkpoints(files, 2) == files[:2]
    assert checkpoint.best_checkpoints(files, 3) == [files[0], files[1], files[3]]
    save_validated(files[3], model, 4, [4, {"loss": 9.0, "BLEU": 7.0}])
    assert checkpoint.best_checkpoints(files, 1) == [files[3]]
    # A loss is not compared with BLEU.
    with pytest.raises(UserError, match="of 4 checkpoints that are kept, 1 were validated"):
        checkpoint.best_checkpoints(files, 2)


def test_average_without_damaged_checkpoints(tmp_path, caplog):
    files = [str(tmp_path / f"{step}.npz") for step in (1, 2, 3)]
    for step, path in enumerate(files, start=1):
        checkpoint.save(path, make(step), state={"step": step})
    expected, found = str(tmp_path / "expected.npz"), str(tmp_path / "found.npz")
    assert checkpoint.average(files[1:], expected) == []
    with open(files[0], "r+b") as file:
        file.truncate(1000)
    with pytest.raises(DamagedError, match="1.npz is damaged"):
        checkpoint.average(files, found)
    assert checkpoint.average(files, found, skip_damaged=True) == files[:1]
    assert "1.npz is damaged" in caplog.text
    assert checkpoint.read_state(found) == checkpoint.read_state(expected)
    with np.load(found) as one, np.load(expected) as other:
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    with pytest.raises(DamagedError):
        checkpoint.average(files[:1], found, skip_damaged=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"d_model": 32},
        {"num_layers": 2},
        {"input_vocab_size": 21, "target_vocab_size": 21},
    ],
)
def test_restoring_another_model_is_an_error_that_changes_nothing(tmp_path, changes):
    path = str(tmp_path / "x.npz")
    checkpoint.save(path, make(1))
    other = make(2, **changes)
    before = weights(other)
    with pytest.raises(UserError, match="of another model"):
        checkpoint.restore(path, other)
    assert_equal_weights(weights(other), before)


def test_damaged_checkpoints_are_detected(tmp_path):
    path = tmp_path / "x.npz"
    other = make(2)
    checkpoint.save(str(path), make(1))
    content = path.read_bytes()
    for damaged in (content[:-100], content[: len(content) // 2], b"", b"nonsense"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="x.npz is damaged"):
            checkpoint.restore(str(path), other)


def test_a_flipped_bit_is_detected_or_harmless(tmp_path):
    """The CRCs of the archive cover all arrays, but not all of its metadata, such as times."""
    path = tmp_path / "x.npz"
    model = make(1)
    other = make(2)
    checkpoint.save(str(path), model)
    content = path.read_bytes()
    header = content.index(b"\x93NUMPY")  # of an array; NumPy parses it before the CRC is checked
    directory = content.rindex(b"PK\x05\x06") - 46  # near the end of the archive's directory
    positions = [
        *np.random.default_rng(0).integers(0, len(content), 30),
        *range(header, header + 128),
        *range(directory - 60, len(content)),
    ]
    detected = 0
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 4
        path.write_bytes(damaged)
        try:
            checkpoint.restore(str(path), other)
        except DamagedError:
            detected += 1
        else:
            assert_equal_weights(weights(other), weights(model))
    assert detected > 10


def test_loading_refuses_files_that_do_not_match(model_dir, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    config = folder / "config.json"
    text = config.read_text()
    for before, after, message in (
        ('"d_model": 32', '"d_model": 64', "of another model"),
        ("_vocab_size", "_vocabulary", "not a configuration"),
        ("{", "", "not a configuration"),
        ('"num_heads": 2', '"num_heads": 5', "not divisible"),
        ('_vocab_size": 500', '_vocab_size": 499', "of another model"),
    ):
        config.write_text(text.replace(before, after))
        with pytest.raises(UserError, match=message):
            load_model(str(folder))


def test_loading_refuses_another_vocabulary_of_the_same_size(model_dir, tmp_path):
    """The model would take its ids for other sub-words."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    other = Tokenizer.learn((german for _, german in islice(read_pairs(), 2000)), 500)
    assert other.vocab_size == 500
    other.save(str(folder / "shared.model"))
    with pytest.raises(UserError, match="not trained with the vocabulary"):
        load_model(str(folder))
