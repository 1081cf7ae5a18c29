"""The kinds of sentences of the pocket corpus: each function draws one pair of its kind."""

from pocket import tables
from pocket.facts import (
    around,
    compared,
    counted,
    dressed,
    employed,
    located,
    owned,
    scheduled,
)
from pocket.grammar import (
    PRONOUN_OF,
    Phrase,
    build,
    declarative,
    finish,
    infinitive,
    interrogative,
    predicate,
    question,
    statement,
    subordinate,
)
from pocket.lexicon import FRAMES, VERBS, Pair
from pocket.phrases import (
    ATTITUDES,
    WEATHER,
    Draw,
    affected,
    described,
    object_part,
    subject,
    when,
    where,
    whither,
)
from pocket.scenes import (
    ABOUT_WEATHER,
    AIMS,
    ALONE,
    CONJUNCTIONS,
    DEEDS,
    EVENTS,
    PLACED,
    STATES,
    TENSES,
    WITH_PERSONS,
    WITH_THINGS,
    clause,
    condition,
    fitting,
    perhaps_when,
    relative,
    relative_object,
    same_or_other,
)

BUY = next(frame for frame in FRAMES["object"] if frame.verb.infinitive == "kaufen")
HOPEFUL = ("present", "future", "can", "may")  # tenses after "hope that"
INTERROGATIVES = (("whether", "ob"), ("whether", "ob"), ("why", "warum"), ("when", "wann"))
# Verbs with an infinitive clause, and their tenses.
INTENTIONS = (
    ("versuchen", ("present", "past", "must")),
    ("hoffen", ("present",)),
    ("vergessen", ("past",)),
    ("versprechen", ("past",)),
    ("beschließen", ("past",)),
)


def told(draw: Draw) -> Pair:
    """Draws a statement: *Yesterday the teacher bought a book.*"""
    doer = subject(draw)
    tense = draw.pick(TENSES)
    if draw.chance(0.12):
        return declarative(clause(draw, doer, tense), draw.pick(ATTITUDES))
    return declarative(clause(draw, doer, tense, timed=0.8, fronted=0.5))


def denied(draw: Draw) -> Pair:
    """Draws a negated statement: *The teacher does not buy a book.*"""
    doer = subject(draw)
    tense = draw.pick(TENSES)
    return declarative(clause(draw, doer, tense, True, timed=0.6, fronted=0.5))


def asked_about(draw: Draw) -> Phrase:
    """Draws the subject of a question: *you* instead of *I*."""
    phrase = subject(draw)
    return PRONOUN_OF["y"] if phrase.person == 0 else phrase


def asked(draw: Draw) -> Pair:
    """Draws a yes/no question: *Did the teacher buy a book?*"""
    tense = draw.pick(TENSES)
    doer = asked_about(draw)
    if draw.chance(0.75):
        return interrogative(clause(draw, doer, tense, timed=0.4))
    return interrogative(condition(draw, doer, tense, 0.4, denied=0.0))


def asked_why(draw: Draw) -> Pair:
    """Draws a question that begins with *when* or *why*."""
    tense = draw.pick(TENSES)
    doer = asked_about(draw)
    if draw.chance(0.5):
        return interrogative(clause(draw, doer, tense, kinds=DEEDS), ("when", "wann"))
    return interrogative(clause(draw, doer, tense, timed=0.3), ("why", "warum"))


def asked_where(draw: Draw) -> Pair:
    """Draws a question for a place or a destination.

    Examples: *Where does Anna work?*, *Where did Anna go?*
    """
    tense = draw.pick(TENSES)
    doer = asked_about(draw)
    if draw.chance(0.25):
        verb = VERBS[draw.pick(("gehen", "fahren", "fliegen", "laufen"))]
        plan = build(doer, verb, tense, perhaps_when(draw, tense, verb))
        return interrogative(plan, ("where", "wohin"))
    if draw.chance(0.3):
        frame = draw.pick(ALONE)
        parts = []
    else:
        frame = fitting(draw, PLACED, tense, doer)
        parts = [object_part(affected(draw, frame.kinds, doer), False)]
    plan = build(doer, frame.verb, tense, parts + perhaps_when(draw, tense, frame.verb))
    return interrogative(plan, ("where", "wo"))


def asked_who(draw: Draw) -> Pair:
    """Draws a question for a person: *Who bought the book?*, *Who does Anna help?*"""
    tense = draw.pick(TENSES)
    if draw.chance(0.5):
        who = Phrase("who", "", "wer", "", "", 2, "?")
        return finish(statement(clause(draw, who, tense, timed=0.3)), "?")
    doer = asked_about(draw)
    case = draw.pick(("dative", "object"))
    frames = FRAMES["dative"] if case == "dative" else WITH_PERSONS
    verb = fitting(draw, frames, tense, doer).verb
    plan = build(doer, verb, tense, perhaps_when(draw, tense, verb))
    return interrogative(plan, ("who", "wem" if case == "dative" else "wen"))


