"""Random clauses of the pocket treebank: actions and states with subjects, and relative clauses."""

from pocket.lexicon import ADJECTIVES_OF, FRAMES, Frame
from pocket.tables import MASS_TABLES
from pocket.tree_adverbials import clock, place, transport
from pocket.tree_phrases import (
    Phrase,
    TreeDraw,
    common,
    counted,
    large_number,
    name,
    node,
    relabel,
    someone,
    something,
)
from pocket.tree_verbs import (
    OFTEN,
    TENSES,
    Core,
    action,
    add_adverbials,
    be,
    finite,
    imagined,
    subject_label,
    suits,
    take,
)

# Tenses that go together in the clauses of a sentence; SAID_... are those of reported clauses.
BEFORE = ("past", "past", "past", "was", "had")
NOW = ("present", "present", "perfect", "progressive")
SAID_BEFORE = (*BEFORE, "would", "could")
SAID_NOW = (*NOW, "past", "will", "can", "should", "must")
THINGS = tuple(
    frame
    for frame in FRAMES["object"]
    if "human" not in frame.kinds and not set(frame.kinds) & set(MASS_TABLES)
)
TAKING = {
    kind: tuple(frame for frame in THINGS if kind in frame.kinds)
    for frame in THINGS
    for kind in frame.kinds
}
PERSONS = tuple(frame for frame in (*FRAMES["object"], *FRAMES["dative"]) if "human" in frame.kinds)
LIKE = imagined("like liked")
COST = imagined("cost cost")
ARRIVE = imagined("arrive arrived")
MOODS = tuple(row[0] for row in ADJECTIVES_OF["moods"])

Action = tuple[Phrase, Core, str]  # subject, verb, tense


def clause(
    draw: TreeDraw,
    subject: Phrase | None = None,
    core: Core | None = None,
    timed: float = 0.35,
    tenses: tuple[str, ...] = TENSES,
) -> Action:
    """Draws an action: a subject, a verb and a tense that are compatible.

    Args:
      draw: the source of randomness.
      subject: the subject; None to draw it.
      core: the verb; None to draw it.
      timed: the probability of a time.
      tenses: the tenses to choose from.
    """
    subject = subject or someone(draw)
    while True:
        drawn = core or action(draw)
        tense = draw.pick(tenses)
        if suits(drawn, tense, subject.person):
            return subject, add_adverbials(draw, drawn, tense, timed), tense


def said(
    draw: TreeDraw,
    subject: Phrase,
    core: Core,
    tense: str,
    negated: bool = False,
    adverb: str = "",
) -> str:
    """Returns a subject and its verb phrase."""
    verb_phrase = finite(draw, core, tense, subject, negated, adverb)
    return f"{relabel(subject.text, subject_label(core))} {verb_phrase}"


def stated(draw: TreeDraw, tenses: tuple[str, ...] = TENSES, timed: float = 0.2) -> str:
    """Draws an action or a state, sometimes negated or with an adverb, as the inside of an S."""
    chance = draw.random()
    if chance < 0.22:
        subject, core, tense = state(draw, tenses)
        return said(draw, subject, core, tense, draw.chance(0.2))
    subject, core, tense = clause(draw, timed=timed, tenses=tenses)
    if chance < 0.38:
        return said(draw, subject, core, tense, negated=True)
    adverb = draw.pick(OFTEN) if chance < 0.46 else ""
    return said(draw, subject, core, tense, adverb=adverb)


def state(draw: TreeDraw, tenses: tuple[str, ...] = TENSES) -> Action:
    """Draws a state: tired, a doctor, in Berlin, older than Anna, twelve years old."""
    is_past = tenses in (BEFORE, SAID_BEFORE) or (tenses is TENSES and draw.chance(0.5))
    simple = "past" if is_past else "present"
    chance = draw.random()
    subject = someone(draw)
    tense = draw.pick((simple, simple, "will", "perfect") if tenses is TENSES else (simple,))
    if chance < 0.35:
        return subject, be(_mood(draw)), tense
    if chance < 0.45:
        subject = name(draw)
        profession = common(draw, "person", False, ("a",)).text
        return subject, be(relabel(profession, "NP-PRD")), tense
    if chance < 0.55:
        return subject, be(relabel(place(draw, "home"), "PP-LOC-PRD")), tense
    if chance < 0.75:
        if draw.chance(0.4):
            subject = common(draw, "thing", False)
        return subject, be(f"(ADJP-PRD {compared(draw, subject.thing)})"), tense
    if chance < 0.82:
        return subject, be(f"(ADJP-PRD (NP {counted(draw)} (NNS years)) (JJ old))"), simple
    if chance < 0.9:
        price = f"(NP {large_number(draw)} (NNS euros))"
        subject = common(draw, draw.pick(("thing", "clothing", "device")), False)
        return subject, take(draw, COST).add(price), simple
    if chance < 0.95:
        return transport(draw), take(draw, ARRIVE).add(clock(draw)), simple
    liked = something(draw, draw.pick(("thing", "clothing", "vehicle", "text")))
    return subject, take(draw, LIKE, liked), simple


