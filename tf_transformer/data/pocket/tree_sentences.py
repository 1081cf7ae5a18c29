"""The kinds of sentences of the pocket treebank: each function draws one raw tree of its kind."""

import re

from tf_transformer.data.pocket.names import MEN, WOMEN
from tf_transformer.data.pocket.tree_clauses import (  # fmt: skip
    BEFORE,
    NOW,
    PERSONS,
    SAID_BEFORE,
    SAID_NOW,
    THINGS,
    clause,
    relative,
    said,
    state,
    stated,
)
from tf_transformer.data.pocket.tree_phrases import (
    PLURAL,
    THIRD,
    Phrase,
    common,
    goal,
    place,
    relabel,
    someone,
    time,
)
from tf_transformer.data.pocket.tree_verbs import (  # fmt: skip
    TENSES,
    action,
    add_adverbials,
    be,
    finite,
    imagined,
    infinitive,
    passive,
    question,
    suits,
    take,
    time_group,
    willed,
)

DEEDS = ("alone", "object", "object", "object", "giving", "motion", "journey")
CONJUNCTIONS = (
    "PRP because",
    "PRP because",
    "ADV although",
    "ADV if",
    "TMP before",
    "TMP after",
    "TMP until",
    "TMP while",
    "TMP when",
)
INTENDED = tuple(
    map(imagined, ("try tried", "hope hoped", "promise promised", "decide decided", "want wanted"))
)
SAYING = tuple(
    map(imagined, ("say said", "believe believed", "know knew", "hope hoped", "think thought"))
)
ASKING = tuple(map(imagined, ("ask asked", "tell told", "invite invited")))
KNOW, GO = imagined("know knew"), imagined("go went")
NAMES = MEN + WOMEN
_AUXILIARY = re.compile(
    r"\(VP (\((?:MD|VB[A-Z]?) (?:will|can|may|should|must|might|could|would|is|are|am|was|were|has|have|had)\)) +(\(VP .*)\)$"
)
_NOUN = re.compile(
    r"(?:\((?:JJ(?! many| several)|NNS?) [^\s()]+\) ?)+(?=\)$)"
)  # with its adjectives, at the end of a phrase


def told(w):
    """A statement, perhaps with a time or an adverb in front: "Yesterday , the teacher bought a book ." """
    chance = w.random()
    if chance < 0.6:
        return f"(S {stated(w, timed=0.5)} (. .))"
    comma = "(, ,) " if w.chance(0.5) else ""
    if chance < 0.7:
        return f"(S (ADVP (RB {w.pick(('unfortunately', 'fortunately', 'perhaps', 'finally'))})) {comma}{stated(w)} (. .))"
    subject, core, tense = clause(w, timed=0)
    while not time_group(tense):
        subject, core, tense = clause(w, timed=0)
    return f"(S {time(w, time_group(tense))} {comma}{said(w, subject, core, tense, w.chance(0.15))} (. .))"


def asked(w):
    """A yes/no question."""
    subject, core, tense = state(w) if w.chance(0.3) else clause(w)
    return f"(SQ {question(w, core, tense, subject, w.chance(0.15))} (. ?))"


def asked_for(w):
    """A question for a person, a thing, a place, a time or a reason."""
    i, chance = w.index(), w.random()
    if chance < 0.2:
        subject, core, tense = clause(w, Phrase(""), timed=0.3)
        verb = finite(w, core, tense, subject)
        return f"(SBARQ (WHNP-{i} (WP who)) (SQ (NP-SBJ (-NONE- *T*-{i})) {verb}) (. ?))"
    if chance < 0.6:
        frame = w.pick(THINGS)
        kind, trace = w.pick(frame.kinds), Phrase(f"(NP (-NONE- *T*-{i}))")
        asking = [
            "(WP what)",
            f"(WHADJP (WRB how) (JJ many)) {_bare(common(w, kind, True))}",
            f"(WDT which) {_bare(common(w, kind))}",
        ]
        front = f"(WHNP-{i} {w.pick(asking)})"
        if w.chance(0.25):
            frame, front = w.pick(PERSONS), f"(WHNP-{i} (WP who))"
        subject, core, tense = clause(w, core=take(w, frame.verb, trace, frame.places), timed=0.2)
    elif chance < 0.7:
        subject, tense = someone(w), w.pick(("present", "past"))
        front = f"(WHADJP-{i} (WRB how) (JJ {w.pick(('old', 'tall', 'tired', 'rich'))}))"
        core = be(f"(ADJP-PRD (-NONE- *T*-{i}))")
    else:
        word, label = w.pick((("where", "LOC"), ("when", "TMP"), ("why", "PRP"), ("how", "MNR")))
        subject, core, tense = clause(w, timed=0)
        front, core = (
            f"(WHADVP-{i} (WRB {word}))",
            core._replace(rest=f"{core.rest} (ADVP-{label} (-NONE- *T*-{i}))"),
        )
    return f"(SBARQ {front} (SQ {question(w, core, tense, subject)}) (. ?))"


