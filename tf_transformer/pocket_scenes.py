"""The chance of the pocket corpus: draws persons and things, and what the ones do with the others.

What is drawn makes sense as far as tables can see to it: people read books and eat apples, and no book is asleep.
"""

from random import Random

from tf_transformer import pocket_lexicon as lexicon
from tf_transformer.pocket_grammar import (
    OWN,
    PRONOUN_OF,
    PRONOUNS,
    RELATIVES,
    Clause,
    Pair,
    Part,
    Phrase,
    build,
    clock,
    noun_phrase,
    number_words,
    prepositional,
    subordinate,
)
from tf_transformer.pocket_lexicon import ADJECTIVES_OF, FRAMES, NOUNS, PLACES, VERBS, Frame, Verb

TIMES = {tense: lexicon.rows(table) for tense, table in lexicon.TIME_TABLES.items()}
LONG_TIMES = {tense: lexicon.rows(table) for tense, table in lexicon.LONG_TIME_TABLES.items()}
WHOLE_DAYS, DAY_PARTS = lexicon.rows(lexicon.DAYS), lexicon.rows(lexicon.DAY_PARTS)
DAYS = WHOLE_DAYS + tuple((f"{day} {en}", tag + de) for day, tag in WHOLE_DAYS for en, de in DAY_PARTS)
CLOCKS = tuple(clock(hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5))
MONTHS, SPANS, OFTEN = lexicon.rows(lexicon.MONTHS), lexicon.rows(lexicon.SPANS), lexicon.rows(lexicon.OFTEN)
ATTITUDES = lexicon.rows(lexicon.ATTITUDES, ";")
WEATHER = {tense: lexicon.rows(table) for tense, table in lexicon.WEATHER.items()}
VEHICLES, LANGUAGES = lexicon.rows(lexicon.VEHICLES), lexicon.rows(lexicon.LANGUAGES)
INSTRUMENTS, PROFESSIONS = lexicon.rows(lexicon.INSTRUMENTS), lexicon.rows(lexicon.PROFESSIONS)
CITIES = tuple((city, city) for city in lexicon.CITIES) + lexicon.rows(lexicon.TRANSLATED_CITIES)
COMPARATIVES = {kind: lexicon.rows(table) for kind, table in lexicon.COMPARATIVES.items()}
FORENAMES = tuple((name, "m") for name in lexicon.MEN) + tuple((name, "f") for name in lexicon.WOMEN)

TENSES = ("present",) * 7 + ("past",) * 6 + ("future", "future", "can", "may", "should", "wish", "must", "must", "want")
ACTIONS = ("alone",) * 3 + ("object",) * 7 + ("dative",) * 2 + ("giving",) * 3 + ("about",) * 2
ACTIONS += ("placing", "motion", "journey", "single")
# Nobody "wants to know a woman every day", and few want to lose their keys.
STATES = ("kennen", "lieben", "brauchen", "vertrauen")
MISHAPS = ("verlieren", "vergessen", "aufwachen", "einschlafen", "träumen", "erinnern")
SURPRISES = ("verlieren", "vergessen", "finden")  # Nobody plans to, every day.
ALONE = FRAMES["alone"][:7]
PLACED = tuple(frame for frame in FRAMES["object"] if frame.places)
WITH_PERSONS = tuple(frame for frame in FRAMES["object"] if "human" in frame.kinds)
WITH_THINGS = tuple(frame for frame in FRAMES["object"] if "human" not in frame.kinds)
TAKING = {kind: tuple(frame for frame in FRAMES["object"] if kind in frame.kinds) for kind in NOUNS}
DEEDS = ACTIONS[:-1]
EVENTS = ("alone", "alone", "object", "object", "giving", "motion", "journey")
AIMS = ("object",) * 6 + ("dative", "giving", "giving", "about")  # What one may go somewhere for, or try to do.
# Main tenses, conjunctions, and the tense of the subordinate clause.
CONJUNCTIONS = {
    "present": (("because", "weil", "present"), ("although", "obwohl", "present"), ("before", "bevor", "present"))
    + (("because", "weil", "must"), ("because", "weil", "want"), ("while", "während", "present")),
    "past": (("because", "weil", "past"), ("although", "obwohl", "past"), ("before", "bevor", "past"))
    + (("when", "als", "past"), ("while", "während", "past")),
    "future": (("if", "wenn", "present"), ("as soon as", "sobald", "present"), ("because", "weil", "want"))
    + (("because", "weil", "must"), ("although", "obwohl", "present")),
}
ABOUT_WEATHER = ("weil", "obwohl", "wenn", "als", "während")


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


