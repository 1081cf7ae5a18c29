"""Random settings, files and flags give a valid result or one clear error."""

import dataclasses
import json

from hypothesis import given
from hypothesis import strategies as st

from tf_transformer.config import Config
from tf_transformer.errors import UserError

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
