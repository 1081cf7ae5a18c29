"""Kinds of sentences of the pocket corpus that state a fact: numbers, hours, places, comparisons, possessions."""

from tf_transformer.data.pocket.grammar import (
    PRONOUN_OF,
    build,
    finish,
    noun_phrase,
    prepositional,
    question,
    statement,
)
from tf_transformer.data.pocket.lexicon import ADJECTIVES_OF, FRAMES, NOUNS, PLACES, VERBS, Pair
from tf_transformer.data.pocket.numbers import number_words
from tf_transformer.data.pocket.phrases import (
    ATTITUDES,
    CLOCKS,
    COMPARATIVES,
    PROFESSIONS,
    Draw,
    city,
    described,
    object_part,
    person_name,
    spot,
    subject,
    when,
)
from tf_transformer.data.pocket.scenes import TENSES, surface


def counted(draw: Draw) -> Pair:
    """Draw a sentence with a number: an age, a price, pages, a family."""
    number = draw.between(2, 999)
    chance = draw.random()
    if chance < 0.25:
        doer = person_name(draw) if draw.chance(0.7) else PRONOUN_OF["f"]
        if doer.gender == "p":
            doer = PRONOUN_OF["m"]
        en, de = number_words(draw.between(18, 99))
        return finish(
            statement(
                build(
                    doer,
                    VERBS["sein"],
                    "present",
                    [("predicate", f"{en} years old", f"{de} Jahre alt")],
                )
            )
        )
    kind = draw.pick(("page",) if chance < 0.45 else ("thing", "clothing", "device"))
    phrase = described(draw, kind, draw.pick(("the", "this", "my", "your")), False, 0.5)
    if chance < 0.7:
        if number % 100 == 1:  # "Hunderteins Seiten" or "hunderteine Seite": Germans disagree.
            number += 1
        en, de = number_words(number)
        if kind == "page":
            return finish(
                statement(
                    build(
                        phrase, VERBS["haben"], "present", [("new", f"{en} pages", f"{de} Seiten")]
                    )
                )
            )
        return finish(
            statement(
                build(phrase, VERBS["kosten"], "present", [("new", f"{en} euros", f"{de} Euro")])
            )
        )
    doer = subject(draw)
    kinds = draw.pick(
        (
            ("relatives", "relatives"),
            ("animal", "animal"),
            ("animal", "vehicle"),
            ("clothing", "clothing"),
        )
    )
    one, two = (described(draw, kind, draw.between(2, 12), True, 0.2) for kind in kinds)
    if one.en.split()[-1] == two.en.split()[-1]:  # Nobody counts the same things twice.
        return counted(draw)
    both = [("new", f"{one.en} and {two.en}", f"{one.acc} und {two.acc}")]
    return finish(statement(build(doer, VERBS["haben"], "present", both)))


def scheduled(draw: Draw) -> Pair:
    """Draw a timetable: *The train from Berlin arrives at ten past three.*"""
    frame = draw.pick(FRAMES["schedule"])
    kind, tense = frame.kinds[0], draw.pick(("present", "present", "past", "future"))
    phrase = described(draw, kind, "the", False, 0.4)
    if kind == "transport" and draw.chance(0.6):
        (en, de), (sort, art) = city(draw), draw.pick((("from", "aus"), ("to", "nach")))
        phrase = phrase._replace(en=f"{phrase.en} {sort} {en}", nom=f"{phrase.nom} {art} {de}")
    time = draw.pick(CLOCKS) if tense == "present" else when(draw, tense, frame.verb)
    chance = draw.random()
    if chance < 0.25:
        return finish(question(build(phrase, frame.verb, tense, []), ("when", "wann")), "?")
    if chance < 0.4:
        return finish(statement(build(phrase, frame.verb, tense, []), time))
    return finish(statement(build(phrase, frame.verb, tense, [("when", *time)])))


def located(draw: Draw) -> Pair:
    """Draw where a thing or an animal is: *The book lay on the table.*"""
    tense = draw.pick(("present", "past"))
    if draw.chance(0.6):
        frame = draw.pick(FRAMES["position"])
        owner = draw.pick(("the", "my", "your", "this", "our"))
        phrase = described(draw, frame.kinds[0], owner, draw.chance(0.25), 0.4)
        plan = build(phrase, frame.verb, tense, [("predicate", *surface(draw, "dat"))])
    else:
        frame = draw.pick(FRAMES["beast"])
        plural = draw.chance(0.2)
        phrase = described(
            draw,
            "animal",
            draw.pick(("the", "my", "your", "our", "" if plural else "a")),
            plural,
            0.4,
        )
        place = (
            surface(draw, "dat")
            if draw.chance(0.5)
            else prepositional("in", "in", "dat", spot(draw, "home", PLACES["home"][0]))
        )
        plan = build(phrase, frame.verb, tense, [("where", *place)])
    chance = draw.random()
    if chance < 0.2:
        return finish(question(plan), "?")
    return finish(statement(plan, draw.pick(ATTITUDES)) if chance < 0.4 else statement(plan))


def compared(draw: Draw) -> Pair:
    """Draw a comparison: *Anna is older than her brother.*"""
    chance = draw.random()
    if chance < 0.6:
        one, (en, als_en, de, als) = subject(draw), draw.pick(COMPARATIVES["person"])
        kind, determiner = draw.pick((("kin", "my"), ("kin", "your"), ("person", "the")))
        two = described(draw, kind, determiner, False, 0.1)
    else:
        en, als_en, de, als = draw.pick(COMPARATIVES["thing"])
        one = described(draw, "thing", draw.pick(("the", "this", "my")), False, 0.5)
        two = described(draw, "thing", draw.pick(("the", "your")), False, 0.5)
    part = [("predicate", f"{en} {als_en} {two.en}", f"{de} {als} {two.nom}")]
    plan = build(
        one, VERBS["sein"], draw.pick(("present", "present", "past")), part, draw.chance(0.2)
    )
    return (
        finish(question(plan), "?")
        if chance > 0.9 and not plan.negated
        else finish(statement(plan))
    )


