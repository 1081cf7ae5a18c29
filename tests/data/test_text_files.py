"""Lines in windows: complete, in order, growing, and early where the producer pauses."""

import io
import os
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.data import text_files
from tf_transformer.data.text_files import read_lines, read_pair_windows, read_windows
from tf_transformer.errors import UserError


def test_windows_of_a_file_grow(tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(20_000)))
    windows = list(read_windows(str(path)))
    sizes = [64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096]
    assert [len(window) for window in windows] == [*sizes, 20_000 - sum(sizes)]
    assert [line for window in windows for line in window] == [str(i) for i in range(20_000)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8")), max_size=70))
def test_lines_are_those_of_read_lines(tmp_path_factory, lines):
    """Only a line feed ends a line; NUL, U+2028 or a carriage return inside a line do not."""
    path = tmp_path_factory.mktemp("lines") / "lines"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    expected = list(read_lines(str(path)))
    windows = list(read_windows(str(path)))
    assert all(windows)
    assert [line for window in windows for line in window] == expected
    assert len(expected) == len(lines)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"\n\n", ["", ""]),
        (b"a", ["a"]),
        (b"a\r\nb\rc\r\n", ["a", "b\rc"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
    ],
)
def test_line_ends(monkeypatch, data, lines):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert [line for window in read_windows(None) for line in window] == lines


def test_a_long_line_in_small_pieces(monkeypatch):
    monkeypatch.setattr(text_files, "CHUNK", 3)
    text = "x" * 1000 + "\nshort\n" + "y" * 100
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert list(read_windows(None)) == [text.split("\n")]


def test_a_window_ends_where_the_producer_pauses(monkeypatch):
    reading_end, writing_end = os.pipe()
    monkeypatch.setattr("sys.stdin", open(reading_end))
    started = time.monotonic()

    def produce():
        with open(writing_end, "wb", buffering=0) as pipe:
            pipe.write(b"a\nb\nbeginning of ")
            arrived.wait(10)  # not for ever, so that the test fails if the reader waits
            pipe.write(b"c\n")

    arrived = threading.Event()
    producer = threading.Thread(target=produce)
    producer.start()
    windows = read_windows(None)
    assert next(windows) == ["a", "b"]
    assert time.monotonic() - started < 5
    arrived.set()
    assert list(windows) == [["beginning of c"]]
    producer.join()


def test_invalid_utf8_is_reported_with_its_line(tmp_path):
    (tmp_path / "lines").write_bytes(b"a\n" * 99 + b"\xff\n")
    with pytest.raises(UserError, match="lines:100: not UTF-8"):
        list(read_windows(str(tmp_path / "lines")))
    with pytest.raises(UserError, match="cannot read .*: Is a directory"):
        list(read_windows(str(tmp_path)))


def test_pairs(tmp_path):
    count = 300
    (tmp_path / "source").write_text("".join(f"s{i}\n" for i in range(count)))
    (tmp_path / "target").write_text("".join(f"t{i}\n" for i in range(count)))
    (tmp_path / "tsv").write_text("".join(f"s{i}\tt{i}\n" for i in range(count)))
    expected = [(f"s{i}", f"t{i}") for i in range(count)]
    for path in (f"{tmp_path}/source,{tmp_path}/target", f"{tmp_path}/tsv"):
        assert [pair for window in read_pair_windows(path) for pair in window] == expected

    (tmp_path / "longer").write_text("x\n" * (count + 1))
    for sides in (("longer", "target"), ("source", "longer")):
        with pytest.raises(UserError, match=f"has {count} lines, and .*longer has more"):
            list(read_pair_windows(",".join(f"{tmp_path}/{side}" for side in sides)))
    (tmp_path / "tsv").write_text("a\tb\n" * 200 + "a\tb\tc\n")
    with pytest.raises(UserError, match="tsv:201: the weight 'c' is not a number"):
        list(read_pair_windows(f"{tmp_path}/tsv"))
    with pytest.raises(UserError, match="cannot read a: No such file"):
        list(read_pair_windows("a,b,c"))
