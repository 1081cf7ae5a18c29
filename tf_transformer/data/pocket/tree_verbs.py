"""Verbs of the pocket treebank: their forms, what they take, and the verb phrases of each tense, as text of the Penn Treebank."""

from typing import NamedTuple

from tf_transformer.data.pocket.lexicon import FRAMES, Verb, english_s
from tf_transformer.data.pocket.names import LASTING, SOCIABLE
from tf_transformer.data.pocket.tree_phrases import (
    THIRD,
    Phrase,
    common,
    goal,
    place,
    relabel,
    someone,
    something,
    time,
)

PARTICLES = frozenset("up on off away along".split())
PREPOSITIONS = frozenset("for of about at with after to".split())
OTHER_WORDS = {
    "back": "(ADVP-DIR (RB back))",
    "asleep": "(ADJP-PRD (JJ asleep))",
    "television": "(NP (NN television))",
}
PARTICIPLES = {
    "sing": "sung", "wake": "woken", "get": "got", "fall": "fallen", "come": "come", "go": "gone", "write": "written", "eat": "eaten",
    "drink": "drunk", "forget": "forgotten", "see": "seen", "know": "known", "draw": "drawn", "throw": "thrown", "give": "given",
    "show": "shown", "take": "taken", "run": "run", "fly": "flown", "be": "been",
}  # fmt: skip
DOUBLED = {
    "get": "getting",
    "forget": "forgetting",
    "put": "putting",
    "run": "running",
    "travel": "travelling",
}
STATES = frozenset("know love need trust remember".split())  # nobody is needing
MISHAPS = STATES | frozenset(
    "lose forget find wake fall dream".split()
)  # nobody wants to fall asleep
SUDDEN = MISHAPS | {"see", "meet", "visit", "invite"}  # which take no time to do them slowly
BE = {"present": ("VBP am", "VBP are", "VBZ is"), "past": ("VBD was", "VBD were", "VBD was")}
DO = {"present": ("VBP do", "VBP do", "VBZ does"), "past": ("VBD did", "VBD did", "VBD did")}
HAVE = {"present": ("VBP have", "VBP have", "VBZ has"), "past": ("VBD had", "VBD had", "VBD had")}
MODALS = ("will", "will", "will", "can", "may", "should", "must", "might", "could", "would")
TENSES = (
    ("present",) * 6
    + ("past",) * 9
    + ("progressive", "progressive", "was", "perfect", "perfect", "had")
    + MODALS
)
SHORT = {
    "am": "'m",
    "are": "'re",
    "is": "'s",
    "has": "'s",
    "have": "'ve",
    "will": "'ll",
    "would": "'d",
}
ACTIONS = (
    ("alone",) * 3
    + ("object",) * 8
    + ("dative",)
    + ("giving",) * 3
    + ("about",) * 3
    + ("placing", "motion", "journey")
)
ALONE = tuple(frame for frame in FRAMES["alone"] if frame.verb.en != "go shopping")
MANNERS = ("slowly", "quickly", "quietly", "happily", "carefully", "again")
OFTEN = ("often", "always", "sometimes", "usually", "rarely", "never", "also", "still")


class Core(NamedTuple):
    """A verb with what follows it, in no tense yet."""

    base: str
    past: str
    rest: str  # objects and adverbials
    control: int = 0  # the co-index that its subject must have; 0 for none
    places: str = ""  # where one does it
    lasting: bool = True  # what may have a time or a companion
    sociable: bool = False

    def form(self, tag):
        """The verb with a tag: "(VBG reading)"."""
        inflect = {
            "VBZ": english_s,
            "VBD": lambda base: self.past,
            "VBN": lambda base: PARTICIPLES.get(base, self.past),
            "VBG": _gerund,
        }
        return f"({tag} {inflect.get(tag, str)(self.base)})"


def _gerund(base):
    if base in DOUBLED:
        return DOUBLED[base]
    if base.endswith("ie"):
        return base[:-2] + "ying"
    return (base[:-1] if base.endswith("e") and not base.endswith("ee") else base) + "ing"


