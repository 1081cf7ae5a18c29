"""Random clauses of the pocket corpus: the actions and states of persons.

Each verb takes only the kinds of nouns that its table lists, so most clauses make sense: people
read books and eat apples, and books do not sleep.
"""

from pocket import names
from pocket.grammar import (
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
from pocket.lexicon import (
    ADJECTIVES_OF,
    FRAMES,
    NOUNS,
    VERBS,
    Frame,
    Pair,
    Verb,
)
from pocket.phrases import (
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

MODAL_TENSES = ("future", "future", "can", "may", "should", "wish", "must", "must", "want")
NOT_PRESENT = ("past",) * 6 + MODAL_TENSES
TENSES = ("present",) * 7 + NOT_PRESENT
# Kinds of actions: keys of FRAMES, each as often as its weight.
DEEDS = (
    ("alone",) * 3
    + ("object",) * 7
    + ("dative",) * 2
    + ("giving",) * 3
    + ("about",) * 2
    + ("placing", "motion", "journey")
)
ACTIONS = DEEDS + ("single",)
EVENTS = ("alone", "alone", "object", "object", "giving", "motion", "journey")
AIMS = ("object",) * 6 + ("dative", "giving", "giving", "about")  # purposes and attempts
# Verbs of states and of involuntary events have no modal tenses; those of surprises, no present.
STATES = ("kennen", "lieben", "brauchen", "vertrauen")
MISHAPS = ("verlieren", "vergessen", "aufwachen", "einschlafen", "träumen", "erinnern")
SURPRISES = ("verlieren", "vergessen", "finden")
ALONE = FRAMES["alone"][:7]
PLACED = tuple(frame for frame in FRAMES["object"] if frame.places)
WITH_PERSONS = tuple(frame for frame in FRAMES["object"] if "human" in frame.kinds)
WITH_THINGS = tuple(frame for frame in FRAMES["object"] if "human" not in frame.kinds)
TAKING = {kind: tuple(frame for frame in FRAMES["object"] if kind in frame.kinds) for kind in NOUNS}
# Tense of the main clause -> conjunctions and the tense of the subordinate clause.
CONJUNCTIONS = {
    "present": (
        ("because", "weil", "present"),
        ("although", "obwohl", "present"),
        ("before", "bevor", "present"),
        ("because", "weil", "must"),
        ("because", "weil", "want"),
        ("while", "während", "present"),
    ),
    "past": (
        ("because", "weil", "past"),
        ("although", "obwohl", "past"),
        ("before", "bevor", "past"),
        ("when", "als", "past"),
        ("while", "während", "past"),
    ),
    "future": (
        ("if", "wenn", "present"),
        ("as soon as", "sobald", "present"),
        ("because", "weil", "want"),
        ("because", "weil", "must"),
        ("although", "obwohl", "present"),
    ),
}
ABOUT_WEATHER = ("weil", "obwohl", "wenn", "als", "während")
SURFACES = (
    ("on", "auf"),
    ("on", "auf"),
    ("under", "unter"),
    ("next to", "neben"),
    ("behind", "hinter"),
)


def suits(verb: Verb, tense: str, doer: Phrase) -> bool:
    """Returns whether a verb can have a tense.

    Forms that could be two tenses, such as *I read*, are excluded.
    """
    if tense not in ("present", "past"):
        return verb.infinitive not in STATES and verb.dictionary_form not in MISHAPS
    if tense == "present":
        return verb.infinitive not in SURPRISES
    return verb.en != verb.past or doer.person == 2


def action(
    draw: Draw, doer: Phrase, tense: str, negated: bool, kinds: tuple[str, ...]
) -> tuple[Frame, list[Part]]:
    """Draws an action and its objects."""
    kind = draw.pick(kinds)
    if kind == "single":
        return (draw.pick(ALONE), []) if negated else hobby(draw)
    frame = draw.pick(FRAMES[kind])
    is_state = frame.verb.infinitive in STATES
    if not suits(frame.verb, tense, doer) or (kinds is not ACTIONS and is_state):
        return draw.pick(ALONE), []
    if kind == "alone":
        return frame, []
    if kind == "object":
        return frame, [object_part(affected(draw, frame.kinds, doer, negated), negated)]
    if kind == "dative":
        person = human(draw, doer, "dat")
        return frame, [("dative", person.en_object, person.dat)]
    if kind == "giving":
        return frame, _recipient_and_object(draw, frame, doer, negated)
    if kind == "about":
        return frame, [_topic(draw, frame, doer)]
    return frame, movement(draw, frame, doer, negated)


def _recipient_and_object(draw: Draw, frame: Frame, doer: Phrase, negated: bool) -> list[Part]:
    person = human(draw, doer, "dat")
    given = object_part(thing(draw, draw.pick(frame.kinds), doer, negated), negated)
    if frame.english:
        return [("recipient", f"to {person.en_object}", person.dat), given]
    return [("dative", person.en_object, person.dat), given]


def _topic(draw: Draw, frame: Frame, doer: Phrase) -> Part:
    kind = draw.pick(frame.kinds)
    determiner = draw.pick(("the", "the", "this", "my", "your", "a"))
    if kind == "human":
        phrase = human(draw, doer, frame.case)
    else:
        phrase = described(draw, kind, determiner, False, 0.3)
    _, de = prepositional("", frame.german, frame.case, phrase)
    return "about", phrase.en_object, de


def movement(draw: Draw, frame: Frame, doer: Phrase, negated: bool) -> list[Part]:
    """Draws where somebody puts a thing, goes or travels."""
    verb = frame.verb.infinitive
    if verb in ("legen", "stellen"):
        placed = object_part(thing(draw, frame.kinds[0], doer, negated), negated)
        return [placed, ("whither", *surface(draw, "acc"))]
    if verb in ("gehen", "laufen"):
        return [("whither", *whither(draw, frame.places))]
    en, de = city(draw)
    parts = [("whither", f"to {en}", f"nach {de}")]
    if verb == "fahren" and draw.chance(0.6):
        parts.append(("how", *draw.pick(VEHICLES)))
    return parts


def surface(draw: Draw, case: str) -> Pair:
    """Draws a place at a piece of furniture: *on the table*, *under the bed*.

    Args:
      draw: the source of randomness.
      case: "dat" for a location, "acc" for a direction.
    """
    noun = draw.pick(NOUNS["furniture"])
    en, de = draw.pick(SURFACES)
    adjective = draw.pick(ADJECTIVES_OF["furniture"]) if draw.chance(0.25) else None
    return prepositional(en, de, case, noun_phrase("the", adjective, noun))


def hobby(draw: Draw) -> tuple[Frame, list[Part]]:
    """Draws an instrument, a game or a language, which have no article in German."""
    if draw.chance(0.5):
        frame = Frame(VERBS["spielen"], (), "home", "", "", "")
        return frame, [("predicate", *draw.pick(INSTRUMENTS))]
    frame = Frame(VERBS["lernen"], (), "town", "", "", "")
    return frame, [("predicate", *draw.pick(LANGUAGES))]


def clause(
    draw: Draw,
    doer: Phrase,
    tense: str,
    negated: bool = False,
    timed: float = 0.0,
    fronted: float = 0.0,
    placed: float = 0.35,
    kinds: tuple[str, ...] = ACTIONS,
) -> Clause:
    """Draws an action of a person, and perhaps its time, its place and a companion.

    Args:
      draw: the source of randomness.
      doer: the subject.
      tense: as in `conjugate`.
      negated: whether the clause is negated.
      timed: the probability of a time.
      fronted: the probability that the time comes first.
      placed: the probability of a place.
      kinds: the kinds of actions to choose from.
    """
    # "All do not sing" would be ambiguous.
    negated = negated and not doer.en.startswith("all ")
    frame, parts = action(draw, doer, tense, negated, kinds)
    verb = frame.verb
    if verb.infinitive in STATES:
        return build(doer, verb, tense, parts, negated)
    first = ("", "")
    adverb = ("", "")
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
    if not negated and verb.dictionary_form in names.SOCIABLE and draw.chance(0.15):
        parts += _companion(draw, doer, parts)
    return build(doer, verb, tense, parts, negated, adverb, first)


def _companion(draw: Draw, doer: Phrase, parts: list[Part]) -> list[Part]:
    """Draws a companion, or none where the other parts exclude it."""
    companion = human(draw, doer, "dat")
    if not companion.acc or any(slot in ("about", "how") for slot, _, _ in parts):
        return []
    preposition = ("without", "ohne", "acc") if draw.chance(0.25) else ("with", "mit", "dat")
    return [("with", *prepositional(*preposition, companion))]


def fitting(draw: Draw, frames: tuple[Frame, ...], tense: str, doer: Phrase) -> Frame:
    """Draws a verb that is compatible with a tense and a subject."""
    frame = draw.pick(frames)
    while not suits(frame.verb, tense, doer):
        frame = draw.pick(frames)
    return frame


def perhaps_when(draw: Draw, tense: str, verb: Verb) -> list[Part]:
    """Draws a time, or none."""
    if verb.infinitive in STATES or not draw.chance(0.4):
        return []
    return [("when", *when(draw, tense, verb))]


def condition(
    draw: Draw, doer: Phrase, tense: str, timed: float = 0.0, denied: float = 0.25
) -> Clause:
    """Draws a state: *is tired*, *has no time*, *is at home*, *lives in Berlin*.

    In a modal tense, and with some probability in the others, it draws an action instead.

    Args:
      draw: the source of randomness.
      doer: the subject.
      tense: as in `conjugate`.
      timed: the probability that an action has a time.
      denied: the probability of a negation.
    """
    chance = draw.random()
    if tense not in ("present", "past"):
        return clause(draw, doer, tense, timed=timed)
    negated = draw.chance(denied) and not doer.en.startswith("all ")
    if chance < 0.35:
        en, de, _ = draw.pick(ADJECTIVES_OF["moods"])
        return build(doer, VERBS["sein"], tense, [("predicate", en, de)], negated)
    if chance < 0.45:
        time = ("new", "time", "keine Zeit" if negated else "Zeit")
        return build(doer, VERBS["haben"], tense, [time], negated)
    if chance < 0.55:
        en, de = draw.pick((("at home", "zu Hause"), ("at school", "in der Schule"), ("", "")))
        if not en:
            en, de = (f"in {name}" for name in city(draw))
        return build(doer, VERBS["sein"], tense, [("predicate", en, de)], negated)
    if chance < 0.63:
        en, de = city(draw)
        return build(doer, VERBS["wohnen"], tense, [("predicate", f"in {en}", f"in {de}")], negated)
    if chance < 0.7:
        owned = thing(draw, draw.pick(("vehicle", "animal", "thing")), doer)
        if not owned.definite:
            return build(doer, VERBS["haben"], tense, [object_part(owned, negated)], negated)
    return clause(draw, doer, tense, negated, timed)


def same_or_other(draw: Draw, doer: Phrase) -> Phrase:
    """Draws the subject of a second clause; most often it is the pronoun for the first subject."""
    pronoun = PRONOUN_OF.get(doer.gender)
    return pronoun if pronoun and draw.chance(0.6) else subject(draw)


def relative(draw: Draw, head: Phrase, pronoun: str, tense: str) -> Pair:
    """Draws a relative clause whose subject is the head.

    Example: *who lives in Berlin*, *der in Berlin wohnt*.
    """
    doer = Phrase(pronoun, pronoun, *RELATIVES[head.gender], head.person, head.gender)
    if draw.chance(0.6):
        return subordinate(condition(draw, doer, tense))
    return subordinate(clause(draw, doer, tense))


def relative_object(draw: Draw, head: Phrase, kind: str, tense: str) -> Pair:
    """Draws a relative clause whose object is the head.

    Example: *that Anna bought*, *das Anna gekauft hat*.
    """
    doer = subject(draw)
    _, accusative, dative = RELATIVES[head.gender]
    if kind == "person":
        # Only the German dative marks who is the object: "die Frau, der Anna hilft".
        verb = fitting(draw, FRAMES["dative"], tense, doer).verb
        return subordinate(build(doer, verb, tense, []), ("whom", dative))
    frame = fitting(draw, TAKING[kind], tense, doer)
    parts = [("where", *where(draw, frame.places))] if frame.places and draw.chance(0.3) else []
    return subordinate(build(doer, frame.verb, tense, parts), ("that", accusative))
