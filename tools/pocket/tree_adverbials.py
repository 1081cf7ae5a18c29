"""Random times, places and destinations of the pocket treebank, as text of the Penn Treebank."""

from pocket.lexicon import PLACES, Place
from pocket.numbers import UNITS_EN
from pocket.phrases import CITIES, DAYS, MONTHS, city
from pocket.tree_phrases import (
    Phrase,
    TreeDraw,
    adjectives,
    common,
    counted,
    followed,
    leaves,
    node,
    relabel,
)

SPANS = ("days", "weeks", "months", "years")
TIMES = {
    "present": (
        "every day",
        "every morning",
        "every evening",
        "every week",
        "today",
        "this morning",
        "this week",
    ),
    "past": (
        "yesterday",
        "yesterday",
        "last week",
        "last year",
        "last summer",
        "this morning",
        "yesterday evening",
    ),
    "future": (
        "tomorrow",
        "tomorrow",
        "next week",
        "next year",
        "this evening",
        "today",
        "tomorrow morning",
    ),
}
TIME_TAGS = {"every": "DT", "this": "DT", "last": "JJ", "next": "JJ"}  # all others are NN
CLOCK = {5: "five", 10: "ten", 15: "quarter", 20: "twenty", 25: "twenty-five", 30: "half"}


def time(draw: TreeDraw, group: str) -> str:
    """Draws a time of a group: "present", "past" or "future"."""
    chance = draw.random()
    if chance < 0.4:
        words = draw.pick(TIMES[group]).split()
        return node("NP-TMP", *(f"({TIME_TAGS.get(word, 'NN')} {word})" for word in words))
    if chance < 0.55:
        day, *part = draw.pick(DAYS)[0].split()
        noun_phrase = node("NP", f"(NNP {day})", *(f"(NN {word})" for word in part))
        return f"(PP-TMP (IN on) {noun_phrase})"
    if chance < 0.65:
        return f"(PP-TMP (IN in) (NP (NNP {draw.pick(MONTHS)[0]})))"
    if chance < 0.72:
        part = draw.pick(("morning", "evening", "afternoon"))
        return f"(PP-TMP (IN in) (NP (DT the) (NN {part})))"
    if chance < 0.8 and group == "past":
        return f"(ADVP-TMP (NP {counted(draw)} (NNS {draw.pick(SPANS)})) (RB ago))"
    if chance < 0.8 and group == "future":
        return f"(PP-TMP (IN in) (NP {counted(draw)} (NNS {draw.pick(SPANS)})))"
    return clock(draw)


def clock(draw: TreeDraw) -> str:
    """Draws a time of day: "at three o'clock", "at quarter past two", "before half past six"."""
    before = draw.pick(("at", "at", "before", "after"))
    hour = UNITS_EN[draw.between(1, 12)]
    minute = 5 * draw.between(0, 6)
    if minute == 0:
        return f"(PP-TMP (IN {before}) (NP (CD {hour}) (RB o'clock)))"
    past = "(IN past)" if minute == 30 or draw.chance(0.5) else "(TO to)"
    tag = "NN" if minute in (15, 30) else "CD"
    minutes = f"(NP ({tag} {CLOCK[minute]}))"
    return f"(PP-TMP (IN {before}) (NP {minutes} (PP {past} (NP (CD {hour})))))"


def place(draw: TreeDraw, group: str) -> str:
    """Draws a location in a group of places: "in the old garden", "at home", "in Berlin"."""
    if group == "home" and draw.chance(0.25):
        return "(PP-LOC (IN at) (NP (NN home)))"
    if group == "town" and draw.chance(0.35):
        return f"(PP-LOC (IN in) (NP (NNP {city(draw)[0]})))"
    first = draw.pick(PLACES[group])
    text = f"(PP (IN {first.where}) {_spot(draw, group, first)})"
    if draw.chance(0.93):
        return relabel(text, "PP-LOC")
    second = draw.pick(PLACES[group])
    conjunction = draw.pick(("or", "and"))
    second_text = f"(PP (IN {second.where}) {_spot(draw, group, second)})"
    return f"(PP-LOC {text} (CC {conjunction}) {second_text})"


def _spot(draw: TreeDraw, group: str, place: Place) -> str:
    """Draws the noun phrase of a place."""
    determiner = f"(DT {draw.pick(('the', 'the', 'the', 'this'))})"
    return node("NP", determiner, adjectives(draw, group), leaves("NN", place.noun.en))


def goal(draw: TreeDraw, group: str = "any") -> str:
    """Draws a destination: "to the station", "home", "to Berlin".

    Args:
      draw: the source of randomness.
      group: "any", or "far" for a city.
    """
    chance = draw.random()
    if chance < 0.1 and group == "any":
        return "(ADVP-DIR (RB home))"
    if chance < 0.35 or group == "far":
        return f"(PP-DIR (TO to) (NP (NNP {city(draw)[0]})))"
    group = draw.pick(("home", "town", "meal", "shopping", "way"))
    place = draw.pick(PLACES[group])
    tag = "TO" if place.whither == "to" else "IN"
    return f"(PP-DIR ({tag} {place.whither}) {_spot(draw, group, place)})"


def transport(draw: TreeDraw) -> Phrase:
    """Draws a train, a bus or a ship, perhaps from or to a city."""
    phrase = common(draw, "transport", False, ("the",))
    if draw.chance(0.4):
        return phrase
    preposition = draw.pick(("(IN from)", "(TO to)"))
    return followed(phrase, f"(PP-DIR {preposition} (NP (NNP {draw.pick(CITIES)[0]})))")
