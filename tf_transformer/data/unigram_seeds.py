"""The candidates from which a unigram vocabulary is learned (Kudo 2018, Sec. 3.2).

SentencePiece 0.2.3 would take the repeated strings of the text, but misses those that are always
followed by the same character, such as a word that always has a blank after it
(https://github.com/google/sentencepiece/issues/1047). In tokenised text these are most words. So
the candidates are given: the repeated strings within words, as in the paper.
"""

import collections
import functools
import heapq
import operator
import random
import re
import unicodedata
from collections.abc import Iterable, Iterator

import sentencepiece

from tf_transformer.special_tokens import BLANK

MAX_WORDS = 1_000_000  # that are kept, the most frequent ones
MAX_STRINGS = 5_000_000  # of them that are counted
MAX_SEEDS = 1_000_000  # as SentencePiece's `seed_sentencepiece_size`
MAX_CHARACTERS = 16  # as SentencePiece's `max_sentencepiece_length`
NORMALIZATION = "nmt_nfkc"  # SentencePiece's default


def write_seeds(texts: Iterable[str], path: str, sample: int) -> Iterator[str]:
    """Writes the candidates of a text in the form of SentencePiece's `seed_sentencepieces_file`.

    Memory does not depend on the length of the text.

    Args:
      texts: an iterator of strings.
      path: the file. It is written after the last text.
      sample: number of texts whose words are all counted. Those of text n after them are counted
        with probability sample / n.
    Yields: the texts.
    """
    normalizer = sentencepiece.SentencePieceNormalizer(
        rule_name=NORMALIZATION,
        add_dummy_prefix=True,
        escape_whitespaces=True,
        remove_extra_whitespaces=True,
    )
    words_of = _word_pattern().findall
    chance = random.Random(0)
    words: collections.Counter[str] = collections.Counter()
    for number, text in enumerate(texts, start=1):
        if number <= sample or chance.random() < sample / number:
            words.update(words_of(normalizer.normalize(text)))
            if len(words) > 2 * MAX_WORDS:
                words = collections.Counter(dict(words.most_common(MAX_WORDS)))
        yield text
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{seed}\t{score}\n" for seed, score in _seeds(words))


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """Matches a word with the `BLANK` before it.

    Punctuation is apart from letters, since no sub-word has both.
    """
    characters = map(chr, range(0x10000))
    marks = (c for c in characters if unicodedata.category(c)[0] in "PS" and c != BLANK)
    punctuation = re.escape("".join(marks))
    return re.compile(f"{BLANK}?(?:[^{BLANK}{punctuation}]+|[{punctuation}]+)")


def _seeds(words: collections.Counter[str]) -> list[tuple[str, int]]:
    """The strings that occur at least twice within words, and their scores.

    The score is the number of occurrences times that of characters, as in SentencePiece.
    """
    strings: collections.Counter[str] = collections.Counter()
    for word, count in words.most_common():
        if len(strings) > MAX_STRINGS:
            break
        for start in range(len(word)):
            for end in range(start + 2, min(len(word), start + MAX_CHARACTERS) + 1):
                strings[word[start:end]] += count
    scores = ((string, n * len(string)) for string, n in strings.items() if n > 1)
    return heapq.nlargest(MAX_SEEDS, scores, key=operator.itemgetter(1))
