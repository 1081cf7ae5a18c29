"""Files that are written whole or not at all."""

import os

import pytest

from tf_transformer.atomic_io import atomic_write


@pytest.mark.parametrize(("mode", "content"), [("w", "größer\n"), ("wb", b"\x00\xff")])
def test_a_file_takes_its_name_at_the_end(tmp_path, mode, content):
    path = tmp_path / "file"
    with atomic_write(str(path), mode) as file:
        file.write(content)
        assert not path.exists()
    assert path.read_bytes() == (content.encode() if mode == "w" else content)


def test_a_failure_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), atomic_write(str(path)) as file:
        file.write("half")
        raise KeyboardInterrupt
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["file"]
