"""Clauses of the pocket treebank, drawn by chance: actions and states with their subjects, and relative clauses."""

from tf_transformer.data.pocket.lexicon import ADJECTIVES_OF, FRAMES
from tf_transformer.data.pocket.tables import MASS_TABLES
from tf_transformer.data.pocket.tree_phrases import (
    Phrase,
    clock,
    common,
    counted,
    large_number,
    name,
    place,
    relabel,
    someone,
    something,
    transport,
)
from tf_transformer.data.pocket.tree_verbs import (
    OFTEN,
    TENSES,
    action,
    add_adverbials,
    be,
    finite,
    imagined,
    subject_label,
    suits,
    take,
)

BEFORE, NOW = (
    ("past", "past", "past", "was", "had"),
    ("present", "present", "perfect", "progressive"),
)  # tenses that go together
SAID_BEFORE, SAID_NOW = (*BEFORE, "would", "could"), (*NOW, "past", "will", "can", "should", "must")
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
LIKE, COST, ARRIVE = imagined("like liked"), imagined("cost cost"), imagined("arrive arrived")
MOODS = tuple(row[0] for row in ADJECTIVES_OF["moods"])


def clause(w, subject=None, core=None, timed=0.35, tenses=TENSES):
    """Draws what somebody does: the subject, a `Core` and a tense that go together."""
    subject, given = subject or someone(w), core
    while True:
        core, tense = given or action(w), w.pick(tenses)
        if suits(core, tense, subject.person):
            return subject, add_adverbials(w, core, tense, timed), tense


def said(w, subject, core, tense, negated=False, adverb=""):
    """A subject and its verb phrase."""
    return f"{relabel(subject.text, subject_label(core))} {finite(w, core, tense, subject, negated, adverb)}"


def stated(w, tenses=TENSES, timed=0.2):
    """The inside of a clause: an action or a state, denied or with an adverb at times."""
    chance = w.random()
    if chance < 0.22:
        subject, core, tense = state(w, tenses)
        return said(w, subject, core, tense, w.chance(0.2))
    subject, core, tense = clause(w, timed=timed, tenses=tenses)
    if chance < 0.38:
        return said(w, subject, core, tense, negated=True)
    return said(w, subject, core, tense, adverb=w.pick(OFTEN) if chance < 0.46 else "")


def state(w, tenses=TENSES):
    """What somebody or something is: tired, a doctor, in Berlin, older than Anna, twelve years old."""
    simple = (
        "past"
        if tenses in (BEFORE, SAID_BEFORE) or (tenses is TENSES and w.chance(0.5))
        else "present"
    )
    chance, subject, tense = (
        w.random(),
        someone(w),
        w.pick((simple, simple, "will", "perfect") if tenses is TENSES else (simple,)),
    )
    if chance < 0.35:
        mood = f"(JJ {w.pick(MOODS)})"
        if w.chance(0.25):
            mood = f"(RB {w.pick(('very', 'too', 'so', 'really'))}) {mood}"
        elif w.chance(0.15):
            mood = (
                f"{mood} (CC {w.pick(('and', 'but'))}) (JJ {w.pick(('angry', 'ill', 'thirsty'))})"
            )
        return subject, be(f"(ADJP-PRD {mood})"), tense
    if chance < 0.45:
        subject = name(w)
        return subject, be(relabel(common(w, "person", False, ("a",)).text, "NP-PRD")), tense
    if chance < 0.55:
        return subject, be(relabel(place(w, "home"), "PP-LOC-PRD")), tense
    if chance < 0.75:
        subject = common(w, "thing", False) if w.chance(0.4) else subject
        return subject, be(f"(ADJP-PRD {compared(w, subject.thing)})"), tense
    if chance < 0.82:
        return subject, be(f"(ADJP-PRD (NP {counted(w)} (NNS years)) (JJ old))"), simple
    if chance < 0.9:
        price = f"(NP {large_number(w)} (NNS euros))"
        return (
            common(w, w.pick(("thing", "clothing", "device")), False),
            take(w, COST)._replace(rest=price),
            simple,
        )
    if chance < 0.95:
        return transport(w), take(w, ARRIVE)._replace(rest=clock(w)), simple
    return (
        subject,
        take(w, LIKE, something(w, w.pick(("thing", "clothing", "vehicle", "text")))),
        simple,
    )


def compared(w, things):
    """The inside of a comparison: "older than Anna", "more expensive than the red lamp", "as old as her brother"."""
    other = common(w, "thing", False) if things else someone(w, 1, True)
    if w.chance(0.4):
        word = w.pick(
            ("expensive", "heavy", "beautiful", "big")
            if things
            else ("clever", "polite", "old", "tall")
        )
        return f"(ADJP (RB as) (JJ {word})) (PP (IN as) {other.text})"
    if w.chance(0.3):
        return f"(RBR more) (JJ {w.pick(('expensive', 'beautiful') if things else ('polite', 'famous'))}) (PP (IN than) {other.text})"
    word = w.pick(
        ("bigger", "smaller", "heavier", "cheaper")
        if things
        else ("older", "younger", "taller", "stronger")
    )
    return f"(JJR {word}) (PP (IN than) {other.text})"


def relative(w, head, kind="", of=None):
    """A noun phrase with a relative clause. `kind` is that of a thing, `of` is what the head belongs to."""
    i = w.index()
    front = f"{head.text} (PP (IN of) {of.text})" if of else head.text
    if head.thing:
        frame, pronoun = (
            w.pick(TAKING[kind]),
            w.pick(("(WDT that)", "(WDT that)", "(WDT which)", "(-NONE- 0)")),
        )
        pronoun = "(WDT that)" if of else pronoun
        subject = someone(w, 0, True)
        subject, core, tense = clause(w, subject, core=gap(w, frame, i), timed=0.15)
        inner = f"(SBAR (WHNP-{i} {pronoun}) (S {said(w, subject, core, tense)}))"
    elif w.chance(0.7):
        _, core, tense = clause(w, head)
        if w.chance(0.3):
            core, tense = be(f"(ADJP-PRD (JJ {w.pick(MOODS)}))"), w.pick(("present", "past"))
        inner = f"(SBAR (WHNP-{i} (WP who)) (S (NP-SBJ (-NONE- *T*-{i})) {finite(w, core, tense, head._replace(pronoun=False))}))"
    else:
        subject, core, tense = clause(
            w, someone(w, 0, True), core=gap(w, w.pick(PERSONS), i), timed=0.15
        )
        inner = f"(SBAR (WHNP-{i} {w.pick(('(WP whom)', '(-NONE- 0)'))}) (S {said(w, subject, core, tense)}))"
    return head._replace(text=f"(NP {front} {inner})")


def gap(w, frame, index):
    """A verb whose object is a trace."""
    return take(w, frame.verb, Phrase(f"(NP (-NONE- *T*-{index}))"), frame.places)
