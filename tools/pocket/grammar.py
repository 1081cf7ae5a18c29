"""The grammar of the pocket corpus: phrases and clauses, in English and in German at once.

A `Phrase` has the three German cases, a verb has its tenses in both languages, and a `Clause` is a
plan that can become a main clause, a subordinate clause, a question or an infinitive. Nothing in
this module is random: other modules draw the parts, this one puts them into words.
"""

from functools import cache
from typing import NamedTuple

from pocket.lexicon import Noun, Pair, Verb
from pocket.numbers import number_words
from pocket.verbs import REFLEXIVES, Form, conjugate, join

Part = tuple[str, str, str]  # slot, English, German
Adjective = tuple[str, str, str]  # English, German, German stem

# Determiner -> its German stem, its endings (a key of ARTICLE_ENDINGS), and the endings of an
# adjective after it (a key of ADJECTIVE_ENDINGS).
DETERMINERS = {
    "the": ("", "the", "weak"),
    "a": ("ein", "ein", "ein"),
    "": ("", "bare", "strong"),
    "many": ("viel", "strong", "strong"),
    "this": ("dies", "strong", "weak"),
    "which": ("welch", "strong", "weak"),
    "all": ("all", "strong", "weak"),
    "no": ("kein", "ein", "ein"),
    "my": ("mein", "ein", "ein"),
    "your": ("dein", "ein", "ein"),
    "his": ("sein", "ein", "ein"),
    "her": ("ihr", "ein", "ein"),
    "our": ("unser", "ein", "ein"),
    "their": ("ihr", "ein", "ein"),
}
# Endings: nominative, accusative, dative of masculine, feminine, neuter and plural.
STRONG = {
    "m": ("er", "en", "em"),
    "f": ("e", "e", "er"),
    "n": ("es", "es", "em"),
    "p": ("e", "e", "en"),
}
ARTICLE_ENDINGS = {
    "the": {
        "m": ("der", "den", "dem"),
        "f": ("die", "die", "der"),
        "n": ("das", "das", "dem"),
        "p": ("die", "die", "den"),
    },
    "ein": {
        "m": ("", "en", "em"),
        "f": ("e", "e", "er"),
        "n": ("", "", "em"),
        "p": ("e", "e", "en"),
    },
    "strong": STRONG,
    "bare": dict.fromkeys("mfnp", ("", "", "")),
}
# The ending of an adjective marks the case and gender that the determiner does not mark.
ADJECTIVE_ENDINGS = {
    "weak": {
        "m": ("e", "en", "en"),
        "f": ("e", "e", "en"),
        "n": ("e", "e", "en"),
        "p": ("en", "en", "en"),
    },
    "ein": {
        "m": ("er", "en", "en"),
        "f": ("e", "e", "en"),
        "n": ("es", "es", "en"),
        "p": ("en", "en", "en"),
    },
    "strong": STRONG,
}
RELATIVES = ARTICLE_ENDINGS["the"] | {"p": ("die", "die", "denen")}
CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
    "bei dem": "beim",
}

# The order of the slots of a clause. In German, known information comes early; new information and
# what belongs to the verb come late.
ENGLISH_ORDER = """
    predicate pronoun dative object new recipient about whither how with where when
""".split()
GERMAN_ORDER = """
    pronoun dative recipient when with how object where new about whither predicate
""".split()
NEGATED_ORDER = """
    pronoun dative recipient object when not with how where about whither predicate
""".split()
ENGLISH_RANK = {slot: rank for rank, slot in enumerate(ENGLISH_ORDER)}
GERMAN_RANK = {slot: rank for rank, slot in enumerate(GERMAN_ORDER)}
NEGATED_RANK = {slot: rank for rank, slot in enumerate(NEGATED_ORDER)}


class Phrase(NamedTuple):
    """A noun phrase, with what agrees with it."""

    en: str  # English as a subject
    en_object: str
    nom: str  # the German cases
    acc: str
    dat: str
    person: int = 2  # of the verb: 0 to 4 for I, you, he/she/it, we, they
    gender: str = "m"  # "m", "f", "n", "p" for the plural; "i", "y", "w" for I, you, we
    definite: bool = True
    negated: str = ""  # the German accusative with "kein" of an indefinite phrase


