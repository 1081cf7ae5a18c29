"""The exercises of notebook C: which invariant a broken file breaks, and which function does it."""

from course import Exercise
from course.broken_files import BUGS

HINTS = {
    1: "The heads look at one word each, from the first layer on. What makes scores too large?",
    2: "No model can fall to the lowest loss in thirty updates. What does it have to predict?",
    3: "Its own training works, and loaded weights do not: something that is no weight differs.",
    4: "Add up a row of the heads. Then ask when these words get their share.",
    5: "Nothing is learned for a hundred updates, and the loss falls in steps. What changes there?",
    6: "The loss needs what the writer does not have: where can a later word come in?",
    7: "The first two words are right. What does the third step know of the first two?",
    8: "The sentences and the weights are the same. What else is in a batch?",
    9: "Multiply a score by the penalty of its length, and compare it with log p.",
    10: "The rows are the same. What depends on which rows are in which half?",
}


def letters(name):
    """The letters of a name, for `Cache.append()`, `cache_append` and the like."""
    return "".join(filter(str.isalpha, name.lower()))


def is_diagnosis(bug):
    """A test of (invariant, function)."""

    def test(answer):
        invariant, function = answer
        return invariant in bug.breaks and letters(function) in map(letters, bug.functions)

    return test


def wrong(bug):
    """Half right answers, and the right one without its other half."""
    other = "positions" if "positions" not in bug.breaks else "schedule"
    return (
        (bug.breaks[0], "create_masks"),
        (other, bug.functions[0]),
        bug.functions[0],
        (bug.functions[0], bug.breaks[0]),
    )


EXERCISES = {
    f"C.{number}": Exercise(test=is_diagnosis(bug), hint=HINTS[number], wrong=wrong(bug))
    for number, bug in BUGS.items()
}
