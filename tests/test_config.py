"""Settings: ranges, presets, JSON."""

import dataclasses

import numpy as np
import pytest

from tf_transformer.config import FORMAT_VERSION, SCHEDULES, Config, listed
from tf_transformer.errors import UserError
from tf_transformer.presets import PRESETS, VARIATIONS, preset


@pytest.mark.parametrize("name", [*PRESETS, *VARIATIONS])
def test_round_trip(tmp_path, name):
    path = str(tmp_path / "config.json")
    preset(name).save(path)
    assert Config.load(path) == preset(name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_model": 500}, "d_model 500 is not divisible by num_heads 8"),
        ({"num_layers": 0}, "num_layers is 0: give at least 1"),
        # The kernel rounds the rate to 2^-16, and divides by 1 - rate.
        ({"dropout_rate": 0.999999999}, "dropout_rate is 0.999999999: give at most 0.999"),
        ({"dropout_rate": float("nan")}, "dropout_rate is nan: give at most 0.999"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0: give at most 0.999"),
        ({"beta_1": 2}, "beta_1 is 2: give at most 0.999999"),
        ({"beta_2": -0.1}, "beta_2 is -0.1: give at least 0"),
        ({"epsilon": 0.0}, "epsilon is 0.0: give at least 1e-30"),
        ({"epsilon": float("inf")}, "epsilon is inf: give at most 1"),
        ({"clip_norm": float("inf")}, "clip_norm is inf: give at most 2,147,483,647"),
        ({"train_minutes": float("inf")}, "train_minutes is inf: give at most 2,147,483,647"),
        ({"log_steps": 2**31}, "log_steps is 2147483648: give at most 2,147,483,647"),
        ({"beam_size": 100_000}, "beam_size is 100000: give at most 1,000"),
        # With the length of the source it exceeded int32.
        ({"extra_decode_length": 2**31 - 1}, "give at most 100,000"),
        ({"num_layers": 1.5}, "num_layers is 1.5: give a whole number"),
        ({"num_layers": True}, "num_layers is True: give a whole number"),
        ({"epsilon": "1"}, "epsilon is '1': give a number"),
        ({"data": None}, "data is None: give text"),
        ({"shared_vocab": 1}, "shared_vocab is 1: give true or false"),
        ({"positional_encoding": "none"}, "positional_encoding is 'none'"),
        ({"batch_tokens": 200}, "a batch must be able to hold one sentence of that length"),
        (
            {"max_length": 9000, "batch_tokens": 9000, "pe_input": 9000, "pe_target": 9000},
            "a micro-batch must be able to hold one sentence of that length",
        ),
        ({"max_length": 2000, "batch_tokens": 9000}, "more than the 1024 positions of pe_input"),
        ({"learning_rate_schedule": "step"}, f"give {listed(list(SCHEDULES))}"),
        ({"learning_rate_schedule": "cosine"}, "cosine needs a peak: give learning_rate"),
        ({"learning_rate": 0.001}, "learning_rate 0.001 has no effect on the schedule noam"),
        (
            {"learning_rate_schedule": "linear", "learning_rate": 0.001, "train_steps": 4000},
            "warmup_steps 4000 is not less than train_steps 4000",
        ),
        ({"plateau_steps": 5}, "plateau_steps is for learning_rate_schedule inverse_sqrt"),
        ({"data_weights": "1"}, "data_weights and data_temperature are for several corpora"),
        ({"ema_decay": 1.0}, "ema_decay is 1.0: give at most 0.999999"),
        ({"r_drop": 5.0, "dropout_rate": 0.0}, "but dropout_rate is 0"),
        (
            {"freeze": "encoder,head"},
            "freeze 'encoder,head': give one or two of encoder,",
        ),
        ({"freeze": "decoder,encoder,embeddings"}, "give one or two of encoder"),
        ({"init_optimizer": True}, "init_optimizer and extend_vocab need init_from"),
        ({"input_vocab_size": 5}, "shared embeddings need one vocabulary"),
        ({"beam_size": 0}, "beam_size is 0"),
        ({"length_penalty": -0.1}, "length_penalty is -0.1"),
    ],
)
def test_values_out_of_range(settings, message):
    with pytest.raises(UserError, match=message):
        Config().replace(**settings)


def test_the_bounds_are_finite_numbers_in_float32():
    """1 - beta and epsilon are divisors of Adam, 1 - rate of dropout, and alpha an exponent."""
    one = np.float32(1)
    assert one - np.float32(0.999999) > 0
    assert np.sqrt(np.float32(0)) + np.float32(1e-30) > 0
    assert int(0.999 * 2**16) < 2**16
    longest = Config().replace(pe_target=10_000).model.pe_target
    assert np.isfinite(np.float32((5 + longest) / 6) ** np.float32(10))
    settings = {"beta_1": 0.999999, "beta_2": 0, "epsilon": 1e-30, "dropout_rate": 0.999}
    assert Config().replace(**settings, length_penalty=10).train.epsilon == 1e-30


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", '{"model": 1}', "[" * 100_000, "\x00", '{"model": {"d_model": NaN}}'],
)
def test_a_damaged_file_is_named(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UserError, match=f"^{path}: "):
        Config.load(str(path))


def test_the_format_of_a_later_version(tmp_path):
    path = tmp_path / "config.json"
    Config().save(str(path))
    text = path.read_text()
    assert f'"format_version": {FORMAT_VERSION}' in text
    path.write_text(text.replace(f": {FORMAT_VERSION},", f": {FORMAT_VERSION + 1},", 1))
    with pytest.raises(UserError, match="by a later version .* install the later version"):
        Config.load(str(path))


def test_key_and_value_dims_allow_any_d_model():
    assert Config().replace(d_model=500, key_dim=64, value_dim=64).model.d_model == 500


def test_unknown_names():
    with pytest.raises(UserError, match="unknown preset 'huge'"):
        preset("huge")
    with pytest.raises(KeyError, match="no such setting: stepz"):
        Config().replace(stepz=3)


def test_every_setting_has_a_unique_name_and_a_meaning():
    fields = [
        field for part in dataclasses.fields(Config) for field in dataclasses.fields(part.type)
    ]
    assert len({field.name for field in fields}) == len(fields)
    assert all(field.metadata["meaning"] for field in fields)
