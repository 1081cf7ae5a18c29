"""Random phrases of the pocket corpus: persons and things, places and times."""

from collections.abc import Sequence
from random import Random
from typing import Any

from pocket import lexicon, names, tables
from pocket.grammar import (
    OWN,
    PRONOUNS,
    Part,
    Phrase,
    noun_phrase,
    prepositional,
)
from pocket.lexicon import ADJECTIVES_OF, NOUNS, PLACES, Pair, Verb
from pocket.numbers import clock, number_words

TIMES = {tense: lexicon.rows(table) for tense, table in names.TIME_TABLES.items()}
LONG_TIMES = {tense: lexicon.rows(table) for tense, table in names.LONG_TIME_TABLES.items()}
WHOLE_DAYS = lexicon.rows(names.DAYS)
DAY_PARTS = lexicon.rows(names.DAY_PARTS)
DAYS = WHOLE_DAYS + tuple(
    (f"{day} {en}", tag + de) for day, tag in WHOLE_DAYS for en, de in DAY_PARTS
)
CLOCKS = tuple(clock(hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5))
MONTHS = lexicon.rows(names.MONTHS)
SPANS = lexicon.rows(names.SPANS)
OFTEN = lexicon.rows(names.OFTEN)
ATTITUDES = lexicon.rows(names.ATTITUDES, ";")
WEATHER = {tense: lexicon.rows(table) for tense, table in names.WEATHER.items()}
VEHICLES = lexicon.rows(names.VEHICLES)
LANGUAGES = lexicon.rows(names.LANGUAGES)
INSTRUMENTS = lexicon.rows(names.INSTRUMENTS)
PROFESSIONS = lexicon.rows(names.PROFESSIONS)
CITIES = tuple((city, city) for city in names.CITIES) + lexicon.rows(names.TRANSLATED_CITIES)
COMPARATIVES = {kind: lexicon.rows(table) for kind, table in tables.COMPARATIVES.items()}
FORENAMES = tuple((name, "m") for name in names.MEN) + tuple((name, "f") for name in names.WOMEN)


class Draw:
    """Draws random items.

    It uses only `random()` of the generator, which gives the same numbers in all Python versions.

    Args:
      seed: of the generator.
    """

    def __init__(self, seed: int) -> None:
        random = Random(seed).random

        def pick(items: Sequence[Any]) -> Any:
            """Returns one of the items."""
            return items[int(random() * len(items))]

        self.random = random
        self.pick = pick  # a closure, for speed: each sentence calls it about ten times

    def chance(self, probability: float) -> bool:
        """Returns True with a probability."""
        return self.random() < probability

    def between(self, low: int, high: int) -> int:
        """Returns an integer from `low` to `high`."""
        return low + int(self.random() * (high - low + 1))


def given_name(draw: Draw) -> tuple[str, str]:
    """Draws a first name and its gender; some names are invented."""
    if draw.chance(0.8):
        return draw.pick(FORENAMES)
    gender = "f" if draw.chance(0.5) else "m"
    middle = "".join([draw.pick(names.NAME_MIDDLES) for _ in range(draw.between(1, 2))])
    return draw.pick(names.NAME_STARTS) + middle + draw.pick(names.NAME_ENDS[gender]), gender


def person_name(draw: Draw) -> Phrase:
    """Draws a person with a name: *Anna*, *Mr Keller*, *Paul and Anna*, *Anna's brother*."""
    chance = draw.random()
    if chance < 0.2:
        return _title_and_surname(draw)
    name, gender = given_name(draw)
    if chance < 0.3:
        second_name = given_name(draw)[0]
        if second_name != name:
            en = f"{name} and {second_name}"
            de = f"{name} und {second_name}"
            return Phrase(en, en, de, de, de, 4, "p")
    if chance < 0.42 and name[-1] not in "sxz":
        kin = noun_phrase("", None, draw.pick(NOUNS["kin"]))
        en = f"{name}'s {kin.en}"
        de = f"{name}s {kin.nom}"
        return Phrase(en, en, de, de, de, 2, kin.gender)
    return Phrase(name, name, name, name, name, 2, gender)