def be(rest, control=0):
    """To be something."""
    return Core("be", "", rest, control)


def take(w, verb, thing=None, places=""):
    """A verb with its object, a `Phrase`; particles and prepositions find their place."""
    base, *others = verb.en.split()
    rest, text = [], thing.text if thing else ""
    for word in others:
        if word in PREPOSITIONS:
            text = f"(PP-CLR ({'TO' if word == 'to' else 'IN'} {word}) {text})"
        else:
            rest.append(f"(PRT (RP {word}))" if word in PARTICLES else OTHER_WORDS[word])
    late = (
        thing
        and rest
        and (thing.pronoun or ("-NONE-" not in text and text.count("(") < 5 and w.chance(0.4)))
    )
    rest = [text, *rest] if late else [*rest, text]
    name = verb.prefix + verb.infinitive
    return Core(
        base,
        verb.past.split()[0],
        " ".join(rest),
        0,
        places,
        base not in STATES and name in LASTING,
        name in SOCIABLE,
    )


def draw_object(w, kinds):
    """An object of one of the kinds of a frame."""
    kind = w.pick(kinds)
    if kind == "human":
        return someone(w, 1)
    return common(w, kind) if kind in ("animal", "young", "transport") else something(w, kind)


def action(w, kinds=ACTIONS):
    """What somebody does, a `Core` without adverbials."""
    kind = w.pick(kinds)
    frame = w.pick(ALONE if kind == "alone" else FRAMES[kind])
    if kind == "alone":
        return take(w, frame.verb, None, frame.places)
    if kind in ("object", "dative", "about"):
        return _with_key(w, take(w, frame.verb, draw_object(w, frame.kinds), frame.places))
    if kind == "giving":
        thing, person = draw_object(w, frame.kinds).text, someone(w, 1).text
        rest = (
            f"{person} {thing}"
            if not frame.english and w.chance(0.6)
            else f"{thing} (PP-DTV (TO to) {person})"
        )
        return take(w, frame.verb)._replace(rest=rest)
    if kind == "placing":
        spot = f"(PP-PUT (IN {w.pick(('on', 'under', 'behind'))}) {common(w, 'furniture', False, ('the', 'own')).text})"
        return take(w, frame.verb)._replace(rest=f"{common(w, w.pick(frame.kinds)).text} {spot}")
    by = (
        f" (PP-MNR (IN by) (NP (NN {w.pick(('train', 'car', 'bus', 'bicycle'))})))"
        if kind == "journey" and w.chance(0.3)
        else ""
    )
    return take(w, frame.verb)._replace(rest=goal(w, "far" if kind == "journey" else "any") + by)


def _with_key(w, core):
    """Doors are opened with a key: the one thing after *with* that belongs to a verb."""
    is_door = core.base in ("open", "close") and core.rest.endswith(
        ("door))", "window))", "doors))", "windows))")
    )
    return (
        core._replace(rest=f"{core.rest} (PP-MNR (IN with) {common(w, 'present', False).text})")
        if is_door and w.chance(0.4)
        else core
    )


def add_adverbials(w, core, tense, timed=0.35, placed=0.35):
    """Says of an action with whom, how, where and when, by chance."""
    more = []
    if core.sociable and w.chance(0.2):
        more.append(f"(PP (IN {w.pick(('with', 'with', 'without'))}) {someone(w, 1, True).text})")
    elif core.lasting and core.base not in SUDDEN and w.chance(0.12):
        more.append(f"(ADVP-MNR (RB {w.pick(MANNERS)}))")
    if core.places and w.chance(placed):
        more.append(place(w, core.places))
    if core.lasting and (group := time_group(tense)) and w.chance(timed):
        more.append(time(w, group))
    return core._replace(rest=" ".join([core.rest, *more]))