def asked_what(draw: Draw) -> Pair:
    """Draws a question for a thing.

    Examples: *What did Anna buy?*, *Which red book did Anna buy?*, *How many books did Anna buy?*
    """
    tense = draw.pick(TENSES)
    doer = asked_about(draw)
    frame = fitting(draw, WITH_THINGS, tense, doer)
    parts = perhaps_when(draw, tense, frame.verb)
    if frame.places and draw.chance(0.3):
        parts.append(("where", *where(draw, frame.places)))
    plan = build(doer, frame.verb, tense, parts)
    kind = draw.pick(frame.kinds)
    chance = draw.random()
    if chance < 0.4 or kind in tables.MASS_TABLES:
        return interrogative(plan, ("what", "was"))
    if chance < 0.7:
        which = described(draw, kind, "which", False, 0.3)
        return interrogative(plan, (which.en, which.acc))
    many = described(draw, kind, "many", True, 0.2)
    return interrogative(plan, (f"how {many.en}", f"wie {many.acc}"))


def reasoned(draw: Draw) -> Pair:
    """Draws a main clause with a subordinate clause.

    Example: *Because it is raining, Anna stays at home.*
    """
    doer = subject(draw)
    tense = draw.pick(TENSES)
    dependent_en, dependent_de = _adverbial_clause(draw, doer, tense)
    if draw.chance(0.45):
        first = (dependent_en + ",", dependent_de + ",")
        return declarative(clause(draw, doer, tense, placed=0.2, kinds=DEEDS), first)
    en, de = statement(clause(draw, doer, tense, timed=0.15, placed=0.2, kinds=DEEDS))
    return finish((f"{en} {dependent_en}", f"{de}, {dependent_de}"))


def _adverbial_clause(draw: Draw, doer: Phrase, tense: str) -> Pair:
    """Draws a subordinate clause that is compatible with a main clause."""
    en, de, later = draw.pick(CONJUNCTIONS[tense if tense in CONJUNCTIONS else "future"])
    if de in ABOUT_WEATHER and later in WEATHER and draw.chance(0.15):
        weather, wetter = draw.pick(WEATHER[later])
        return f"{en} {weather}", f"{de} {wetter}"
    other = same_or_other(draw, doer)
    if de in ("bevor", "während", "sobald"):
        plan = clause(draw, other, later, placed=0.2, kinds=EVENTS)
    else:
        plan = condition(draw, other, later, timed=0.1)
    return subordinate(plan, (en, de))


def reported(draw: Draw) -> Pair:
    """Draws a reported clause: *Anna says that ...*, *Do you know why ...?*"""
    doer = subject(draw)
    tense = draw.pick(TENSES)
    other = same_or_other(draw, doer)
    chance = draw.random()
    if chance < 0.6:
        verbs: tuple[str, ...] = ("sagen", "glauben", "wissen")
        if tense in HOPEFUL:
            verbs += ("hoffen",)
        en, de = statement(build(doer, VERBS[draw.pick(verbs)], "present", []))
        inner_en, inner_de = subordinate(condition(draw, other, tense, timed=0.25))
        return finish((f"{en} that {inner_en}", f"{de}, dass {inner_de}"))
    word, wort = draw.pick(INTERROGATIVES)
    if wort == "wann":
        plan = clause(draw, other, "future" if tense == "present" else tense)
    else:
        plan = condition(draw, other, tense, timed=0.25)
    inner_en, inner_de = subordinate(plan)
    know = VERBS["wissen"]
    if chance < 0.8:
        mark = "."
        en, de = statement(build(doer, know, "present", [], True))
    else:
        mark = "?"
        en, de = question(build(doer, know, "present", []))
    return finish((f"{en} {word} {inner_en}", f"{de}, {wort} {inner_de}"), mark)


def related(draw: Draw) -> Pair:
    """Draws a sentence whose subject has a relative clause.

    Example: *The woman who lives in Berlin sings.*
    """
    head = described(draw, "person", "the", draw.chance(0.25), 0.2)
    tense = draw.pick(TENSES)
    en, de = _person_relative(draw, head, tense)
    doer = head._replace(en=f"{head.en} {en}", nom=f"{head.nom}, {de},")
    return declarative(clause(draw, doer, tense, timed=0.3, fronted=1.0, placed=0.2))


