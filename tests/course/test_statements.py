"""Sentences of the notebooks that state a measured number, against the committed outputs."""

import pathlib
import re

import nbformat
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "notebooks"

# Notebook, words of a sentence, what finds the numbers in the outputs, what the words say of each
# of them, and how far a run may be from it.
STATEMENTS = [
    ("05", "and 35 of 100 sentences that it has never seen", r"\*\*(\d+) of the 100", 35, 10),
    ("05", "35 equal their reference", r"\*\*(\d+) of the 100", 35, 10),
    ("05", "gets eleven more of them right", r"It translates (\d+) of the 100", 46, 10),
    ("05", "0.22 nats on known pairs", r"Dropout 0.0: ([\d.]+) on known", 0.22, 0.1),
    ("05", "and 2.38 on others", r"Dropout 0.0: .* ([\d.]+) on unseen", 2.38, 0.3),
    ("05", "harder to learn by heart, 0.31", r"Dropout 0.1: ([\d.]+) on known", 0.31, 0.1),
    ("05", "the unseen ones are better, 1.67", r"Dropout 0.1: .* ([\d.]+) on unseen", 1.67, 0.3),
    ("05", "The gradient is $3x^2 = 12$", r"cube at 2: ([\d.]+)", 12, 0),
    ("06", "the cache hardly helps", r" 16 sub-words: +([\d.]+) times", 1.2, 0.9),
    ("06", "about ten times as fast", r"192 sub-words: +([\d.]+) times", 10, 6),
    ("B", "10,000 is the nearest", r"words +([\d,]+) entries", 7758, 2200),
    ("B", "one held-out pair in ten", r"(\d+)% of the held-out pairs", 10, 2),
    ("B", "Less than three times", r"sentence ([\d.]+) times shorter", 2.4, 0.5),
    ("B", "About half. One long", r"With random batches (\d+)%", 50, 8),
    ("C", "The rows are nearly one-hot", r"file 1: the largest weight .* ([\d.]+) on", 0.91, 0.09),
    ("C", "not one row is copied", r"copy \[2, [^]]*\]\n(\d+) of 50", 0, 0),
    ("C", "the rows of the heads add up to one", r"of a head: ([\d.]+) to", 1, 0),
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
