"""Files and folders that are written completely or not at all, and their checksums."""

import errno
import hashlib
import itertools
import os
import pathlib
import stat
import threading
import time

import pytest

from tf_transformer.files import (
    atomic_files,
    atomic_folder,
    atomic_write,
    is_intact,
    remove_temporary_files,
    write_checksums,
)


@pytest.mark.parametrize(("mode", "content"), [("w", "größer\n"), ("wb", b"\x00\xff")])
def test_a_file_appears_when_it_is_complete(tmp_path, mode, content):
    """A failure leaves the previous file."""
    path = tmp_path / ("字" * 85)  # 255 bytes, the maximum
    with atomic_write(str(path), mode) as file:
        file.write(content)
        assert not path.exists()
    with pytest.raises(KeyboardInterrupt), atomic_write(str(path)) as file:
        file.write("half")
        raise KeyboardInterrupt
    assert path.read_bytes() == (content.encode() if mode == "w" else content)
    assert os.listdir(tmp_path) == [path.name]


def write_two(paths, text):
    with atomic_files([str(path) for path in paths]) as files:
        for file in files:
            file.write(text)


def test_files_that_belong_together(tmp_path, monkeypatch):
    """At no moment there are an old and a new one, also when the process is killed."""
    paths = [tmp_path / "a", tmp_path / "b"]
    write_two(paths, "old")

    def texts():
        return {path.name: path.read_text() for path in paths if path.exists()}

    def interrupted(function, calls):
        def call(*arguments):
            assert len(set(texts().values())) == 1
            if not next(calls):
                raise KeyboardInterrupt
            return function(*arguments)

        return call

    # The old a is removed, b is replaced, what is left of it is removed, a is replaced.
    stages = [{"a": "old", "b": "old"}, {"b": "old"}, {"b": "new"}, {"b": "new"}]
    for number, expected in enumerate(stages):
        write_two(paths, "old")
        calls = itertools.chain([True] * number, [False], itertools.repeat(True))
        with monkeypatch.context() as patch:
            for name in ("replace", "remove"):
                patch.setattr(os, name, interrupted(getattr(os, name), calls))
            with pytest.raises(KeyboardInterrupt):
                write_two(paths, "new")
        assert texts() == expected
        assert set(os.listdir(tmp_path)) == set(expected)
    write_two(paths, "new")
    assert texts() == {"a": "new", "b": "new"}


def test_no_file_appears_when_one_cannot_be_written(tmp_path, full):
    path = tmp_path / "file"
    with pytest.raises(OSError, match="No space left"):
        write_two([path, full], "text")
    assert not path.exists()


def test_two_writers_of_one_path(tmp_path):
    """They do not write to one temporary file; the last writer to finish wins."""
    path = tmp_path / "file"
    with atomic_write(str(path)) as outer:
        outer.write("outer, ")
        with atomic_write(str(path)) as inner:
            inner.write("inner")
            assert len(os.listdir(tmp_path)) == 2
        assert path.read_text() == "inner"
        with pytest.raises(ValueError, match="failed"), atomic_write(str(path)) as inner:
            raise ValueError("failed")
        outer.write("which finishes last")
    assert path.read_text() == "outer, which finishes last"
    assert os.listdir(tmp_path) == ["file"]


def test_permissions(tmp_path):
    """Those of an ordinary file, or of the previous version."""
    new, ordinary, secret = (tmp_path / name for name in ("new", "ordinary", "secret"))
    ordinary.touch()
    secret.touch(mode=0o600)
    for path in (new, secret):
        with atomic_write(str(path)) as file:
            file.write("text")
    assert new.stat().st_mode == ordinary.stat().st_mode
    assert secret.stat().st_mode & 0o777 == 0o600


def test_the_target_of_a_symbolic_link_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    link = tmp_path / "link"
    link.symlink_to(target)
    for text in ("new", "replaced"):  # the target does not exist at first
        with atomic_write(str(link)) as file:
            file.write(text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]
    assert os.listdir(tmp_path / "folder") == ["target"]


