"""The exercises of notebook 05."""

from course import Exercise

import itertools

import numpy as np

from tf_transformer.special_tokens import END, PAD, START

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
    """05.1: whether a function applies the merges of random vocabularies."""
    random = RANDOM(5)
    for _ in range(30):
        rank = random_vocabulary(random)
        for _ in range(5):
            word = "".join(random.choice(list("abcde"), random.integers(1, 12)))
            if list(answer(word, dict(rank))) != merged(word, rank):
                return False
    return True


def shifted(targets, start=True, end=True):
    """The two padded rows of teacher forcing, for lists of ids without special tokens."""
    width = max(map(len, targets)) + 1
    tar_inp = np.full((len(targets), width), PAD)
    tar_real = np.full((len(targets), width), PAD)
    for row, target in enumerate(targets):
        read = [START, *target] if start else [*target, END]
        said = [*target, END] if end else [*target]
        tar_inp[row, : len(read)] = read
        tar_real[row, : len(said)] = said
    return tar_inp, tar_real


def cut_after_padding(targets):
    """A wrong answer to 05.2: pads first, then cuts the last column, and loses end tokens."""
    width = max(map(len, targets)) + 2
    rows = [[START, *t, END] + [PAD] * (width - len(t) - 2) for t in targets]
    rows = np.array(rows)
    inputs = rows[:, :-1].copy()
    inputs[inputs == END] = END  # the end token of short rows is still read
    return inputs, rows[:, 1:]


def shifts_batches(answer):
    """05.2: whether a function makes tar_inp and tar_real of random batches."""
    random = RANDOM(6)
    for _ in range(10):
        lengths = random.integers(1, 9, random.integers(1, 6))
        targets = [random.integers(4, 2000, length).tolist() for length in lengths]
        for ours, theirs in zip(shifted(targets), answer([*targets]), strict=True):
            if not np.array_equal(ours, np.asarray(theirs)):
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
    """05.3: whether a function returns the non-padding fraction of random lengths."""
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


def batches_of(lengths, batch_tokens, count=lambda rows: len(rows) * max(rows)):
    """Groups sentences, sorted by length, into batches: a list of lists of indices."""
    batches = [[]]
    for i in np.argsort(lengths, kind="stable").tolist():
        if batches[-1] and count([lengths[j] for j in [*batches[-1], i]]) > batch_tokens:
            batches.append([])
        batches[-1].append(i)
    return batches


def batches_by_tokens(answer):
    """05.4: whether a function groups all sentences, with few batches within the limit."""
    random = RANDOM(8)
    for _ in range(20):
        lengths = random.integers(2, 30, random.integers(1, 200)).tolist()
        limit = int(random.integers(30, 300))
        batches = [list(batch) for batch in answer(list(lengths), limit)]
        members = sorted(int(i) for batch in batches for i in batch)
        if members != list(range(len(lengths))):
            return False
        if any(len(batch) * max(lengths[i] for i in batch) > limit for batch in batches):
            return False
        if len(batches) > len(batches_of(lengths, limit)):
            return False
    return True


def is_an_order(answer):
    """05.5: whether a function gives a shuffled order that only its arguments determine."""
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


EPOCHS = 100_000 * 25_000 * 0.9 / (4.5e6 * 28)

EXERCISES = {
    "05.1": Exercise(
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
    "05.2": Exercise(
        test=shifts_batches,
        hint=(
            "both arrays have one column more than the longest target; tar_inp never contains "
            "the end token, and tar_real never the start token."
        ),
        wrong=(
            cut_after_padding,
            lambda targets: shifted(targets, start=False),
            lambda targets: shifted(targets, end=False),
            lambda targets: shifted(targets)[::-1],
            lambda targets: shifted(targets[:1]),
            [2, 3],
        ),
    ),
    "05.3": Exercise(
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
    "05.4": Exercise(
        test=batches_by_tokens,
        hint=(
            "go through the sentences from the shortest to the longest; begin a new batch when "
            "(rows + 1) x (length of this sentence) would be more than batch_tokens."
        ),
        wrong=(
            lambda lengths, limit: [[i] for i in range(len(lengths))],
            lambda lengths, limit: [list(range(len(lengths)))],
            lambda lengths, limit: batches_of(lengths, limit, count=sum),
            lambda lengths, limit: batches_of(lengths, limit)[:-1],
            7,
        ),
    ),
    "05.5": Exercise(
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
    "05.6": Exercise(
        test=lambda answer: abs(float(answer) - EPOCHS) < 0.02,
        hint=(
            "the tokens of all updates that are not padding, divided by the tokens of one pass "
            "over all pairs; give two decimal places."
        ),
        wrong=(1, 19.84, 16.07, 35.7, 555.6, 17.9, "17.86 epochs"),
    ),
}
