"""Phrases of the pocket corpus, drawn by chance: persons and things, places and times."""

from random import Random

from tf_transformer.data.pocket import lexicon, names, tables
from tf_transformer.data.pocket.grammar import (
    OWN,
    PRONOUNS,
    Part,
    Phrase,
    noun_phrase,
    prepositional,
)
from tf_transformer.data.pocket.lexicon import ADJECTIVES_OF, NOUNS, PLACES, Pair, Verb
from tf_transformer.data.pocket.numbers import clock, number_words

TIMES = {tense: lexicon.rows(table) for tense, table in names.TIME_TABLES.items()}
LONG_TIMES = {tense: lexicon.rows(table) for tense, table in names.LONG_TIME_TABLES.items()}
WHOLE_DAYS, DAY_PARTS = lexicon.rows(names.DAYS), lexicon.rows(names.DAY_PARTS)
DAYS = WHOLE_DAYS + tuple(
    (f"{day} {en}", tag + de) for day, tag in WHOLE_DAYS for en, de in DAY_PARTS
)
CLOCKS = tuple(clock(hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5))
MONTHS, SPANS, OFTEN = (
    lexicon.rows(names.MONTHS),
    lexicon.rows(names.SPANS),
    lexicon.rows(names.OFTEN),
)
ATTITUDES = lexicon.rows(names.ATTITUDES, ";")
WEATHER = {tense: lexicon.rows(table) for tense, table in names.WEATHER.items()}
VEHICLES, LANGUAGES = lexicon.rows(names.VEHICLES), lexicon.rows(names.LANGUAGES)
INSTRUMENTS, PROFESSIONS = lexicon.rows(names.INSTRUMENTS), lexicon.rows(names.PROFESSIONS)
CITIES = tuple((city, city) for city in names.CITIES) + lexicon.rows(names.TRANSLATED_CITIES)
COMPARATIVES = {kind: lexicon.rows(table) for kind, table in tables.COMPARATIVES.items()}
FORENAMES = tuple((name, "m") for name in names.MEN) + tuple((name, "f") for name in names.WOMEN)


