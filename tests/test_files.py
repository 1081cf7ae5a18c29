"""Files and folders that are written completely or not at all, and their checksums."""

import errno
import hashlib
import os
import pathlib
import stat
import threading
import time

import pytest

from tf_transformer.files import (
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


def test_permissions_and_symbolic_links(tmp_path):
    """The permissions are those of the previous version, and a link stays."""
    secret, link = tmp_path / "secret", tmp_path / "link"
    secret.touch(mode=0o600)
    link.symlink_to(secret)
    with atomic_write(str(link)) as file:
        file.write("text")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert link.is_symlink() and secret.read_text() == "text"
    assert sorted(os.listdir(tmp_path)) == ["link", "secret"]


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


def test_a_full_device_stays_and_is_named(full):
    with pytest.raises(OSError) as caught, atomic_write(full) as file:
        file.write("text")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, full)
    assert stat.S_ISCHR(os.stat(full).st_mode)


def test_an_error_of_writing_names_the_file(tmp_path, small_files):
    """Not the temporary one; the previous file stays."""
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(OSError) as caught, atomic_write(str(path)) as file:
        file.write("x" * 20_000)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    folder = tmp_path / "with [brackets]"
    folder.mkdir()
    with atomic_write(str(folder / "file")) as file:
        (left,) = os.listdir(folder)
        file.write("kept")
    (folder / left).touch()
    remove_temporary_files(str(folder))
    assert os.listdir(folder) == ["file"]
    assert (folder / "file").read_text() == "kept"


def test_a_folder_is_renamed_or_removed(tmp_path):
    left, unfinished = tmp_path / ".unfinished-a", tmp_path / ".unfinished-b"
    for folder in (left, unfinished):
        folder.mkdir()
    os.utime(left, (time.time() - 48 * 3600,) * 2)
    with atomic_folder(str(tmp_path)) as path:
        pathlib.Path(path, "file").touch()
        os.rename(path, tmp_path / "complete")
    with pytest.raises(KeyboardInterrupt), atomic_folder(str(tmp_path)) as path:
        pathlib.Path(path, "file").touch()
        raise KeyboardInterrupt
    # What a killed process left is removed, unless it may still run.
    assert sorted(os.listdir(tmp_path)) == [unfinished.name, "complete"]
    assert os.listdir(tmp_path / "complete") == ["file"]


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
    assert is_intact(str(tmp_path))
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff")
    assert not is_intact(str(tmp_path))
