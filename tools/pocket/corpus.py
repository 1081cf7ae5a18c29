"""The pocket corpus: English-German sentence pairs that a synchronous grammar generates.

No download is needed. The grammar builds one plan for each pair and puts it into both languages, so
that both sides have the same meaning. The same seed gives the same pairs. The grammar contains many
millions of sentences.

    Yesterday at half past six my aunt got up.
    Gestern um halb sieben ist meine Tante aufgestanden.

    Anna knows the man who gave the child a red ball.
    Anna kennt den Mann, der dem Kind einen roten Ball gegeben hat.

The vocabulary is small, but a word-for-word translation is wrong. A model has to learn:

- German word order: the verb is second in a main clause, also after a fronted adverbial, and last
  in a subordinate clause; participles and infinitives are last; separable verbs are split and
  joined again;
- gender, case and number, with endings that agree;
- *nicht* and *kein*;
- numbers (*twenty-one* is *einundzwanzig*) and clock times (*half past six* is *halb sieben*);
- names that it has not seen and must copy sub-word by sub-word.

These conventions make translation a function in both directions:

- *you* is *du*;
- the English simple past is the German perfect, but *was* is *war* and *had* is *hatte*;
- *his*, *her* and *their* refer to the subject of their clause;
- the German accusative *sie* is always *her*.
"""

from pocket.lexicon import Pair
from pocket.phrases import Draw
from pocket.sentences import sentence

MAX_PAIRS = 1_000_000  # above this number, the search for new sentences is slow
MIN_WORDS = 3  # of a sentence, in either language
MAX_WORDS = 30


def generate(number: int, seed: int = 0) -> list[Pair]:
    """Generates sentence pairs.

    Args:
      number: how many pairs; at most `MAX_PAIRS`.
      seed: of the random numbers. The same seed gives the same pairs, and a smaller number gives
        the first of them.
    Returns: the pairs, English first. No English sentence and no German sentence occurs twice.
    Raises: ValueError when the number is negative, or larger than `MAX_PAIRS` or than the number of
      pairs found.
    """
    if not 0 <= number <= MAX_PAIRS:
        raise ValueError(f"number must be from 0 to {MAX_PAIRS}, not {number}")
    draw = Draw(seed)
    pairs: list[Pair] = []
    english = set()
    german = set()
    lengths = range(MIN_WORDS, MAX_WORDS + 1)
    for _ in range(4 * number + 100):  # a limit, so that the loop always ends
        if len(pairs) == number:
            break
        en, de = sentence(draw)
        if en in english or de in german:
            continue
        if en.count(" ") + 1 in lengths and de.count(" ") + 1 in lengths:
            english.add(en)
            german.add(de)
            pairs.append((en, de))
    if len(pairs) < number:
        raise ValueError(f"found only {len(pairs)} of {number} distinct pairs")
    return pairs
