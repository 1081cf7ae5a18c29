"""Random settings, files and flags give a valid result or one clear error."""

import dataclasses
import json

from absl import flags
from fuzzing import bounded
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.cli.command import SETTINGS
from tf_transformer.cli.command import given as given_flags
from tf_transformer.cli.main import parse
from tf_transformer.config import Config
from tf_transformer.errors import UserError
from tf_transformer.presets import preset
from tf_transformer.visualization.history import describe_history

FIELDS = [
    (part.name, field.name)
    for part in dataclasses.fields(Config)
    for field in dataclasses.fields(part.type)
]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
    st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**63, 10**30, 1e-45, 1e308, "auto", "float32"]),
)  # fmt: skip
JSON = st.recursive(
    SCALARS, lambda values: st.lists(values) | st.dictionaries(st.text(), values), max_leaves=5
)


def with_one_setting(field, value):
    parts = dataclasses.asdict(Config())
    parts[field[0]][field[1]] = value
    return parts


CONFIGURATIONS = (
    st.builds(with_one_setting, st.sampled_from(FIELDS), JSON)
    | st.dictionaries(st.sampled_from(["model", "data", "train", "decode"]), JSON)
    | JSON
)


@bounded
@given(CONFIGURATIONS.map(json.dumps) | st.text())
def test_a_random_configuration(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        config = Config.load(str(path))
    except UserError as error:
        assert str(error).startswith(str(path))
    else:
        config.save(str(path))
        assert Config.load(str(path)) == config
        assert config.model.parameters() > 0


METRICS = st.fixed_dictionaries(
    {
        "step": st.integers(0, 100) | JSON,
        "kind": st.sampled_from(["train", "validation", "average"]) | JSON,
        "time": st.floats(0, 1e10) | JSON,
    },
    optional={name: JSON for name in ("loss", "perplexity", "BLEU", "skipped_steps")},
)


@bounded
@given(st.lists(METRICS.map(json.dumps) | JSON.map(json.dumps) | st.text(), max_size=4))
def test_a_random_history(tmp_path, lines):
    text = "".join(f"{line}\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert describe_history(str(tmp_path)).startswith("  history ")
    except UserError as error:
        assert "has no history" in str(error)


@settings(bounded, max_examples=50)
@given(
    st.sampled_from([name for _, name in FIELDS]),
    SCALARS.map(str) | st.text(),
    st.sampled_from(["--{}={}", "-{}={}", "--no{}={}", "--no{}", "--{}"]),
)
def test_a_random_flag(name, value, form):
    try:
        values = parse("train", [form.format(name, value)])
        config = preset("pocket").replace(**given_flags(values, SETTINGS))
    except (UserError, flags.Error) as error:
        assert str(error)
    else:
        assert isinstance(config, Config)
