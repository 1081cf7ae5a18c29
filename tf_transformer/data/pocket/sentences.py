"""The kinds of sentences of the pocket corpus: each function draws one pair of its kind."""

from tf_transformer.data.pocket import tables
from tf_transformer.data.pocket.facts import (
    around,
    compared,
    counted,
    dressed,
    employed,
    located,
    owned,
    scheduled,
)
from tf_transformer.data.pocket.grammar import (
    PRONOUN_OF,
    Phrase,
    build,
    finish,
    infinitive,
    predicate,
    question,
    statement,
    subordinate,
)
from tf_transformer.data.pocket.lexicon import FRAMES, VERBS, Pair
from tf_transformer.data.pocket.phrases import (
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
from tf_transformer.data.pocket.scenes import (
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

HOPEFUL = ("present", "future", "can", "may")  # What one can hope for.


def told(draw: Draw) -> Pair:
    """Draw a statement: *Yesterday the teacher bought a book.*"""
    doer, tense = subject(draw), draw.pick(TENSES)
    if draw.chance(0.12):
        return finish(statement(clause(draw, doer, tense), draw.pick(ATTITUDES)))
    return finish(statement(clause(draw, doer, tense, timed=0.8, fronted=0.5)))


def denied(draw: Draw) -> Pair:
    """Draw a negated statement: *The teacher does not buy a book.*"""
    return finish(
        statement(clause(draw, subject(draw), draw.pick(TENSES), True, timed=0.6, fronted=0.5))
    )


def interesting(draw: Draw) -> Phrase:
    """Draw somebody to ask about; hardly anybody asks what he does himself."""
    phrase = subject(draw)
    return PRONOUN_OF["y"] if phrase.person == 0 else phrase


def asked(draw: Draw) -> Pair:
    """Draw a yes/no question: *Did the teacher buy a book?*"""
    tense, doer = draw.pick(TENSES), interesting(draw)
    if draw.chance(0.75):
        return finish(question(clause(draw, doer, tense, timed=0.4)), "?")
    return finish(question(condition(draw, doer, tense, 0.4, denied=0.0)), "?")


def asked_why(draw: Draw) -> Pair:
    """Draw a question that begins with *when* or *why*."""
    tense, doer = draw.pick(TENSES), interesting(draw)
    if draw.chance(0.5):
        return finish(question(clause(draw, doer, tense, kinds=DEEDS), ("when", "wann")), "?")
    return finish(question(clause(draw, doer, tense, timed=0.3), ("why", "warum")), "?")


def asked_where(draw: Draw) -> Pair:
    """Draw a question for a place or a goal: *Where does Anna work?*, *Where did Anna go?*"""
    tense, doer = draw.pick(TENSES), interesting(draw)
    if draw.chance(0.25):
        verb = VERBS[draw.pick(("gehen", "fahren", "fliegen", "laufen"))]
        return finish(
            question(build(doer, verb, tense, perhaps_when(draw, tense, verb)), ("where", "wohin")),
            "?",
        )
    if draw.chance(0.3):
        frame, parts = draw.pick(ALONE), []
    else:
        frame = fitting(draw, PLACED, tense, doer)
        parts = [object_part(affected(draw, frame.kinds, doer), False)]
    plan = build(doer, frame.verb, tense, parts + perhaps_when(draw, tense, frame.verb))
    return finish(question(plan, ("where", "wo")), "?")


def asked_who(draw: Draw) -> Pair:
    """Draw a question for a person: *Who bought the book?*, *Who does Anna help?*"""
    tense = draw.pick(TENSES)
    if draw.chance(0.5):
        return finish(
            statement(clause(draw, Phrase("who", "", "wer", "", "", 2, "?"), tense, timed=0.3)), "?"
        )
    doer = interesting(draw)
    kind = draw.pick(("dative", "object"))
    verb = fitting(draw, FRAMES["dative"] if kind == "dative" else WITH_PERSONS, tense, doer).verb
    plan = build(doer, verb, tense, perhaps_when(draw, tense, verb))
    return finish(question(plan, ("who", "wem" if kind == "dative" else "wen")), "?")


def asked_what(draw: Draw) -> Pair:
    """Draw a question for a thing: *What*, *Which red book*, *How many books did Anna buy?*"""
    tense, doer = draw.pick(TENSES), interesting(draw)
    frame = fitting(draw, WITH_THINGS, tense, doer)
    parts = perhaps_when(draw, tense, frame.verb)
    if frame.places and draw.chance(0.3):
        parts.append(("where", *where(draw, frame.places)))
    plan = build(doer, frame.verb, tense, parts)
    kind = draw.pick(frame.kinds)
    chance = draw.random()
    if chance < 0.4 or kind in tables.MASS_TABLES:
        return finish(question(plan, ("what", "was")), "?")
    if chance < 0.7:
        which = described(draw, kind, "which", False, 0.3)
        return finish(question(plan, (which.en, which.acc)), "?")
    many = described(draw, kind, "many", True, 0.2)
    return finish(question(plan, (f"how {many.en}", f"wie {many.acc}")), "?")


def reasoned(draw: Draw) -> Pair:
    """Draw a main clause with a subordinate clause: *Because it is raining, Anna stays at home.*"""
    doer, tense = subject(draw), draw.pick(TENSES)
    group = tense if tense in CONJUNCTIONS else "future"
    en, de, later = draw.pick(CONJUNCTIONS[group])
    if de in ABOUT_WEATHER and later in WEATHER and draw.chance(0.15):
        weather, wetter = draw.pick(WEATHER[later])
        dependent = f"{en} {weather}", f"{de} {wetter}"
    else:
        other = same_or_other(draw, doer)
        if de in ("bevor", "während", "sobald"):
            plan = clause(draw, other, later, placed=0.2, kinds=EVENTS)
        else:
            plan = condition(draw, other, later, timed=0.1)
        dependent = subordinate(plan, (en, de))
    if draw.chance(0.45):
        first = dependent[0] + ",", dependent[1] + ","
        return finish(statement(clause(draw, doer, tense, placed=0.2, kinds=DEEDS), first))
    main = statement(clause(draw, doer, tense, timed=0.15, placed=0.2, kinds=DEEDS))
    return finish((f"{main[0]} {dependent[0]}", f"{main[1]}, {dependent[1]}"))


def reported(draw: Draw) -> Pair:
    """Draw a clause that is said, believed or not known: *Anna says that ...*, *Do you know why ...?*"""
    doer, tense = subject(draw), draw.pick(TENSES)
    other = same_or_other(draw, doer)
    chance = draw.random()
    if chance < 0.6:
        verb = draw.pick(
            ("sagen", "glauben", "wissen", "hoffen")
            if tense in HOPEFUL
            else ("sagen", "glauben", "wissen")
        )
        en, de = statement(build(doer, VERBS[verb], "present", []))
        inner = subordinate(condition(draw, other, tense, timed=0.25))
        return finish((f"{en} that {inner[0]}", f"{de}, dass {inner[1]}"))
    word, wort = draw.pick(
        (("whether", "ob"), ("whether", "ob"), ("why", "warum"), ("when", "wann"))
    )
    if wort == "wann" and tense == "present":
        tense = "future"
    plan = (
        clause(draw, other, tense) if wort == "wann" else condition(draw, other, tense, timed=0.25)
    )
    inner = subordinate(plan)
    if chance < 0.8:
        en, de = statement(build(doer, VERBS["wissen"], "present", [], True))
        return finish((f"{en} {word} {inner[0]}", f"{de}, {wort} {inner[1]}"))
    en, de = question(build(doer, VERBS["wissen"], "present", []))
    return finish((f"{en} {word} {inner[0]}", f"{de}, {wort} {inner[1]}"), "?")


def related(draw: Draw) -> Pair:
    """Draw a sentence with a relative clause on its subject: *The woman who lives in Berlin sings.*"""
    head = described(draw, "person", "the", draw.chance(0.25), 0.2)
    tense = draw.pick(TENSES)
    earlier = "past" if tense == "past" else draw.pick(("present", "past"))
    if draw.chance(0.7):
        en, de = relative(draw, head, "who", earlier)
    else:
        en, de = relative_object(draw, head, "person", earlier)
    doer = head._replace(en=f"{head.en} {en}", nom=f"{head.nom}, {de},")
    return finish(statement(clause(draw, doer, tense, timed=0.3, fronted=1.0, placed=0.2)))


def related_object(draw: Draw) -> Pair:
    """Draw a sentence with a relative clause on its object: *Anna reads the book that she bought.*"""
    doer, tense = subject(draw), draw.pick(TENSES)
    if draw.chance(0.4):
        frame = fitting(draw, WITH_PERSONS, tense, doer)
        head = described(draw, "person", "the", draw.chance(0.25), 0.2)
        earlier = "past" if tense == "past" else draw.pick(("present", "past"))
        if draw.chance(0.7):
            tail = relative(draw, head, "who", earlier)
        else:
            tail = relative_object(draw, head, "person", earlier)
    else:
        frame = fitting(draw, WITH_THINGS, tense, doer)
        kind = draw.pick(frame.kinds)
        if kind in tables.MASS_TABLES:
            kind = "thing"
            frame = FRAMES["object"][2]
        head = described(draw, kind, draw.pick(("the", "the", "this")), draw.chance(0.25), 0.3)
        tail = relative_object(draw, head, kind, "past")
    first = ("", "")
    if tense != "present" and frame.verb.infinitive not in STATES and draw.chance(0.4):
        first = when(draw, tense, frame.verb)
    en, de = statement(build(doer, frame.verb, tense, [object_part(head, False)], first=first))
    return finish((f"{en} {tail[0]}", f"{de}, {tail[1]}"))


def joined(draw: Draw) -> Pair:
    """Draw two clauses, or two things that one person does: *... and ...*, *..., but ...*"""
    doer, tense = subject(draw), draw.pick(TENSES)
    en, de = statement(clause(draw, doer, tense, timed=0.5, fronted=0.5, placed=0.2, kinds=DEEDS))
    chance = draw.random()
    if chance < 0.5:
        if tense in ("present", "past"):
            other = predicate(clause(draw, doer, tense, placed=0.2, kinds=DEEDS))
        else:  # The modal verb is said only once: "will sing and dance", "wird singen und tanzen".
            plan = clause(draw, doer, "future", placed=0.2, kinds=DEEDS)
            other = f"{plan.form.base} {plan.en}".rstrip(), f"{plan.de} {plan.form.end}".lstrip()
        return finish((f"{en} and {other[0]}", f"{de} und {other[1]}"))
    doer = same_or_other(draw, doer)
    if chance < 0.75:
        other = statement(clause(draw, doer, tense, placed=0.2, kinds=DEEDS))
        return finish((f"{en}, and {other[0]}", f"{de}, und {other[1]}"))
    other = statement(clause(draw, doer, tense, True, kinds=DEEDS))
    return finish((f"{en}, but {other[0]}", f"{de}, aber {other[1]}"))


def intended(draw: Draw) -> Pair:
    """Draw an infinitive clause: *Anna tries to open the door.*, *Anna goes home to sleep.*"""
    doer = subject(draw)
    aim = infinitive(clause(draw, doer, "future", placed=0.2, kinds=AIMS))
    if draw.chance(0.4):
        tense = draw.pick(("present", "past", "past", "future", "must", "wish"))
        first = when(draw, tense, VERBS["gehen"]) if draw.chance(0.3) else ("", "")
        en, de = statement(
            build(doer, VERBS["gehen"], tense, [("whither", *whither(draw, "any"))]), first
        )
        return finish((f"{en} {aim[0]}", f"{de}, um {aim[1]}"))
    verb, tenses = draw.pick(
        (
            ("versuchen", "present past must"),
            ("hoffen", "present"),
            ("vergessen", "past"),
            ("versprechen", "past"),
        )
        + (("beschließen", "past"),)
    )
    tense = draw.pick(tenses.split())
    en, de = statement(build(doer, VERBS[verb], tense, []))
    return finish((f"{en} {aim[0]}", f"{de}, {aim[1]}"))


SENTENCES = (
    (told,) * 11
    + (denied,) * 4
    + (asked,) * 4
    + (asked_what, asked_what, asked_who, asked_where, asked_why)
)
SENTENCES += (
    (reasoned,) * 10 + (reported,) * 4 + (related,) * 3 + (related_object,) * 3 + (joined,) * 5
)
SENTENCES += (intended,) * 3 + (
    counted,
    counted,
    scheduled,
    located,
    compared,
    owned,
    employed,
    dressed,
    around,
)


def sentence(draw: Draw) -> Pair:
    """Draw one sentence pair; it may come again."""
    return draw.pick(SENTENCES)(draw)
