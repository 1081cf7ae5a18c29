"""Lines in windows: complete, in order, growing, and early where the producer pauses."""

import io
import os
import threading

import pytest

from tf_transformer.data import text_files
from tf_transformer.data.readers import read_pair_windows
from tf_transformer.data.text_files import read_windows
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