def _mood(draw: TreeDraw) -> str:
    mood = f"(JJ {draw.pick(MOODS)})"
    if draw.chance(0.25):
        return f"(ADJP-PRD (RB {draw.pick(('very', 'too', 'so', 'really'))}) {mood})"
    if draw.chance(0.15):
        conjunction = draw.pick(("and", "but"))
        second = draw.pick(("angry", "ill", "thirsty"))
        return f"(ADJP-PRD {mood} (CC {conjunction}) (JJ {second}))"
    return f"(ADJP-PRD {mood})"


def compared(draw: TreeDraw, things: bool) -> str:
    """Draws the inside of a comparison: "older than Anna", "more expensive than the red lamp".

    Args:
      draw: the source of randomness.
      things: whether the comparison is between things, not persons.
    """
    standard = (common(draw, "thing", False) if things else someone(draw, 1, True)).text
    if draw.chance(0.4):
        thing_words = ("expensive", "heavy", "beautiful", "big")
        person_words = ("clever", "polite", "old", "tall")
        word = draw.pick(thing_words if things else person_words)
        return f"(ADJP (RB as) (JJ {word})) (PP (IN as) {standard})"
    if draw.chance(0.3):
        word = draw.pick(("expensive", "beautiful") if things else ("polite", "famous"))
        return f"(RBR more) (JJ {word}) (PP (IN than) {standard})"
    thing_words = ("bigger", "smaller", "heavier", "cheaper")
    person_words = ("older", "younger", "taller", "stronger")
    word = draw.pick(thing_words if things else person_words)
    return f"(JJR {word}) (PP (IN than) {standard})"


def relative(draw: TreeDraw, head: Phrase, kind: str = "", of: Phrase | None = None) -> Phrase:
    """Adds a relative clause to a noun phrase.

    Args:
      draw: the source of randomness.
      head: the noun phrase.
      kind: the kind of the noun, for a thing.
      of: the person to whom the thing belongs; None for none.
    """
    i = draw.index()
    if head.thing:
        inner = _thing_relative(draw, kind, i, "(WDT that)" if of else "")
    elif draw.chance(0.7):
        inner = _subject_relative(draw, head, i)
    else:
        subject = someone(draw, 0, True)
        core = gap(draw, draw.pick(PERSONS), i)
        subject, core, tense = clause(draw, subject, core, timed=0.15)
        pronoun = draw.pick(("(WP whom)", "(-NONE- 0)"))
        inner = f"(SBAR (WHNP-{i} {pronoun}) (S {said(draw, subject, core, tense)}))"
    owner = f"(PP (IN of) {of.text})" if of else ""
    return head._replace(text=node("NP", head.text, owner, inner))


def _thing_relative(draw: TreeDraw, kind: str, index: int, pronoun: str) -> str:
    """Draws a relative clause whose object is a thing; `pronoun` is "" for a random one."""
    frame = draw.pick(TAKING[kind])
    drawn = draw.pick(("(WDT that)", "(WDT that)", "(WDT which)", "(-NONE- 0)"))
    subject = someone(draw, 0, True)
    core = gap(draw, frame, index)
    subject, core, tense = clause(draw, subject, core, timed=0.15)
    text = said(draw, subject, core, tense)
    return f"(SBAR (WHNP-{index} {pronoun or drawn}) (S {text}))"


def _subject_relative(draw: TreeDraw, head: Phrase, index: int) -> str:
    """Draws a relative clause whose subject is a person."""
    _, core, tense = clause(draw, head)
    if draw.chance(0.3):
        core = be(f"(ADJP-PRD (JJ {draw.pick(MOODS)}))")
        tense = draw.pick(("present", "past"))
    verb_phrase = finite(draw, core, tense, head._replace(pronoun=False))
    return f"(SBAR (WHNP-{index} (WP who)) (S (NP-SBJ (-NONE- *T*-{index})) {verb_phrase}))"


def gap(draw: TreeDraw, frame: Frame, index: int) -> Core:
    """Returns a verb whose object is a trace."""
    return take(draw, frame.verb, Phrase(f"(NP (-NONE- *T*-{index}))"), frame.places)