class Clause(NamedTuple):
    """The plan of a clause."""

    subject: Phrase
    form: Form
    negated: bool
    en: str  # what follows the English verb
    de: str  # the German middle field
    adverb: str = ""  # before the English verb
    first: Pair = ("", "")  # an adverbial in front; in German, the subject then follows the verb


PRONOUNS = (
    Phrase("I", "me", "ich", "mich", "mir", 0, "i"),
    Phrase("you", "you", "du", "dich", "dir", 1, "y"),
    Phrase("he", "him", "er", "ihn", "ihm", 2, "m"),
    Phrase("she", "her", "sie", "sie", "ihr", 2, "f"),
    Phrase("we", "us", "wir", "uns", "uns", 3, "w"),
    Phrase("they", "them", "sie", "", "ihnen", 4, "p"),
)
PRONOUN_OF = {phrase.gender: phrase for phrase in PRONOUNS}
OWN = {"i": "my", "y": "your", "m": "his", "f": "her", "w": "our", "p": "their"}


@cache
def noun_phrase(
    determiner: str | int, adjective: Adjective | None, noun: Noun, plural: bool = False
) -> Phrase:
    """Builds a noun phrase whose parts agree.

    Args:
      determiner: a key of `DETERMINERS`, "" for none, or a number.
      adjective: a row of the table of adjectives, or None.
      noun: the noun.
      plural: whether the phrase is in the plural.
    Returns: the phrase in all its forms.
    """
    gender = "p" if plural else noun.gender
    word, articles, pattern = _determiner(determiner, gender)
    if plural and word == "this":
        word = "these"
    en = join(adjective[0] if adjective else "", noun.en_plural if plural else noun.en)
    if word == "a" and en[0] in "aeiou":
        word = "an"
    en = join(word, en)
    german = [
        join(*words)
        for words in zip(
            articles,
            _adjective_cases(adjective, pattern, gender),
            _noun_cases(noun, plural),
            strict=True,
        )
    ]
    definite = determiner not in ("a", "")
    negated = "" if definite else noun_phrase("no", adjective, noun, plural).acc
    nominative, accusative, dative = german
    person = 4 if plural else 2
    return Phrase(en, en, nominative, accusative, dative, person, gender, definite, negated)


def _determiner(determiner: str | int, gender: str) -> tuple[str, tuple[str, ...], str]:
    """Returns the English word, the German cases, and the key of the adjective's endings."""
    if isinstance(determiner, int):
        word, counted = number_words(determiner)
        return word, (counted,) * 3, "strong"
    stem, endings, pattern = DETERMINERS[determiner]
    cases = tuple(stem + ending for ending in ARTICLE_ENDINGS[endings][gender])
    return determiner, cases, pattern


def _adjective_cases(adjective: Adjective | None, pattern: str, gender: str) -> tuple[str, ...]:
    if not adjective:
        return ("", "", "")
    return tuple(adjective[2] + ending for ending in ADJECTIVE_ENDINGS[pattern][gender])


def _noun_cases(noun: Noun, plural: bool) -> tuple[str, str, str]:
    if not plural:
        return noun.de, noun.weak, noun.weak
    dative = noun.de_plural + ("" if noun.de_plural[-1] in "ns" else "n")
    return noun.de_plural, noun.de_plural, dative


def prepositional(english: str, german: str, case: str, phrase: Phrase) -> Pair:
    """Builds a prepositional phrase, with contractions: *in the garden*, *im Garten*."""
    en = f"{english} {phrase.en_object}"
    de = f"{german} {phrase.acc if case == 'acc' else phrase.dat}"
    if phrase.en_object.startswith("the "):
        article = " ".join(de.split(" ", 2)[:2])
        de = CONTRACTIONS.get(article, article) + de[len(article) :]
    return en, de


