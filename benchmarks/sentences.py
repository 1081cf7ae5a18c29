"""Measures the translation of paragraphs, as lines and as sentences.

    python benchmarks/sentences.py   # half a minute on two cores

Paragraphs of 2 to 5 test sentences are translated as `translate` does and as
`translate --split_sentences` does. `--data` measures only how well the ends of sentences are found
in other text, from pairs of English and German sentences.
"""

import argparse
import itertools
import random

from tf_transformer.data.languages import split_sentences
from tf_transformer.data.readers import open_corpus


def make_paragraphs(sentences):
    """Groups of 2 to 5 sentences; the same groups for each language."""
    chance = random.Random(1)
    paragraphs = []
    while sentences:
        number = chance.randint(2, 5)
        paragraphs.append(sentences[:number])
        sentences = sentences[number:]
    return paragraphs


def starts(parts):
    """The offsets at which the parts of a text start, without that of the first one."""
    return set(itertools.accumulate(len(part) for part in parts[:-1]))


def measure_splitting(sentences, language):
    """Prints precision and recall of the ends of sentences."""
    right = found = known = 0
    for paragraph in make_paragraphs(sentences):
        pairs = split_sentences(" ".join(paragraph), language)
        guesses = starts([sentence + space for sentence, space in pairs])
        expected = starts([f"{sentence} " for sentence in paragraph])
        right += len(guesses & expected)
        found += len(guesses)
        known += len(expected)
    print(f"| {language} | {right / found:.4f} | {right / known:.4f} |")


def measure_translation(sources, references):
    """Prints BLEU and chrF of paragraphs that are translated as lines and as sentences."""
    from tf_transformer.decoding.text_batches import SplitLines
    from tf_transformer.decoding.translator import Translator
    from tf_transformer.evaluation.bleu import score

    lines = [" ".join(paragraph) for paragraph in make_paragraphs(sources)]
    expected = [" ".join(paragraph) for paragraph in make_paragraphs(references)]
    translator = Translator.load("pocket-en-de")
    split = SplitLines(lines, "en", "de")
    best = [hypotheses[0] for hypotheses in translator.n_best(split.sentences, 1)]
    outputs = {
        "lines": translator(lines),
        "sentences": [text for text, _ in split.join(best)],
    }
    print("| translated as | BLEU | chrF |\n|---|---|---|")
    for name, translations in outputs.items():
        scores = score(translations, expected)
        print(f"| {name} | {scores.bleu:.1f} | {scores.chrf:.1f} |")


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="pocket", help="sentence pairs, as for train")
    data = parser.parse_args().data
    sources, references = map(list, zip(*open_corpus(data, "en", "de").read("test")))
    print("| language | precision | recall |\n|---|---|---|")
    measure_splitting(sources, "en")
    measure_splitting(references, "de")
    if data == "pocket":
        measure_translation(sources, references)


if __name__ == "__main__":
    main()
