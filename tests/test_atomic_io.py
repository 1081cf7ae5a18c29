"""Files and folders that are written completely or not at all."""

import errno
import os

import pytest

from tf_transformer.atomic_io import atomic_folder, atomic_write, remove_temporary_files


@pytest.mark.parametrize(("mode", "content"), [("w", "größer\n"), ("wb", b"\x00\xff")])
def test_a_file_appears_when_it_is_complete(tmp_path, mode, content):
    path = tmp_path / "file"
    with atomic_write(str(path), mode) as file:
        file.write(content)
        assert not path.exists()
    assert path.read_bytes() == (content.encode() if mode == "w" else content)
    assert os.listdir(tmp_path) == ["file"]


def test_a_failure_leaves_the_previous_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), atomic_write(str(path)) as file:
        file.write("half")
        raise KeyboardInterrupt
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


def test_two_writers_of_one_path(tmp_path):
    """They do not write to one temporary file; the last writer to finish wins."""
    path = tmp_path / "file"
    with atomic_write(str(path)) as outer:
        outer.write("outer, ")
        with atomic_write(str(path)) as inner:
            inner.write("inner")
            assert len(os.listdir(tmp_path)) == 2
        assert path.read_text() == "inner"
        outer.write("which finishes last")
    assert path.read_text() == "outer, which finishes last"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_writer_does_not_disturb_another(tmp_path):
    path = tmp_path / "file"
    with atomic_write(str(path)) as outer:
        outer.write("outer")
        with pytest.raises(ValueError, match="inner"), atomic_write(str(path)) as inner:
            inner.write("half")
            raise ValueError("inner")
    assert path.read_text() == "outer"
    assert os.listdir(tmp_path) == ["file"]


def test_files_have_the_permissions_of_ordinary_files(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_text("")
    with atomic_write(str(tmp_path / "atomic")):
        pass
    assert os.stat(tmp_path / "atomic").st_mode == ordinary.stat().st_mode


def test_leftovers_of_killed_processes_are_removed(tmp_path, monkeypatch):
    """A killed process neither renames nor removes its temporary file."""
    folder = tmp_path / "with [brackets]"
    folder.mkdir()
    (folder / "file").write_text("kept")
    with monkeypatch.context() as patch:
        patch.setattr(os, "remove", lambda path: None)
        with pytest.raises(KeyboardInterrupt), atomic_write(str(folder / "file")):
            raise KeyboardInterrupt
    assert len(os.listdir(folder)) == 2
    remove_temporary_files(str(folder))
    assert os.listdir(folder) == ["file"]
    assert (folder / "file").read_text() == "kept"
    remove_temporary_files(str(tmp_path / "missing"))  # no error


def test_a_missing_folder_is_an_error_with_the_path_of_the_file(tmp_path):
    path = str(tmp_path / "missing" / "file")
    with pytest.raises(OSError) as caught, atomic_write(path):
        pass
    assert caught.value.filename == path
    assert caught.value.errno == errno.ENOENT


def test_an_unfinished_folder_is_removed(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic_folder(str(tmp_path)) as path:
        open(os.path.join(path, "file"), "w").close()
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_complete_folder_is_renamed(tmp_path):
    parent = tmp_path / "new"
    with atomic_folder(str(parent)) as path:
        open(os.path.join(path, "file"), "w").close()
        assert os.path.dirname(path) == str(parent)
        os.rename(path, parent / "complete")
    assert os.listdir(parent) == ["complete"]
    assert os.listdir(parent / "complete") == ["file"]