def time_group(tense):
    """Which times suit a tense: those of "present", "past" or "future"; "" for none."""
    return {"progressive": "", "perfect": "", "had": "", "was": "past"}.get(
        tense, tense if tense in BE else "future"
    )


def suits(core, tense, person):
    """Whether a verb can stand in a tense: *I read* would be two of them, and nobody is knowing."""
    if core.base in STATES or core.base == "be":
        return tense in ("present", "past", "will", "perfect")
    return core.base != core.past or tense not in BE or person == THIRD


def parts(w, core, tense, person, negated=False, asked=False):
    """A verb phrase in its parts: the auxiliary's tag and word, or "", and what follows it."""
    if tense in BE and core.base == "be":
        return BE[tense][person], core.rest
    if tense in BE and not (negated or asked):
        tag = "VBD" if tense == "past" else "VBZ" if person == THIRD else "VBP"
        return "", f"{core.form(tag)} {core.rest}"
    if tense in BE:
        auxiliary, inner = DO[tense][person], "VB"
    elif tense in ("progressive", "was"):
        auxiliary, inner = BE["past" if tense == "was" else "present"][person], "VBG"
    elif tense in ("perfect", "had"):
        auxiliary, inner = HAVE["past" if tense == "had" else "present"][person], "VBN"
    else:
        auxiliary, inner = f"MD {tense}", "VB"
    return auxiliary, f"(VP {core.form(inner)} {core.rest})"


def finite(w, core, tense, subject, negated=False, adverb=""):
    """The verb phrase of a statement, after its subject (a `Phrase`), with an adverb such as "often" where it stands."""
    adverb = f"(ADVP-TMP (RB {adverb})) " if adverb else ""
    auxiliary, following = parts(w, core, tense, subject.person, negated)
    if not auxiliary:
        return f"{adverb}(VP {following})"
    tag, word = auxiliary.split()
    if (
        subject.pronoun
        and not negated
        and word in SHORT
        and w.chance(0.3)
        and not (core.base == "be" and word == "'d")
    ):
        word = SHORT[word]
    word, denial = _denied(w, word) if negated else (word, "")
    return f"(VP ({tag} {word}) {denial}{adverb}{following})"


def question(w, core, tense, subject, negated=False):
    """The auxiliary, the subject and the rest of a question."""
    auxiliary, following = parts(w, core, tense, subject.person, negated, asked=True)
    tag, word = auxiliary.split()
    negated &= word not in ("am", "may", "might")
    word, denial = _denied(w, word, always_short=True) if negated else (word, "")
    return f"({tag} {word}) {denial}{relabel(subject.text, subject_label(core))} {following}"


def subject_label(core):
    """The label of the subject, which has a co-index where the verb's traces are bound by it."""
    return f"NP-SBJ-{core.control}" if core.control else "NP-SBJ"


def _denied(w, word, always_short=False):
    """An auxiliary and its *not*."""
    if word in ("am", "may", "might") or not (always_short or w.chance(0.5)):
        return word, "(RB not) "
    return {"can": "ca", "will": "wo"}.get(word, word), "(RB n't) "


def willed(w, kinds):
    """What one may want or be told to do, with adverbials."""
    core = next(core for core in iter(lambda: action(w, kinds), None) if core.base not in MISHAPS)
    return add_adverbials(w, core, "will", 0.2)


def infinitive(core):
    """To do something."""
    return f"(VP (TO to) (VP {core.form('VB')} {core.rest}))"


def passive(w, index, frame):
    """What is done to a thing whose trace has an index, and perhaps by whom."""
    done = take(w, frame.verb, Phrase(f"(NP (-NONE- *-{index}))"))
    by = f" (PP (IN by) {relabel(someone(w, 1, True).text, 'NP-LGS')})" if w.chance(0.5) else ""
    return be(f"(VP {done.form('VBN')} {done.rest}{by})", index)


def imagined(forms):
    """A verb by its English forms alone, "go went", for `take`."""
    return Verb(*forms.split(), "", "", "", "", False, False)
