"""Settings: ranges, presets, JSON."""

import dataclasses

import pytest

from tf_transformer.config import Config
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
        ({"dropout_rate": 1.0}, "dropout_rate is 1.0: give less than 1"),
        ({"dropout_rate": float("nan")}, "dropout_rate is nan"),
        ({"positional_encoding": "none"}, "positional_encoding is 'none'"),
        ({"batch_tokens": 200}, "a batch must be able to hold one sentence of that length"),
        (
            {"max_length": 9000, "batch_tokens": 9000, "pe_input": 9000, "pe_target": 9000},
            "a micro-batch must be able to hold one sentence of that length",
        ),
        ({"max_length": 2000, "batch_tokens": 9000}, "more than the 1024 positions of pe_input"),
        ({"input_vocab_size": 5}, "shared embeddings need one vocabulary"),
        ({"beam_size": 0}, "beam_size is 0"),
        ({"length_penalty": -0.1}, "length_penalty is -0.1"),
    ],
)
def test_values_out_of_range(settings, message):
    with pytest.raises(UserError, match=message):
        Config().replace(**settings)


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