def _bare(phrase):
    """The adjectives and the noun of a phrase, without what stands before them."""
    return _NOUN.search(phrase.text)[0]


def depended(w):
    """A main clause with an adverbial clause, in front or at the end."""
    label, word = w.pick(CONJUNCTIONS).split()
    subject, core, tense = clause(w, timed=0.1)
    inner = f"(S {stated(w, BEFORE if tense in SAID_BEFORE else NOW)})"
    if word == "when":
        i = w.index()
        inner = f"(WHADVP-{i} (WRB when)) {inner[:-2]} (ADVP-TMP (-NONE- *T*-{i}))))"
    else:
        inner = f"(IN {word}) {inner}"
    dependent = f"(SBAR-{label} {inner})"
    negated = w.chance(0.15)
    if w.chance(0.4):
        return f"(S {dependent} (, ,) {said(w, subject, core, tense, negated)} (. .))"
    return f"(S {said(w, subject, core._replace(rest=f'{core.rest} {dependent}'), tense, negated)} (. .))"


def reported(w):
    """A clause that is said, believed or asked, also in its own words."""
    chance, verb, tense = w.random(), w.pick(SAYING), w.pick(("present", "past", "past"))
    tenses = SAID_BEFORE if tense == "past" else SAID_NOW
    subject, inner = someone(w), f"(S {stated(w, tenses)})"
    if chance < 0.15:
        text = relabel(subject.text, "NP-SBJ")
        return f"(SINV (`` ``) {relabel(inner, 'S-TPC-9')} (, ,) ('' '') (VP (VBD said) (S (-NONE- *T*-9))) {text} (. .))"
    if chance < 0.7:
        complement = f"(SBAR {w.pick(('(IN that)', '(IN that)', '(-NONE- 0)'))} {inner})"
        return f"(S {said(w, subject, take(w, verb)._replace(rest=complement), tense)} (. .))"
    complement, know = f"(SBAR (IN {w.pick(('whether', 'if'))}) {inner})", take(w, KNOW)
    if chance < 0.85:
        i = w.index()
        word, label = w.pick((("why", "PRP"), ("when", "TMP"), ("where", "LOC"), ("how", "MNR")))
        about, core, later = clause(w, timed=0, tenses=tenses)
        about = said(
            w, about, core._replace(rest=f"{core.rest} (ADVP-{label} (-NONE- *T*-{i}))"), later
        )
        complement = f"(SBAR (WHADVP-{i} (WRB {word})) (S {about}))"
    if w.chance(0.3):
        return f"(SQ {question(w, know._replace(rest=complement), tense, subject)} (. ?))"
    return f"(S {said(w, subject, know._replace(rest=complement), tense, negated=True)} (. .))"


def related(w):
    """A sentence with a relative clause, on its subject or on its object."""
    persons = ("person", "young")
    determiners = ("the", "the", "a", "this", "every")
    if w.chance(0.4):
        head = relative(w, common(w, w.pick(persons), None, determiners))
        subject, core, tense = clause(w, head)
        return f"(S {said(w, subject, core, tense, w.chance(0.15))} (. .))"
    frame, of = w.pick(THINGS), None
    kind = w.pick(frame.kinds)
    head = common(w, kind, None, determiners)
    if w.chance(0.4):
        frame, head = w.pick(PERSONS), common(w, w.pick(persons), None, determiners)
    elif w.chance(0.3):
        of = common(w, "person", False, ("the",))
        if w.chance(0.5):
            head, of = (
                Phrase(
                    f"(NP {head.text} (PP (IN of) {relative(w, of._replace(thing=False)).text}))",
                    head.person,
                    True,
                ),
                None,
            )
            return _with_object(w, frame, head)
    return _with_object(w, frame, relative(w, head, kind, of))


def _with_object(w, frame, phrase):
    core, subject = take(w, frame.verb, phrase), someone(w)
    tense = next(
        tense for tense in iter(lambda: w.pick(TENSES), None) if suits(core, tense, subject.person)
    )
    return f"(S {said(w, subject, core, tense)} (. .))"