def build(
    subject: Phrase,
    verb: Verb,
    tense: str,
    parts: list[Part],
    negated: bool = False,
    adverb: Pair = ("", ""),
    first: Pair = ("", ""),
) -> Clause:
    """Builds the plan of a clause.

    Args:
      subject: the subject.
      verb: the verb.
      tense: as in `conjugate`.
      parts: the other parts, each with its slot (see `ENGLISH_ORDER`), English and German.
      negated: whether the clause is negated. German has *nicht* unless a part already has *kein*.
      adverb: an adverb such as *often*, which precedes the English verb.
      first: an adverbial in front of the clause.
    Returns: the plan, for `statement`, `subordinate`, `question` or `infinitive`.
    """
    english = sorted([(ENGLISH_RANK[slot], en) for slot, en, _ in parts])
    ranks = GERMAN_RANK
    if negated and all(slot != "new" for slot, _, _ in parts):
        ranks = NEGATED_RANK
    german = [(ranks[slot], de) for slot, _, de in parts]
    if ranks is NEGATED_RANK:
        german.append((ranks["not"], "nicht"))
    if verb.reflexive:
        german.append((ranks["pronoun"], REFLEXIVES[subject.person]))
    if adverb[0]:
        german.append((ranks["when"], adverb[1]))
    german.sort()
    en = " ".join([text for _, text in english])
    de = " ".join([text for _, text in german])
    form = conjugate(verb, tense, subject.person)
    return Clause(subject, form, negated, en, de, adverb[0], first)


def predicate(clause: Clause) -> Pair:
    """Returns a clause without its subject: *reads the book*, *liest das Buch*."""
    form = clause.form
    en = join(clause.adverb, form.en_not if clause.negated else form.en, clause.en)
    return en, join(form.finite, clause.de, form.end)


def statement(clause: Clause, first: Pair | None = None) -> Pair:
    """Returns a clause as a main clause; the German verb is second.

    Args:
      clause: the plan.
      first: an adverbial or a clause in front; None for that of the plan.
    """
    first = first or clause.first
    subject = clause.subject
    en, de = predicate(clause)
    if first[1]:
        de = join(first[1], clause.form.finite, subject.nom, clause.de, clause.form.end)
    else:
        de = join(subject.nom, de)
    return join(first[0], subject.en, en), de


def subordinate(clause: Clause, first: Pair = ("", "")) -> Pair:
    """Returns a clause as a subordinate clause; the German verb is last.

    Args:
      clause: the plan.
      first: the conjunction or the relative pronoun.
    """
    en, _ = predicate(clause)
    de = join(first[1], clause.subject.nom, clause.de, clause.form.last)
    return join(first[0], clause.subject.en, en), de


def question(clause: Clause, first: Pair = ("", "")) -> Pair:
    """Returns a clause as a question; `first` is the question word, empty in a yes/no question."""
    form = clause.form
    en = join(first[0], form.auxiliary, clause.subject.en, clause.adverb, form.base, clause.en)
    return en, join(first[1], form.finite, clause.subject.nom, clause.de, form.end)


def infinitive(clause: Clause) -> Pair:
    """Returns a clause as an infinitive: *to get up*, *aufzustehen*."""
    return join("to", clause.form.base, clause.en), join(clause.de, clause.form.zu)


def finish(pair: Pair, mark: str = ".") -> Pair:
    """Capitalizes both sentences of a pair and adds a final mark."""
    en, de = pair
    de = de.rstrip(",")  # of a relative clause at the end
    return en[0].upper() + en[1:] + mark, de[0].upper() + de[1:] + mark


def declarative(clause: Clause, first: Pair | None = None) -> Pair:
    """Returns a clause as a whole declarative sentence; `first` as in `statement`."""
    return finish(statement(clause, first))


def interrogative(clause: Clause, first: Pair = ("", "")) -> Pair:
    """Returns a clause as a whole interrogative sentence; `first` as in `question`."""
    return finish(question(clause, first), "?")
