"""Checkpoints: save, restore, average; damaged files and files of other models."""

import errno
import os
import shutil
from itertools import islice

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from tf_transformer.checkpoints import checkpoint, model_folder
from tf_transformer.checkpoints.loading import build_model, load_model
from tf_transformer.config import ModelConfig
from tf_transformer.data.pocket import read_pairs
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import DamagedError, UserError
from tf_transformer.training.trainer import build_trainer

SIZES = {
    "num_layers": 1, "d_model": 16, "num_heads": 2, "dff": 32, "input_vocab_size": 20,
    "target_vocab_size": 20,
}  # fmt: skip


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


def make_unreadable(path, prefix):
    """Replaces the arrays of a checkpoint whose names have a prefix by ones that NumPy refuses."""
    with np.load(path, allow_pickle=True) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **arrays | {name: [None] for name in arrays if name.startswith(prefix)})


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
    np.testing.assert_equal(weights(restored), weights(saved))
    states = [[x.numpy() for x in of.variables] for of in (saved_optimizer, restored_optimizer)]
    np.testing.assert_equal(*states)
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


@pytest.mark.parametrize("storage", checkpoint.STORAGE_TYPES)
def test_stored_weights(tmp_path, storage):
    """Each weight differs by at most half a step of its type. All readers get float32."""
    model, path, stored = make(1), str(tmp_path / "x.npz"), str(tmp_path / "stored.npz")
    kernels = [value for name, value in checkpoint.named_weights(model).items() if "wq/k" in name]
    kernels[0].assign(tf.concat([tf.zeros([16, 1]), 1e-6 * kernels[0][:, 1:]], axis=1))
    checkpoint.save(path, model, make_optimizer(model), {"step": 7})
    checkpoint.store(path, stored, storage)
    restored = make(2)
    assert checkpoint.restore(stored, restored) == {"step": 7}
    for name, value in weights(model).items():
        error = np.abs(weights(restored)[name] - value)
        if storage == "int8" and value.ndim == 2:  # a step of a channel: of a sub-word, of a column
            step = np.abs(value).max(1 if name.endswith("table") else 0, keepdims=True) / 127
        else:
            step = {"float16": np.abs(value) * 2.0**-10 + 2.0**-24}.get(storage, 0.0 * value)
        assert np.all(error <= step / 2 * (1 + 1e-5)), name
    sizes = {"float32": 4, "float16": 2, "int8": 1}
    with np.load(stored) as file:
        matrices = {file[name].itemsize for name in file.files if file[name].size >= 16 * 16}
    assert matrices == {sizes[storage]}
    checkpoint.average([stored, stored], path)
    checkpoint.restore(path, model)
    np.testing.assert_equal(weights(model), weights(restored))


def test_the_last_eighth_of_the_updates():
    files = [model_folder.step_path("run", step) for step in (87, 88, 100)]
    assert checkpoint.last_eighth(files) == files[1:]
    assert checkpoint.last_eighth(files[-1:]) == files[-1:]


def test_average_needs_checkpoints_of_one_model(tmp_path):
    files = [str(tmp_path / name) for name in ("a.npz", "b.npz")]
    checkpoint.save(files[0], make(1))
    checkpoint.save(files[1], make(2, d_model=32))
    with pytest.raises(UserError, match="b.npz is of another model than .*a.npz"):
        checkpoint.average(files, str(tmp_path / "mean.npz"))
    with pytest.raises(UserError, match="no checkpoint to average"):
        checkpoint.average([], str(tmp_path / "mean.npz"))
    assert not (tmp_path / "mean.npz").exists()


def test_only_what_is_needed_is_read(model_dir, tmp_path):
    """Adam's moments are two thirds of a checkpoint. The state is read without the weights."""
    folder = shutil.copytree(model_dir, tmp_path / "model")
    path = model_folder.find(str(folder), "latest")
    make_unreadable(path, "optimizer/")
    model, _, _ = load_model(str(folder), "latest")
    with np.load(path) as file:
        for name, value in weights(model).items():
            np.testing.assert_array_equal(value, file[f"model/{name}"])
    checkpoint.average([path, path], str(tmp_path / "mean.npz"))
    with pytest.raises(DamagedError):
        checkpoint.restore(path, model, make_optimizer(model))
    make_unreadable(path, "model/")
    with pytest.raises(DamagedError):
        load_model(str(folder), "latest")
    assert checkpoint.read_state(path)["step"] == 12