# Phrases


def given_name(draw: Draw) -> tuple[str, str]:
    """Draw a first name and its gender; some are invented."""
    if draw.chance(0.8):
        return draw.pick(FORENAMES)
    gender = "f" if draw.chance(0.5) else "m"
    middle = "".join([draw.pick(lexicon.NAME_MIDDLES) for _ in range(draw.between(1, 2))])
    return draw.pick(lexicon.NAME_STARTS) + middle + draw.pick(lexicon.NAME_ENDS[gender]), gender


def person_name(draw: Draw) -> Phrase:
    """Draw a person who is called by name: *Anna*, *Mr Keller*, *Paul and Anna*, *Anna's brother*."""
    chance = draw.random()
    if chance < 0.2:
        name = draw.pick(lexicon.SURNAMES)
        if draw.chance(0.3):
            name = draw.pick(lexicon.FAMILY_STARTS) + draw.pick(lexicon.FAMILY_ENDS)
        if draw.chance(0.5):
            en, de = f"Mrs {name}", f"Frau {name}"
            return Phrase(en, en, de, de, de, 2, "f")
        return Phrase(f"Mr {name}", f"Mr {name}", f"Herr {name}", f"Herrn {name}", f"Herrn {name}", 2, "m")
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
    determiner = draw.pick(("the", "the", "the", "the", "many", "all") if plural else ("the",) * 7 + ("a", "this"))
    return described(draw, "person", determiner, plural, 0.25)


def relation(draw: Draw, determiners: tuple[str, ...]) -> Phrase:
    """Draw a member of somebody's family, or several."""
    plural = draw.chance(0.2)
    return described(draw, "relatives" if plural else "kin", draw.pick(determiners), plural, 0.1)


def described(draw: Draw, kind: str, determiner: str | int, plural: bool, probability: float) -> Phrase:
    """Draw a noun of a kind, and with some probability an adjective for it."""
    adjective = draw.pick(ADJECTIVES_OF[kind]) if draw.chance(probability) else None
    return noun_phrase(determiner, adjective, draw.pick(NOUNS[kind]), plural)


def human(draw: Draw, doer: Phrase, case: str) -> Phrase:
    """Draw a person to whom something is done."""
    chance = draw.random()
    if chance < 0.22:
        pronoun = draw.pick(PRONOUNS)
        # "They" has no accusative here, because German "sie" stands for "her".
        if pronoun.gender != doer.gender and (case != "acc" or pronoun.acc) and {pronoun.person, doer.person} != {0, 3}:
            return pronoun
    if chance < 0.4:
        return person_name(draw)
    if chance < 0.65:
        own = OWN.get(doer.gender, "our")
        return relation(draw, ("my", "your", own, own))
    return described(draw, "person", draw.pick(("the", "the", "the", "this")), draw.chance(0.25), 0.25)


def thing(draw: Draw, kind: str, doer: Phrase, negated: bool = False) -> Phrase:
    """Draw something of a kind to which something is done, or not done (then it is not counted)."""
    if kind in lexicon.MASS_TABLES:
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
        return described(draw, kind, draw.between(2, 12) if draw.chance(0.9) else draw.between(13, 99), True, 0.3)
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
    name = draw.pick(lexicon.TOWN_STARTS) + draw.pick(lexicon.TOWN_ENDS)
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
    lasting = verb.infinitive in lexicon.LASTING
    chance = draw.random()
    if chance < 0.25 and lasting:
        return long_time(draw, group, negated)
    if negated and group == "present":
        return draw.pick(TIMES["denied"])
    if chance < 0.5 and not negated:
        en, de = draw.pick(CLOCKS)
        if group == "present":
            return en, de
        day, tag = draw.pick((("yesterday", "gestern"), ("today", "heute")) if group == "past" else TIMES["future"][:2])
        return f"{day} {en}", f"{tag} {de}"
    if chance < 0.75:
        day, tag = draw.pick(DAYS)
        return (f"every {day}", f"jeden {tag}") if group == "present" else (f"on {day}", f"am {tag}")
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


# Clauses


def suits(verb: Verb, tense: str, doer: Phrase) -> bool:
    """Tell whether a verb can stand in a tense: *I read* must not be two tenses, and nobody wants to forget."""
    if tense not in ("present", "past"):
        return verb.infinitive not in STATES and verb.prefix + verb.infinitive not in MISHAPS
    if tense == "present":
        return verb.infinitive not in SURPRISES
    return verb.en != verb.past or doer.person == 2


