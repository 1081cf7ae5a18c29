"""The exercises of notebook F."""

from course import Exercise

import collections
import math
import random

DIGITS = "영일이삼사오육칠팔구"
PLACES = ["", "십", "백", "천"]
KNOWN = {
    0: "영",
    7: "칠",
    10: "십",
    11: "십일",
    20: "이십",
    101: "백일",
    110: "백십",
    1000: "천",
    2345: "이천삼백사십오",
    9009: "구천구",
}
TEXTS = ["fünf", "Ã", "Größe", "niño", "집에", "plain", "", "Ärzte", "5 €", "São", "½"]


def in_korean(n, write_one=False):
    """Sino-Korean number words of 0 to 9,999.

    `write_one` makes a mistake: it writes 일 before a place.
    """
    words = ""
    for digit, place in zip(f"{n:04}", reversed(PLACES), strict=True):
        if digit == "0":
            continue
        if digit != "1" or not place or write_one:
            words += DIGITS[int(digit)]
        words += place
    return words or DIGITS[0]


def speaks_korean(korean):
    """F.1: whether a function knows the numbers from 0 to 9,999."""
    known = all(korean(n) == words for n, words in KNOWN.items())
    return known and all(korean(n) == in_korean(n) for n in range(10_000))


def bad_lines(text, lines=None):
    """The numbers of the lines that are not a pair of two texts that are not blank."""
    lines = text.removesuffix("\n").split("\n") if lines is None else lines
    parts = [line.split("\t") for line in lines]
    return [
        number
        for number, columns in enumerate(parts, start=1)
        if len(columns) != 2 or not all(column.strip() for column in columns)
    ]


def bad_stripped_lines(text):
    """A wrong answer to 10.2: a tab at the end of a line does not count."""
    lines = text.removesuffix("\n").split("\n")
    return [n for n, line in enumerate(lines, start=1) if line.strip().count("\t") != 1]


def finds_bad_lines(answer):
    """F.2: whether a function finds the lines that are not a pair."""
    draw = random.Random(2)
    options = [
        "one\tuno",
        "two dos",
        "\tuno",
        "three\t  ",
        "a\tb\tc",
        "one\tuno\t",
        "\tone\tuno",
        "",
        "two\u2028lines\tdos",
    ]
    for _ in range(50):
        lines = draw.choices(options, k=draw.randint(1, 12))
        text = "\n".join(lines) + "\n"
        if [int(number) for number in answer(text)] != bad_lines(text):
            return False
    return True


def normal(text):
    """A text without capitals and without needless blanks."""
    return " ".join(text.lower().split())


def leaked(train, test, form=normal, side=0):
    """The fraction of the test pairs with a source of the training pairs."""
    known = {form(pair[side]) for pair in train}
    return sum(form(pair[side]) in known for pair in test) / len(test)


def finds_leaks(answer):
    """F.3: whether a function counts the test pairs whose source was trained on."""
    draw = random.Random(3)
    changes = [str.upper, str.title, lambda text: f" {text} ", lambda text: text]
    changes.append(lambda text: text.replace(" ", "  "))
    for _ in range(50):
        pairs = []
        for _ in range(30):
            source = " ".join(draw.choices(["a", "way", "away", "one"], k=3))
            target = draw.choice(["uno", "dos", "diez"])
            pairs.append((draw.choice(changes)(source), target))
        size = draw.randint(1, 20)
        ours = leaked(pairs[:size], pairs[size:])
        if not math.isclose(float(answer(pairs[:size], pairs[size:])), ours):
            return False
    return True


def repaired(text):
    """The text that was read as Latin-1 where this is possible, else the text."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def repairs(answer):
    """F.4: whether a function repairs texts, and leaves others alone."""
    for text in TEXTS:
        if answer(text) != text:
            return False
        wrong = text.encode("utf-8").decode("latin-1")
        if answer(wrong) != text:
            return False
    return True


def replaced_letters(text):
    """A wrong answer to 10.4: a list of replacements."""
    for good in "äöüßñ":
        text = text.replace(good.encode("utf-8").decode("latin-1"), good)
    return text


def unknown_fraction(train, test, size, unit=str.split, once=False):
    """The fraction of the test words outside the most frequent training words."""
    counts = collections.Counter(word for text in train for word in unit(text))
    known = {word for word, _ in counts.most_common(size)}
    words = [word for text in test for word in unit(text)]
    words = sorted(set(words)) if once else words
    return sum(word not in known for word in words) / len(words)


def sentences_with_unknown(train, test, size):
    """A wrong answer to 10.5: counts sentences, not words."""
    counts = collections.Counter(word for text in train for word in text.split())
    known = {word for word, _ in counts.most_common(size)}
    return sum(not known.issuperset(text.split()) for text in test) / len(test)


def unknown_by_sentences(train, test, size):
    """A wrong answer to 10.5: counts the sentences that contain a word."""
    once = [" ".join(dict.fromkeys(text.split())) for text in train]
    return unknown_fraction(once, test, size)


def counts_unknown_words(answer):
    """F.5: whether a function returns the fraction of unknown test words."""
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
    """F.6: whether two numbers are 2.63 percentage points and 2,000 sentences."""
    points, sentences = (float(number) for number in answer)
    return abs(points - 2.63) < 0.006 and abs(sentences - 2000) < 1


EXERCISES = {
    "F.1": Exercise(
        test=speaks_korean,
        hint=(
            "go through the four digits with their places; 일 is left out before a "
            "place, but not as the last digit; only 0 itself is 영"
        ),
        wrong=(
            "이천삼백사십오",
            str,
            lambda n: in_korean(n, write_one=True),
            lambda n: in_korean(n) if n else "",
        ),
    ),
    "F.2": Exercise(
        test=finds_bad_lines,
        hint=(
            'text.split("\\n") and enumerate(..., start=1); splitlines() also splits at '
            "other characters; the text ends with a line feed, after which there is no line"
        ),
        wrong=(
            [2, 3],
            lambda text: [],
            lambda text: bad_lines(text, text.splitlines()),
            lambda text: bad_lines(text, text.split("\n")),
            lambda text: [n - 1 for n in bad_lines(text)],
            bad_stripped_lines,
        ),
    ),
    "F.3": Exercise(
        test=finds_leaks,
        hint=(
            'convert both sides to one form first: " ".join(source.lower().split()); '
            "targets do not count here"
        ),
        wrong=(
            0.5,
            lambda train, test: leaked(train, test, form=str),
            lambda train, test: leaked(train, test, form=str.lower),
            lambda train, test: leaked(
                train, test, form=lambda text: normal(text).replace(" ", "")
            ),
            lambda train, test: leaked(train, test, side=1),
        ),
    ),
    "F.4": Exercise(
        test=repairs,
        hint=(
            'text.encode("latin-1") gives the bytes that were in the file; decode them as '
            "UTF-8; return the text itself where one of the steps raises UnicodeError"
        ),
        wrong=(
            "fünf",
            lambda text: text,
            replaced_letters,
            lambda text: text.encode("latin-1", "ignore").decode("utf-8", "ignore"),
            lambda text: text.encode("utf-8").decode("latin-1"),
        ),
    ),
    "F.5": Exercise(
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
    "F.6": Exercise(
        test=are_points_and_sentences,
        hint="p = 0.9, n = 500; the width is proportional to one over the root of n",
        wrong=((2.63, 1000), (1.34, 2000), (0.0263, 2000), (2.6, 2000), 2.63),
    ),
}
