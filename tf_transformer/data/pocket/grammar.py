"""The grammar of the pocket corpus: phrases and clauses that are spoken in English and in German at once.

A noun phrase knows its three German cases, a verb its tenses in both languages, and a :class:`Clause` is a plan that
can be spoken as a main clause, a subordinate clause, a question or an infinitive.  Nothing here is random: the module
:mod:`tf_transformer.data.pocket.corpus` chooses, this one speaks.
"""

from functools import cache
from typing import NamedTuple

from tf_transformer.data.pocket import lexicon
from tf_transformer.data.pocket.lexicon import Noun, Pair, Verb
from tf_transformer.data.pocket.numbers import number_words
from tf_transformer.data.pocket.verbs import REFLEXIVES, Form, conjugate, join

Part = tuple[str, str, str]  # Slot, English, German

# Each determiner: the German stem, the pattern of its own endings, the pattern of the adjective after it.
DETERMINERS = {
    "the": ("", "the", "weak"),
    "a": ("ein", "ein", "ein"),
    "": ("", "bare", "strong"),
    "many": ("viel", "strong", "strong"),
} | {
    word: (stem, "strong", "weak")
    for word, stem in lexicon.rows("this dies, which welch, every jed, all all")
}
POSSESSIVES = "no kein, my mein, your dein, his sein, her ihr, our unser, their ihr"
DETERMINERS |= {word: (stem, "ein", "ein") for word, stem in lexicon.rows(POSSESSIVES)}
# Nominative, accusative, dative for masculine, feminine, neuter and plural.
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
# The adjective says whatever the determiner before it has left unsaid.
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
CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}
CONTRACTIONS["bei dem"] = "beim"
RELATIVES = {
    "m": ("der", "den", "dem"),
    "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"),
    "p": ("die", "die", "denen"),
}

# Where the parts of a clause stand.  German puts what is known early and what is new, or belongs to the verb, late.
ENGLISH_ORDER = (
    "predicate",
    "pronoun",
    "dative",
    "object",
    "new",
    "recipient",
    "for",
    "about",
    "whither",
    "how",
    "with",
)
ENGLISH_ORDER += ("where", "when")
GERMAN_ORDER = (
    "pronoun",
    "dative",
    "recipient",
    "when",
    "with",
    "how",
    "object",
    "where",
    "new",
    "for",
    "about",
)
GERMAN_ORDER += ("whither", "predicate")
NEGATED_ORDER = (
    "pronoun",
    "dative",
    "recipient",
    "object",
    "when",
    "not",
    "with",
    "how",
    "where",
    "for",
    "about",
)
NEGATED_ORDER += ("whither", "predicate")

ENGLISH_RANK, GERMAN_RANK, NEGATED_RANK = (
    {slot: rank for rank, slot in enumerate(order)}
    for order in (ENGLISH_ORDER, GERMAN_ORDER, NEGATED_ORDER)
)


class Phrase(NamedTuple):
    """A noun phrase: English as subject and as object, the three German cases, and what agrees with it."""

    en: str
    en_object: str
    nom: str
    acc: str
    dat: str
    person: int = 2
    gender: str = "m"
    definite: bool = True
    negated: str = ""  # The German accusative with "kein", where the phrase is indefinite.


class Clause(NamedTuple):
    """The plan of a clause: subject, verb, and what stands after the English and inside the German verb."""

    subject: Phrase
    form: Form
    negated: bool
    en: str
    de: str
    adverb: str = ""
    first: Pair = (
        "",
        "",
    )  # An adverbial in front, after which German turns subject and verb round.


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
    determiner: str | int, adjective: tuple[str, str, str] | None, noun: Noun, plural: bool = False
) -> Phrase:
    """Build a noun phrase in which everything agrees.

    Args:
        determiner: a key of ``DETERMINERS``, the empty word for none, or a number.
        adjective: a row of the table of adjectives (English, German, German stem), or ``None``.
        noun: the noun.
        plural: whether it is in the plural.

    Returns:
        The phrase in all its forms.
    """
    gender = "p" if plural else noun.gender
    if isinstance(determiner, int):
        word, counted = number_words(determiner)
        articles, pattern = (counted,) * 3, "strong"
    else:
        word = {"this": "these"}.get(determiner, determiner) if plural else determiner
        stem, endings, pattern = DETERMINERS[determiner]
        articles = tuple(stem + ending for ending in ARTICLE_ENDINGS[endings][gender])
    en = join(adjective[0] if adjective else "", noun.en_plural if plural else noun.en)
    if word == "a" and en[0] in "aeiou":
        word = "an"
    forms = (noun.de, noun.weak, noun.weak)
    if plural:
        forms = (
            noun.de_plural,
            noun.de_plural,
            noun.de_plural + ("" if noun.de_plural[-1] in "ns" else "n"),
        )
    inflected = (
        [adjective[2] + ending for ending in ADJECTIVE_ENDINGS[pattern][gender]]
        if adjective
        else [""] * 3
    )
    german = [join(*words) for words in zip(articles, inflected, forms, strict=True)]
    indefinite = determiner in ("a", "")
    negated = noun_phrase("no", adjective, noun, plural).acc if indefinite else ""
    return Phrase(
        join(word, en), join(word, en), *german, 4 if plural else 2, gender, not indefinite, negated
    )


