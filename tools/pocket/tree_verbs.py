"""Verb phrases of the pocket treebank in all tenses, as text of the Penn Treebank."""

from typing import NamedTuple

from pocket.lexicon import FRAMES, Frame, Verb, english_s
from pocket.names import LASTING, SOCIABLE
from pocket.tree_adverbials import goal, place, time
from pocket.tree_phrases import (
    THIRD,
    Phrase,
    TreeDraw,
    common,
    node,
    relabel,
    someone,
    something,
    surface,
)
from pocket.verbs import join

PARTICLES = frozenset("up on off away along".split())
PREPOSITIONS = frozenset("for of about at with after to".split())
OTHER_WORDS = {
    "back": "(ADVP-DIR (RB back))",
    "asleep": "(ADJP-PRD (JJ asleep))",
    "television": "(NP (NN television))",
}
# fmt: off
PARTICIPLES = {  # where they differ from the past tense
    "sing": "sung", "wake": "woken", "get": "got", "fall": "fallen", "come": "come", "go": "gone",
    "write": "written", "eat": "eaten", "drink": "drunk", "forget": "forgotten", "see": "seen",
    "know": "known", "draw": "drawn", "throw": "thrown", "give": "given", "show": "shown",
    "take": "taken", "run": "run", "fly": "flown", "be": "been",
}
# fmt: on
GERUNDS = {  # with a doubled consonant
    "get": "getting",
    "forget": "forgetting",
    "put": "putting",
    "run": "running",
    "travel": "travelling",
}
# Verbs of states have no progressive; those of mishaps, no imperative and no "to" infinitive;
# those of sudden events, no manner.
STATES = frozenset("know love need trust remember".split())
MISHAPS = STATES | frozenset("lose forget find wake fall dream".split())
SUDDEN = MISHAPS | {"see", "meet", "visit", "invite"}
# Tag and form for each of the persons FIRST, PLURAL, THIRD.
BE = {"present": ("VBP am", "VBP are", "VBZ is"), "past": ("VBD was", "VBD were", "VBD was")}
DO = {"present": ("VBP do", "VBP do", "VBZ does"), "past": ("VBD did", "VBD did", "VBD did")}
HAVE = {"present": ("VBP have", "VBP have", "VBZ has"), "past": ("VBD had", "VBD had", "VBD had")}
MODALS = ("will", "will", "will", "can", "may", "should", "must", "might", "could", "would")
# "progressive" and "perfect" are in the present; "was" is the progressive and "had" the perfect in
# the past.
TENSES = (
    ("present",) * 6
    + ("past",) * 9
    + ("progressive", "progressive", "was", "perfect", "perfect", "had")
    + MODALS
)
# The times of each tense: a key of TIMES, or "" for none. A modal has those of the future.
TIME_GROUPS = {
    "present": "present",
    "past": "past",
    "was": "past",
    "progressive": "",
    "perfect": "",
    "had": "",
}
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
VEHICLES = ("train", "car", "bus", "bicycle")
COMPANIONS = ("with", "with", "without")


class Core(NamedTuple):
    """A verb and what follows it, without a tense."""

    base: str
    past: str
    rest: str  # objects and adverbials
    control: int = 0  # the co-index of its subject; 0 for none
    places: str = ""  # the group of places where the action happens
    lasting: bool = True  # whether it can have a time or a manner
    sociable: bool = False  # whether it can have a companion

    def form(self, tag: str) -> str:
        """Returns the verb with a tag: "(VBG reading)"."""
        word = self.base
        if tag == "VBZ":
            word = english_s(self.base)
        elif tag == "VBD":
            word = self.past
        elif tag == "VBN":
            word = PARTICIPLES.get(self.base, self.past)
        elif tag == "VBG":
            word = _gerund(self.base)
        return f"({tag} {word})"

    def add(self, *more: str) -> "Core":
        """Returns the verb with more phrases that follow it."""
        return self._replace(rest=join(self.rest, *more))


def _gerund(base: str) -> str:
    if base in GERUNDS:
        return GERUNDS[base]
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith("ee"):
        return base[:-1] + "ing"
    return base + "ing"


def imagined(forms: str) -> Verb:
    """Makes a verb from its English forms, such as "go went", for `take`."""
    present, past = forms.split()
    return Verb(present, past, "", "", "", "", False, False)


def be(rest: str, control: int = 0) -> Core:
    """Returns the verb *be* with its complement."""
    return Core("be", "", rest, control)


