"""The exercises of notebook F."""

from course import Exercise

import collections
import math
import random


def normal(text):
    """A text without capitals and without needless blanks."""
    return " ".join(text.lower().split())


def leaked(train, test, form=normal, sides=(0, 1)):
    """The fraction of the test pairs of which a side is in the training pairs."""
    known = {side: {form(pair[side]) for pair in train} for side in sides}
    return sum(any(form(pair[side]) in known[side] for side in sides) for pair in test) / len(test)


def finds_leaks(answer):
    """F.1: whether a function counts the test pairs of which a side was trained on."""
    draw = random.Random(3)
    changes = [str.upper, str.title, lambda text: f" {text} ", lambda text: text]
    changes.append(lambda text: text.replace(" ", "  "))
    for _ in range(50):
        pairs = []
        for _ in range(30):
            source = " ".join(draw.choices(["a", "way", "away", "one"], k=3))
            target = " ".join(draw.choices(["uno", "dos", "diez"], k=3))
            pairs.append((draw.choice(changes)(source), draw.choice(changes)(target)))
        size = draw.randint(1, 20)
        ours = leaked(pairs[:size], pairs[size:])
        if not math.isclose(float(answer(pairs[:size], pairs[size:])), ours):
            return False
    return True


def unknown_fraction(train, test, size, unit=str.split, once=False):
    """The fraction of the test words outside the most frequent training words."""
    counts = collections.Counter(word for text in train for word in unit(text))
    known = {word for word, _ in counts.most_common(size)}
    words = [word for text in test for word in unit(text)]
    words = sorted(set(words)) if once else words
    return sum(word not in known for word in words) / len(words)


def sentences_with_unknown(train, test, size):
    """A wrong answer to F.2: counts sentences, not words."""
    counts = collections.Counter(word for text in train for word in text.split())
    known = {word for word, _ in counts.most_common(size)}
    return sum(not known.issuperset(text.split()) for text in test) / len(test)


def unknown_by_sentences(train, test, size):
    """A wrong answer to F.2: counts the sentences that contain a word."""
    once = [" ".join(dict.fromkeys(text.split())) for text in train]
    return unknown_fraction(once, test, size)


def counts_unknown_words(answer):
    """F.2: whether a function returns the fraction of unknown test words."""
    draw = random.Random(5)
    words = [f"w{int(draw.paretovariate(0.7))}" for _ in range(2000)]
    for _ in range(20):
        texts = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(60)]
        train, test, size = texts[:40], texts[40:], draw.randint(1, 60)
        train[-1] += " often" * 20  # many times in one sentence
        test[-1] += " often"
        ours = unknown_fraction(train, test, size)
        if not math.isclose(float(answer(list(train), list(test), size)), ours):
            return False
    return True


def are_points_and_sentences(answer):
    """F.3: whether two numbers are 2.63 percentage points and 2,000 sentences."""
    points, sentences = (float(number) for number in answer)
    return abs(points - 2.63) < 0.006 and abs(sentences - 2000) < 1


EXERCISES = {
    "F.1": Exercise(
        test=finds_leaks,
        hint=(
            'convert both sides to one form first: " ".join(source.lower().split()); '
            "a pair leaks if its source or its target is known"
        ),
        wrong=(
            0.5,
            lambda train, test: leaked(train, test, form=str),
            lambda train, test: leaked(train, test, form=str.lower),
            lambda train, test: leaked(
                train, test, form=lambda text: normal(text).replace(" ", "")
            ),
            lambda train, test: leaked(train, test, sides=[0]),
            lambda train, test: leaked(train, test, sides=[1]),
        ),
    ),
    "F.2": Exercise(
        test=counts_unknown_words,
        hint=(
            "collections.Counter(...).most_common(size) keeps the order of first occurrence "
            "for equal counts; count words of the test text with repetition"
        ),
        wrong=(
            0.1,
            sentences_with_unknown,
            unknown_by_sentences,
            lambda train, test, size: unknown_fraction(train, test, size, once=True),
            lambda train, test, size: unknown_fraction(train, test, size, unit=list),
            lambda train, test, size: unknown_fraction(train + test, test, size),
        ),
    ),
    "F.3": Exercise(
        test=are_points_and_sentences,
        hint="p = 0.9, n = 500; the width is proportional to one over the root of n",
        wrong=((2.63, 1000), (1.34, 2000), (0.0263, 2000), (2.6, 2000), 2.63),
    ),
}