def owned(draw: Draw) -> Pair:
    """Draw what pleases somebody or belongs to somebody; with *gefallen* German turns subject and object round."""
    phrase = described(
        draw, draw.pick(("thing", "clothing", "vehicle")), draw.pick(("the", "this")), False, 0.5
    )
    person = subject(draw)
    negated = draw.chance(0.25)
    if draw.chance(0.5):
        plan = build(
            phrase, VERBS["gehören"], "present", [("dative", person.en_object, person.dat)], negated
        )
        return (
            finish(question(plan), "?")
            if draw.chance(0.2) and not negated
            else finish(statement(plan))
        )
    en, _ = statement(
        build(person, VERBS["gefallen"], "present", [("object", phrase.en, "")], negated)
    )
    _, de = statement(
        build(phrase, VERBS["gefallen"], "present", [("dative", "", person.dat)], negated)
    )
    return finish((en, de))


def employed(draw: Draw) -> Pair:
    """Draw a profession, which German puts without an article: *My sister is a doctor.*"""
    person = PRONOUN_OF["m"]
    if draw.chance(0.8):
        person = (
            person_name(draw)
            if draw.chance(0.6)
            else described(draw, "kin", draw.pick(("my", "your")), False, 0.1)
        )
    if person.gender == "p":
        person = PRONOUN_OF["f"]
    job, man, woman = draw.pick(PROFESSIONS)
    de, article = (man, "kein") if person.gender == "m" else (woman, "keine")
    if draw.chance(0.3):
        part = [("predicate", f"a {job}", de)]
        return finish(
            statement(
                build(person, VERBS["werden"], draw.pick(("wish", "want", "past", "future")), part)
            )
        )
    negated = draw.chance(0.2)
    part = [("new", f"a {job}", f"{article} {de}" if negated else de)]
    return finish(
        statement(
            build(person, VERBS["sein"], draw.pick(("present", "present", "past")), part, negated)
        )
    )


def dressed(draw: Draw) -> Pair:
    """Draw what somebody wears, or what an animal eats (in German, animals have a verb of their own)."""
    tense = draw.pick(("present", "past"))
    if draw.chance(0.5):
        phrase = described(draw, "clothing", draw.pick(("a", "a", "the", "my", "your")), False, 0.8)
        return finish(
            statement(build(subject(draw), VERBS["tragen"], tense, [object_part(phrase, False)]))
        )
    animal = described(
        draw, "animal", draw.pick(("the", "the", "my", "your", "our")), draw.chance(0.3), 0.4
    )
    kind = draw.pick(("food", "fodder"))
    phrase = described(draw, kind, draw.pick(("the", "a")) if kind == "food" else "", False, 0.3)
    first = (
        when(draw, tense, VERBS["fressen"]) if tense == "past" and draw.chance(0.5) else ("", "")
    )
    return finish(
        statement(build(animal, VERBS["fressen"], tense, [object_part(phrase, False)], first=first))
    )


def around(draw: Draw) -> Pair:
    """Draw something about cities: what there is, how far they are, who comes from there or stays."""
    (en, de), (far, weit) = city(draw), city(draw)
    chance = draw.random()
    if chance < 0.25:
        phrase = described(draw, "shop", "a", False, 0.7)
        return finish((f"there is {phrase.en} in {en}", f"in {de} gibt es {phrase.acc}"))
    if chance < 0.45:
        phrase = described(draw, "shop", draw.pick(("many", draw.between(2, 40))), True, 0.5)
        return finish((f"there are {phrase.en} in {en}", f"in {de} gibt es {phrase.acc}"))
    if chance < 0.6:
        number, zahl = number_words(draw.between(20, 999))
        return finish(
            (
                f"it is {number} kilometres from {en} to {far}",
                f"von {de} nach {weit} sind es {zahl} Kilometer",
            )
        )
    if chance < 0.7:
        verb = draw.pick(("wohnen", "kommen"))
        part = ("in", "in") if verb == "wohnen" else ("from", "aus")
        plan = build(
            subject(draw),
            VERBS[verb],
            "present",
            [("predicate", f"{part[0]} {en}", f"{part[1]} {de}")],
        )
        return finish(question(plan), "?") if draw.chance(0.25) else finish(statement(plan))
    tense = draw.pick(TENSES[7:])
    if chance < 0.85:
        number, zahl = number_words(draw.between(2, 20))
        span, spanne = draw.pick(
            (("days", "Tage"), ("weeks", "Wochen"), ("months", "Monate"), ("years", "Jahre"))
        )
        part = [("predicate", f"in {en} for {number} {span}", f"{zahl} {spanne} in {de}")]
        return finish(statement(build(subject(draw), VERBS["bleiben"], tense, part)))
    best = draw.pick(ADJECTIVES_OF["best"])
    sight = noun_phrase("the", best, draw.pick(NOUNS["shop"][2:]))
    part = ("object", f"{sight.en} in {en}", f"{sight.acc} in {de}")
    visit = VERBS["besuchen"]
    return finish(
        statement(build(subject(draw), visit, tense, [part], first=when(draw, tense, visit)))
    )
