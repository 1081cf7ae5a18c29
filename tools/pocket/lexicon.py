"""The nouns, verbs, places and adjectives of the pocket corpus, read from the tables."""

from dataclasses import dataclass
from typing import NamedTuple

from pocket.tables import (
    ADJECTIVE_TABLE,
    ADJECTIVE_TABLES,
    FRAME_TABLES,
    MASS_TABLES,
    NOUN_TABLES,
    PLACE_TABLES,
)

Pair = tuple[str, str]  # English, German


# Nouns and verbs are compared by identity: they are keys of caches that each sentence reads often.
@dataclass(frozen=True, eq=False)
class Noun:
    """A noun in both languages; `weak` is the German accusative and dative singular."""

    en: str
    en_plural: str
    gender: str  # "m", "f" or "n"
    de: str
    weak: str
    de_plural: str


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb in both languages."""

    en: str
    past: str
    prefix: str  # of a German separable verb
    infinitive: str  # German, without the prefix
    changed: str  # the German stem of the second and third person where it differs
    participle: str
    sein: bool  # whether the German perfect has the auxiliary "sein"
    reflexive: bool

    @property
    def dictionary_form(self) -> str:
        """The German infinitive with its prefix: *aufstehen*."""
        return self.prefix + self.infinitive

    @property
    def key(self) -> str:
        """The key of the verb in `VERBS`: *auf+stehen*."""
        return f"{self.prefix}+{self.infinitive}" if self.prefix else self.infinitive


class Frame(NamedTuple):
    """A verb and its complements."""

    verb: Verb
    kinds: tuple[str, ...]  # kinds of nouns
    places: str  # the group of places where the action happens
    english: str  # preposition
    german: str  # preposition
    case: str  # of the German preposition: "acc" or "dat"


class Place(NamedTuple):
    """A noun for a place, with its prepositions of location and of direction."""

    noun: Noun
    where: str  # "at"
    whither: str  # "to"
    where_de: str  # "an"
    whither_de: str  # "zu"


def rows(table: str, separator: str = ",") -> tuple[tuple[str, ...], ...]:
    """Splits a table into rows of words. Underscores become blanks."""
    return tuple(
        tuple(word.replace("_", " ") for word in row.split())
        for row in table.split(separator)
        if row.strip()
    )


def english_s(word: str) -> str:
    """Adds the -s of the English plural and of the third person: *boxes*, *babies*, *goes*."""
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "go", "to")) else "s")


def noun(row: tuple[str, ...]) -> Noun:
    """Reads one row of a table of nouns."""
    english, gender, german, de_plural = row
    en, _, en_plural = english.partition("/")
    de, _, weak = german.partition("/")
    return Noun(en, en_plural or english_s(en), gender, de, weak or de, de_plural)


def verb(base: str, past: str, german: str, participle: str) -> Verb:
    """Reads the first four fields of a row of a table of verbs."""
    whole, _, changed = german.removeprefix("sich ").partition(" ")
    prefix, _, infinitive = whole.rpartition("+")
    return Verb(
        en=base,
        past=past,
        prefix=prefix,
        infinitive=infinitive,
        changed=changed,
        participle=participle.removeprefix("*"),
        sein=participle.startswith("*"),
        reflexive=german.startswith("sich "),
    )


def frame(line: str) -> Frame:
    """Reads one row of a table of verbs."""
    fields = [field.strip() for field in line.split(";")] + [""] * 9
    kinds, places, english, german, case = fields[4:9]
    return Frame(verb(*fields[:4]), tuple(kinds.split()), places, english, german, case)


def place(line: str) -> Place:
    """Reads one row of a table of places."""
    name, *prepositions = line.split(";")
    return Place(noun(rows(name)[0]), *(word.strip() for word in prepositions))


NOUNS = {
    kind: tuple(noun(row) for row in rows(table))
    for kind, table in (NOUN_TABLES | MASS_TABLES).items()
}
PLACES = {
    group: tuple(place(line) for line in table.strip().splitlines())
    for group, table in PLACE_TABLES.items()
}
FRAMES = {
    kind: tuple(frame(line) for line in table.strip().splitlines())
    for kind, table in FRAME_TABLES.items()
}
ADJECTIVES = {row[0]: (row[0], row[1], row[-1]) for row in rows(ADJECTIVE_TABLE)}
ADJECTIVES_OF = {
    kind: tuple(ADJECTIVES[word.replace("_", " ")] for word in table.split())
    for kind, table in ADJECTIVE_TABLES.items()
}
VERBS = {item.verb.key: item.verb for items in FRAMES.values() for item in items}
