"""Random bytes in text files give their content or one clear error."""

import gzip

from hypothesis import given
from hypothesis import strategies as st

from tf_transformer.data.text_files import read_lines, read_windows
from tf_transformer.errors import UserError

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