def action(draw: Draw, doer: Phrase, tense: str, negated: bool, kinds: tuple[str, ...]) -> tuple[Frame, list[Part]]:
    """Draw something that a person does, and the objects that it takes."""
    kind = draw.pick(kinds)
    if kind == "single":
        return (draw.pick(ALONE), []) if negated else hobby(draw)
    frame = draw.pick(FRAMES[kind])
    if not suits(frame.verb, tense, doer) or (kinds is not ACTIONS and frame.verb.infinitive in STATES):
        return draw.pick(ALONE), []
    if kind == "alone":
        return frame, []
    if kind == "object":
        return frame, [object_part(affected(draw, frame.kinds, doer, negated), negated)]
    if kind == "dative":
        phrase = human(draw, doer, "dat")
        return frame, [("dative", phrase.en_object, phrase.dat)]
    if kind == "giving":
        phrase, given = (
            human(draw, doer, "dat"),
            object_part(thing(draw, draw.pick(frame.kinds), doer, negated), negated),
        )
        if frame.english:
            return frame, [("recipient", f"to {phrase.en_object}", phrase.dat), given]
        return frame, [("dative", phrase.en_object, phrase.dat), given]
    if kind == "about":
        topic = draw.pick(frame.kinds)
        determiner = draw.pick(("the", "the", "this", "my", "your", "a"))
        phrase = human(draw, doer, frame.case) if topic == "human" else described(draw, topic, determiner, False, 0.3)
        return frame, [("about", phrase.en_object, prepositional("", frame.german, frame.case, phrase)[1])]
    return frame, movement(draw, frame, doer, negated)


def movement(draw: Draw, frame: Frame, doer: Phrase, negated: bool) -> list[Part]:
    """Draw where something is put, or where somebody goes or travels."""
    verb = frame.verb.infinitive
    if verb in ("legen", "stellen"):
        return [object_part(thing(draw, frame.kinds[0], doer, negated), negated), ("whither", *surface(draw, "acc"))]
    if verb in ("gehen", "laufen"):
        return [("whither", *whither(draw, frame.places))]
    en, de = city(draw)
    parts = [("whither", f"to {en}", f"nach {de}")]
    if verb == "fahren" and draw.chance(0.6):
        parts.append(("how", *draw.pick(VEHICLES)))
    return parts


def surface(draw: Draw, case: str) -> Pair:
    """Draw a piece of furniture with a preposition that takes both cases: *on the table*, *under the bed*."""
    noun = draw.pick(NOUNS["furniture"])
    en, de = draw.pick((("on", "auf"), ("on", "auf"), ("under", "unter"), ("next to", "neben"), ("behind", "hinter")))
    adjective = draw.pick(ADJECTIVES_OF["furniture"]) if draw.chance(0.25) else None
    return prepositional(en, de, case, noun_phrase("the", adjective, noun))


def hobby(draw: Draw) -> tuple[Frame, list[Part]]:
    """Draw an instrument, a game or a language; German takes no article here."""
    if draw.chance(0.5):
        return Frame(VERBS["spielen"], (), "home", "", "", ""), [("predicate", *draw.pick(INSTRUMENTS))]
    return Frame(VERBS["lernen"], (), "town", "", "", ""), [("predicate", *draw.pick(LANGUAGES))]


def clause(draw: Draw, doer: Phrase, tense: str, negated=False, timed=0.0, fronted=0.0, placed=0.35, kinds=ACTIONS):
    """Draw what a person does, and perhaps when, where and with whom.

    Args:
        draw: the source of chance.
        doer: the subject.
        tense: see :func:`tf_transformer.pocket_grammar.conjugate`.
        negated: whether the clause is denied.
        timed: how likely it says when.
        fronted: how likely the time, if there is one, comes first.
        placed: how likely it says where.
        kinds: the kinds of actions to choose from.

    Returns:
        The :class:`~tf_transformer.pocket_grammar.Clause`.
    """
    negated = negated and not doer.en.startswith("all ")  # "All do not sing" would leave open how many do.
    frame, parts = action(draw, doer, tense, negated, kinds)
    verb, first, adverb = frame.verb, ("", ""), ("", "")
    if verb.infinitive in STATES:
        return build(doer, verb, tense, parts, negated)
    if draw.chance(timed):
        first = when(draw, tense, verb, negated)
        if not draw.chance(fronted):
            parts.append(("when", *first))
            first = ("", "")
    elif tense == "present" and not negated and kinds is ACTIONS and draw.chance(0.12):
        adverb = draw.pick(OFTEN)
    moves = bool(parts) and parts[0][0] == "whither"
    if frame.places and not (negated or moves) and draw.chance(placed):
        parts.append(("where", *where(draw, frame.places)))
    if not negated and verb.prefix + verb.infinitive in lexicon.SOCIABLE and draw.chance(0.15):
        companion = human(draw, doer, "dat")
        if companion.acc and not any(part[0] in ("about", "how") for part in parts):
            sort = ("without", "ohne", "acc") if draw.chance(0.25) else ("with", "mit", "dat")
            parts.append(("with", *prepositional(*sort, companion)))
    return build(doer, verb, tense, parts, negated, adverb, first)


