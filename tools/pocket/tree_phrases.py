"""Random noun phrases of the pocket treebank, as text of the Penn Treebank.

For example, "the dog" is "(NP (DT the) (NN dog))".
"""

from typing import NamedTuple

from pocket import names
from pocket.lexicon import ADJECTIVES_OF, NOUNS
from pocket.numbers import number_words
from pocket.phrases import Draw, given_name
from pocket.tables import MASS_TABLES
from pocket.verbs import join

ANIMATE = ("person", "kin", "young", "animal")  # kinds of nouns that can act
FIRST, PLURAL, THIRD = 0, 1, 2  # persons of the verb: I; you, we, they; he, she, it
PRONOUNS = (  # as a subject, as an object, person
    ("I", "me", FIRST),
    ("you", "you", PLURAL),
    ("he", "him", THIRD),
    ("she", "her", THIRD),
    ("we", "us", PLURAL),
    ("they", "them", PLURAL),
)
DETERMINERS = ("the",) * 6 + ("a",) * 4 + ("this", "that", "own", "own")
INDEFINITE_PLURALS = ("(DT some)", "(JJ many)", "(JJ several)", "number", "number", "")
PLURAL_DETERMINERS = (
    ("(DT the)",) * 3 + ("(DT these)", "(DT those)", "(DT all)") + INDEFINITE_PLURALS
)
OWN = ("my", "your", "his", "her", "our", "their")
APPROXIMATIONS = (
    "(JJR more) (IN than)",
    "(JJR fewer) (IN than)",
    "(IN about)",
    "(RB almost)",
    "(IN at) (JJS least)",
)


class TreeDraw(Draw):
    """Draws random items, and numbers the traces of a sentence."""

    last_index = 0

    def index(self) -> int:
        """Returns the next co-index."""
        self.last_index += 1
        return self.last_index


class Phrase(NamedTuple):
    """A noun phrase."""

    text: str  # "(NP (DT the) (NN dog))"
    person: int = THIRD
    thing: bool = False  # not a person or an animal
    pronoun: bool = False


def node(label: str, *children: str) -> str:
    """Returns a node; empty children are left out."""
    return f"({join(label, *children)})"


def relabel(text: str, label: str) -> str:
    """Replaces the label of the outermost node."""
    return f"({label} {text.partition(' ')[2]}"


def leaves(tag: str, words: str) -> str:
    """Returns a pre-terminal for each word: "(NN living) (NN room)"."""
    return " ".join(f"({tag} {word})" for word in words.split())


def adjectives(draw: TreeDraw, kind: str) -> str:
    """Draws zero, one or two adjectives for a kind of noun or group of places."""
    known = ADJECTIVES_OF[kind]
    chance = draw.random()
    adjective = draw.pick(known)[0]
    if chance < 0.6:
        return ""
    if chance < 0.9:
        return f"(JJ {adjective})"
    if chance < 0.95:
        return f"(ADJP (RB {draw.pick(('very', 'really', 'rather'))}) (JJ {adjective}))"
    second = draw.pick(known)[0]
    if second == adjective:
        return f"(JJ {adjective})"
    return f"(JJ {adjective}) (JJ {second})"


def counted(draw: TreeDraw) -> str:
    """Draws a number: "(CD twelve)", "(QP (JJR more) (IN than) (CD ten))"."""
    number = draw.between(2, 12) if draw.chance(0.7) else draw.between(13, 99)
    word, _ = number_words(number)
    if draw.chance(0.75):
        return f"(CD {word})"
    return f"(QP {draw.pick(APPROXIMATIONS)} (CD {word}))"


def large_number(draw: TreeDraw) -> str:
    """Draws a number from 2 to 999, of one word or more."""
    number = draw.between(2, 99) if draw.chance(0.4) else draw.between(100, 999)
    words = number_words(number)[0].split()
    parts = " ".join("(CC and)" if word == "and" else f"(CD {word})" for word in words)
    return f"(QP {parts})" if len(words) > 1 else parts


def common(
    draw: TreeDraw,
    kind: str,
    plural: bool | None = None,
    determiners: tuple[str, ...] = DETERMINERS,
) -> Phrase:
    """Draws a common noun with a determiner and adjectives.

    Args:
      draw: the source of randomness.
      kind: a key of `NOUNS`.
      plural: whether the noun is in the plural; None for a random choice.
      determiners: those of the singular; "own" is a possessive. With ("a",) the plural is
        indefinite, too.
    """
    noun = draw.pick(NOUNS[kind])
    thing = kind not in ANIMATE
    before = adjectives(draw, kind)
    if kind in MASS_TABLES:
        start = draw.pick(("", "", "", "(DT some)", "(DT the)"))
        return Phrase(node("NP", start, before, leaves("NN", noun.en)), THIRD, thing)
    if plural is None:
        plural = draw.chance(0.25)
    if plural:
        start = _plural_determiner(draw, kind, determiners)
        modifiers = " ".join(noun.en.split()[:-1])
        head = noun.en_plural.split()[-1]
        text = node("NP", start, before, leaves("NN", modifiers), f"(NNS {head})")
        return Phrase(text, PLURAL, thing)
    following = join(before, leaves("NN", noun.en))
    start = _singular_determiner(draw, kind, determiners, following)
    return Phrase(node("NP", start, following), THIRD, thing)


def _plural_determiner(draw: TreeDraw, kind: str, determiners: tuple[str, ...]) -> str:
    if kind == "kin":
        return f"(PRP$ {draw.pick(OWN)})"
    start = draw.pick(INDEFINITE_PLURALS if determiners == ("a",) else PLURAL_DETERMINERS)
    return counted(draw) if start == "number" else start


