"""Sentences of the notebooks that state a measured number, against the committed outputs."""

import pathlib
import re

import nbformat
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "notebooks"

# Notebook, words of a sentence, what finds the numbers in the outputs, what the words say of each
# of them, and how far a run may be from it.
STATEMENTS = [
    ("00", "Two pieces are less likely than not", r"(\d+)%  ▁(?:ging|es)\n", 25, 24),
    ("00", "About their share of the positions", r"padding mask, (\d+)% of the", 20, 5),
    ("01", "nine words in ten right in the shortest", r"one vector .* 2: (\d+)%", 90, 8),
    ("01", "a third in the longest", r"one vector .* 10: (\d+)%", 33, 10),
    ("01", "nearly all of them right at every length", r"attention .*\b\d+: (\d+)%", 97, 7),
    ("02", "more than a thousand times smaller", r"without the scale: .* is ([\d,]+)", 1700, 699),
    ("02", "58% of the sub-words are right", r"no look-ahead mask +([\d.]+)%", 58, 3),
    ("02", "instead of 98%", r"all masks +([\d.]+)%", 98, 1),
    ("02", "with a weight of 0.97", r"ght: weight ([\d.]+)", 0.97, 0.01),
    ("02", "gets nothing", r"▁b -> ou: +weight ([\d.]+)", 0, 0.01),
    ("02", "is $39.8$", r"▁b -> ght: .* score (-?[\d.]+)", 39.8, 0.2),
    ("02", "is $-12.6$", r"ght -> ▁b: .* score (-?[\d.]+)", -12.6, 0.2),
    ("03", "only a little more than half", r"(\d+)% at 200", 54, 4),
    ("04", "a cosine above $0.96$", r"neuter +after attention 2: cosine ([\d.]+)", 0.965, 0.01),
    ("04", "to a cosine near $0.7$", r"ine +after attention 2: cosine ([\d.]+) to", 0.72, 0.05),
    ("04", "*eine* then has a probability of 90%", r"▁a +[\d.]+% +([\d.]+)%", 90, 3),
    ("A", "at least 96% of the words", r"10 words, additive .* ([\d.]+)% to", 96, 2),
    ("A", "the fixed vector 31% to 39%", r"10 words, fixed vector +([\d.]+)% to", 31, 5),
    ("A", "the fixed vector 31% to 39%", r"10 words, fixed vector +.* to ([\d.]+)%", 39, 5),
    ("A", "gets more than 70%", r"10 words, fixed vector, longer +([\d.]+)%", 72, 2),
    ("A", "92% to 95%", r"10 words, Transformer +([\d.]+)% to", 92, 3),
    ("A", "this one has 2.6", r"10 words, attention - Transformer: ([\d.]+)", 2.6, 0.3),
    ("A", "Transformer gets 60% to 64%", r"14 words, Transformer +([\d.]+)% to", 60, 4),
    ("A", "LSTM with attention 14% to 21%", r"14 words, additive .* to ([\d.]+)%", 21, 4),
    ("A", "no more than the fixed vector", r"14 words, fixed vector +.* to ([\d.]+)%", 19, 4),
    ("A", "has 19 standard errors", r"14 words, attention - Transformer: -([\d.]+)", 19, 3),
    ("A", "no run writes more than 2%", r"without any error: at most ([\d.]+)%", 2, 0.5),
    ("04", "still writes *ein*, with 94%", r"the noun +([\d.]+)%", 94, 3),
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
    ("F", "the rules find 131", r"(\d+) suspects", 131, 0),
    ("F", "95 by their numbers", r"numbers: (\d+)", 95, 0),
    ("F", "and 37 by their lengths", r"lengths: (\d+)", 37, 0),
    ("F", "BLEU gives the copy 1.1", r"copy of the source +BLEU +([\d.]+)", 1.1, 0.1),
    ("F", "Its chrF is 15.3", r"copy of the source .* chrF +([\d.]+)", 15.3, 0.1),
    ("F", "11.4 pieces for a Spanish sentence", r"with Spanish: ([\d.]+)", 11.4, 0.1),
    ("F", "against 19.5", r"with German: ([\d.]+)", 19.5, 0.1),
    ("F", "6% are rare", r"2,000 sub-words: .* (\d+)% are", 6, 1),
    ("F", "of 8,000 already 72%", r"8,000 sub-words: .* (\d+)% are", 72, 1),
    ("F", "5.66 nats", r"another source: ([\d.]+)", 5.66, 0.2),
    ("F", "against 5.56", r"the right source: ([\d.]+)", 5.56, 0.2),
    ("F", "costs it 1.5 nats", r"another source: .* ([\d.]+) after 400", 4.6, 0.3),
    ("F", "BLEU is 6.8", r"your own model +BLEU +([\d.]+)", 6.8, 2),
    ("F", "this is 11.0, 12.6", r"nothing, 5,000 +BLEU +([\d.]+)", 11.0, 0.1),
    ("F", "12.6 and 12.9", r"nothing, 19,000 +BLEU +([\d.]+)", 12.9, 0.1),
    ("F", "BLEU 6.2, 6.4 and 6.8", r"fine-tuned, 5,000 +BLEU +([\d.]+)", 6.2, 0.1),
    ("F", "6.4 and 6.8 for the three", r"fine-tuned, 19,000 +BLEU +([\d.]+)", 6.8, 0.1),
    ("F", "In 115 of 500", r"(\d+) of 500 have", 115, 0),
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
