"""Save, restore, average; and what is said of damaged or foreign files."""

import os
import shutil

import keras
import numpy as np
import pytest

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints import paths as model_folder
from tf_transformer.checkpoints.loading import build_model, load_model
from tf_transformer.config import ModelConfig
from tf_transformer.data.pocket import corpus as pocket
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


def weights(model):
    return {name: variable.numpy() for name, variable in checkpoint.named_weights(model).items()}


def test_names_tell_the_place_and_do_not_depend_on_what_was_built_before():
    names = set(checkpoint.named_weights(make(1)))
    assert {
        "embedding/table",
        "encoder/layer1/mha/wq/kernel",
        "decoder/layer1/mha2/dense/bias",
        "decoder/layer1/ffn/inner/kernel",
    } <= names
    assert names == set(checkpoint.named_weights(make(2)))


def test_round_trip(tmp_path):
    """Law 9, with the optimizer's state."""
    path, one, other = str(tmp_path / "deep" / "x.npz"), make(1), make(2)
    optimizers = [keras.optimizers.Adam(0.1) for _ in range(2)]
    for optimizer, model in zip(optimizers, (one, other)):
        optimizer.build(model.trainable_variables)
    optimizers[0].apply_gradients(
        [(variable * 0.5, variable) for variable in one.trainable_variables]
    )
    checkpoint.save(path, one, optimizers[0], {"step": 7, "best": None})
    assert checkpoint.restore(path, other, optimizers[1]) == {"step": 7, "best": None}
    for name, value in weights(one).items():
        np.testing.assert_array_equal(value, weights(other)[name])
    for a, b in zip(optimizers[0].variables, optimizers[1].variables):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert os.listdir(tmp_path / "deep") == ["x.npz"]


def test_average_against_numpy(tmp_path):
    """Sec. 6.1."""
    models, paths = [make(seed) for seed in (1, 2, 3)], []
    for i, model in enumerate(models):
        paths.append(str(tmp_path / f"{i}.npz"))
        checkpoint.save(paths[-1], model, state={"step": i})
    checkpoint.average(paths, str(tmp_path / "mean.npz"))
    mean = make(4)
    state = checkpoint.restore(str(tmp_path / "mean.npz"), mean)
    assert state == {"step": 2, "averaged": ["0.npz", "1.npz", "2.npz"]}
    for name, value in weights(mean).items():
        expected = np.mean([weights(model)[name].astype(np.float64) for model in models], axis=0)
        np.testing.assert_allclose(value, expected, rtol=1e-7)


def test_the_best_of_several(tmp_path):
    """By BLEU, or by the loss where there is none; a checkpoint that was not validated when it was written has no score."""
    model, paths = make(1), []
    for step, validated in (
        (1, [1, {"loss": 2.0}]),
        (2, [2, {"loss": 1.0}]),
        (3, [2, {"loss": 1.0}]),
        (4, [4, {"loss": 3.0}]),
    ):
        paths.append(str(tmp_path / f"{step}.npz"))
        checkpoint.save(
            paths[-1], model, state={"step": step, "progress": {"validated": validated}}
        )
    assert checkpoint.best_checkpoints(paths, 2) == paths[:2]
    assert checkpoint.best_checkpoints(paths, 3) == [paths[0], paths[1], paths[3]]
    checkpoint.save(
        paths[3],
        model,
        state={"step": 4, "progress": {"validated": [4, {"loss": 9.0, "BLEU": 7.0}]}},
    )
    assert checkpoint.best_checkpoints(paths, 1) == [paths[3]]
    with pytest.raises(UserError, match="of 4 checkpoints that are kept, 3 were validated"):
        checkpoint.best_checkpoints(paths, 4)


def test_another_model_is_refused_and_nothing_is_changed(tmp_path):
    path = str(tmp_path / "x.npz")
    checkpoint.save(path, make(1))
    for change in (
        {"d_model": 32},
        {"num_layers": 2},
        {"input_vocab_size": 21, "target_vocab_size": 21},
    ):
        other = make(2, **change)
        before = weights(other)
        with pytest.raises(UserError, match="of another model"):
            checkpoint.restore(path, other)
        for name, value in weights(other).items():
            np.testing.assert_array_equal(value, before[name])


def test_damaged_checkpoints_are_recognised(tmp_path):
    path, other = tmp_path / "x.npz", make(2)
    checkpoint.save(str(path), make(1))
    whole = path.read_bytes()
    for damaged in (whole[:-100], whole[: len(whole) // 2], b"", b"nonsense"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="x.npz is damaged"):
            checkpoint.restore(str(path), other)


def test_a_flipped_bit_is_recognised_or_harmless(tmp_path):
    """The archive's CRCs cover all arrays; what is left is the archive's own bookkeeping, such as times."""
    path, model, other = tmp_path / "x.npz", make(1), make(2)
    checkpoint.save(str(path), model)
    whole, refused = path.read_bytes(), 0
    directory = whole.rindex(b"PK\x05\x06") - 46  # the end of the archive's list of what is in it
    for position in (
        *np.random.default_rng(0).integers(0, len(whole), 30),
        *range(directory - 60, len(whole)),
    ):
        damaged = bytearray(whole)
        damaged[position] ^= 4
        path.write_bytes(damaged)
        try:
            checkpoint.restore(str(path), other)
        except DamagedError:
            refused += 1
        else:
            for name, value in weights(model).items():
                np.testing.assert_array_equal(value, weights(other)[name])
    assert refused > 10


def test_finding_checkpoints(tmp_path):
    folder = str(tmp_path)
    with pytest.raises(UserError, match="no trained model"):
        model_folder.find(folder)
    model = make(1)
    for step in (5, 100, 20):
        checkpoint.save(model_folder.step_path(folder, step), model)
    assert [
        int(os.path.basename(path)[5:13]) for path in model_folder.step_checkpoints(folder)
    ] == [5, 20, 100]
    assert (
        model_folder.find(folder)
        == model_folder.find(folder, "latest")
        == model_folder.step_path(folder, 100)
    )
    with pytest.raises(UserError, match="no checkpoint 'best'"):
        model_folder.find(folder, "best")
    for name in ("best", "averaged"):
        checkpoint.save(str(tmp_path / f"{name}.npz"), model)
        assert model_folder.find(folder) == str(tmp_path / f"{name}.npz")
    with pytest.raises(UserError, match="no checkpoint to average"):
        checkpoint.average([], str(tmp_path / "mean.npz"))


def test_loading_refuses_what_does_not_belong_together(model_dir, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    text = (folder / "config.json").read_text()
    for before, after, message in (
        ('"d_model": 32', '"d_model": 64', "of another model"),
        ("_vocab_size", "_vocabulary", "not a configuration"),
        ("{", "", "not a configuration"),
        ('"num_heads": 2', '"num_heads": 5', "not divisible"),
    ):
        (folder / "config.json").write_text(text.replace(before, after))
        with pytest.raises(UserError, match=message):
            load_model(str(folder))
    (folder / "config.json").write_text(text.replace('_vocab_size": 500', '_vocab_size": 499'))
    with pytest.raises(UserError, match="of different runs"):
        load_model(str(folder))


def test_loading_refuses_another_vocabulary_of_the_same_size(model_dir, tmp_path):
    """Its sub-words would be taken for others, and the translations be nonsense."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    other = Tokenizer.learn((german for _, german in pocket.generate(2000)), 500)
    assert other.vocab_size == 500
    other.save(str(folder / "shared.model"))
    with pytest.raises(UserError, match="not trained with the vocabulary"):
        load_model(str(folder))