def prepositional(english: str, german: str, case: str, phrase: Phrase) -> Pair:
    """Put a preposition before a phrase, and contract it with the article: *in the garden*, *im Garten*."""
    en, de = (
        f"{english} {phrase.en_object}",
        f"{german} {phrase.acc if case == 'acc' else phrase.dat}",
    )
    if phrase.en_object.startswith("the "):
        article = " ".join(de.split(" ", 2)[:2])
        de = CONTRACTIONS.get(article, article) + de[len(article) :]
    return en, de


def build(
    subject: Phrase,
    verb: Verb,
    tense: str,
    parts: list[Part],
    negated=False,
    adverb=("", ""),
    first=("", ""),
) -> Clause:
    """Plan a clause.

    Args:
        subject: the subject.
        verb: the verb.
        tense: see :func:`conjugate`.
        parts: the other parts, each as its slot (see ``ENGLISH_ORDER``), English and German.
        negated: whether the clause is denied, with *nicht* unless a part says *kein* already.
        adverb: an adverb such as *often*, which English puts before the verb.
        first: an adverbial in front of the clause.

    Returns:
        The plan, to be spoken by :func:`statement`, :func:`subordinate`, :func:`question` or :func:`infinitive`.
    """
    english = (
        sorted([(ENGLISH_RANK[slot], en) for slot, en, _ in parts]) if len(parts) > 1 else parts
    )
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
    en = " ".join([part[1] for part in english])
    de = " ".join([part[1] for part in german])
    return Clause(
        subject, conjugate(verb, tense, subject.person), negated, en, de, adverb[0], first
    )


def predicate(clause: Clause) -> Pair:
    """Speak a clause without its subject: *reads the book*, *liest das Buch*."""
    form = clause.form
    en = join(clause.adverb, form.en_not if clause.negated else form.en, clause.en)
    return en, join(form.finite, clause.de, form.end)


def statement(clause: Clause, first: Pair | None = None) -> Pair:
    """Speak a main clause; ``first`` is what stands before it, and German keeps the verb second."""
    form, first = clause.form, first or clause.first
    en, de = predicate(clause)
    if first[1]:
        de = join(first[1], form.finite, clause.subject.nom, clause.de, form.end)
    else:
        de = join(clause.subject.nom, de)
    return join(first[0], clause.subject.en, en), de


def subordinate(clause: Clause, first: Pair = ("", "")) -> Pair:
    """Speak a subordinate clause after its conjunction; the German verb comes last."""
    en, _ = predicate(clause)
    return join(first[0], clause.subject.en, en), join(
        first[1], clause.subject.nom, clause.de, clause.form.last
    )


def question(clause: Clause, first: Pair = ("", "")) -> Pair:
    """Speak a question; ``first`` is the question word, and there is none in a yes/no question."""
    form = clause.form
    en = join(first[0], form.auxiliary, clause.subject.en, clause.adverb, form.base, clause.en)
    return en, join(first[1], form.finite, clause.subject.nom, clause.de, form.end)


def infinitive(clause: Clause) -> Pair:
    """Speak a clause as an infinitive: *to get up*, *aufzustehen*."""
    return join("to", clause.form.base, clause.en), join(clause.de, clause.form.zu)


def finish(pair: Pair, mark: str = ".") -> Pair:
    """Begin a pair with capital letters and end it with a mark."""
    en, de = pair
    de = de.rstrip(",")  # A relative clause may have come last.
    return en[0].upper() + en[1:] + mark, de[0].upper() + de[1:] + mark
