"""The exercises of notebook 10."""

import math

from course import Exercise

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


def in_korean(n, write_one=False):
    """Sino-Korean number words of 0 to 9,999.

    `write_one` makes a mistake: it writes 일 before a place.
    """
    words = ""
    for digit, place in zip(f"{n:04}", reversed(PLACES)):
        if digit == "0":
            continue
        if digit != "1" or not place or write_one:
            words += DIGITS[int(digit)]
        words += place
    return words or DIGITS[0]


def speaks_korean(korean):
    """10.1: whether a function knows the numbers from 0 to 9,999."""
    known = all(korean(n) == words for n, words in KNOWN.items())
    return known and all(korean(n) == in_korean(n) for n in range(10_000))


def finds_bad_lines(bad_lines):
    """10.2: whether a function finds the lines that are not a pair."""
    cases = {
        "one\tuno\ntwo\tdos\n": [],
        "one\tuno\ntwo dos\nthree\ttres\tCC BY\n\tcuatro\nfive\t  \n": [2, 3, 4, 5],
        "one\tuno\n\ntwo\tdos\n": [2],
        "one uno": [1],
    }
    for text, numbers in cases.items():
        if [int(number) for number in bad_lines(text)] != numbers:
            return False
    return True


def finds_leaks(leaked):
    """10.3: whether a function counts the test pairs whose source was trained on."""
    train = [
        ("One book.", "Un libro."),
        ("two  books.", "Dos libros."),
        ("Ten hats.", "Diez sombreros."),
    ]
    test = [
        ("one Book.", "Un libro."),
        ("Two books. ", "dos libros"),
        ("Ten coats.", "Diez abrigos."),
        ("Six hats.", "Diez sombreros."),
    ]
    if not math.isclose(float(leaked(train, test)), 0.5):
        return False
    return float(leaked(train, test[2:])) == 0 and float(leaked(train, test[:1])) == 1


def exact_sources_only(train, test):
    """A wrong answer to 10.3: compares the texts as they are."""
    known = {source for source, _ in train}
    return sum(source in known for source, _ in test) / len(test)


def are_points_and_sentences(answer):
    """10.5: whether two numbers are 2.6 percentage points and 2,000 sentences."""
    points, sentences = (float(number) for number in answer)
    return abs(points - 2.63) < 0.05 and abs(sentences - 2000) < 1


EXERCISES = {
    "10.1": Exercise(
        test=speaks_korean,
        hint=(
            "go through the four digits with their places; 일 is left out before a place, but "
            "not as the last digit; only 0 itself is 영"
        ),
        wrong=(
            "이천삼백사십오",
            str,
            lambda n: in_korean(n, write_one=True),
            lambda n: in_korean(n) if n else "",
        ),
    ),
    "10.2": Exercise(
        test=finds_bad_lines,
        hint=(
            'text.splitlines() and enumerate(..., start=1); line.split("\\t") must return two '
            "parts, neither of them blank"
        ),
        wrong=(
            [2, 3],
            lambda text: [],
            lambda text: [i for i, line in enumerate(text.splitlines()) if line.count("\t") != 1],
        ),
    ),
    "10.3": Exercise(
        test=finds_leaks,
        hint=(
            'convert both sides to one form first: " ".join(source.lower().split()); targets do '
            "not count here"
        ),
        wrong=(0.5, exact_sources_only, lambda train, test: 2),
    ),
    "10.4": Exercise(
        test=lambda answer: 1080 <= float(answer) <= 1180,
        hint=(
            "all tokens of one side in three epochs, divided by the tokens of a side in one "
            "update that are not padding"
        ),
        wrong=(0, 374, 3 * 30_000, 1055, "1122 updates"),
    ),
    "10.5": Exercise(
        test=are_points_and_sentences,
        hint="p = 0.9, n = 500; the width is proportional to one over the square root of n",
        wrong=((2.63, 1000), (1.34, 2000), (0.026, 2000), 2.63),
    ),
}
