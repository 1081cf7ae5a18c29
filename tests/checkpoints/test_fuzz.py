"""A checkpoint with changed bytes is read as it was written, or gives one clear error."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_model import make_model

from tf_transformer.checkpoints import checkpoint
from tf_transformer.errors import UserError

STATE = {"step": 7, "loss": 1.5, "order": [1, 2, 3]}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, the bytes of its checkpoint, and its parts.

    The parts are the file, the header of an array, which NumPy parses before the CRC is checked,
    and the end of the archive's directory.
    """
    model = make_model(num_layers=1)
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