def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_text("utf-8")))
    reader.start()
    with atomic_write(str(path)) as file:
        file.write("größer")
    reader.join()
    assert received == ["größer"]
    assert stat.S_ISFIFO(os.stat(path).st_mode)


@pytest.mark.parametrize("content", ["text", "x" * 100_000])
def test_a_full_device_stays_and_is_named(full, content):
    with pytest.raises(OSError) as caught, atomic_write(full) as file:
        file.write(content)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, full)
    assert stat.S_ISCHR(os.stat(full).st_mode)


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_an_error_of_writing_names_the_file(tmp_path, mode, small_files):
    """Not the temporary one; the previous file stays."""
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(OSError) as caught, atomic_write(str(path), mode) as file:
        file.write("x" * 20_000 if mode == "w" else bytes(20_000))
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert path.read_text() == "before"
    with pytest.raises(OSError) as caught, atomic_write(str(path), mode) as file:
        path.unlink()
        path.mkdir()  # which the file cannot replace
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("path", "code"),
    [("{}", errno.EISDIR), ("{}/new/", errno.EISDIR), ("{}/missing/file", errno.ENOENT)],
)
def test_paths_that_cannot_be_written(tmp_path, path, code):
    path = path.format(tmp_path)
    with pytest.raises(OSError) as caught, atomic_write(path):
        pass
    assert (caught.value.errno, caught.value.filename) == (code, path)
    assert os.listdir(tmp_path) == []


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    folder = tmp_path / "with [brackets]"
    folder.mkdir()
    (folder / "file").write_text("kept")
    with atomic_write(str(folder / "file")) as file:
        (left,) = set(os.listdir(folder)) - {"file"}
        file.write("kept")
    (folder / left).touch()
    remove_temporary_files(str(folder))
    assert os.listdir(folder) == ["file"]
    assert (folder / "file").read_text() == "kept"
    remove_temporary_files(str(tmp_path / "missing"))  # no error


def test_a_folder_is_renamed_or_removed(tmp_path):
    parent = tmp_path / "new"
    with atomic_folder(str(parent)) as path:
        pathlib.Path(path, "file").touch()
        os.rename(path, parent / "complete")
    with pytest.raises(KeyboardInterrupt), atomic_folder(str(parent)) as path:
        pathlib.Path(path, "file").touch()
        raise KeyboardInterrupt
    assert os.listdir(parent) == ["complete"]
    assert os.listdir(parent / "complete") == ["file"]


def test_the_folders_of_killed_processes_are_removed(tmp_path):
    left, unfinished = tmp_path / ".unfinished-a", tmp_path / ".unfinished-b"
    for folder in (left, unfinished):
        folder.mkdir()
        (folder / "file").touch()
    days_ago = time.time() - 48 * 3600
    os.utime(left, (days_ago, days_ago))
    with atomic_folder(str(tmp_path)):
        assert unfinished.is_dir()  # its process may still run
        assert not left.exists()
    assert os.listdir(tmp_path) == [unfinished.name]


def test_checksums_detect_every_change(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "b.txt").write_text("two")
    (tmp_path / "below" / "a.txt").write_text("one")
    assert not is_intact(str(tmp_path))  # there are no checksums yet
    write_checksums(str(tmp_path))
    lines = [f"{hashlib.sha256(text).hexdigest()}  " for text in (b"two", b"one")]
    expected = f"{lines[0]}b.txt\n{lines[1]}below/a.txt\n"
    assert (tmp_path / "SHA256SUMS").read_text() == expected
    assert is_intact(str(tmp_path))

    for name, content in (("b.txt", "twO"), ("b.txt", None), ("new.txt", ""), ("SHA256SUMS", "x")):
        path = tmp_path / name
        before = path.read_text() if path.exists() else None
        for text, intact in ((content, False), (before, True)):
            path.unlink(missing_ok=True) if text is None else path.write_text(text)
            assert is_intact(str(tmp_path)) == intact
    (tmp_path / ".DS_Store").touch()  # of the system
    (tmp_path / ".snapshot").mkdir()
    (tmp_path / ".snapshot" / "b.txt").touch()
    assert is_intact(str(tmp_path))
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff")
    assert not is_intact(str(tmp_path))
