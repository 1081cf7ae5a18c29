"""The kinds of sentences of the pocket treebank: each function draws one raw tree of its kind."""

import re

from pocket.lexicon import Frame
from pocket.names import MEN, WOMEN
from pocket.tree_adverbials import goal, place, time
from pocket.tree_clauses import (
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
from pocket.tree_phrases import (
    PLURAL,
    THIRD,
    Phrase,
    TreeDraw,
    common,
    node,
    relabel,
    someone,
)
from pocket.tree_verbs import (
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
CONJUNCTIONS = (  # function tag, word
    ("PRP", "because"),
    ("PRP", "because"),
    ("ADV", "although"),
    ("ADV", "if"),
    ("TMP", "before"),
    ("TMP", "after"),
    ("TMP", "until"),
    ("TMP", "while"),
    ("TMP", "when"),
)
# Question words and the function tags of their traces, in indirect and in direct questions.
INDIRECT_ADVERBS = (("why", "PRP"), ("when", "TMP"), ("where", "LOC"), ("how", "MNR"))
DIRECT_ADVERBS = (("where", "LOC"), ("when", "TMP"), ("why", "PRP"), ("how", "MNR"))
SENTENCE_ADVERBS = ("unfortunately", "fortunately", "perhaps", "finally")
INTENDED = tuple(
    imagined(forms)
    for forms in ("try tried", "hope hoped", "promise promised", "decide decided", "want wanted")
)
SAYING = tuple(
    imagined(forms)
    for forms in ("say said", "believe believed", "know knew", "hope hoped", "think thought")
)
ASKING = tuple(imagined(forms) for forms in ("ask asked", "tell told", "invite invited"))
KNOW = imagined("know knew")
GO = imagined("go went")
NAMES = MEN + WOMEN
WEATHER = (
    "(VP (VBG raining))",
    "(VP (VBG snowing))",
    "(ADJP-PRD (JJ cold))",
    "(ADJP-PRD (JJ warm))",
)
# A verb phrase with an auxiliary: the auxiliary, and the verb phrase below it.
_AUXILIARY = re.compile(
    r"\(VP (\((?:MD|VB[A-Z]?) "
    r"(?:will|can|may|should|must|might|could|would|is|are|am|was|were|has|have|had)\)) "
    r"(\(VP .*)\)$"
)
# The noun at the end of a noun phrase, with its adjectives.
_NOUN = re.compile(r"(?:\((?:JJ(?! many| several)|NNS?) [^\s()]+\) ?)+(?=\)$)")


def told(draw: TreeDraw) -> str:
    """Draws a statement, perhaps with a time or an adverb in front.

    Example: "Yesterday , the teacher bought a book ."
    """
    chance = draw.random()
    if chance < 0.6:
        return f"(S {stated(draw, timed=0.5)} (. .))"
    comma = "(, ,)" if draw.chance(0.5) else ""
    if chance < 0.7:
        adverb = f"(ADVP (RB {draw.pick(SENTENCE_ADVERBS)}))"
        return node("S", adverb, comma, stated(draw), "(. .)")
    subject, core, tense = clause(draw, timed=0)
    while not time_group(tense):
        subject, core, tense = clause(draw, timed=0)
    when = time(draw, time_group(tense))
    return node("S", when, comma, said(draw, subject, core, tense, draw.chance(0.15)), "(. .)")


def asked(draw: TreeDraw) -> str:
    """Draws a yes/no question."""
    subject, core, tense = state(draw) if draw.chance(0.3) else clause(draw)
    return f"(SQ {question(draw, core, tense, subject, draw.chance(0.15))} (. ?))"


def asked_for(draw: TreeDraw) -> str:
    """Draws a question for a person, a thing, a degree, a place, a time, a reason or a manner."""
    i = draw.index()
    chance = draw.random()
    if chance < 0.2:
        subject, core, tense = clause(draw, Phrase(""), timed=0.3)
        verb = finite(draw, core, tense, subject)
        return f"(SBARQ (WHNP-{i} (WP who)) (SQ (NP-SBJ (-NONE- *T*-{i})) {verb}) (. ?))"
    if chance < 0.6:
        front, frame = _asked_object(draw, i)
        trace = Phrase(f"(NP (-NONE- *T*-{i}))")
        core = take(draw, frame.verb, trace, frame.places)
        subject, core, tense = clause(draw, core=core, timed=0.2)
    elif chance < 0.7:
        subject = someone(draw)
        tense = draw.pick(("present", "past"))
        degree = draw.pick(("old", "tall", "tired", "rich"))
        front = f"(WHADJP-{i} (WRB how) (JJ {degree}))"
        core = be(f"(ADJP-PRD (-NONE- *T*-{i}))")
    else:
        word, function = draw.pick(DIRECT_ADVERBS)
        subject, core, tense = clause(draw, timed=0)
        front = f"(WHADVP-{i} (WRB {word}))"
        core = core.add(_adverb_trace(function, i))
    return f"(SBARQ {front} (SQ {question(draw, core, tense, subject)}) (. ?))"


def _asked_object(draw: TreeDraw, index: int) -> tuple[str, Frame]:
    """Draws the question phrase of an object, and its verb."""
    frame = draw.pick(THINGS)
    kind = draw.pick(frame.kinds)
    asking = (
        "(WP what)",
        f"(WHADJP (WRB how) (JJ many)) {_bare(common(draw, kind, True))}",
        f"(WDT which) {_bare(common(draw, kind))}",
    )
    front = draw.pick(asking)
    if draw.chance(0.25):
        frame = draw.pick(PERSONS)
        front = "(WP who)"
    return f"(WHNP-{index} {front})", frame


def _adverb_trace(function: str, index: int) -> str:
    return f"(ADVP-{function} (-NONE- *T*-{index}))"


def _bare(phrase: Phrase) -> str:
    """Returns the adjectives and the noun of a phrase, without its determiner."""
    noun = _NOUN.search(phrase.text)
    assert noun, phrase.text
    return noun[0]


def depended(draw: TreeDraw) -> str:
    """Draws a main clause with an adverbial clause in front or at the end."""
    function, word = draw.pick(CONJUNCTIONS)
    subject, core, tense = clause(draw, timed=0.1)
    inner = f"(S {stated(draw, BEFORE if tense in SAID_BEFORE else NOW)})"
    if word == "when":
        i = draw.index()
        # The trace belongs to the verb phrase, which ends with the last two brackets.
        inner = f"(WHADVP-{i} (WRB when)) {inner[:-2]} {_adverb_trace('TMP', i)}))"
    else:
        inner = f"(IN {word}) {inner}"
    dependent = f"(SBAR-{function} {inner})"
    negated = draw.chance(0.15)
    if draw.chance(0.4):
        return f"(S {dependent} (, ,) {said(draw, subject, core, tense, negated)} (. .))"
    return f"(S {said(draw, subject, core.add(dependent), tense, negated)} (. .))"


def reported(draw: TreeDraw) -> str:
    """Draws direct speech, or a clause that somebody says, believes or does not know."""
    chance = draw.random()
    verb = draw.pick(SAYING)
    tense = draw.pick(("present", "past", "past"))
    tenses = SAID_BEFORE if tense == "past" else SAID_NOW
    subject = someone(draw)
    inner = f"(S {stated(draw, tenses)})"
    if chance < 0.15:
        quoted = f"(`` ``) {relabel(inner, 'S-TPC-9')} (, ,) ('' '')"
        speaker = relabel(subject.text, "NP-SBJ")
        return f"(SINV {quoted} (VP (VBD said) (S (-NONE- *T*-9))) {speaker} (. .))"
    if chance < 0.7:
        complementizer = draw.pick(("(IN that)", "(IN that)", "(-NONE- 0)"))
        core = take(draw, verb).add(f"(SBAR {complementizer} {inner})")
        return f"(S {said(draw, subject, core, tense)} (. .))"
    complement = f"(SBAR (IN {draw.pick(('whether', 'if'))}) {inner})"
    if chance < 0.85:
        complement = _indirect_question(draw, tenses)
    core = take(draw, KNOW).add(complement)
    if draw.chance(0.3):
        return f"(SQ {question(draw, core, tense, subject)} (. ?))"
    return f"(S {said(draw, subject, core, tense, negated=True)} (. .))"


def _indirect_question(draw: TreeDraw, tenses: tuple[str, ...]) -> str:
    i = draw.index()
    word, function = draw.pick(INDIRECT_ADVERBS)
    subject, core, tense = clause(draw, timed=0, tenses=tenses)
    inner = said(draw, subject, core.add(_adverb_trace(function, i)), tense)
    return f"(SBAR (WHADVP-{i} (WRB {word})) (S {inner}))"


def related(draw: TreeDraw) -> str:
    """Draws a sentence with a relative clause on its subject or its object."""
    persons = ("person", "young")
    determiners = ("the", "the", "a", "this", "every")
    if draw.chance(0.4):
        head = relative(draw, common(draw, draw.pick(persons), None, determiners))
        subject, core, tense = clause(draw, head)
        return f"(S {said(draw, subject, core, tense, draw.chance(0.15))} (. .))"
    frame = draw.pick(THINGS)
    kind = draw.pick(frame.kinds)
    head = common(draw, kind, None, determiners)
    owner = None
    if draw.chance(0.4):
        frame = draw.pick(PERSONS)
        head = common(draw, draw.pick(persons), None, determiners)
    elif draw.chance(0.3):
        owner = common(draw, "person", False, ("the",))
        if draw.chance(0.5):  # the relative clause describes the owner
            person = relative(draw, owner._replace(thing=False)).text
            head = Phrase(f"(NP {head.text} (PP (IN of) {person}))", head.person, True)
            return _with_object(draw, frame, head)
    return _with_object(draw, frame, relative(draw, head, kind, owner))


def _with_object(draw: TreeDraw, frame: Frame, phrase: Phrase) -> str:
    """Draws a statement with a verb and an object."""
    core = take(draw, frame.verb, phrase)
    subject = someone(draw)
    tense = draw.pick(TENSES)
    while not suits(core, tense, subject.person):
        tense = draw.pick(TENSES)
    return f"(S {said(draw, subject, core, tense)} (. .))"


def joined(draw: TreeDraw) -> str:
    """Draws two coordinated clauses, or two coordinated predicates."""
    if draw.chance(0.5):
        word = draw.pick(("and", "and", "but"))
        tenses = draw.pick((SAID_BEFORE, SAID_NOW))
        first = stated(draw, tenses)
        second = stated(draw, tenses)
        return f"(S (S {first}) (, ,) (CC {word}) (S {second}) (. .))"
    subject, core, tense = clause(draw, timed=0.1)
    other = core
    while other.base == core.base or not suits(other, tense, subject.person):
        other = add_adverbials(draw, action(draw, DEEDS), tense, 0.3)
    plain_subject = subject._replace(pronoun=False)  # without short forms of the auxiliary
    first = finite(draw, core, tense, plain_subject)
    second = finite(draw, other, tense, plain_subject)
    auxiliary = _AUXILIARY.match(first)
    repeated = _AUXILIARY.match(second)
    if auxiliary and repeated:
        both = f"(VP {auxiliary[1]} (VP {auxiliary[2]} (CC and) {repeated[2]}))"
    else:
        both = f"(VP {first} (CC {draw.pick(('and', 'and', 'or'))}) {second})"
    return f"(S {relabel(subject.text, 'NP-SBJ')} {both} (. .))"


def intended(draw: TreeDraw) -> str:
    """Draws a sentence with an infinitive clause.

    Examples: "tries to open the door", "asked him to sing", "goes home to sleep".
    """
    i = draw.index()
    chance = draw.random()
    subject = someone(draw)
    aim = infinitive(willed(draw, DEEDS))
    empty = f"(NP-SBJ (-NONE- *-{i}))"
    if chance < 0.5:
        core = take(draw, draw.pick(INTENDED)).add(f"(S {empty} {aim})")._replace(control=i)
    elif chance < 0.75:
        person = relabel(someone(draw, 1, True).text, f"NP-{i}")
        core = take(draw, draw.pick(ASKING)).add(person, f"(S {empty} {aim})")
    else:
        core = take(draw, GO).add(goal(draw), f"(S-PRP {empty} {aim})")._replace(control=i)
    tense = draw.pick(("present", "past", "past", "will", "perfect"))
    return f"(S {said(draw, subject, core, tense, draw.chance(0.1))} (. .))"


def suffered(draw: TreeDraw) -> str:
    """Draws a passive: "The house was sold by the baker ." """
    frame = draw.pick(THINGS)
    i = draw.index()
    subject = common(draw, draw.pick(frame.kinds), None, ("the", "this", "own"))
    core = passive(draw, i, frame)
    tense = draw.pick(("present", "past", "past", "will", "must", "perfect"))
    return f"(S {said(draw, subject, core, tense, draw.chance(0.15))} (. .))"


def existing(draw: TreeDraw) -> str:
    """Draws a sentence with "there is", or about the weather."""
    if draw.chance(0.3):
        return _weather(draw)
    plural = draw.chance(0.5)
    kind = draw.pick(("thing", "animal", "food", "vehicle", "person"))
    what = relabel(common(draw, kind, plural, ("a",)).text, "NP-PRD")
    core = be(f"{what} {place(draw, draw.pick(('home', 'town', 'shopping')))}")
    subject = Phrase("(NP (EX there))", PLURAL if plural else THIRD)
    if draw.chance(0.25):
        return f"(SQ {question(draw, core, draw.pick(('present', 'past')), subject)} (. ?))"
    return f"(S {said(draw, subject, core, draw.pick(('present', 'past')))} (. .))"


def _weather(draw: TreeDraw) -> str:
    weather = draw.pick(WEATHER)
    adverbial = time(draw, "past") if draw.chance(0.7) else place(draw, "town")
    it = Phrase("(NP (PRP it))", THIRD)
    return f"(S {said(draw, it, be(f'{weather} {adverbial}'), 'past', draw.chance(0.3))} (. .))"


def ordered(draw: TreeDraw) -> str:
    """Draws an imperative: "Please open the door !" """
    core = willed(draw, DEEDS)
    address = ""
    if draw.chance(0.3):
        address = "(INTJ (UH please))"
    elif draw.chance(0.25):
        address = f"(NP-VOC (NNP {draw.pick(NAMES)})) (, ,)"
    verb = node("VP", core.form("VB"), core.rest)
    if draw.chance(0.2):
        verb = f"(VP (VBP do) (RB n't) {verb})"
    mark = f"(. {draw.pick(('.', '!'))})"
    return node("S", address, "(NP-SBJ (-NONE- *))", verb, mark)


# Each kind as often as its weight.
SENTENCES = (
    (told,) * 10
    + (asked,) * 4
    + (asked_for,) * 5
    + (depended,) * 6
    + (reported,) * 6
    + (related,) * 7
    + (joined,) * 4
    + (intended,) * 4
    + (suffered, suffered, existing, existing, ordered)
)


def sentence(draw: TreeDraw) -> str:
    """Draws the raw tree of one sentence, without a capital letter at the start."""
    return draw.pick(SENTENCES)(draw)
