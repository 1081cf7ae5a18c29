"""Clauses of the pocket corpus, drawn by chance: what persons do with things.

What is drawn makes sense as far as tables can see to it: people read books and eat apples, and no book is asleep.
"""

from tf_transformer.data.pocket import names
from tf_transformer.data.pocket.grammar import (
    PRONOUN_OF,
    RELATIVES,
    Clause,
    Part,
    Phrase,
    build,
    noun_phrase,
    prepositional,
    subordinate,
)
from tf_transformer.data.pocket.lexicon import (
    ADJECTIVES_OF,
    FRAMES,
    NOUNS,
    VERBS,
    Frame,
    Pair,
    Verb,
)
from tf_transformer.data.pocket.phrases import (
    INSTRUMENTS,
    LANGUAGES,
    OFTEN,
    VEHICLES,
    Draw,
    affected,
    city,
    described,
    human,
    object_part,
    subject,
    thing,
    when,
    where,
    whither,
)

TENSES = (
    ("present",) * 7
    + ("past",) * 6
    + ("future", "future", "can", "may", "should", "wish", "must", "must", "want")
)
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
AIMS = ("object",) * 6 + (
    "dative",
    "giving",
    "giving",
    "about",
)  # What one may go somewhere for, or try to do.
# Main tenses, conjunctions, and the tense of the subordinate clause.
CONJUNCTIONS = {
    "present": (
        ("because", "weil", "present"),
        ("although", "obwohl", "present"),
        ("before", "bevor", "present"),
    )
    + (("because", "weil", "must"), ("because", "weil", "want"), ("while", "während", "present")),
    "past": (
        ("because", "weil", "past"),
        ("although", "obwohl", "past"),
        ("before", "bevor", "past"),
    )
    + (("when", "als", "past"), ("while", "während", "past")),
    "future": (
        ("if", "wenn", "present"),
        ("as soon as", "sobald", "present"),
        ("because", "weil", "want"),
    )
    + (("because", "weil", "must"), ("although", "obwohl", "present")),
}
ABOUT_WEATHER = ("weil", "obwohl", "wenn", "als", "während")


def suits(verb: Verb, tense: str, doer: Phrase) -> bool:
    """Tell whether a verb can stand in a tense: *I read* must not be two tenses, and nobody wants to forget."""
    if tense not in ("present", "past"):
        return verb.infinitive not in STATES and verb.prefix + verb.infinitive not in MISHAPS
    if tense == "present":
        return verb.infinitive not in SURPRISES
    return verb.en != verb.past or doer.person == 2


def action(
    draw: Draw, doer: Phrase, tense: str, negated: bool, kinds: tuple[str, ...]
) -> tuple[Frame, list[Part]]:
    """Draw something that a person does, and the objects that it takes."""
    kind = draw.pick(kinds)
    if kind == "single":
        return (draw.pick(ALONE), []) if negated else hobby(draw)
    frame = draw.pick(FRAMES[kind])
    if not suits(frame.verb, tense, doer) or (
        kinds is not ACTIONS and frame.verb.infinitive in STATES
    ):
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
        phrase = (
            human(draw, doer, frame.case)
            if topic == "human"
            else described(draw, topic, determiner, False, 0.3)
        )
        return frame, [
            ("about", phrase.en_object, prepositional("", frame.german, frame.case, phrase)[1])
        ]
    return frame, movement(draw, frame, doer, negated)


def movement(draw: Draw, frame: Frame, doer: Phrase, negated: bool) -> list[Part]:
    """Draw where something is put, or where somebody goes or travels."""
    verb = frame.verb.infinitive
    if verb in ("legen", "stellen"):
        return [
            object_part(thing(draw, frame.kinds[0], doer, negated), negated),
            ("whither", *surface(draw, "acc")),
        ]
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
    en, de = draw.pick(
        (
            ("on", "auf"),
            ("on", "auf"),
            ("under", "unter"),
            ("next to", "neben"),
            ("behind", "hinter"),
        )
    )
    adjective = draw.pick(ADJECTIVES_OF["furniture"]) if draw.chance(0.25) else None
    return prepositional(en, de, case, noun_phrase("the", adjective, noun))


def hobby(draw: Draw) -> tuple[Frame, list[Part]]:
    """Draw an instrument, a game or a language; German takes no article here."""
    if draw.chance(0.5):
        return Frame(VERBS["spielen"], (), "home", "", "", ""), [
            ("predicate", *draw.pick(INSTRUMENTS))
        ]
    return Frame(VERBS["lernen"], (), "town", "", "", ""), [("predicate", *draw.pick(LANGUAGES))]


def clause(
    draw: Draw,
    doer: Phrase,
    tense: str,
    negated=False,
    timed=0.0,
    fronted=0.0,
    placed=0.35,
    kinds=ACTIONS,
):
    """Draw what a person does, and perhaps when, where and with whom.

    Args:
        draw: the source of chance.
        doer: the subject.
        tense: see :func:`tf_transformer.data.pocket.grammar.conjugate`.
        negated: whether the clause is denied.
        timed: how likely it says when.
        fronted: how likely the time, if there is one, comes first.
        placed: how likely it says where.
        kinds: the kinds of actions to choose from.

    Returns:
        The :class:`~tf_transformer.data.pocket.grammar.Clause`.
    """
    negated = negated and not doer.en.startswith(
        "all "
    )  # "All do not sing" would leave open how many do.
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
    if not negated and verb.prefix + verb.infinitive in names.SOCIABLE and draw.chance(0.15):
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
        return build(
            doer,
            VERBS["haben"],
            tense,
            [("new", "time", "keine Zeit" if negated else "Zeit")],
            negated,
        )
    if chance < 0.55:
        spot_en, spot_de = draw.pick(
            (("at home", "zu Hause"), ("at school", "in der Schule"), ("", ""))
        )
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
    return subordinate(
        condition(draw, doer, tense) if draw.chance(0.6) else clause(draw, doer, tense)
    )


def relative_object(draw: Draw, head: Phrase, kind: str, tense: str) -> Pair:
    """Draw a relative clause in which something is done to the head: *that Anna bought*, *das Anna gekauft hat*."""
    doer = subject(draw)
    if (
        kind == "person"
    ):  # Only the dative tells in German who does it to whom: "die Frau, der Anna hilft".
        verb = fitting(draw, FRAMES["dative"], tense, doer).verb
        return subordinate(build(doer, verb, tense, []), ("whom", RELATIVES[head.gender][2]))
    frame = fitting(draw, TAKING[kind], tense, doer)
    parts = [("where", *where(draw, frame.places))] if frame.places and draw.chance(0.3) else []
    return subordinate(build(doer, frame.verb, tense, parts), ("that", RELATIVES[head.gender][1]))