def fitting(draw: Draw, frames: tuple[Frame, ...], tense: str, doer: Phrase) -> Frame:
    """Draw one of the verbs that suit a tense and a subject."""
    frame = draw.pick(frames)
    while not suits(frame.verb, tense, doer):
        frame = draw.pick(frames)
    return frame


def perhaps_when(draw: Draw, tense: str, verb: Verb) -> list[Part]:
    """Draw a time, or none."""
    if verb.infinitive in STATES or not draw.chance(0.4):
        return []
    return [("when", *when(draw, tense, verb))]


def condition(draw: Draw, doer: Phrase, tense: str, timed=0.0, denied=0.25) -> Clause:
    """Draw a state: *is tired*, *has no time*, *is at home*, *lives in Berlin*; or an action, where none fits."""
    chance = draw.random()
    if tense not in ("present", "past"):
        return clause(draw, doer, tense, timed=timed)
    negated = draw.chance(denied) and not doer.en.startswith("all ")
    if chance < 0.35:
        mood = draw.pick(ADJECTIVES_OF["moods"])
        return build(doer, VERBS["sein"], tense, [("predicate", mood[0], mood[1])], negated)
    if chance < 0.45:
        return build(doer, VERBS["haben"], tense, [("new", "time", "keine Zeit" if negated else "Zeit")], negated)
    if chance < 0.55:
        spot_en, spot_de = draw.pick((("at home", "zu Hause"), ("at school", "in der Schule"), ("", "")))
        if not spot_en:
            spot_en, spot_de = (f"in {name}" for name in city(draw))
        return build(doer, VERBS["sein"], tense, [("predicate", spot_en, spot_de)], negated)
    if chance < 0.63:
        en, de = city(draw)
        return build(doer, VERBS["wohnen"], tense, [("predicate", f"in {en}", f"in {de}")], negated)
    if chance < 0.7:
        owned = thing(draw, draw.pick(("vehicle", "animal", "thing")), doer)
        if not owned.definite:
            return build(doer, VERBS["haben"], tense, [object_part(owned, negated)], negated)
    return clause(draw, doer, tense, negated, timed)


def same_or_other(draw: Draw, doer: Phrase) -> Phrase:
    """Draw the subject of a second clause: mostly the pronoun for the first."""
    pronoun = PRONOUN_OF.get(doer.gender)
    return pronoun if pronoun and draw.chance(0.6) else subject(draw)


def relative(draw: Draw, head: Phrase, pronoun: str, tense: str) -> Pair:
    """Draw a relative clause in which the head acts: *who lives in Berlin*, *der in Berlin wohnt*."""
    german = RELATIVES[head.gender]
    doer = Phrase(pronoun, pronoun, *german, head.person, head.gender)
    return subordinate(condition(draw, doer, tense) if draw.chance(0.6) else clause(draw, doer, tense))


def relative_object(draw: Draw, head: Phrase, kind: str, tense: str) -> Pair:
    """Draw a relative clause in which something is done to the head: *that Anna bought*, *das Anna gekauft hat*."""
    doer = subject(draw)
    if kind == "person":  # Only the dative tells in German who does it to whom: "die Frau, der Anna hilft".
        verb = fitting(draw, FRAMES["dative"], tense, doer).verb
        return subordinate(build(doer, verb, tense, []), ("whom", RELATIVES[head.gender][2]))
    frame = fitting(draw, TAKING[kind], tense, doer)
    parts = [("where", *where(draw, frame.places))] if frame.places and draw.chance(0.3) else []
    return subordinate(build(doer, frame.verb, tense, parts), ("that", RELATIVES[head.gender][1]))
