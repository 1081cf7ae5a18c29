"""The exercises of notebook 09."""

from course import Exercise

import collections

import numpy as np


def parameters(layers, width, inner, vocabulary):
    """09.1: the weights of a Transformer with one shared table, d_k = d_v = d_model / h."""
    attention = 4 * (width * width + width)
    feed_forward = (width * inner + inner) + (inner * width + width)
    norm = 2 * width
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return layers * (encoder + decoder) + vocabulary * width


def counts_parameters(function):
    """Whether a function is `parameters`."""
    cases = [
        (6, 512, 2048, 37000),
        (2, 128, 512, 2000),
        (6, 1024, 4096, 37000),
        (1, 8, 4, 10),
    ]
    return all(function(*case) == parameters(*case) for case in cases)


def without_biases(layers, width, inner, vocabulary):
    """A wrong answer to 09.1."""
    return layers * (12 * width**2 + 4 * width * inner + 10 * width) + vocabulary * width


def linearize(tree):
    """09.3: a nested tuple as a string of brackets, labels and tags."""
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


def f1(gold, test):
    """09.4: F1 of two lists of brackets, in percent; equal brackets match one to one."""
    matched = sum((collections.Counter(gold) & collections.Counter(test)).values())
    return 100 * 2 * matched / (len(gold) + len(test))


def is_f1(function):
    """Whether a function is `f1`, on random lists with repeated brackets."""
    rng = np.random.default_rng(9)
    labels = ["S", "NP", "VP"]
    for _ in range(20):
        lists = []
        for size in rng.integers(3, 9, size=2):
            starts = rng.integers(0, 2, size=size)
            kinds = rng.integers(0, 3, size=size)
            lists.append(
                [(int(start), int(start) + 2, labels[kind]) for start, kind in zip(starts, kinds)]
            )
        if not np.isclose(function(*lists), f1(*lists)):
            return False
    return True


def f1_of_sets(gold, test):
    """A wrong answer to 09.4: repeated brackets count once."""
    gold, test = set(gold), set(test)
    return 100 * 2 * len(gold & test) / (len(gold) + len(test))


GPT_3_DAYS = 6 * 175e9 * 300e9 / (8 * 9.5e12) / 86400

EXERCISES = {
    "09.1": Exercise(
        test=counts_parameters,
        hint=(
            "every matrix has a bias, every layer norm two vectors; a decoder layer has two "
            "attentions and three norms; base must give 63,082,496"
        ),
        wrong=(
            without_biases,
            lambda layers, width, inner, vocabulary: (
                parameters(layers, width, inner, vocabulary) + vocabulary * width
            ),
        ),
    ),
    "09.2": Exercise(
        test=lambda days: abs(float(days) / GPT_3_DAYS - 1) < 0.01,
        hint="6 x weights x tokens operations; 8 x 9.5e12 of them a second; 86,400 seconds a day",
        wrong=(
            GPT_3_DAYS / 6,
            GPT_3_DAYS * 8,
            GPT_3_DAYS * 24,
            GPT_3_DAYS / 365,
            0,
            1,
            100,
        ),
    ),
    "09.3": Exercise(
        test=is_linearize,
        hint="a string is a tag; a phrase is '(' with the label, its children, and ')'",
        wrong=(
            str,
            lambda tree: linearize(tree).replace(" )", ")"),
            lambda tree: linearize(tree[1]),
        ),
    ),
    "09.4": Exercise(
        test=is_f1,
        hint=(
            "a bracket that occurs n times in one list and m times in the other gives min(n, m) "
            "matches; F1 = 2 matched / (gold + test)"
        ),
        wrong=(
            f1_of_sets,
            lambda gold, test: f1(gold, test) / 100,
            lambda gold, test: 100 * f1(gold, test) * len(test) / (len(gold) + len(test)),
        ),
    ),
}
