"""Draws the course's English-Spanish sentence pairs from the Tatoeba text.

    python tools/sample_pairs.py FOLDER

FOLDER has `train.en.gz` and `train.es.gz`: the training text of the built-in model
`tatoeba-en-es`. notebooks/data/README.md says what is drawn. The sentences are sorted, which makes
the compressed file smaller.
"""

import lzma
import pathlib
import random
import re
import sys

from tf_transformer import open_corpus

OUTPUT = pathlib.Path(__file__).parents[1] / "notebooks" / "data" / "tatoeba-en-es.tsv.xz"
NUMBER = 20_000
WORDS = range(3, 13)  # of the English sentence
LEFT_OUT = re.compile(r"\b(murder|kill|suicid|sex|hitler|naked|bomb|gun)", re.IGNORECASE)


def draw(pairs):
    """Returns NUMBER pairs of different sources, in order of their sources.

    Args:
      pairs: of texts; of a source with several translations, the first counts.
    """
    first = {}
    for source, target in pairs:
        if len(source.split()) in WORDS and not LEFT_OUT.search(source):
            first.setdefault(source, target)
    return sorted(random.Random(1).sample(sorted(first.items()), NUMBER))


def main():
    """Writes the file."""
    pairs = draw(open_corpus(sys.argv[1], "en", "es").read("train"))
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    preset = 9 | lzma.PRESET_EXTREME
    OUTPUT.write_bytes(lzma.compress(text.encode("utf-8"), preset=preset))
    print(f"{len(pairs):,} pairs, {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
