"""Kinds of sentences of the pocket corpus that state a fact.

The facts are numbers, timetables, places, comparisons, possessions, professions and cities.
"""

from pocket.grammar import (
    PRONOUN_OF,
    build,
    declarative,
    finish,
    interrogative,
    noun_phrase,
    prepositional,
    statement,
)
from pocket.lexicon import ADJECTIVES_OF, FRAMES, NOUNS, PLACES, VERBS, Pair
from pocket.numbers import number_words
from pocket.phrases import (
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
from pocket.scenes import NOT_PRESENT, surface

COUNTED_KINDS = (
    ("relatives", "relatives"),
    ("animal", "animal"),
    ("animal", "vehicle"),
    ("clothing", "clothing"),
)
PERIODS = (("days", "Tage"), ("weeks", "Wochen"), ("months", "Monate"), ("years", "Jahre"))


def counted(draw: Draw) -> Pair:
    """Draws a sentence with a number: an age, a price, pages, a family."""
    number = draw.between(2, 999)
    chance = draw.random()
    if chance < 0.25:
        return _age(draw)
    kind = draw.pick(("page",) if chance < 0.45 else ("thing", "clothing", "device"))
    phrase = described(draw, kind, draw.pick(("the", "this", "my", "your")), False, 0.5)
    if chance < 0.7:
        if number % 100 == 1:  # both "hunderteins Seiten" and "hunderteine Seite" are in use
            number += 1
        en, de = number_words(number)
        if kind == "page":
            pages = ("new", f"{en} pages", f"{de} Seiten")
            return declarative(build(phrase, VERBS["haben"], "present", [pages]))
        price = ("new", f"{en} euros", f"{de} Euro")
        return declarative(build(phrase, VERBS["kosten"], "present", [price]))
    doer = subject(draw)
    left, right = (
        described(draw, kind, draw.between(2, 12), True, 0.2) for kind in draw.pick(COUNTED_KINDS)
    )
    if left.en.split()[-1] == right.en.split()[-1]:  # the same noun twice
        return counted(draw)
    both = ("new", f"{left.en} and {right.en}", f"{left.acc} und {right.acc}")
    return declarative(build(doer, VERBS["haben"], "present", [both]))


def _age(draw: Draw) -> Pair:
    doer = person_name(draw) if draw.chance(0.7) else PRONOUN_OF["f"]
    if doer.gender == "p":
        doer = PRONOUN_OF["m"]
    en, de = number_words(draw.between(18, 99))
    age = ("predicate", f"{en} years old", f"{de} Jahre alt")
    return declarative(build(doer, VERBS["sein"], "present", [age]))


def scheduled(draw: Draw) -> Pair:
    """Draws an entry of a timetable: *The train from Berlin arrives at ten past three.*"""
    frame = draw.pick(FRAMES["schedule"])
    kind = frame.kinds[0]
    tense = draw.pick(("present", "present", "past", "future"))
    phrase = described(draw, kind, "the", False, 0.4)
    if kind == "transport" and draw.chance(0.6):
        en, de = city(draw)
        from_en, from_de = draw.pick((("from", "aus"), ("to", "nach")))
        phrase = phrase._replace(
            en=f"{phrase.en} {from_en} {en}", nom=f"{phrase.nom} {from_de} {de}"
        )
    time = draw.pick(CLOCKS) if tense == "present" else when(draw, tense, frame.verb)
    chance = draw.random()
    if chance < 0.25:
        return interrogative(build(phrase, frame.verb, tense, []), ("when", "wann"))
    if chance < 0.4:
        return declarative(build(phrase, frame.verb, tense, []), time)
    return declarative(build(phrase, frame.verb, tense, [("when", *time)]))


def located(draw: Draw) -> Pair:
    """Draws the location of a thing or an animal: *The book lay on the table.*"""
    tense = draw.pick(("present", "past"))
    if draw.chance(0.6):
        frame = draw.pick(FRAMES["position"])
        owner = draw.pick(("the", "my", "your", "this", "our"))
        phrase = described(draw, frame.kinds[0], owner, draw.chance(0.25), 0.4)
        plan = build(phrase, frame.verb, tense, [("predicate", *surface(draw, "dat"))])
    else:
        frame = draw.pick(FRAMES["beast"])
        plural = draw.chance(0.2)
        owner = draw.pick(("the", "my", "your", "our", "" if plural else "a"))
        phrase = described(draw, "animal", owner, plural, 0.4)
        if draw.chance(0.5):
            place = surface(draw, "dat")
        else:
            place = prepositional("in", "in", "dat", spot(draw, "home", PLACES["home"][0]))
        plan = build(phrase, frame.verb, tense, [("where", *place)])
    chance = draw.random()
    if chance < 0.2:
        return interrogative(plan)
    if chance < 0.4:
        return declarative(plan, draw.pick(ATTITUDES))
    return declarative(plan)


def compared(draw: Draw) -> Pair:
    """Draws a comparison: *Anna is older than her brother.*"""
    chance = draw.random()
    if chance < 0.6:
        first = subject(draw)
        en, than_en, de, than_de = draw.pick(COMPARATIVES["person"])
        kind, determiner = draw.pick((("kin", "my"), ("kin", "your"), ("person", "the")))
        second = described(draw, kind, determiner, False, 0.1)
    else:
        en, than_en, de, than_de = draw.pick(COMPARATIVES["thing"])
        first = described(draw, "thing", draw.pick(("the", "this", "my")), False, 0.5)
        second = described(draw, "thing", draw.pick(("the", "your")), False, 0.5)
    part = ("predicate", f"{en} {than_en} {second.en}", f"{de} {than_de} {second.nom}")
    tense = draw.pick(("present", "present", "past"))
    plan = build(first, VERBS["sein"], tense, [part], draw.chance(0.2))
    if chance > 0.9 and not plan.negated:
        return interrogative(plan)
    return declarative(plan)


def owned(draw: Draw) -> Pair:
    """Draws a sentence about what somebody likes or owns.

    With *gefallen*, the German subject is the English object.
    """
    kind = draw.pick(("thing", "clothing", "vehicle"))
    phrase = described(draw, kind, draw.pick(("the", "this")), False, 0.5)
    person = subject(draw)
    negated = draw.chance(0.25)
    if draw.chance(0.5):
        owner = ("dative", person.en_object, person.dat)
        plan = build(phrase, VERBS["gehören"], "present", [owner], negated)
        if draw.chance(0.2) and not negated:
            return interrogative(plan)
        return declarative(plan)
    like = VERBS["gefallen"]
    en, _ = statement(build(person, like, "present", [("object", phrase.en, "")], negated))
    _, de = statement(build(phrase, like, "present", [("dative", "", person.dat)], negated))
    return finish((en, de))


def employed(draw: Draw) -> Pair:
    """Draws a profession, which has no article in German: *My sister is a doctor.*"""
    person = PRONOUN_OF["m"]
    if draw.chance(0.8):
        if draw.chance(0.6):
            person = person_name(draw)
        else:
            person = described(draw, "kin", draw.pick(("my", "your")), False, 0.1)
    if person.gender == "p":
        person = PRONOUN_OF["f"]
    en, masculine, feminine = draw.pick(PROFESSIONS)
    de, article = (masculine, "kein") if person.gender == "m" else (feminine, "keine")
    if draw.chance(0.3):
        part = ("predicate", f"a {en}", de)
        tense = draw.pick(("wish", "want", "past", "future"))
        return declarative(build(person, VERBS["werden"], tense, [part]))
    negated = draw.chance(0.2)
    part = ("new", f"a {en}", f"{article} {de}" if negated else de)
    tense = draw.pick(("present", "present", "past"))
    return declarative(build(person, VERBS["sein"], tense, [part], negated))


def dressed(draw: Draw) -> Pair:
    """Draws what somebody wears, or what an animal eats (German *fressen*)."""
    tense = draw.pick(("present", "past"))
    if draw.chance(0.5):
        phrase = described(draw, "clothing", draw.pick(("a", "a", "the", "my", "your")), False, 0.8)
        clothing = object_part(phrase, False)
        return declarative(build(subject(draw), VERBS["tragen"], tense, [clothing]))
    determiner = draw.pick(("the", "the", "my", "your", "our"))
    animal = described(draw, "animal", determiner, draw.chance(0.3), 0.4)
    kind = draw.pick(("food", "fodder"))
    determiner = draw.pick(("the", "a")) if kind == "food" else ""
    food = object_part(described(draw, kind, determiner, False, 0.3), False)
    eat = VERBS["fressen"]
    first = ("", "")
    if tense == "past" and draw.chance(0.5):
        first = when(draw, tense, eat)
    return declarative(build(animal, eat, tense, [food], first=first))


def around(draw: Draw) -> Pair:
    """Draws a sentence about cities: shops, distances, inhabitants and visits."""
    en, de = city(draw)
    other_en, other_de = city(draw)
    chance = draw.random()
    if chance < 0.25:
        phrase = described(draw, "shop", "a", False, 0.7)
        return finish((f"there is {phrase.en} in {en}", f"in {de} gibt es {phrase.acc}"))
    if chance < 0.45:
        phrase = described(draw, "shop", draw.pick(("many", draw.between(2, 40))), True, 0.5)
        return finish((f"there are {phrase.en} in {en}", f"in {de} gibt es {phrase.acc}"))
    if chance < 0.6:
        number, zahl = number_words(draw.between(20, 999))
        english = f"it is {number} kilometres from {en} to {other_en}"
        german = f"von {de} nach {other_de} sind es {zahl} Kilometer"
        return finish((english, german))
    if chance < 0.7:
        return _home_town(draw, en, de)
    tense = draw.pick(NOT_PRESENT)
    if chance < 0.85:
        number, zahl = number_words(draw.between(2, 20))
        period, zeitraum = draw.pick(PERIODS)
        stay = ("predicate", f"in {en} for {number} {period}", f"{zahl} {zeitraum} in {de}")
        return declarative(build(subject(draw), VERBS["bleiben"], tense, [stay]))
    superlative = draw.pick(ADJECTIVES_OF["best"])
    sight = noun_phrase("the", superlative, draw.pick(NOUNS["shop"][2:]))
    part = ("object", f"{sight.en} in {en}", f"{sight.acc} in {de}")
    visit = VERBS["besuchen"]
    doer = subject(draw)
    return declarative(build(doer, visit, tense, [part], first=when(draw, tense, visit)))


def _home_town(draw: Draw, en: str, de: str) -> Pair:
    verb = draw.pick(("wohnen", "kommen"))
    in_en, in_de = ("in", "in") if verb == "wohnen" else ("from", "aus")
    part = ("predicate", f"{in_en} {en}", f"{in_de} {de}")
    plan = build(subject(draw), VERBS[verb], "present", [part])
    return interrogative(plan) if draw.chance(0.25) else declarative(plan)
