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
    ("D", "with weights of 0.91 and 0.99", r"head 1: ▁a .* ▁car \(([\d.]+)", 0.91, 0.02),
    ("D", "with weights of 0.91 and 0.99", r"head 4: ▁a .* ▁car \(([\d.]+)", 0.99, 0.01),
    ("D", "with weights from 0.70 to 0.91", r"coche +car +([\d.]+)", 0.70, 0.02),
    ("D", "with weights from 0.70 to 0.91", r"rojo +red +([\d.]+)", 0.91, 0.02),
    ("D", "has 0.42 of its weight", r"layer 5 head 5: making .* ([\d.]+)\n", 0.42, 0.02),
    ("D", "as the paper's (0.74)", r"its → application ([\d.]+)", 0.74, 0.02),
    ("D", "*Law* has 0.15 there", r"its → Law ([\d.]+)", 0.15, 0.02),
    ("D", "of all thirty here, with 0.57", r"layer 1 head 4: mean ([\d.]+), rank 1 ", 0.57, 0.02),
    ("D", "falls to 0.27", r"layer 5 head 5: mean ([\d.]+)", 0.27, 0.02),
    ("D", "has 0.13, less than uniform", r"layer 2 head 1: mean ([\d.]+)", 0.13, 0.02),
    ("D", "uniform weights would give 0.15", r"uniform weights: ([\d.]+)", 0.15, 0.01),
    ("D", "None. Head 1 of layer 4 comes near", r"(\d+) of 30 heads are positional", 0, 0),
    ("D", "in 80% of the rows", r"layer 4 head 1, -1 in (\d+)%", 80, 2),
    ("D", "93% against 78%", r"all: .* best head (\d+)%", 93, 2),
    ("D", "93% against 78%", r"all: .* offset (\d+)%", 78, 1),
    ("D", "Three of the thirty heads beat", r"all: .* above the offset: (\d+)", 3, 0),
    ("D", "yet seven heads are right", r"noun next: .* above one half: (\d+)", 7, 0),
    ("D", "where a random position would be in 10%", r"position is right in (\d+)%", 10, 1),
    ("D", "to *daughter* with 0.91", r"his → daughter ([\d.]+)", 0.91, 0.02),
    ("D", "to *dog* with 0.66", r"\na → dog ([\d.]+)", 0.66, 0.02),
    ("D", "36 and 38 of the 50", r"generated .*\n.* 5%: (\d+) of 50", 36, 2),
    ("D", "36 and 38 of the 50", r"everyday .*\n.* 5%: (\d+) of 50", 38, 2),
    ("D", "one by one they cost 1.04", r"generated .*\n.*\n.* one: ([\d.]+)", 1.04, 0.05),
    ("D", "both blocks whole cost 2.25", r"generated .*\n.*\n.* whole: ([\d.]+)", 2.25, 0.05),
    ("D", "Six of the ten blocks", r"generated (?:.*\n){3}.* their heads: (\d+)", 6, 0),
    ("D", "on the everyday sentences two do", r"everyday (?:.*\n){3}.* their heads: (\d+)", 2, 0),
    ("D", "still give *animal* 0.91", r"wide(?:.*\n+){2} +it → animal: ([\d.]+)", 0.91, 0.02),
    ("D", "and *street* 0.04", r"wide(?:.*\n+){3} +it → street: ([\d.]+)", 0.04, 0.01),
    ("D", "falls from 0.68 to 0.51", r"with all heads: ([\d.]+)", 0.68, 0.02),
    ("D", "is left, 0 of 24", r"small, all .*\n+(?:.*\n+){3}.*without \[4\]: (\d+)", 0, 0),
    ("D", "at least 20 of 24", r"real, all .*\n+(?:.*\n+){4}.*without \[5\]: (\d+)", 20, 1),
    ("D", "and 19 do without all five", r"without \[1, 2, 3, 4, 5\]: (\d+)", 19, 1),
    ("D", "do 58% to 83% of the damage", r"real, layer 1: .* none (\d+)%", 58, 2),
    ("D", "do 58% to 83% of the damage", r"real, layer 2: .* none (\d+)%", 83, 2),
    ("D", "moves the prediction by 0.93", r"▁ein: .* hiding it ([\d.]+)", 0.93, 0.02),
    ("D", "it moves it by 0.03", r"\nes: .* hiding it ([\d.]+)", 0.03, 0.01),
    ("D", "0.95 after *ein*", r"es after ein: ([\d.]+)", 0.95, 0.02),
    ("D", "0.30 after *eine*", r"es after eine: ([\d.]+)", 0.30, 0.02),
    ("D", "in 62% and 70% of the rows", r"layer 1: the largest weight .* (\d+)%", 62, 2),
    ("D", "in 62% and 70% of the rows", r"layer 2: the largest weight .* (\d+)%", 70, 2),
    ("H", "None is different", r"(\d+) of 200 translations are different", 0, 0),
    ("H", "instead of 624 ms", r"your Python: (\d+) ms", 624, 250),
    ("H", "two thirds of a millisecond", r"ms and ([\d.]+) ms for each", 0.67, 0.35),
    ("H", "(135 instead of 63)", r"16 clients +(\d+) sentences", 135, 60),
    ("H", "(135 instead of 63)", r" 1 clients +(\d+) sentences", 63, 30),
    ("H", "163 sentences per second against", r" 4 rows +(\d+) sentences", 163, 60),
    ("H", "per second against 116", r" 4 clients +(\d+) sentences", 116, 45),
    ("H", "about two rows instead of four", r" 4 clients .* ([\d.]+) rows per batch", 2, 0.5),
    ("H", "all answers have status 200", r"available: {(\d+): \d+}", 200, 0),
    ("H", "instead of 15.3", r"version 1 ([\d.]+) ms", 15.3, 8),
    ("H", "16.7 ms instead", r"version 2 ([\d.]+) ms", 16.7, 8),
    ("H", "14 of the 200 translations", r"another translation: (\d+) of", 14, 3),
    ("H", "rises from 94.6", r"BLEU: version 1 ([\d.]+)", 94.6, 0.5),
    ("H", "to 95.6", r"BLEU: .* version 2 ([\d.]+)", 95.6, 0.5),
    ("H", "one thread takes 2.4 ms", r"float32, threads: 1 +([\d.]+) ms", 2.4, 2),
    ("H", "four threads 33.5 ms", r"float32, threads: 4 +([\d.]+) ms", 33.5, 25),
    ("I", "sorted batches (median 28%)", r"sorted .* difference ([\d.]+)%", 27.8, 2),
    ("I", "in the mixed ones (12%)", r"mixed lengths .* difference ([\d.]+)%", 11.8, 1),
    ("I", "with similar lengths (7%)", r"similar lengths .* difference ([\d.]+)%", 6.9, 1),
    ("I", "and only 0.2% in batches", r"size of the paper .* difference ([\d.]+)%", 0.2, 0.1),
    ("I", "0.001% is rounding", r"descent, mean of all tokens +([\d.]+)%", 0.001, 0.002),
    ("I", "the mean of the means ends 6% away", r"descent, mean of the .* ([\d.]+)%", 5.8, 1),
    ("I", "and ends 91% away", r"descent, sum of the means +([\d.]+)%", 91, 3),
    ("I", "is only 9% away", r"Adam, sum of the means +([\d.]+)%", 8.7, 1),
    ("I", "54% and 50%", r"m and v .* by (\d+)%", 54, 3),
    ("I", "54% and 50%", r"states .* by (\d+)%", 50, 3),
    ("I", "some $10^{-5}$ of the gradient", r"gradient differs by ([\d.e-]+),", 2.4e-5, 1.5e-5),
    ("G", "just read, 94% of the time", r"repeats its input at (\d+)%", 94, 3),
    ("G", "fallen from more than 3,000", r"652,544 weights, .* ([\d,]+)", 3200, 199),
    ("G", "3,000 to 13.3", r"after training: ([\d.]+)", 13.3, 2),
    ("G", "all 40 are the same", r"top-k 1: (\d+) of 40", 1, 0),
    ("G", "0.70 to 0.82 against", r"post-norm, layer 12: \[([\d.]+)", 0.76, 0.1),
    ("G", "against 0.22 to 0.25", r"pre-norm, layer 12: \[([\d.]+)", 0.235, 0.04),
    ("G", "The dashed line, 6.05", r"frequencies everywhere: ([\d.]+)", 6.05, 0.01),
    ("G", "ends at 5.98 and 6.11", r"post-norm, no warm-up: .* and ([\d.]+)", 6.05, 0.15),
    ("G", "just begun, at about 5.85", r"post-norm, warm-up: ([\d.]+)", 5.85, 0.1),
    ("G", "at 5.30 and 5.40 with a warm-up", r"pre-norm, warm-up: ([\d.]+)", 5.35, 0.15),
    ("G", "at 4.91 and 5.05 without", r"pre-norm, no warm-up: ([\d.]+)", 5, 0.2),
    ("G", "71.4 to 77.6", r"2017 .* perplexity ([\d.]+) to", 71.4, 5),
    ("G", "56.7 to 59.0", r"only rotary .* perplexity ([\d.]+) to", 56.7, 4),
    ("G", "52.5 to 57.9", r"2023 .* perplexity ([\d.]+) to", 52.5, 4),
    ("G", "times as fast with 8 heads", r" 8 heads of keys and values: +([\d.]+)", 6, 4),
    ("G", "more than ten times as fast", r" 1 heads of keys and values: +([\d.]+)", 30, 20),
    ("G", "alone, 100 of 200", r"first word alone: (\d+) of 200", 100, 2),
    ("G", "sentence, 145 of 200", r"whole sentence: +(\d+) of 200", 145, 12),
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