def take(draw: TreeDraw, verb: Verb, thing: Phrase | None = None, places: str = "") -> Core:
    """Returns a verb with its object, its particle and its preposition.

    Args:
      draw: the source of randomness; it decides whether a particle follows the object.
      verb: the verb; its English may have further words, as in "look after".
      thing: the object; None for none.
      places: the group of places where the action happens.
    """
    base, *others = verb.en.split()
    text = thing.text if thing else ""
    particles = []
    for word in others:
        if word in PREPOSITIONS:
            text = f"(PP-CLR ({'TO' if word == 'to' else 'IN'} {word}) {text})"
        elif word in PARTICLES:
            particles.append(f"(PRT (RP {word}))")
        else:
            particles.append(OTHER_WORDS[word])
    is_late = False  # whether the particles follow the object
    if thing and particles:
        is_short = "-NONE-" not in text and text.count("(") < 5
        is_late = thing.pronoun or (is_short and draw.chance(0.4))
    rest = join(text, *particles) if is_late else join(*particles, text)
    name = verb.dictionary_form
    lasting = base not in STATES and name in LASTING
    return Core(base, verb.past.split()[0], rest, 0, places, lasting, name in SOCIABLE)


def draw_object(draw: TreeDraw, kinds: tuple[str, ...]) -> Phrase:
    """Draws an object of one of the kinds of a frame."""
    kind = draw.pick(kinds)
    if kind == "human":
        return someone(draw, 1)
    if kind in ("animal", "young", "transport"):
        return common(draw, kind)
    return something(draw, kind)


def action(draw: TreeDraw, kinds: tuple[str, ...] = ACTIONS) -> Core:
    """Draws an action without adverbials."""
    kind = draw.pick(kinds)
    frame = draw.pick(ALONE if kind == "alone" else FRAMES[kind])
    if kind == "alone":
        return take(draw, frame.verb, None, frame.places)
    if kind in ("object", "dative", "about"):
        thing = draw_object(draw, frame.kinds)
        return _with_key(draw, take(draw, frame.verb, thing, frame.places))
    if kind == "giving":
        return _giving(draw, frame)
    if kind == "placing":
        spot = surface(draw, "PP-PUT")
        moved = common(draw, draw.pick(frame.kinds)).text
        return take(draw, frame.verb).add(moved, spot)
    by = ""
    if kind == "journey" and draw.chance(0.3):
        by = f"(PP-MNR (IN by) (NP (NN {draw.pick(VEHICLES)})))"
    core = take(draw, frame.verb)
    return core.add(goal(draw, "far" if kind == "journey" else "any"), by)


def _giving(draw: TreeDraw, frame: Frame) -> Core:
    thing = draw_object(draw, frame.kinds).text
    person = someone(draw, 1).text
    if not frame.english and draw.chance(0.6):
        return take(draw, frame.verb).add(person, thing)
    return take(draw, frame.verb).add(thing, f"(PP-DTV (TO to) {person})")


def _with_key(draw: TreeDraw, core: Core) -> Core:
    """Adds an instrument to the opening of a door, the only *with* a thing on a verb."""
    doors = ("door))", "window))", "doors))", "windows))")
    if core.base in ("open", "close") and core.rest.endswith(doors) and draw.chance(0.4):
        return core.add(f"(PP-MNR (IN with) {common(draw, 'present', False).text})")
    return core


def add_adverbials(
    draw: TreeDraw, core: Core, tense: str, timed: float = 0.35, placed: float = 0.35
) -> Core:
    """Draws the companion, the manner, the place and the time of an action, or some of them.

    Args:
      draw: the source of randomness.
      core: the action.
      tense: its tense.
      timed: the probability of a time.
      placed: the probability of a place.
    """
    more = []
    if core.sociable and draw.chance(0.2):
        preposition = draw.pick(COMPANIONS)
        more.append(f"(PP (IN {preposition}) {someone(draw, 1, True).text})")
    elif core.lasting and core.base not in SUDDEN and draw.chance(0.12):
        more.append(f"(ADVP-MNR (RB {draw.pick(MANNERS)}))")
    if core.places and draw.chance(placed):
        more.append(place(draw, core.places))
    group = time_group(tense)
    if core.lasting and group and draw.chance(timed):
        more.append(time(draw, group))
    return core.add(*more)


def time_group(tense: str) -> str:
    """Returns which times a tense can have: "present", "past", "future", or "" for none."""
    return TIME_GROUPS.get(tense, "future")


