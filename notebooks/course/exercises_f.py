"""The exercises of notebook F."""

from course import Exercise

import math
import random


def normal(text):
    """A text without capitals and without needless spaces."""
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


def are_points_and_sentences(answer):
    """F.2: whether two numbers are 2.63 percentage points and 2,000 sentences."""
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
        test=are_points_and_sentences,
        hint="p = 0.9, n = 500; the width is proportional to one over the root of n",
        wrong=((2.63, 1000), (1.34, 2000), (0.0263, 2000), (2.6, 2000), 2.63),
    ),
}