def test_best_checkpoints(tmp_path):
    """The score is BLEU, or the loss where there is no BLEU.

    A checkpoint that was not validated at its own update has no score.
    """
    model = make(1)
    files = [str(tmp_path / f"{step}.npz") for step in (1, 2, 3, 4)]

    def save(step, validated, **scores):
        state = {"step": step, "progress": {"validated": [validated, scores]}}
        checkpoint.save(files[step - 1], model, state=state)

    for step, validated, loss in ((1, 1, 2.0), (2, 2, 1.0), (3, 2, 1.0), (4, 4, 3.0)):
        save(step, validated, loss=loss)
    assert checkpoint.best_checkpoints(files, 2) == files[:2]
    assert checkpoint.best_checkpoints(files, 3) == [files[0], files[1], files[3]]
    save(4, 4, loss=9.0, BLEU=7.0)
    assert checkpoint.best_checkpoints(files, 1) == [files[3]]
    # A loss is not compared with BLEU.
    with pytest.raises(UserError, match="of 4 checkpoints that are kept, 1 were validated"):
        checkpoint.best_checkpoints(files, 2)


def test_an_error_of_reading_is_no_damage(tiny_config, model_dir, tmp_path, monkeypatch):
    """Nothing is renamed, nor is an earlier checkpoint taken: the next start may read it."""
    folder = str(shutil.copytree(model_dir, tmp_path / "model"))
    paths = model_folder.step_checkpoints(folder)
    load = np.load

    def fails(path, *arguments, **options):
        if str(path) == paths[-1]:
            raise OSError(number, os.strerror(number), path)
        return load(path, *arguments, **options)

    monkeypatch.setattr(np, "load", fails)
    mean = str(tmp_path / "mean.npz")
    for name in "EIO ESTALE EMFILE ETIMEDOUT ENOMEM EACCES".split():
        number = getattr(errno, name)
        for read in (
            lambda: checkpoint.average(paths, mean, skip_damaged=True),
            lambda: load_model(folder, "latest"),
            *([lambda: build_trainer(tiny_config, folder)] if number == errno.EIO else []),
        ):
            with pytest.raises(UserError, match=f"{paths[-1]} cannot be read .*{number}") as raised:
                read()
            assert not isinstance(raised.value, DamagedError)
    assert model_folder.step_checkpoints(folder) == paths and not os.path.exists(mean)


@pytest.mark.parametrize("changes", [{"d_model": 32}, {"num_layers": 2}, {"dff": 16}], ids=str)
def test_restoring_another_model_is_an_error_that_changes_nothing(tmp_path, changes):
    path = str(tmp_path / "x.npz")
    checkpoint.save(path, make(1))
    other = make(2, **changes)
    before = weights(other)
    with pytest.raises(UserError, match="of another model"):
        checkpoint.restore(path, other)
    np.testing.assert_equal(weights(other), before)


def test_loading_refuses_another_vocabulary_of_the_same_size(model_dir, tmp_path):
    """The model would take its ids for other sub-words."""
    folder = shutil.copytree(model_dir, tmp_path / "model")
    other = Tokenizer.learn((german for _, german in islice(read_pairs(), 2000)), 500)
    assert other.vocab_size == 500
    other.save(str(folder / "target.model"))
    with pytest.raises(UserError, match="not trained with the vocabulary"):
        load_model(str(folder))


STATE = {"step": 7, "loss": 1.5, "order": [1, 2, 3]}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, the bytes of its checkpoint, and its parts.

    The parts are the file, the header of an array, which NumPy parses before the CRC is checked,
    and the end of the archive's directory.
    """
    model = make(1)
    path = tmp_path_factory.mktemp("saved") / "step-7.npz"
    checkpoint.save(str(path), model, None, STATE)
    content = path.read_bytes()
    header, size = content.index(b"\x93NUMPY"), len(content)
    directory = range(content.rindex(b"PK\x05\x06") - 110, size)
    parts = {"file": range(size), "header": range(header, header + 128), "directory": directory}
    return model, content, parts


@given(
    st.sampled_from(["file", "header", "directory"]),
    st.floats(0, 1),
    st.integers(0, 64),
    st.binary(max_size=64),
)
@example("file", 0.0, 10**9, b"")  # an empty file
@example("file", 0.5, 10**9, b"")  # half of a file
@example("file", 1.0, 0, b"more")
@example("file", 0.0, 4, b"PK\5\6")
def test_changed_bytes(tmp_path, saved, part, start, length, replacement):
    model, content, parts = saved
    first = parts[part].start + int(start * len(parts[part]))
    path = tmp_path / "step-7.npz"
    path.write_bytes(content[:first] + replacement + content[first + length :])
    before = [variable.numpy() for variable in model.variables]
    try:
        state = checkpoint.restore(str(path), model)
    except UserError as error:
        assert str(path) in str(error) and "\n" not in str(error)
    else:
        assert {name: state[name] for name in STATE} == STATE
    for variable, values in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), values)