def joined(w):
    """Two clauses, or two things that one person does."""
    if w.chance(0.5):
        word, tenses = w.pick(("and", "and", "but")), w.pick((SAID_BEFORE, SAID_NOW))
        return f"(S (S {stated(w, tenses)}) (, ,) (CC {word}) (S {stated(w, tenses)}) (. .))"
    subject, core, tense = clause(w, timed=0.1)
    other = core
    while other.base == core.base or not suits(other, tense, subject.person):
        other = add_adverbials(w, action(w, DEEDS), tense, 0.3)
    one, two = (finite(w, part, tense, subject._replace(pronoun=False)) for part in (core, other))
    if found := _AUXILIARY.match(one):  # the auxiliary is said only once
        both = f"(VP {found[1]} (VP {found[2]} (CC and) {_AUXILIARY.match(two)[2]}))"
    else:
        both = f"(VP {one} (CC {w.pick(('and', 'and', 'or'))}) {two})"
    return f"(S {relabel(subject.text, 'NP-SBJ')} {both} (. .))"


def intended(w):
    """Infinitive clauses: "tries to open the door", "asked him to sing", "goes home to sleep"."""
    i, chance, subject = w.index(), w.random(), someone(w)
    aim = infinitive(willed(w, DEEDS))
    empty = f"(NP-SBJ (-NONE- *-{i}))"
    if chance < 0.5:
        core = take(w, w.pick(INTENDED))._replace(rest=f"(S {empty} {aim})", control=i)
    elif chance < 0.75:
        whom = someone(w, 1, True)
        core = take(w, w.pick(ASKING))._replace(
            rest=f"{relabel(whom.text, f'NP-{i}')} (S {empty} {aim})"
        )
    else:
        core = take(w, GO)._replace(rest=f"{goal(w)} (S-PRP {empty} {aim})", control=i)
    tense = w.pick(("present", "past", "past", "will", "perfect"))
    return f"(S {said(w, subject, core, tense, w.chance(0.1))} (. .))"


def suffered(w):
    """A passive: "The house was sold by the baker ." """
    frame, i = w.pick(THINGS), w.index()
    subject = common(w, w.pick(frame.kinds), None, ("the", "this", "own"))
    core, tense = (
        passive(w, i, frame),
        w.pick(("present", "past", "past", "will", "must", "perfect")),
    )
    return f"(S {said(w, subject, core, tense, w.chance(0.15))} (. .))"


def existing(w):
    """What there is, and what the weather is like."""
    if w.chance(0.3):
        weather = w.pick(
            (
                "(VP (VBG raining))",
                "(VP (VBG snowing))",
                "(ADJP-PRD (JJ cold))",
                "(ADJP-PRD (JJ warm))",
            )
        )
        when = time(w, "past") if w.chance(0.7) else place(w, "town")
        return f"(S (NP-SBJ (PRP it)) {finite(w, be(f'{weather} {when}'), 'past', Phrase('', THIRD), w.chance(0.3))} (. .))"
    plural = w.chance(0.5)
    what = common(w, w.pick(("thing", "animal", "food", "vehicle", "person")), plural, ("a",))
    there = relabel(what.text, "NP-PRD")
    core = be(f"{there} {place(w, w.pick(('home', 'town', 'shopping')))}")
    subject = Phrase("(NP (EX there))", PLURAL if plural else THIRD)
    if w.chance(0.25):
        return f"(SQ {question(w, core, w.pick(('present', 'past')), subject)} (. ?))"
    return f"(S {said(w, subject, core, w.pick(('present', 'past')))} (. .))"


def ordered(w):
    """An imperative: "Please open the door !" """
    core = willed(w, DEEDS)
    please = (
        "(INTJ (UH please)) "
        if w.chance(0.3)
        else f"(NP-VOC (NNP {w.pick(NAMES)})) (, ,) "
        if w.chance(0.25)
        else ""
    )
    denial = w.chance(0.2)
    verb = (
        f"(VP (VBP do) (RB n't) (VP {core.form('VB')} {core.rest}))"
        if denial
        else f"(VP {core.form('VB')} {core.rest})"
    )
    return f"(S {please}(NP-SBJ (-NONE- *)) {verb} (. {w.pick(('.', '!'))}))"


SENTENCES = (
    (told,) * 10
    + (asked,) * 4
    + (asked_for,) * 5
    + (depended,) * 6
    + (reported,) * 6
    + (related,) * 7
)
SENTENCES += (joined,) * 4 + (intended,) * 4 + (suffered, suffered, existing, existing, ordered)


def sentence(w):
    """Draws the raw tree of one sentence, without a capital letter."""
    return re.sub(r" +\)", ")", re.sub(" +", " ", w.pick(SENTENCES)(w)))