def _title_and_surname(draw: Draw) -> Phrase:
    name = draw.pick(names.SURNAMES)
    if draw.chance(0.3):
        name = draw.pick(names.FAMILY_STARTS) + draw.pick(names.FAMILY_ENDS)
    if draw.chance(0.5):
        en = f"Mrs {name}"
        de = f"Frau {name}"
        return Phrase(en, en, de, de, de, 2, "f")
    en = f"Mr {name}"
    oblique = f"Herrn {name}"
    return Phrase(en, en, f"Herr {name}", oblique, oblique, 2, "m")


def subject(draw: Draw) -> Phrase:
    """Draws one or several persons as the subject of an action."""
    chance = draw.random()
    if chance < 0.26:
        return draw.pick(PRONOUNS)
    if chance < 0.5:
        return person_name(draw)
    if chance < 0.66:
        return relation(draw, ("my", "your", "our"))
    plural = draw.chance(0.25)
    determiners: tuple[str, ...]
    if plural:
        determiners = ("the", "the", "the", "the", "many", "all")
    else:
        determiners = ("the",) * 7 + ("a", "this")
    return described(draw, "person", draw.pick(determiners), plural, 0.25)


def relation(draw: Draw, determiners: tuple[str, ...]) -> Phrase:
    """Draws one or several relatives of somebody."""
    plural = draw.chance(0.2)
    return described(draw, "relatives" if plural else "kin", draw.pick(determiners), plural, 0.1)


def described(
    draw: Draw, kind: str, determiner: str | int, plural: bool, probability: float
) -> Phrase:
    """Draws a noun of a kind, with an adjective at the given probability."""
    adjective = draw.pick(ADJECTIVES_OF[kind]) if draw.chance(probability) else None
    return noun_phrase(determiner, adjective, draw.pick(NOUNS[kind]), plural)


def human(draw: Draw, doer: Phrase, case: str) -> Phrase:
    """Draws a person as an object.

    Args:
      draw: the source of randomness.
      doer: the subject of the clause.
      case: of the object, "acc" or "dat".
    """
    chance = draw.random()
    if chance < 0.22:
        pronoun = draw.pick(PRONOUNS)
        # "They" has no accusative here, because the German "sie" is always "her".
        has_case = case != "acc" or pronoun.acc
        is_self = pronoun.gender == doer.gender or {pronoun.person, doer.person} == {0, 3}
        if has_case and not is_self:
            return pronoun
    if chance < 0.4:
        return person_name(draw)
    if chance < 0.65:
        own = OWN.get(doer.gender, "our")
        return relation(draw, ("my", "your", own, own))
    determiner = draw.pick(("the", "the", "the", "this"))
    return described(draw, "person", determiner, draw.chance(0.25), 0.25)


def thing(draw: Draw, kind: str, doer: Phrase, negated: bool = False) -> Phrase:
    """Draws a thing as an object.

    Args:
      draw: the source of randomness.
      kind: a key of `NOUNS`.
      doer: the subject of the clause.
      negated: whether the clause is negated; the thing then has no number.
    """
    if kind in tables.MASS_TABLES:
        return described(draw, kind, "", False, 0.3)
    if kind in ("opening", "room"):
        determiner = draw.pick(("the", "the", "this"))
        return described(draw, kind, determiner, draw.chance(0.2), 0.3)
    own = "the" if kind in ("food", "baked", "sight") else OWN.get(doer.gender, "the")
    chance = draw.random()
    if chance < 0.75:
        determiner = draw.pick(("the", "the", "the", "a", "a", "a", own, own, "this"))
        return described(draw, kind, determiner, False, 0.45)
    if negated:
        return described(draw, kind, draw.pick(("the", "", own)), True, 0.4)
    if chance < 0.83:
        number = draw.between(2, 12) if draw.chance(0.9) else draw.between(13, 99)
        return described(draw, kind, number, True, 0.3)
    determiner = draw.pick(("the", "the", "", "many", "this", own))
    return described(draw, kind, determiner, True, 0.4)


