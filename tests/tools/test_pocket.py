"""The pocket corpus: invariants of all generated pairs, and sentences with known translations."""

import itertools

import pytest
from pocket import corpus
from pocket.grammar import (
    PRONOUN_OF,
    Phrase,
    build,
    finish,
    noun_phrase,
    prepositional,
    question,
    statement,
    subordinate,
)
from pocket.lexicon import ADJECTIVES, NOUNS, VERBS, Noun
from pocket.numbers import clock, number_words
from pocket.phrases import Draw, object_part
from pocket.sentences import sentence
from write_pocket import GENERATORS

from tf_transformer.data.pocket import read_pairs

SAMPLE = 10_000


def noun(word: str) -> Noun:
    """Returns a noun by its English singular."""
    return next(noun for table in NOUNS.values() for noun in table if noun.en == word)


def np(determiner, word: str, adjective: str | None = None, plural: bool = False) -> Phrase:
    """Builds a noun phrase from English words."""
    return noun_phrase(determiner, ADJECTIVES[adjective] if adjective else None, noun(word), plural)


ANNA = Phrase("Anna", "Anna", "Anna", "Anna", "Anna", 2, "f")
TEACHER = np("the", "teacher")
EGO, YOU = (PRONOUN_OF[key] for key in "iy")


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return corpus.generate(SAMPLE, seed=1)


# Invariants


def test_the_same_seed_gives_the_same_pairs_and_another_seed_gives_others():
    assert corpus.generate(500, seed=3) == corpus.generate(500, seed=3)
    assert corpus.generate(500, seed=3) != corpus.generate(500, seed=4)
    assert corpus.generate(500, seed=3)[:100] == corpus.generate(100, seed=3)


def test_no_sentence_occurs_twice_on_either_side(pairs):
    for side in zip(*pairs):
        assert len(side) == len(set(side)) == SAMPLE


def test_sentences_have_three_to_thirty_words(pairs):
    lengths = [len(side.split()) for pair in pairs for side in pair]
    assert min(lengths) >= 3 and max(lengths) <= 30
    assert 8 <= sum(lengths) / len(lengths) <= 12


def test_sentences_are_well_formed(pairs):
    for pair in pairs:
        assert pair[0][-1] == pair[1][-1] and pair[0][-1] in ".?"
        for side in pair:
            assert side[0].isupper() and side == " ".join(side.split())
            for bad in (" ,", ",,", " .", ",.", ",?", "_", ";", "+", "*"):
                assert bad not in side


def test_translation_is_a_function_in_both_directions():
    draw = Draw(8)
    german = {}
    english = {}
    for _ in range(20_000):
        en, de = sentence(draw)
        assert german.setdefault(en, de) == de
        assert english.setdefault(de, en) == en


def test_the_built_in_corpus_is_what_the_grammar_writes():
    """The first pairs here; the checksum of the file, which the reader verifies, has the others."""
    assert list(itertools.islice(read_pairs("pocket"), 5_000)) == GENERATORS["pocket"](5_000)


def test_number_out_of_range_is_refused():
    assert corpus.generate(0) == []
    for number in (-1, corpus.MAX_PAIRS + 1):
        with pytest.raises(ValueError, match="number"):
            corpus.generate(number)


# Rules: German word order, agreement, cases, contractions, separable verbs, numbers and times


def test_numbers_and_times():
    """The words of a number are distinct in both languages."""
    words = [number_words(number) for number in range(1000)]
    assert len({en for en, _ in words}) == len({de for _, de in words}) == 1000
    assert words[66] == ("sixty-six", "sechsundsechzig")
    assert words[101] == ("one hundred and one", "hunderteins")
    assert clock(2, 25) == ("at twenty-five past two", "um fünf vor halb drei")
    assert clock(12, 50) == ("at ten to one", "um zehn vor eins")
    for wrong in (-1, 1000):
        with pytest.raises(ValueError, match="999"):
            number_words(wrong)
    for time in ((0, 0), (13, 0), (3, 60), (3, 7)):
        with pytest.raises(ValueError, match="clock"):
            clock(*time)


def clause(subject: Phrase, verb: str, tense: str, *parts, **options):
    return build(subject, VERBS[verb], tense, list(parts), **options)


def because(parts):
    """Returns a clause after *because*."""
    return subordinate(parts, ("because", "weil"))


THE_BOOK = object_part(np("the", "book"), False)
A_BOOK = object_part(np("a", "book", "new"), False)
NO_BOOK = object_part(np("a", "book", "new"), True)
NOT_THE_BOOK = object_part(np("the", "book"), True)
AT_SIX = ("when", *clock(6, 0))
TODAY = ("today", "heute")
IN_THE_GARDEN = ("where", "in the garden", "im Garten")
TO_ROME = ("whither", "to Rome", "nach Rom")
BY_TRAIN = ("how", "by train", "mit dem Zug")
WHO = Phrase("who", "", "die", "die", "der", 2, "f")

CLAUSES = [
    # Separable verbs.
    statement(clause(ANNA, "auf+stehen", "present", AT_SIX)),
    ("Anna gets up at six o'clock", "Anna steht um sechs Uhr auf"),
    because(clause(ANNA, "auf+stehen", "past")),
    ("because Anna got up", "weil Anna aufgestanden ist"),
    question(clause(YOU, "auf+stehen", "past")),
    ("did you get up", "bist du aufgestanden"),
    # The German verb is second.
    statement(clause(TEACHER, "kaufen", "present", A_BOOK), TODAY),
    ("today the teacher buys a new book", "heute kauft der Lehrer ein neues Buch"),
    # The middle field: a definite object before the place, an indefinite object after it.
    statement(clause(ANNA, "lesen", "past", THE_BOOK, IN_THE_GARDEN)),
    ("Anna read the book in the garden", "Anna hat das Buch im Garten gelesen"),
    statement(clause(ANNA, "lesen", "past", A_BOOK, IN_THE_GARDEN)),
    ("Anna read a new book in the garden", "Anna hat im Garten ein neues Buch gelesen"),
    statement(clause(EGO, "fahren", "future", BY_TRAIN, TO_ROME)),
    ("I will travel to Rome by train", "ich werde mit dem Zug nach Rom fahren"),
    # Negation.
    statement(clause(ANNA, "kaufen", "present", NO_BOOK, negated=True)),
    ("Anna does not buy a new book", "Anna kauft kein neues Buch"),
    statement(clause(ANNA, "lesen", "present", NOT_THE_BOOK, ("when", *TODAY), negated=True)),
    ("Anna does not read the book today", "Anna liest das Buch heute nicht"),
    prepositional("in", "in", "dat", np("the", "museum", "new")),
    ("in the new museum", "im neuen Museum"),
    prepositional("with", "mit", "dat", np("", "child", "old", plural=True)),
    ("with old children", "mit alten Kindern"),
    # Modal verbs, questions, relative clauses and pronouns.
    because(clause(YOU, "lesen", "wish", THE_BOOK)),
    ("because you would like to read the book", "weil du das Buch lesen möchtest"),
    question(clause(ANNA, "helfen", "present"), ("who", "wem")),
    ("who does Anna help", "wem hilft Anna"),
    subordinate(clause(WHO, "lesen", "past", THE_BOOK)),
    ("who read the book", "die das Buch gelesen hat"),
    finish(("the man who sings", "der Mann, der singt,"), "?"),  # without the last comma
    ("The man who sings?", "Der Mann, der singt?"),
]


@pytest.mark.parametrize(("pair", "expected"), zip(CLAUSES[::2], CLAUSES[1::2]))
def test_clauses(pair, expected):
    assert pair == expected