def suits(core: Core, tense: str, person: int) -> bool:
    """Returns whether a verb can have a tense.

    Forms that could be two tenses, such as *I read*, are excluded, and the progressive of states.
    """
    if core.base in STATES or core.base == "be":
        return tense in ("present", "past", "will", "perfect")
    return core.base != core.past or tense not in BE or person == THIRD


def parts(
    core: Core, tense: str, person: int, negated: bool = False, asked: bool = False
) -> tuple[str, str]:
    """Divides a verb phrase.

    Returns: the tag and the word of the auxiliary, or "" for none, and what follows it.
    """
    if tense in BE and core.base == "be":
        return BE[tense][person], core.rest
    if tense in BE and not (negated or asked):
        tag = "VBZ" if person == THIRD else "VBP"
        return "", join(core.form("VBD" if tense == "past" else tag), core.rest)
    inner = "VB"
    if tense in BE:
        auxiliary = DO[tense][person]
    elif tense in ("progressive", "was"):
        auxiliary = BE["past" if tense == "was" else "present"][person]
        inner = "VBG"
    elif tense in ("perfect", "had"):
        auxiliary = HAVE["past" if tense == "had" else "present"][person]
        inner = "VBN"
    else:
        auxiliary = f"MD {tense}"
    return auxiliary, node("VP", core.form(inner), core.rest)


def finite(
    draw: TreeDraw,
    core: Core,
    tense: str,
    subject: Phrase,
    negated: bool = False,
    adverb: str = "",
) -> str:
    """Returns the verb phrase of a statement.

    Args:
      draw: the source of randomness; it decides on short forms.
      core: the verb and what follows it.
      tense: one of `TENSES`.
      subject: the subject that precedes the verb phrase.
      negated: whether the statement is negated.
      adverb: an adverb such as "often"; "" for none.
    """
    if adverb:
        adverb = f"(ADVP-TMP (RB {adverb}))"
    auxiliary, following = parts(core, tense, subject.person, negated)
    if not auxiliary:
        return join(adverb, f"(VP {following})")
    tag, word = auxiliary.split()
    if subject.pronoun and not negated and word in SHORT and draw.chance(0.3):
        word = SHORT[word]
    word, negation = _negation(draw, word) if negated else (word, "")
    return node("VP", f"({tag} {word})", negation, adverb, following)


def question(draw: TreeDraw, core: Core, tense: str, subject: Phrase, negated: bool = False) -> str:
    """Returns the auxiliary, the subject and the rest of a question."""
    auxiliary, following = parts(core, tense, subject.person, negated, asked=True)
    tag, word = auxiliary.split()
    negated = negated and word not in ("am", "may", "might")
    word, negation = _negation(draw, word, always_short=True) if negated else (word, "")
    text = relabel(subject.text, subject_label(core))
    return join(f"({tag} {word})", negation, text, following)


def subject_label(core: Core) -> str:
    """Returns the label of the subject, with a co-index where it binds a trace."""
    return f"NP-SBJ-{core.control}" if core.control else "NP-SBJ"


def _negation(draw: TreeDraw, word: str, always_short: bool = False) -> tuple[str, str]:
    """Returns an auxiliary and its *not* or *n't*."""
    if word in ("am", "may", "might") or not (always_short or draw.chance(0.5)):
        return word, "(RB not)"
    return {"can": "ca", "will": "wo"}.get(word, word), "(RB n't)"


def willed(draw: TreeDraw, kinds: tuple[str, ...]) -> Core:
    """Draws a voluntary action, with adverbials."""
    core = action(draw, kinds)
    while core.base in MISHAPS:
        core = action(draw, kinds)
    return add_adverbials(draw, core, "will", 0.2)


def infinitive(core: Core) -> str:
    """Returns the infinitive with *to*."""
    return node("VP", "(TO to)", node("VP", core.form("VB"), core.rest))


def passive(draw: TreeDraw, index: int, frame: Frame) -> Core:
    """Draws a passive, perhaps with its agent; `index` is the co-index of the subject."""
    done = take(draw, frame.verb, Phrase(f"(NP (-NONE- *-{index}))"))
    agent = ""
    if draw.chance(0.5):
        agent = f"(PP (IN by) {relabel(someone(draw, 1, True).text, 'NP-LGS')})"
    return be(node("VP", done.form("VBN"), done.rest, agent), index)
