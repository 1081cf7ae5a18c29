"""SHA256SUMS of a folder."""

import hashlib

from tf_transformer.checkpoints.checksums import is_intact, write_checksums


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

    (tmp_path / "b.txt").write_text("twO")
    assert not is_intact(str(tmp_path))
    (tmp_path / "b.txt").unlink()
    assert not is_intact(str(tmp_path))
    (tmp_path / "b.txt").write_text("two")
    assert is_intact(str(tmp_path))
    (tmp_path / ".DS_Store").touch()  # of the system
    (tmp_path / ".snapshot").mkdir()
    (tmp_path / ".snapshot" / "b.txt").touch()
    assert is_intact(str(tmp_path))
    (tmp_path / "new.txt").touch()
    assert not is_intact(str(tmp_path))
    (tmp_path / "new.txt").unlink()
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff")
    assert not is_intact(str(tmp_path))