def _singular_determiner(
    draw: TreeDraw, kind: str, determiners: tuple[str, ...], following: str
) -> str:
    if kind == "kin" and determiners is DETERMINERS:
        determiners = ("own", "own", "the")
    word = draw.pick(determiners)
    if word == "own":
        return possessor(draw) if draw.chance(0.25) else f"(PRP$ {draw.pick(OWN)})"
    if word == "a":
        first_word = next(part for part in following.split() if part.endswith(")"))
        word = "an" if first_word[0] in "aeiou" else "a"
    return f"(DT {word})"


def possessor(draw: TreeDraw) -> str:
    """Draws a possessor: "(NP (NNP Anna) (POS 's))"."""
    if draw.chance(0.6):
        text = name(draw).text
    else:
        text = f"(NP (DT the) (NN {draw.pick(NOUNS['person']).en}))"
    return f"{text[:-1]} (POS 's))"


def name(draw: TreeDraw) -> Phrase:
    """Draws a person with a name: Anna, Mr. Keller, Anna Keller."""
    if draw.chance(0.7):
        surname = draw.pick(names.SURNAMES)
    else:
        surname = draw.pick(names.FAMILY_STARTS) + draw.pick(names.FAMILY_ENDS)
    chance = draw.random()
    if chance < 0.2:
        title = draw.pick(("Mr.", "Mrs.", "Dr."))
        return Phrase(f"(NP (NNP {title}) (NNP {surname}))")
    forename, _ = given_name(draw)
    if chance < 0.3:
        return Phrase(f"(NP (NNP {forename}) (NNP {surname}))")
    return Phrase(f"(NP (NNP {forename}))")


def someone(draw: TreeDraw, case: int = 0, simple: bool = False) -> Phrase:
    """Draws one or several persons.

    Args:
      draw: the source of randomness.
      case: 0 for a subject, 1 for an object.
      simple: whether to leave out phrases that follow the noun.
    """
    chance = draw.random()
    if chance < 0.25:
        *words, person = draw.pick(PRONOUNS)
        return Phrase(f"(NP (PRP {words[case]}))", person, pronoun=True)
    if chance < 0.5:
        return name(draw)
    if chance < 0.56:
        return _two_names(draw)
    if chance < 0.62 and not simple:
        more = f"{common(draw, 'person', False).text} (, ,)" if draw.chance(0.2) else ""
        kin = common(draw, "kin", False).text
        person = common(draw, "person", False).text
        return Phrase(node("NP", more, kin, "(CC and)", person), PLURAL)
    kind = draw.pick(("person", "person", "kin", "young"))
    determiners: tuple[str, ...] = DETERMINERS
    if case == 0 and kind != "kin" and draw.chance(0.06):
        determiners = ("every", "no")
    phrase = common(draw, kind, None, determiners)
    return phrase if simple or draw.chance(0.8) else described(draw, phrase)


def _two_names(draw: TreeDraw) -> Phrase:
    first = name(draw).text
    second = name(draw).text
    if first.count("NNP") == second.count("NNP") == 1:  # two single words form a flat phrase
        first = first[4:-1]
        second = second[4:-1]
    return Phrase(f"(NP {first} (CC and) {second})", PLURAL)


def something(draw: TreeDraw, kind: str) -> Phrase:
    """Draws a thing of a kind, sometimes with a phrase that follows the noun, or two things."""
    phrase = common(draw, kind)
    chance = draw.random()
    if chance < 0.07 and kind not in MASS_TABLES:
        word = draw.pick(("and", "and", "or"))
        return Phrase(f"(NP {phrase.text} (CC {word}) {common(draw, kind).text})", PLURAL, True)
    if chance > 0.22:
        return phrase
    if kind in ("text", "page", "written", "told"):
        topics = (someone(draw, 1, True), common(draw, "animal"), common(draw, "sight"))
        return followed(phrase, f"(PP (IN about) {draw.pick(topics).text})")
    if kind in ("opening", "room"):
        whole = common(draw, draw.pick(("vehicle", "sight")), False).text
        return followed(phrase, f"(PP (IN of) {whole})")
    if kind in ("thing", "present", "device", "upright"):
        return _located_or_pictured(draw, phrase)
    return phrase


def _located_or_pictured(draw: TreeDraw, phrase: Phrase) -> Phrase:
    """Draws what a picture shows, or where a thing is."""
    if draw.chance(0.3):
        if "picture" not in phrase.text:
            return phrase
        return followed(phrase, f"(PP (IN of) {someone(draw, 1, True).text})")
    return followed(phrase, surface(draw, "PP-LOC"))


def surface(draw: TreeDraw, label: str) -> str:
    """Draws a place at a piece of furniture: "on the table"."""
    preposition = draw.pick(("on", "under", "behind"))
    furniture = common(draw, "furniture", False, ("the", "own")).text
    return f"({label} (IN {preposition}) {furniture})"


def described(draw: TreeDraw, phrase: Phrase) -> Phrase:
    """Adds a description to a person: "the man with the red hat", "the sister of the queen"."""
    if draw.chance(0.6) or not phrase.text.startswith(("(NP (DT the)", "(NP (DT a)")):
        preposition = draw.pick(("with", "with", "without"))
        thing = common(draw, draw.pick(("clothing", "thing"))).text
        return followed(phrase, f"(PP (IN {preposition}) {thing})")
    person = common(draw, "person", False, ("the", "the", "a", "this")).text
    return followed(phrase, f"(PP (IN of) {person})")


def followed(phrase: Phrase, following: str) -> Phrase:
    """Returns a noun phrase with a phrase that follows it."""
    return phrase._replace(text=f"(NP {phrase.text} {following})")
