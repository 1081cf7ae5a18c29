"""The pocket corpus: a synchronous grammar of English and German that writes true sentence pairs.

There is nothing to download.  Every pair is built from one plan that is spoken in both languages at once, so the two
sides always mean the same, and one seed always gives the same pairs.  The space of sentences holds many millions.

    Yesterday at half past six my aunt got up.
    Gestern um halb sieben ist meine Tante aufgestanden.

    Anna knows the man who gave the child a red ball.
    Anna kennt den Mann, der dem Kind einen roten Ball gegeben hat.

The words are few, and yet copying them one by one does not translate: a model has to learn German word order (the
verb second in a main clause, also after a fronted adverbial; last in a subordinate clause; participles and infinitives
last; separable verbs taken apart and put together), gender, case and number with the endings that agree with them,
*nicht* against *kein*, numbers (*twenty-one* is *einundzwanzig*), clock times (*half past six* is *halb sieben*), and
names that it has never met and must copy piece by piece.

Conventions that make translation a function in both directions: *you* is *du*; the English simple past is the German
perfect (but *was* is *war* and *had* is *hatte*); *his*, *her* and *their* belong to the subject of their clause; the
German accusative *sie* is always *her*.
"""

from tf_transformer.data.pocket.lexicon import Pair
from tf_transformer.data.pocket.phrases import Draw
from tf_transformer.data.pocket.sentences import sentence

SPLIT_SIZES = {
    "validation": 1_000,
    "test": 1_000,
    "train": 200_000,
}  # In the order in which they are drawn.
LARGEST_NUMBER = (
    1_000_000  # The grammar holds far more, but beyond this the search for new sentences gets slow.
)
SHORTEST, LONGEST = 3, 30  # Words of a sentence, on either side.


def generate(number: int, seed: int = 0) -> list[Pair]:
    """Write sentence pairs.

    Args:
        number: how many pairs; at most ``LARGEST_NUMBER``.
        seed: where chance begins; the same seed gives the same pairs, and the first of many are those of few.

    Returns:
        The pairs, English first.  No English sentence and no German sentence occurs twice.

    Raises:
        ValueError: if the number is negative or more than can be drawn.
    """
    if not 0 <= number <= LARGEST_NUMBER:
        raise ValueError(f"number must be from 0 to {LARGEST_NUMBER}, not {number}")
    draw = Draw(seed)
    pairs, english, german = [], set(), set()
    lengths = range(SHORTEST, LONGEST + 1)
    for _ in range(4 * number + 100):  # A bound, so that an unlucky seed can never search for ever.
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
        raise ValueError(f"only {len(pairs)} of {number} distinct pairs could be drawn")
    return pairs


def splits(seed: int = 0) -> dict[str, list[Pair]]:
    """Write the pairs to train, validate and test on.

    Args:
        seed: see :func:`generate`.

    Returns:
        For each key of ``SPLIT_SIZES`` its pairs; no two splits share a sentence on either side.
    """
    return {name: split(name, seed) for name in SPLIT_SIZES}


def split(name: str, seed: int = 0) -> list[Pair]:
    """Write one of the ``splits``.  The small ones come first, so they are there at once.

    Args:
        name: a key of ``SPLIT_SIZES``.
        seed: see :func:`generate`.

    Returns:
        Its pairs.
    """
    names = list(SPLIT_SIZES)
    start = sum(SPLIT_SIZES[before] for before in names[: names.index(name)])
    return generate(start + SPLIT_SIZES[name], seed)[start:]