def affected(draw: Draw, kinds: tuple[str, ...], doer: Phrase, negated: bool = False) -> Phrase:
    """Draws an object of one of the kinds; the kind "human" is any person."""
    kind = draw.pick(kinds)
    return human(draw, doer, "acc") if kind == "human" else thing(draw, kind, doer, negated)


def object_part(phrase: Phrase, negated: bool) -> Part:
    """Makes a phrase the accusative object. A pronoun comes early, an indefinite phrase late."""
    if phrase.definite:
        slot = "pronoun" if phrase in PRONOUNS else "object"
        return slot, phrase.en_object, phrase.acc
    return "new", phrase.en_object, phrase.negated if negated else phrase.acc


def city(draw: Draw) -> Pair:
    """Draws a city; some names are invented."""
    if draw.chance(0.8):
        return draw.pick(CITIES)
    name = draw.pick(names.TOWN_STARTS) + draw.pick(names.TOWN_ENDS)
    return name, name


def where(draw: Draw, group: str) -> Pair:
    """Draws a location in a group of places: *in the garden*, *in Berlin*."""
    if group == "home" and draw.chance(0.25):
        return "at home", "zu Hause"
    if group == "town" and draw.chance(0.35):
        if draw.chance(0.3):
            return "at school", "in der Schule"
        en, de = city(draw)
        return f"in {en}", f"in {de}"
    place = draw.pick(PLACES[group])
    return prepositional(place.where, place.where_de, "dat", spot(draw, group, place))


def whither(draw: Draw, group: str) -> Pair:
    """Draws a destination in a group of places; the group "any" is all of them."""
    if group == "any":
        if draw.chance(0.2):
            return draw.pick((("home", "nach Hause"), ("to school", "in die Schule")))
        group = draw.pick(("home", "town", "town", "meal", "shopping", "way"))
    place = draw.pick(PLACES[group])
    case = "dat" if place.whither_de == "zu" else "acc"
    return prepositional(place.whither, place.whither_de, case, spot(draw, group, place))


def spot(draw: Draw, group: str, place: lexicon.Place) -> Phrase:
    """Draws the noun phrase of a place."""
    adjective = draw.pick(ADJECTIVES_OF[group]) if draw.chance(0.2) else None
    return noun_phrase("a" if adjective and draw.chance(0.4) else "the", adjective, place.noun)


def when(draw: Draw, tense: str, verb: Verb, negated: bool = False) -> Pair:
    """Draws a time that is compatible with a tense and a verb."""
    group = tense if tense in ("present", "past") else "future"
    chance = draw.random()
    if chance < 0.25 and verb.infinitive in names.LASTING:
        return long_time(draw, group, negated)
    if negated and group == "present":
        return draw.pick(TIMES["denied"])
    if chance < 0.5 and not negated:
        en, de = draw.pick(CLOCKS)
        if group == "present":
            return en, de
        if group == "past":
            day, tag = draw.pick((("yesterday", "gestern"), ("today", "heute")))
        else:
            day, tag = draw.pick(TIMES["future"][:2])
        return f"{day} {en}", f"{tag} {de}"
    if chance < 0.75:
        day, tag = draw.pick(DAYS)
        if group == "present":
            return f"every {day}", f"jeden {tag}"
        return f"on {day}", f"am {tag}"
    return draw.pick(TIMES[group])


def long_time(draw: Draw, group: str, negated: bool) -> Pair:
    """Draws a longer period: *in January*, *three weeks ago*, *next year*."""
    if negated and group == "present":
        return draw.pick(LONG_TIMES["denied"])
    if draw.chance(0.3):
        month, monat = draw.pick(MONTHS)
        return f"in {month}", f"im {monat}"
    if group == "present" or draw.chance(0.4):
        return draw.pick(LONG_TIMES[group])
    number, zahl = number_words(draw.between(2, 12))
    span, spanne = draw.pick(SPANS)
    if group == "past":
        return f"{number} {span} ago", f"vor {zahl} {spanne}"
    return f"in {number} {span}", f"in {zahl} {spanne}"