class Draw:
    """The source of chance; it uses nothing but ``random()``, which is the same in every version of Python."""

    def __init__(self, seed: int):
        """Set up the drawing; ``pick`` is a closure because it is called ten times a sentence."""
        random = Random(seed).random

        def pick(items):
            """Return one of the items."""
            return items[int(random() * len(items))]

        self.random, self.pick = random, pick

    def chance(self, probability: float) -> bool:
        """Return ``True`` with a probability."""
        return self.random() < probability

    def between(self, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``."""
        return low + int(self.random() * (high - low + 1))


def given_name(draw: Draw) -> tuple[str, str]:
    """Draw a first name and its gender; some are invented."""
    if draw.chance(0.8):
        return draw.pick(FORENAMES)
    gender = "f" if draw.chance(0.5) else "m"
    middle = "".join([draw.pick(names.NAME_MIDDLES) for _ in range(draw.between(1, 2))])
    return draw.pick(names.NAME_STARTS) + middle + draw.pick(names.NAME_ENDS[gender]), gender


def person_name(draw: Draw) -> Phrase:
    """Draw a person who is called by name: *Anna*, *Mr Keller*, *Paul and Anna*, *Anna's brother*."""
    chance = draw.random()
    if chance < 0.2:
        name = draw.pick(names.SURNAMES)
        if draw.chance(0.3):
            name = draw.pick(names.FAMILY_STARTS) + draw.pick(names.FAMILY_ENDS)
        if draw.chance(0.5):
            en, de = f"Mrs {name}", f"Frau {name}"
            return Phrase(en, en, de, de, de, 2, "f")
        return Phrase(
            f"Mr {name}", f"Mr {name}", f"Herr {name}", f"Herrn {name}", f"Herrn {name}", 2, "m"
        )
    name, gender = given_name(draw)
    if chance < 0.3:
        other = given_name(draw)[0]
        if other != name:
            en, de = f"{name} and {other}", f"{name} und {other}"
            return Phrase(en, en, de, de, de, 4, "p")
    if chance < 0.42 and name[-1] not in "sxz":
        kin = noun_phrase("", None, draw.pick(NOUNS["kin"]))
        en, de = f"{name}'s {kin.en}", f"{name}s {kin.nom}"
        return Phrase(en, en, de, de, de, 2, kin.gender)
    return Phrase(name, name, name, name, name, 2, gender)


def subject(draw: Draw) -> Phrase:
    """Draw a person or some persons who can do things."""
    chance = draw.random()
    if chance < 0.26:
        return draw.pick(PRONOUNS)
    if chance < 0.5:
        return person_name(draw)
    if chance < 0.66:
        return relation(draw, ("my", "your", "our"))
    plural = draw.chance(0.25)
    determiner = draw.pick(
        ("the", "the", "the", "the", "many", "all") if plural else ("the",) * 7 + ("a", "this")
    )
    return described(draw, "person", determiner, plural, 0.25)


def relation(draw: Draw, determiners: tuple[str, ...]) -> Phrase:
    """Draw a member of somebody's family, or several."""
    plural = draw.chance(0.2)
    return described(draw, "relatives" if plural else "kin", draw.pick(determiners), plural, 0.1)


def described(
    draw: Draw, kind: str, determiner: str | int, plural: bool, probability: float
) -> Phrase:
    """Draw a noun of a kind, and with some probability an adjective for it."""
    adjective = draw.pick(ADJECTIVES_OF[kind]) if draw.chance(probability) else None
    return noun_phrase(determiner, adjective, draw.pick(NOUNS[kind]), plural)


def human(draw: Draw, doer: Phrase, case: str) -> Phrase:
    """Draw a person to whom something is done."""
    chance = draw.random()
    if chance < 0.22:
        pronoun = draw.pick(PRONOUNS)
        # "They" has no accusative here, because German "sie" stands for "her".
        if (
            pronoun.gender != doer.gender
            and (case != "acc" or pronoun.acc)
            and {pronoun.person, doer.person} != {0, 3}
        ):
            return pronoun
    if chance < 0.4:
        return person_name(draw)
    if chance < 0.65:
        own = OWN.get(doer.gender, "our")
        return relation(draw, ("my", "your", own, own))
    return described(
        draw, "person", draw.pick(("the", "the", "the", "this")), draw.chance(0.25), 0.25
    )


def thing(draw: Draw, kind: str, doer: Phrase, negated: bool = False) -> Phrase:
    """Draw something of a kind to which something is done, or not done (then it is not counted)."""
    if kind in tables.MASS_TABLES:
        return described(draw, kind, "", False, 0.3)
    if kind in ("opening", "room"):
        return described(draw, kind, draw.pick(("the", "the", "this")), draw.chance(0.2), 0.3)
    own = "the" if kind in ("food", "baked", "sight") else OWN.get(doer.gender, "the")
    chance = draw.random()
    if chance < 0.75:
        determiner = draw.pick(("the", "the", "the", "a", "a", "a", own, own, "this"))
        return described(draw, kind, determiner, False, 0.45)
    if negated:
        return described(draw, kind, draw.pick(("the", "", own)), True, 0.4)
    if chance < 0.83:
        return described(
            draw, kind, draw.between(2, 12) if draw.chance(0.9) else draw.between(13, 99), True, 0.3
        )
    return described(draw, kind, draw.pick(("the", "the", "", "many", "this", own)), True, 0.4)


def affected(draw: Draw, kinds: tuple[str, ...], doer: Phrase, negated: bool = False) -> Phrase:
    """Draw an object of one of the kinds; *human* stands for all persons."""
    kind = draw.pick(kinds)
    return human(draw, doer, "acc") if kind == "human" else thing(draw, kind, doer, negated)


def object_part(phrase: Phrase, negated: bool) -> Part:
    """Make a phrase the accusative object: a pronoun stands early, and what is new stands late."""
    if phrase.definite:
        slot = "pronoun" if phrase in PRONOUNS else "object"
        return slot, phrase.en_object, phrase.acc
    return "new", phrase.en_object, phrase.negated if negated else phrase.acc


def city(draw: Draw) -> Pair:
    """Draw a city; some are invented."""
    if draw.chance(0.8):
        return draw.pick(CITIES)
    name = draw.pick(names.TOWN_STARTS) + draw.pick(names.TOWN_ENDS)
    return name, name


def where(draw: Draw, group: str) -> Pair:
    """Draw a place where something happens, of a group of places."""
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
    """Draw a place to go to."""
    if group == "any":
        if draw.chance(0.2):
            return draw.pick((("home", "nach Hause"), ("to school", "in die Schule")))
        group = draw.pick(("home", "town", "town", "meal", "shopping", "way"))
    place = draw.pick(PLACES[group])
    case = "dat" if place.whither_de == "zu" else "acc"
    return prepositional(place.whither, place.whither_de, case, spot(draw, group, place))


def spot(draw: Draw, group: str, place: lexicon.Place) -> Phrase:
    """Describe a place."""
    adjective = draw.pick(ADJECTIVES_OF[group]) if draw.chance(0.2) else None
    return noun_phrase("a" if adjective and draw.chance(0.4) else "the", adjective, place.noun)


def when(draw: Draw, tense: str, verb: Verb, negated: bool = False) -> Pair:
    """Draw a time that suits a tense and a verb."""
    group = tense if tense in ("present", "past") else "future"
    lasting = verb.infinitive in names.LASTING
    chance = draw.random()
    if chance < 0.25 and lasting:
        return long_time(draw, group, negated)
    if negated and group == "present":
        return draw.pick(TIMES["denied"])
    if chance < 0.5 and not negated:
        en, de = draw.pick(CLOCKS)
        if group == "present":
            return en, de
        day, tag = draw.pick(
            (("yesterday", "gestern"), ("today", "heute"))
            if group == "past"
            else TIMES["future"][:2]
        )
        return f"{day} {en}", f"{tag} {de}"
    if chance < 0.75:
        day, tag = draw.pick(DAYS)
        return (
            (f"every {day}", f"jeden {tag}") if group == "present" else (f"on {day}", f"am {tag}")
        )
    return draw.pick(TIMES[group])


def long_time(draw: Draw, group: str, negated: bool) -> Pair:
    """Draw a longer stretch of time: *in January*, *three weeks ago*, *next year*."""
    if negated and group == "present":
        return draw.pick(LONG_TIMES["denied"])
    if draw.chance(0.3):
        month, monat = draw.pick(MONTHS)
        return f"in {month}", f"im {monat}"
    if group == "present" or draw.chance(0.4):
        return draw.pick(LONG_TIMES[group])
    number, (span, spanne) = number_words(draw.between(2, 12)), draw.pick(SPANS)
    if group == "past":
        return f"{number[0]} {span} ago", f"vor {number[1]} {spanne}"
    return f"in {number[0]} {span}", f"in {number[1]} {spanne}"
