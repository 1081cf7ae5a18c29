"""Lines in windows: complete, in order, growing, and early where the producer pauses.

Random bytes give their content or one clear error.
"""

import gzip
import io
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_transformer.data import text_files
from tf_transformer.data.readers import read_pair_windows
from tf_transformer.data.text_files import read_lines, read_windows
from tf_transformer.errors import UserError


def test_windows_of_a_file_grow(tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(20_000)))
    windows = list(read_windows(str(path)))
    sizes = [64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096]
    assert [len(window) for window in windows] == [*sizes, 20_000 - sum(sizes)]
    assert [line for window in windows for line in window] == [str(i) for i in range(20_000)]


@pytest.mark.parametrize("chunk", [3, 1 << 16])
@pytest.mark.parametrize(("text", "lines"), [
    ("", []),
    ("\n\n", ["", ""]),
    ("a\r\nb\rc\r\n", ["a", "b\rc"]),
    ("\ufeffa\n\ufeffb", ["a", "\ufeffb"]),
    ("ab\0c\nd\u2028e\u0085f\n", ["ab\0c", "d\u2028e\u0085f"]),
    ("x" * 10_000 + "\nshort\n" + "y" * 100, ["x" * 10_000, "short", "y" * 100]),
])  # fmt: skip
def test_standard_input(monkeypatch, chunk, text, lines):
    """It can arrive in small pieces."""
    monkeypatch.setattr(text_files, "CHUNK", chunk)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert [line for window in read_windows(None) for line in window] == lines


def test_a_window_ends_where_the_producer_pauses(monkeypatch):
    reading_end, writing_end = os.pipe()
    monkeypatch.setattr("sys.stdin", open(reading_end))
    arrived = threading.Event()

    def produce():
        with open(writing_end, "wb", buffering=0) as pipe:
            pipe.write(b"a\nb\nbeginning of ")
            arrived.wait(600)  # not for ever, so that the test fails if the reader waits
            pipe.write(b"c\n")

    producer = threading.Thread(target=produce)
    producer.start()
    windows = read_windows(None)
    assert next(windows) == ["a", "b"]
    arrived.set()
    assert list(windows) == [["beginning of c"]]
    producer.join()


def test_pairs(tmp_path):
    count = 300
    (tmp_path / "source").write_text("".join(f"s{i}\n" for i in range(count)))
    (tmp_path / "target").write_text("".join(f"t{i}\n" for i in range(count)))
    (tmp_path / "tsv").write_text("".join(f"s{i}\tt{i}\n" for i in range(count)))
    expected = [(f"s{i}", f"t{i}", None) for i in range(count)]

    def read(*names):
        windows = read_pair_windows([f"{tmp_path}/{name}" for name in names], ("en", "de"))
        return [pair for window in windows for pair in window]

    assert read("source", "target") == read("tsv") == expected

    (tmp_path / "longer").write_text("x\n" * (count + 1))
    for sides in (("longer", "target"), ("source", "longer")):
        with pytest.raises(UserError, match=f"has {count} lines, and .*longer has more"):
            read(*sides)
    with pytest.raises(UserError, match="give one file of pairs, or SOURCE_FILE,TARGET_FILE"):
        read("a.tsv", "b.tsv")


# Bytes that mean something to the readers: ends of lines, tabs, byte order marks, compressed data.
MEANINGFUL = [
    b"\n", b"\r\n", b"\r", b"\t", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xed\xa0\x80",
    b"\xc2\x85", b"\xe2\x80\xa8", "Ärzte\tphysicians\n".encode(), b"a\tb\n", b"a b\n",
    gzip.compress(b"a\tb\n", mtime=0), gzip.compress(b"a\tb\n", mtime=0)[:-3], b"\x1f\x8b", b"PAR1",
]  # fmt: skip
FILES = st.lists(st.sampled_from(MEANINGFUL) | st.binary(max_size=4), max_size=8).map(b"".join)


def lines_or_error(read, path):
    """The lines that a reader gives, or None where it gives an error with the file's name."""
    try:
        return list(read())
    except UserError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        return None


@given(FILES)
def test_a_random_text_file(tmp_path, content):
    path = tmp_path / "lines.txt"
    path.write_bytes(content)
    lines = lines_or_error(lambda: read_lines(str(path)), path)
    windows = lines_or_error(lambda: read_windows(str(path)), path)
    if windows is not None:
        windows = [line for window in windows for line in window]
    assert windows == lines, "both readers must agree"
    if lines is not None:
        assert not any("\n" in line for line in lines)
    packed = tmp_path / "lines.txt.gz"  # compressed in two parts
    middle = len(content) // 2
    packed.write_bytes(gzip.compress(content[:middle], 1) + gzip.compress(content[middle:], 1))
    assert lines_or_error(lambda: read_lines(str(packed)), packed) == lines
