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


def packed(lengths, width, order=lambda lengths: np.argsort(lengths)[::-1]):
    """First fit: rows of indices whose lengths sum to at most `width`."""
    rows = []
    for i in order(lengths):
        fits = (row for row in rows if sum(lengths[j] for j in row) + lengths[i] <= width)
        row = next(fits, None)
        if row is None:
            rows.append(row := [])
        row.append(int(i))
    return rows


def packs(answer):
    """B.4: whether a function packs all sentences, into few rows that are not too long."""
    random = RANDOM(8)
    for _ in range(20):
        lengths = random.integers(2, 30, random.integers(1, 100)).tolist()
        width = int(random.integers(30, 60))
        rows = [list(row) for row in answer([*lengths], width)]
        if sorted(int(i) for row in rows for i in row) != list(range(len(lengths))):
            return False
        if any(sum(lengths[i] for i in row) > width for row in rows):
            return False
        if len(rows) > len(packed(lengths, width)):
            return False
    return True


def is_an_order(answer):
    """B.5: whether a function gives a shuffled order that only its arguments determine."""
    pairs = 50
    seen = set()
    for seed in range(3):
        for epoch in range(3):
            order = np.asarray(answer(pairs, seed, epoch))
            np.random.random(3)  # another part of the program draws, too
            again = np.asarray(answer(pairs, seed, epoch))
            if not np.array_equal(order, again):
                return False
            if sorted(order.tolist()) != list(range(pairs)):
                return False
            seen.add(tuple(order.tolist()))
    in_turns = [np.abs(np.diff(order)).mean() for order in seen]
    return len(seen) == 9 and min(in_turns) > 5


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
        test=packs,
        hint=(
            "np.argsort(lengths)[::-1] goes from the longest to the shortest; keep the space that "
            "is left in each row, and open a new row only where none has enough."
        ),
        wrong=(
            lambda lengths, width: [[i] for i in range(len(lengths))],
            lambda lengths, width: [list(range(len(lengths)))],
            lambda lengths, width: packed(lengths, width, order=np.argsort),
            lambda lengths, width: packed(lengths, width, order=lambda n: range(len(n))),
            lambda lengths, width: packed(lengths, width)[:-1],
            7,
        ),
    ),
    "B.5": Exercise(
        test=is_an_order,
        hint=(
            "np.random.default_rng([seed, epoch]) is a generator of its own, which no other "
            "part of a program uses; the same two numbers give the same permutation."
        ),
        wrong=(
            lambda pairs, seed, epoch: np.random.permutation(pairs),
            lambda pairs, seed, epoch: RANDOM(seed).permutation(pairs),
            lambda pairs, seed, epoch: RANDOM(seed + epoch).permutation(pairs),
            lambda pairs, seed, epoch: np.roll(np.arange(pairs), 7 * seed + epoch),
            lambda pairs, seed, epoch: RANDOM([seed, epoch]).integers(0, pairs, pairs),
            range(50),
        ),
    ),
    "B.6": Exercise(
        test=lambda answer: abs(float(answer) - 25) < 0.02,
        hint=(
            "the tokens of all updates that are not padding, divided by the number of pairs that "
            "all epochs contain."
        ),
        wrong=(20, 27.78, 22.5, 50, 500, 0.04, "25 sub-words"),
    ),
}
