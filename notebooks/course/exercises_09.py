"""The exercises of notebook 09."""

import base64
import json
import math

from course import Exercise


def asks_for_n_best(body):
    """9.1: whether a body has the signature nbest, and two different texts in rows."""
    json.dumps(body)
    if "inputs" in body or body["signature_name"] != "nbest":
        return False
    if not isinstance(body["instances"], (list, tuple)):
        return False
    rows = [row["text"] if isinstance(row, dict) else row for row in body["instances"]]
    if not len(set(rows)) == len(rows) == 2:
        return False
    return all(isinstance(row, str) and row.strip() for row in rows)


def sends_any_bytes(instance):
    """9.3: whether a function returns JSON from which the bytes can be decoded."""
    for data in (b"caf\xe9", b"Anna sleeps.", b"", bytes(range(256))):
        row = json.loads(json.dumps(instance(data)))
        row = row["text"] if set(row) == {"text"} else row
        if set(row) != {"b64"} or base64.b64decode(row["b64"], validate=True) != data:
            return False
    return True


def divides_by_the_length_penalty(normalised):
    """9.4: whether a function computes log P / ((5 + L) / 6)^alpha."""
    cases = [([-0.5, -0.25, -1.0], 0.6), ([-2.0], 0.6), ([-0.1] * 19, 1.0), ([-0.3, -0.4], 0.0)]
    for log_probs, alpha in cases:
        expected = sum(log_probs) / ((5 + len(log_probs)) / 6) ** alpha
        if not math.isclose(float(normalised(log_probs, alpha)), expected, rel_tol=1e-5):
            return False
    return True


def finds_the_newest(newest):
    """9.5: whether a function compares versions as numbers, and ignores other names."""
    cases = {
        ("1", "2", "10", "models.config"): "10",
        ("tmp-11", "9", "3.broken", "08"): "9",
        ("7",): "7",
        ("monitoring.config", "-5", ""): None,
        (): None,
    }
    return all(newest(list(names)) == expected for names, expected in cases.items())


def penalty_without_the_end_token(log_probs, alpha):
    """A wrong answer to 9.4: counts the tokens without the end token."""
    return sum(log_probs) / ((4 + len(log_probs)) / 6) ** alpha


EXERCISES = {
    "9.1": Exercise(
        test=asks_for_n_best,
        hint="rows are called instances; without a signature_name the server takes serving_default",
        wrong=(
            {"instances": ["Anna sleeps.", "Anna reads."]},
            {"signature_name": "nbest", "inputs": ["Anna sleeps.", "Anna reads."]},
            {"signature_name": "nbest", "instances": "Anna sleeps."},
            {"signature_name": "nbest", "instances": ["Anna sleeps."]},
        ),
    ),
    "9.2": Exercise(
        test=lambda answer: int(answer) == answer == 30,
        hint="n sentences in (40 + 2n) / 1000 seconds: set n / that to 300 and solve for n",
        wrong=(0, 12, 29, 31, 300, "30 sentences"),
    ),
    "9.3": Exercise(
        test=sends_any_bytes,
        hint=(
            "base64.b64encode returns bytes in ASCII: decode them to a string, and put it where "
            "the interface expects it"
        ),
        wrong=(
            lambda data: data,
            lambda data: data.decode("utf-8", "replace"),
            lambda data: {"b64": base64.b64encode(data)},
        ),
    ),
    "9.4": Exercise(
        test=divides_by_the_length_penalty,
        hint="L is how many log-probabilities there are; the sum of them is divided once",
        wrong=(
            lambda log_probs, alpha: sum(log_probs),
            lambda log_probs, alpha: sum(log_probs) / len(log_probs),
            penalty_without_the_end_token,
        ),
    ),
    "9.5": Exercise(
        test=finds_the_newest,
        hint=(
            'compare as numbers, not as text ("10" is less than "9" as text); str.isdigit tells '
            "which names are numbers"
        ),
        wrong=(
            "10",
            max,
            lambda names: max((name for name in names if name.isdigit()), default=None),
        ),
    ),
}
