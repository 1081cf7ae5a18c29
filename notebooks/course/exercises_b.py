"""The exercises of notebook B."""

from course import Exercise

import itertools

import numpy as np

RANDOM = np.random.default_rng


def merged(word, rank, in_order_of=min):
    """The sub-words of a word by the merges of a vocabulary, piece -> id."""
    pieces = ["\u2581", *word]
    while True:
        pairs = enumerate(itertools.pairwise(pieces))
        options = [(rank[a + b], i) for i, (a, b) in pairs if a + b in rank]
        if not options:
            return pieces
        _, i = in_order_of(options)
        pieces[i : i + 2] = ["".join(pieces[i : i + 2])]


def longest_first(word, rank):
    """A wrong answer to 05.1: takes the longest piece from the left."""
    word = "\u2581" + word
    pieces = []
    while word:
        lengths = range(len(word), 0, -1)
        end = next(i for i in lengths if word[:i] in rank or i == 1)
        pieces.append(word[:end])
        word = word[end:]
    return pieces


def random_vocabulary(random):
    """A dict from some pieces of "▁abc..." to ids, in the order of learning."""
    pieces = ["\u2581", *"abcd"]
    found = []
    for _ in range(40):
        new = "".join(random.choice(pieces, 2))
        if new not in pieces and "\u2581" not in new[1:]:
            pieces.append(new)
            found.append(new)
    return dict(zip(found, range(260, 260 + len(found))))


def encodes_words(answer):
    """B.1: whether a function applies the merges of random vocabularies."""
    random = RANDOM(5)
    for _ in range(30):
        rank = random_vocabulary(random)
        for _ in range(5):
            word = "".join(random.choice(list("abcde"), random.integers(1, 12)))
            if list(answer(word, dict(rank))) != merged(word, rank):
                return False
    return True


def decoded(pieces, special=("[START]", "[END]", "[PAD]"), errors="replace"):
    """The text of the pieces of a sentence."""
    data = b""
    for piece in pieces:
        if piece.startswith("<0x"):
            data += bytes([int(piece[3:5], 16)])
        elif piece not in special:
            data += piece.replace("\u2581", " ").encode()
    return data.decode("utf-8", errors).strip(" ")


def byte_by_byte(pieces):
    """A wrong answer to 05.2: decodes each byte alone."""
    return decoded([decoded([piece]) if piece.startswith("<") else piece for piece in pieces])


def decodes_pieces(answer):
    """B.2: whether a function gives the text of random pieces, with bytes and special tokens."""
    random = RANDOM(6)
    words = ["\u2581the", "\u2581", "s", "rz", "\u2581a", "ü", "😀"]
    for _ in range(30):
        pieces = ["\u2581I"]
        for character in random.choice(list("Ä집😀zé"), random.integers(1, 8)):
            pieces += [f"<0x{byte:02X}>" for byte in character.encode()]
            pieces += random.choice(words, random.integers(0, 3)).tolist()
        if random.random() < 0.3:
            pieces.remove(next(piece for piece in pieces if piece.startswith("<")))
        pieces = ["[START]", *pieces, "[END]", "[PAD]"]
        if answer([*pieces]) != decoded(pieces):
            return False
    return True


def fraction(source, target, buckets):
    """The fraction of tokens that are not padding; both sides are as long as the bucket."""
    longer = np.maximum(source, target)
    padded = np.asarray(buckets)[np.searchsorted(buckets, longer)]
    return (np.sum(source) + np.sum(target)) / (2 * np.sum(padded))


def each_side_alone(source, target, buckets):
    """A wrong answer to 05.3: a bucket for each side."""
    buckets = np.asarray(buckets)
    padded = sum(np.sum(buckets[np.searchsorted(buckets, side)]) for side in (source, target))
    return (np.sum(source) + np.sum(target)) / padded


def measures_buckets(answer):
    """B.3: whether a function returns the non-padding fraction of random lengths."""
    random = RANDOM(7)
    for _ in range(20):
        source, target = random.integers(2, 40, (2, random.integers(1, 50)))
        buckets = [
            *sorted(random.choice(np.arange(3, 39), 4, replace=False).tolist()),
            40,
        ]
        found = float(answer(source.copy(), target.copy(), list(buckets)))
        if abs(found - fraction(source, target, buckets)) > 1e-6:
            return False
    return True


EXERCISES = {
    "B.1": Exercise(
        test=encodes_words,
        hint=(
            "in each round look at all neighboring pairs, join the pair whose piece has the "
            "smallest id, and begin again from the smallest id; stop when no pair is in the "
            "vocabulary."
        ),
        wrong=(
            longest_first,
            lambda word, rank: ["\u2581", *word],
            lambda word, rank: merged(word, rank, in_order_of=max),
            lambda word, rank: merged(word, rank)[1:],
            ["\u2581b", "ou", "ght"],
        ),
    ),
    "B.2": Exercise(
        test=decodes_pieces,
        hint=(
            "a character can have several byte pieces: collect the bytes of all pieces, and decode "
            "them once at the end."
        ),
        wrong=(
            byte_by_byte,
            lambda pieces: decoded(pieces, special=()),
            lambda pieces: decoded(pieces, errors="ignore"),
            lambda pieces: decoded(pieces).replace(" ", ""),
            lambda pieces: decoded([piece for piece in pieces if not piece.startswith("<")]),
            "Ärzte",
        ),
    ),
    "B.3": Exercise(
        test=measures_buckets,
        hint=(
            "a pair goes into the shortest bucket that its longer side fits into, and both of "
            "its sides are padded to the length of this bucket; np.searchsorted finds it."
        ),
        wrong=(
            each_side_alone,
            lambda source, target, buckets: 1.0,
            lambda source, target, buckets: fraction(source, target, buckets[-1:]),
            lambda source, target, buckets: fraction(source, source, buckets),
            0.9,
        ),
    ),
    "B.4": Exercise(
        test=lambda answer: abs(float(answer) - 25) < 0.02,
        hint=(
            "the tokens of all updates that are not padding, divided by the number of pairs that "
            "all epochs contain."
        ),
        wrong=(20, 27.78, 22.5, 50, 500, 0.04, "25 sub-words"),
    ),
}
