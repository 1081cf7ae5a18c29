"""The words of the pocket corpus: nouns, verbs, places and adjectives, as they are read from the tables."""

from dataclasses import dataclass
from typing import NamedTuple

from tf_transformer.data.pocket.tables import (
    ADJECTIVE_TABLE,
    ADJECTIVE_TABLES,
    FRAME_TABLES,
    MASS_TABLES,
    NOUN_TABLES,
    PLACE_TABLES,
)

Pair = tuple[str, str]  # English, German


# Compared by identity, because nouns and verbs are keys of the caches and a sentence looks up several of them.
@dataclass(frozen=True, eq=False)
class Noun:
    """A noun in both languages; ``weak`` is the German accusative and dative singular."""

    en: str
    en_plural: str
    gender: str
    de: str
    weak: str
    de_plural: str


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb in both languages; ``changed`` is the German stem of the second and third person, or empty."""

    en: str
    past: str
    prefix: str
    infinitive: str
    changed: str
    participle: str
    sein: bool
    reflexive: bool


class Frame(NamedTuple):
    """A verb with what it goes with: classes of nouns, places, and a preposition with its case, where it has one."""

    verb: Verb
    kinds: tuple[str, ...]
    places: str
    english: str
    german: str
    case: str


class Place(NamedTuple):
    """A noun for a place with the prepositions that say where and where to (``at``: *am*, ``to``: *zum*)."""

    noun: Noun
    where: str
    whither: str
    where_de: str
    whither_de: str


def rows(table: str, separator: str = ",") -> tuple[tuple[str, ...], ...]:
    """Split a table into rows of words, with the underscores turned back into blanks."""
    return tuple(
        tuple(word.replace("_", " ") for word in row.split())
        for row in table.split(separator)
        if row.strip()
    )


def english_s(word: str) -> str:
    """Add the ``-s`` of the English plural and of the third person: *boxes*, *babies*, *goes*."""
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "go", "to")) else "s")


def noun(row: tuple[str, ...]) -> Noun:
    """Read one row of a table of nouns."""
    english, gender, german, plural = row
    singular, _, en_plural = english.partition("/")
    de, _, weak = german.partition("/")
    return Noun(singular, en_plural or english_s(singular), gender, de, weak or de, plural)


def verb(base: str, past: str, german: str, participle: str) -> Verb:
    """Read the first four fields of a row of a table of verbs."""
    stem, _, changed = german.removeprefix("sich ").partition(" ")
    prefix, _, infinitive = stem.rpartition("+")
    is_sein = participle.startswith("*")
    return Verb(
        base,
        past,
        prefix,
        infinitive,
        changed,
        participle.removeprefix("*"),
        is_sein,
        german.startswith("sich "),
    )


def frame(line: str) -> Frame:
    """Read one row of a table of verbs."""
    fields = [field.strip() for field in line.split(";")] + [""] * 9
    kinds, places, english, german, case = fields[4:9]
    return Frame(verb(*fields[:4]), tuple(kinds.split()), places, english, german, case)


def place(row: str) -> Place:
    """Read one row of a table of places."""
    first, *prepositions = row.split(";")
    return Place(noun(rows(first)[0]), *(word.strip() for word in prepositions))


NOUNS = {
    kind: tuple(noun(row) for row in rows(table))
    for kind, table in (NOUN_TABLES | MASS_TABLES).items()
}
PLACES = {
    kind: tuple(place(row) for row in table.split(",")) for kind, table in PLACE_TABLES.items()
}
FRAMES = {
    kind: tuple(frame(line) for line in table.splitlines()) for kind, table in FRAME_TABLES.items()
}
ADJECTIVES = {row[0]: (row[0], row[1], row[-1]) for row in rows(ADJECTIVE_TABLE)}
ADJECTIVES_OF = {
    kind: tuple(ADJECTIVES[word.replace("_", " ")] for word in table.split())
    for kind, table in ADJECTIVE_TABLES.items()
}
VERBS = {
    item.verb.infinitive
    if not item.verb.prefix
    else f"{item.verb.prefix}+{item.verb.infinitive}": item.verb
    for table in FRAMES.values()
    for item in table
}
