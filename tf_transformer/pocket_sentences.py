"""The kinds of sentences of the pocket corpus: each function draws one pair of its kind."""

from tf_transformer import pocket_lexicon as lexicon
from tf_transformer.pocket_grammar import (
    PRONOUN_OF,
    Pair,
    Phrase,
    build,
    infinitive,
    noun_phrase,
    number_words,
    predicate,
    prepositional,
    question,
    statement,
    subordinate,
)
from tf_transformer.pocket_lexicon import ADJECTIVES_OF, FRAMES, NOUNS, PLACES, VERBS
from tf_transformer.pocket_scenes import (
    ABOUT_WEATHER,
    AIMS,
    ALONE,
    ATTITUDES,
    CLOCKS,
    COMPARATIVES,
    CONJUNCTIONS,
    DEEDS,
    EVENTS,
    PLACED,
    PROFESSIONS,
    STATES,
    TENSES,
    WEATHER,
    WITH_PERSONS,
    WITH_THINGS,
    Draw,
    affected,
    city,
    clause,
    condition,
    described,
    fitting,
    object_part,
    perhaps_when,
    person_name,
    relative,
    relative_object,
    same_or_other,
    spot,
    subject,
    surface,
    when,
    where,
    whither,
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
    return finish(statement(clause(draw, subject(draw), draw.pick(TENSES), True, timed=0.6, fronted=0.5)))


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
        return finish(question(build(doer, verb, tense, perhaps_when(draw, tense, verb)), ("where", "wohin")), "?")
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
        return finish(statement(clause(draw, Phrase("who", "", "wer", "", "", 2, "?"), tense, timed=0.3)), "?")
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
    if chance < 0.4 or kind in lexicon.MASS_TABLES:
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
        verb = draw.pick(("sagen", "glauben", "wissen", "hoffen") if tense in HOPEFUL else ("sagen", "glauben", "wissen"))
        en, de = statement(build(doer, VERBS[verb], "present", []))
        inner = subordinate(condition(draw, other, tense, timed=0.25))
        return finish((f"{en} that {inner[0]}", f"{de}, dass {inner[1]}"))
    word, wort = draw.pick((("whether", "ob"), ("whether", "ob"), ("why", "warum"), ("when", "wann")))
    if wort == "wann" and tense == "present":
        tense = "future"
    plan = clause(draw, other, tense) if wort == "wann" else condition(draw, other, tense, timed=0.25)
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
        if kind in lexicon.MASS_TABLES:
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
        en, de = statement(build(doer, VERBS["gehen"], tense, [("whither", *whither(draw, "any"))]), first)
        return finish((f"{en} {aim[0]}", f"{de}, um {aim[1]}"))
    verb, tenses = draw.pick(
        (("versuchen", "present past must"), ("hoffen", "present"), ("vergessen", "past"), ("versprechen", "past"))
        + (("beschließen", "past"),)
    )
    tense = draw.pick(tenses.split())
    en, de = statement(build(doer, VERBS[verb], tense, []))
    return finish((f"{en} {aim[0]}", f"{de}, {aim[1]}"))


def counted(draw: Draw) -> Pair:
    """Draw a sentence with a number: an age, a price, pages, a family."""
    number = draw.between(2, 999)
    chance = draw.random()
    if chance < 0.25:
        doer = person_name(draw) if draw.chance(0.7) else PRONOUN_OF["f"]
        if doer.gender == "p":
            doer = PRONOUN_OF["m"]
        en, de = number_words(draw.between(18, 99))
        return finish(statement(build(doer, VERBS["sein"], "present", [("predicate", f"{en} years old", f"{de} Jahre alt")])))
    kind = draw.pick(("page",) if chance < 0.45 else ("thing", "clothing", "device"))
    phrase = described(draw, kind, draw.pick(("the", "this", "my", "your")), False, 0.5)
    if chance < 0.7:
        if number % 100 == 1:  # "Hunderteins Seiten" or "hunderteine Seite": Germans disagree.
            number += 1
        en, de = number_words(number)
        if kind == "page":
            return finish(statement(build(phrase, VERBS["haben"], "present", [("new", f"{en} pages", f"{de} Seiten")])))
        return finish(statement(build(phrase, VERBS["kosten"], "present", [("new", f"{en} euros", f"{de} Euro")])))
    doer = subject(draw)
    kinds = draw.pick((("relatives", "relatives"), ("animal", "animal"), ("animal", "vehicle"), ("clothing", "clothing")))
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
        phrase = described(draw, "animal", draw.pick(("the", "my", "your", "our", "" if plural else "a")), plural, 0.4)
        place = surface(draw, "dat") if draw.chance(0.5) else prepositional("in", "in", "dat", spot(draw, "home", PLACES["home"][0]))
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
    plan = build(one, VERBS["sein"], draw.pick(("present", "present", "past")), part, draw.chance(0.2))
    return finish(question(plan), "?") if chance > 0.9 and not plan.negated else finish(statement(plan))


def owned(draw: Draw) -> Pair:
    """Draw what pleases somebody or belongs to somebody; with *gefallen* German turns subject and object round."""
    phrase = described(draw, draw.pick(("thing", "clothing", "vehicle")), draw.pick(("the", "this")), False, 0.5)
    person = subject(draw)
    negated = draw.chance(0.25)
    if draw.chance(0.5):
        plan = build(phrase, VERBS["gehören"], "present", [("dative", person.en_object, person.dat)], negated)
        return finish(question(plan), "?") if draw.chance(0.2) and not negated else finish(statement(plan))
    en, _ = statement(build(person, VERBS["gefallen"], "present", [("object", phrase.en, "")], negated))
    _, de = statement(build(phrase, VERBS["gefallen"], "present", [("dative", "", person.dat)], negated))
    return finish((en, de))


def employed(draw: Draw) -> Pair:
    """Draw a profession, which German puts without an article: *My sister is a doctor.*"""
    person = PRONOUN_OF["m"]
    if draw.chance(0.8):
        person = person_name(draw) if draw.chance(0.6) else described(draw, "kin", draw.pick(("my", "your")), False, 0.1)
    if person.gender == "p":
        person = PRONOUN_OF["f"]
    job, man, woman = draw.pick(PROFESSIONS)
    de, article = (man, "kein") if person.gender == "m" else (woman, "keine")
    if draw.chance(0.3):
        part = [("predicate", f"a {job}", de)]
        return finish(statement(build(person, VERBS["werden"], draw.pick(("wish", "want", "past", "future")), part)))
    negated = draw.chance(0.2)
    part = [("new", f"a {job}", f"{article} {de}" if negated else de)]
    return finish(statement(build(person, VERBS["sein"], draw.pick(("present", "present", "past")), part, negated)))


def dressed(draw: Draw) -> Pair:
    """Draw what somebody wears, or what an animal eats (in German, animals have a verb of their own)."""
    tense = draw.pick(("present", "past"))
    if draw.chance(0.5):
        phrase = described(draw, "clothing", draw.pick(("a", "a", "the", "my", "your")), False, 0.8)
        return finish(statement(build(subject(draw), VERBS["tragen"], tense, [object_part(phrase, False)])))
    animal = described(draw, "animal", draw.pick(("the", "the", "my", "your", "our")), draw.chance(0.3), 0.4)
    kind = draw.pick(("food", "fodder"))
    phrase = described(draw, kind, draw.pick(("the", "a")) if kind == "food" else "", False, 0.3)
    first = when(draw, tense, VERBS["fressen"]) if tense == "past" and draw.chance(0.5) else ("", "")
    return finish(statement(build(animal, VERBS["fressen"], tense, [object_part(phrase, False)], first=first)))


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
        return finish((f"it is {number} kilometres from {en} to {far}", f"von {de} nach {weit} sind es {zahl} Kilometer"))
    if chance < 0.7:
        verb = draw.pick(("wohnen", "kommen"))
        part = ("in", "in") if verb == "wohnen" else ("from", "aus")
        plan = build(subject(draw), VERBS[verb], "present", [("predicate", f"{part[0]} {en}", f"{part[1]} {de}")])
        return finish(question(plan), "?") if draw.chance(0.25) else finish(statement(plan))
    tense = draw.pick(TENSES[7:])
    if chance < 0.85:
        number, zahl = number_words(draw.between(2, 20))
        span, spanne = draw.pick((("days", "Tage"), ("weeks", "Wochen"), ("months", "Monate"), ("years", "Jahre")))
        part = [("predicate", f"in {en} for {number} {span}", f"{zahl} {spanne} in {de}")]
        return finish(statement(build(subject(draw), VERBS["bleiben"], tense, part)))
    best = draw.pick(ADJECTIVES_OF["best"])
    sight = noun_phrase("the", best, draw.pick(NOUNS["shop"][2:]))
    part = ("object", f"{sight.en} in {en}", f"{sight.acc} in {de}")
    visit = VERBS["besuchen"]
    return finish(statement(build(subject(draw), visit, tense, [part], first=when(draw, tense, visit))))


def finish(pair: Pair, mark: str = ".") -> Pair:
    """Begin a pair with capital letters and end it with a mark."""
    en, de = pair
    de = de.rstrip(",")  # A relative clause may have come last.
    return en[0].upper() + en[1:] + mark, de[0].upper() + de[1:] + mark


SENTENCES = (told,) * 11 + (denied,) * 4 + (asked,) * 4 + (asked_what, asked_what, asked_who, asked_where, asked_why)
SENTENCES += (reasoned,) * 10 + (reported,) * 4 + (related,) * 3 + (related_object,) * 3 + (joined,) * 5
SENTENCES += (intended,) * 3 + (counted, counted, scheduled, located, compared, owned, employed, dressed, around)


def sentence(draw: Draw) -> Pair:
    """Draw one sentence pair; it may come again."""
    return draw.pick(SENTENCES)(draw)