def _person_relative(draw: Draw, head: Phrase, tense: str) -> Pair:
    """Draws a relative clause on a person, for a main clause in the given tense."""
    earlier = "past" if tense == "past" else draw.pick(("present", "past"))
    if draw.chance(0.7):
        return relative(draw, head, "who", earlier)
    return relative_object(draw, head, "person", earlier)


def related_object(draw: Draw) -> Pair:
    """Draws a sentence whose object has a relative clause.

    Example: *Anna reads the book that she bought.*
    """
    doer = subject(draw)
    tense = draw.pick(TENSES)
    if draw.chance(0.4):
        frame = fitting(draw, WITH_PERSONS, tense, doer)
        head = described(draw, "person", "the", draw.chance(0.25), 0.2)
        inner_en, inner_de = _person_relative(draw, head, tense)
    else:
        frame = fitting(draw, WITH_THINGS, tense, doer)
        kind = draw.pick(frame.kinds)
        if kind in tables.MASS_TABLES:
            kind = "thing"
            frame = BUY
        head = described(draw, kind, draw.pick(("the", "the", "this")), draw.chance(0.25), 0.3)
        inner_en, inner_de = relative_object(draw, head, kind, "past")
    first = ("", "")
    if tense != "present" and frame.verb.infinitive not in STATES and draw.chance(0.4):
        first = when(draw, tense, frame.verb)
    en, de = statement(build(doer, frame.verb, tense, [object_part(head, False)], first=first))
    return finish((f"{en} {inner_en}", f"{de}, {inner_de}"))


def joined(draw: Draw) -> Pair:
    """Draws two coordinated clauses or predicates: *... and ...*, *..., but ...*"""
    doer = subject(draw)
    tense = draw.pick(TENSES)
    en, de = statement(clause(draw, doer, tense, timed=0.5, fronted=0.5, placed=0.2, kinds=DEEDS))
    chance = draw.random()
    if chance < 0.5:
        second_en, second_de = _second_predicate(draw, doer, tense)
        return finish((f"{en} and {second_en}", f"{de} und {second_de}"))
    doer = same_or_other(draw, doer)
    if chance < 0.75:
        second_en, second_de = statement(clause(draw, doer, tense, placed=0.2, kinds=DEEDS))
        return finish((f"{en}, and {second_en}", f"{de}, und {second_de}"))
    second_en, second_de = statement(clause(draw, doer, tense, True, kinds=DEEDS))
    return finish((f"{en}, but {second_en}", f"{de}, aber {second_de}"))


def _second_predicate(draw: Draw, doer: Phrase, tense: str) -> Pair:
    if tense in ("present", "past"):
        return predicate(clause(draw, doer, tense, placed=0.2, kinds=DEEDS))
    # The modal verb is not repeated: "will sing and dance", "wird singen und tanzen".
    plan = clause(draw, doer, "future", placed=0.2, kinds=DEEDS)
    return f"{plan.form.base} {plan.en}".rstrip(), f"{plan.de} {plan.form.end}".lstrip()


def intended(draw: Draw) -> Pair:
    """Draws a sentence with an infinitive clause.

    Examples: *Anna tries to open the door.*, *Anna goes home to sleep.*
    """
    doer = subject(draw)
    aim_en, aim_de = infinitive(clause(draw, doer, "future", placed=0.2, kinds=AIMS))
    if draw.chance(0.4):
        go = VERBS["gehen"]
        tense = draw.pick(("present", "past", "past", "future", "must", "wish"))
        first = when(draw, tense, go) if draw.chance(0.3) else ("", "")
        plan = build(doer, go, tense, [("whither", *whither(draw, "any"))])
        en, de = statement(plan, first)
        return finish((f"{en} {aim_en}", f"{de}, um {aim_de}"))
    verb, tenses = draw.pick(INTENTIONS)
    en, de = statement(build(doer, VERBS[verb], draw.pick(tenses), []))
    return finish((f"{en} {aim_en}", f"{de}, {aim_de}"))


# Each kind as often as its weight.
SENTENCES = (
    (told,) * 11
    + (denied,) * 4
    + (asked,) * 4
    + (asked_what, asked_what, asked_who, asked_where, asked_why)
    + (reasoned,) * 10
    + (reported,) * 4
    + (related,) * 3
    + (related_object,) * 3
    + (joined,) * 5
    + (intended,) * 3
    + (counted, counted, scheduled, located, compared, owned, employed, dressed, around)
)


def sentence(draw: Draw) -> Pair:
    """Draws one sentence pair. The same pair can occur again."""
    return draw.pick(SENTENCES)(draw)
