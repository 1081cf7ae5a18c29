"""The exercises of notebook E."""

from course import Exercise

import numpy as np


def per_word(perplexity, sub_words, words):
    """E.1: the perplexity per word, from that per sub-word."""
    return perplexity ** (sub_words / words)


def is_per_word(function):
    """Whether a function is `per_word`, on random texts."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        perplexity = rng.uniform(1.2, 40)
        words = int(rng.integers(100, 1000))
        sub_words = int(words * rng.uniform(1.05, 2))
        expected = per_word(perplexity, sub_words, words)
        if not np.isclose(function(perplexity, sub_words, words), expected, rtol=1e-6):
            return False
    return True


def linearize(tree):
    """E.2: a nested tuple as a string of brackets, labels and tags."""
    if isinstance(tree, str):
        return tree
    label, *children = tree
    return f"({label} {' '.join(map(linearize, children))} )"


def is_linearize(function):
    """Whether a function is `linearize`."""
    trees = [
        ("S", ("NP", "DT", "NN"), ("VP", "VBZ"), "."),
        ("NP", "PRP"),
        (
            "S",
            ("NP", ("NP", "DT", "NN"), ("PP", "IN", ("NP", "PRP"))),
            ("VP", "VBD", "RB"),
            ".",
        ),
    ]
    return all(function(tree) == linearize(tree) for tree in trees)


EXERCISES = {
    "E.1": Exercise(
        test=is_per_word,
        hint=(
            "the text has one probability, whatever its units are: its logarithm is "
            "-sub_words ln(perplexity) and also -words ln(perplexity per word)"
        ),
        wrong=(
            lambda perplexity, sub_words, words: perplexity * sub_words / words,
            lambda perplexity, sub_words, words: perplexity ** (words / sub_words),
            lambda perplexity, sub_words, words: perplexity * words / sub_words,
            lambda perplexity, sub_words, words: perplexity**sub_words,
            lambda perplexity, sub_words, words: np.log(perplexity) * sub_words / words,
            4.92,
        ),
    ),
    "E.2": Exercise(
        test=is_linearize,
        hint="a string is a tag; a phrase is '(' with the label, its children, and ')'",
        wrong=(
            str,
            lambda tree: linearize(tree).replace(" )", ")"),
            lambda tree: linearize(tree[1]),
        ),
    ),
}
