"""Sentences of the notebooks that state a measured number, against the committed outputs."""

import pathlib
import re

import nbformat
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "notebooks"

# Notebook, words of a sentence, what finds the numbers in the outputs, what the words say of each
# of them, and how far a run may be from it.
STATEMENTS = [
    ("01", "nine words in ten right in the shortest", r"one vector .* 2: (\d+)%", 90, 8),
    ("01", "a third in the longest", r"one vector .* 10: (\d+)%", 33, 10),
    ("01", "nearly all of them right at every length", r"attention .*\b\d+: (\d+)%", 97, 7),
]


def read(number):
    """The Markdown of a notebook, and what its cells have printed."""
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    text = " ".join(cell.source for cell in cells if cell.cell_type == "markdown")
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    printed = [output.get("text", "") for output in outputs]
    shown = [output.get("data", {}).get("text/markdown", "") for output in outputs]
    return " ".join(text.split()), "\n".join([*printed, *shown])


@pytest.mark.parametrize(("number", "words", "pattern", "value", "tolerance"), STATEMENTS)
def test_sentence_says_what_the_cell_measured(number, words, pattern, value, tolerance):
    text, printed = read(number)
    assert words in text
    found = [float(number.replace(",", "")) for number in re.findall(pattern, printed)]
    assert found
    assert found == pytest.approx([value] * len(found), abs=tolerance)
