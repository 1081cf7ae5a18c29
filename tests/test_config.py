"""Settings: ranges, presets, JSON."""

import dataclasses
import json

import pytest

from tf_transformer.config import FORMAT_VERSION, GONE, SCHEDULES, Config, listed
from tf_transformer.errors import UserError
from tf_transformer.presets import PRESETS, VARIATIONS, preset


def test_round_trip(tmp_path):
    path = str(tmp_path / "config.json")
    for name in [*PRESETS, *VARIATIONS]:
        preset(name).save(path)
        assert Config.load(path) == preset(name)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("num_layers", 0, "at least 1"),
    # The kernel rounds the rate to 2^-16, and divides by 1 - rate.
    ("dropout_rate", float("nan"), "a number"),
    ("epsilon", 0.0, "at least 1e-30"),
    ("clip_norm", float("inf"), "at most 2,147,483,647"),
    # With the length of the source it exceeded int32.
    ("extra_decode_length", 2**31 - 1, "at most 100,000"),
    ("num_layers", True, "a whole number"),
    ("data", None, "text"),
    ("shared_vocab", 1, "true or false"),
    ("learning_rate_schedule", "step", listed(list(SCHEDULES))),
])  # fmt: skip
def test_values_out_of_range(name, value, message):
    with pytest.raises(UserError, match=f"{name} .*give {message}"):
        Config().replace(**{name: value})


@pytest.mark.parametrize(("settings", "message"), [
    ({"d_model": 500}, "d_model 500 is not divisible by num_heads 8"),
    ({"batch_tokens": 200}, "batch must be able to hold one sentence"),
    ({"max_length": 2000, "batch_tokens": 9000}, "1024 positions of pe_input"),
    ({"learning_rate": 0.001}, "learning_rate 0.001 has no effect on the schedule noam"),
    ({"init_from": "a", "vocab_model": "b"}, "vocab_model and init_from: give one of them"),
    ({"target_normalization": "nfc"}, "no rule of normalization 'nfc': give identity, nfkc"),
    ({"input_vocab_size": 5}, "shared embeddings need one vocabulary"),
    ({"validation": "news"}, "give NAME=DATA"),
    ({"validation": "a=pocket;a=pocket"}, "each name once"),
])  # fmt: skip
def test_values_that_contradict_each_other(settings, message):
    with pytest.raises(UserError, match=message):
        Config().replace(**settings)
    assert Config().replace(d_model=500, key_dim=64, value_dim=64).model.d_model == 500


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", '{"model": 1}', "[" * 100_000, "\x00", '{"model": {"d_model": NaN}}'],
)
def test_a_damaged_file_is_named(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UserError, match=f"^{path}: "):
        Config.load(str(path))


@pytest.mark.parametrize("new", ["format", "setting", "both"])
def test_the_format_of_a_later_version(tmp_path, new):
    """Each new setting is a new format; two checkouts can have other settings in one format."""
    path = tmp_path / "config.json"
    Config().save(str(path))
    values = json.loads(path.read_text())
    number = len(
        {name for part in dataclasses.asdict(Config()).values() for name in part} | GONE.keys()
    )
    assert values["format_version"] == FORMAT_VERSION == number
    values["format_version"] += new != "setting"
    values["data"] |= {"new_one": 1} if new != "format" else {}
    path.write_text(json.dumps(values))
    message = "" if new == "format" else ", with the settings new_one"
    with pytest.raises(
        UserError, match=f"by a later version .*{message}: install the later version"
    ):
        Config.load(str(path))


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
