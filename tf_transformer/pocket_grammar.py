"""The grammar of the pocket corpus: phrases and clauses that are spoken in English and in German at once.

A noun phrase knows its three German cases, a verb its tenses in both languages, and a :class:`Clause` is a plan that
can be spoken as a main clause, a subordinate clause, a question or an infinitive.  Nothing here is random: the module
:mod:`tf_transformer.pocket` chooses, this one speaks.
"""

from functools import cache
from typing import NamedTuple

from tf_transformer import pocket_lexicon as lexicon
from tf_transformer.pocket_lexicon import Noun, Verb

Pair = tuple[str, str]  # English, German
Part = tuple[str, str, str]  # Slot, English, German

# Each determiner: the German stem, the pattern of its own endings, the pattern of the adjective after it.
DETERMINERS = {
    "the": ("", "the", "weak"),
    "a": ("ein", "ein", "ein"),
    "": ("", "bare", "strong"),
    "many": ("viel", "strong", "strong"),
} | {word: (stem, "strong", "weak") for word, stem in lexicon.rows("this dies, which welch, every jed, all all")}
POSSESSIVES = "no kein, my mein, your dein, his sein, her ihr, our unser, their ihr"
DETERMINERS |= {word: (stem, "ein", "ein") for word, stem in lexicon.rows(POSSESSIVES)}
# Nominative, accusative, dative for masculine, feminine, neuter and plural.
STRONG = {"m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em"), "p": ("e", "e", "en")}
ARTICLE_ENDINGS = {
    "the": {
        "m": ("der", "den", "dem"),
        "f": ("die", "die", "der"),
        "n": ("das", "das", "dem"),
        "p": ("die", "die", "den"),
    },
    "ein": {"m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em"), "p": ("e", "e", "en")},
    "strong": STRONG,
    "bare": dict.fromkeys("mfnp", ("", "", "")),
}
# The adjective says whatever the determiner before it has left unsaid.
ADJECTIVE_ENDINGS = {
    "weak": {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "p": ("en", "en", "en")},
    "ein": {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en"), "p": ("en", "en", "en")},
    "strong": STRONG,
}
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum", "zu der": "zur", "von dem": "vom"}
CONTRACTIONS["bei dem"] = "beim"

# Persons of the verb: I, you, he/she/it, we, they.
FINITE = {
    "sein": ("bin", "bist", "ist", "sind", "sind"),
    "haben": ("habe", "hast", "hat", "haben", "haben"),
    "werden": ("werde", "wirst", "wird", "werden", "werden"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wissen"),
}
PRETERITE = {
    "sein": ("war", "warst", "war", "waren", "waren"),
    "haben": ("hatte", "hattest", "hatte", "hatten", "hatten"),
}
MODALS = {
    "future": ("will", FINITE["werden"]),
    "can": ("can", ("kann", "kannst", "kann", "können", "können")),
    "may": ("may", ("darf", "darfst", "darf", "dürfen", "dürfen")),
    "should": ("should", ("sollte", "solltest", "sollte", "sollten", "sollten")),
    "wish": ("would like to", ("möchte", "möchtest", "möchte", "möchten", "möchten")),
    "must": ("have to", ("muss", "musst", "muss", "müssen", "müssen")),
    "want": ("want to", ("will", "willst", "will", "wollen", "wollen")),
}
REFLEXIVES = ("mich", "dich", "sich", "uns", "sich")
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
GERMAN_ORDER = ("pronoun", "dative", "recipient", "when", "with", "how", "object", "where", "new", "for", "about")
GERMAN_ORDER += ("whither", "predicate")
NEGATED_ORDER = ("pronoun", "dative", "recipient", "object", "when", "not", "with", "how", "where", "for", "about")
NEGATED_ORDER += ("whither", "predicate")

ENGLISH_RANK, GERMAN_RANK, NEGATED_RANK = (
    {slot: rank for rank, slot in enumerate(order)} for order in (ENGLISH_ORDER, GERMAN_ORDER, NEGATED_ORDER)
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


class Form(NamedTuple):
    """A verb in one tense and person.  ``last`` is the whole German verb at the end of a subordinate clause."""

    en: str
    en_not: str
    auxiliary: str
    base: str
    finite: str
    end: str
    last: str
    zu: str


class Clause(NamedTuple):
    """The plan of a clause: subject, verb, and what stands after the English and inside the German verb."""

    subject: Phrase
    form: Form
    negated: bool
    en: str
    de: str
    adverb: str = ""
    first: Pair = ("", "")  # An adverbial in front, after which German turns subject and verb round.


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


def join(*parts: str) -> str:
    """Join the parts that are not empty with blanks."""
    return " ".join(filter(None, parts))


def number_words(number: int) -> Pair:
    """Spell a number.

    Args:
        number: from 0 to 999.

    Returns:
        The number in English and in German: ``("twenty-one", "einundzwanzig")``.

    Raises:
        ValueError: if the number is out of range.
    """
    if not 0 <= number <= 999:
        raise ValueError(f"number must be from 0 to 999, not {number}")
    hundreds, rest = divmod(number, 100)
    tens, units = divmod(rest, 10)
    en, de = lexicon.UNITS_EN[rest % 20], lexicon.UNITS_DE[rest % 20]
    if rest >= 20:
        en, de = lexicon.TENS_EN[tens], lexicon.TENS_DE[tens]
        if units:
            en += "-" + lexicon.UNITS_EN[units]
            de = ("ein" if units == 1 else lexicon.UNITS_DE[units]) + "und" + de
    if not hundreds:
        return en, de
    hundred_de = ("" if hundreds == 1 else lexicon.UNITS_DE[hundreds]) + "hundert"
    hundred_en = lexicon.UNITS_EN[hundreds] + " hundred"
    return (f"{hundred_en} and {en}", hundred_de + de) if rest else (hundred_en, hundred_de)


def clock(hour: int, minute: int) -> Pair:
    """Say a time of day as people do.

    Args:
        hour: from 1 to 12.
        minute: a multiple of 5 from 0 to 55.

    Returns:
        The time in English and in German: ``("at half past six", "um halb sieben")``.

    Raises:
        ValueError: if the hour or the minute is out of range.
    """
    if not 1 <= hour <= 12 or minute not in range(0, 60, 5):
        raise ValueError(f"no such time on this clock: {hour}:{minute:02d}")
    following = hour % 12 + 1
    if minute == 0:
        return f"at {lexicon.UNITS_EN[hour]} o'clock", f"um {'ein' if hour == 1 else lexicon.UNITS_DE[hour]} Uhr"
    if minute == 30:
        return f"at half past {lexicon.UNITS_EN[hour]}", f"um halb {lexicon.UNITS_DE[following]}"
    distance = min(minute, 60 - minute)
    en, de = ("quarter", "Viertel") if distance == 15 else number_words(distance)
    near = lexicon.UNITS_EN[hour if minute < 30 else following]
    if distance == 25:  # German counts these from the half hour.
        de = f"fünf {'vor' if minute < 30 else 'nach'} halb {lexicon.UNITS_DE[following]}"
    else:
        de += f" nach {lexicon.UNITS_DE[hour]}" if minute < 30 else f" vor {lexicon.UNITS_DE[following]}"
    return f"at {en} {'past' if minute < 30 else 'to'} {near}", f"um {de}"


@cache
def noun_phrase(determiner: str | int, adjective: tuple[str, str, str] | None, noun: Noun, plural: bool = False) -> Phrase:
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
        forms = (noun.de_plural, noun.de_plural, noun.de_plural + ("" if noun.de_plural[-1] in "ns" else "n"))
    inflected = [adjective[2] + ending for ending in ADJECTIVE_ENDINGS[pattern][gender]] if adjective else [""] * 3
    german = [join(*words) for words in zip(articles, inflected, forms, strict=True)]
    indefinite = determiner in ("a", "")
    negated = noun_phrase("no", adjective, noun, plural).acc if indefinite else ""
    return Phrase(join(word, en), join(word, en), *german, 4 if plural else 2, gender, not indefinite, negated)


def prepositional(english: str, german: str, case: str, phrase: Phrase) -> Pair:
    """Put a preposition before a phrase, and contract it with the article: *in the garden*, *im Garten*."""
    en, de = f"{english} {phrase.en_object}", f"{german} {phrase.acc if case == 'acc' else phrase.dat}"
    if phrase.en_object.startswith("the "):
        article = " ".join(de.split(" ", 2)[:2])
        de = CONTRACTIONS.get(article, article) + de[len(article) :]
    return en, de


def present(verb: Verb, person: int) -> str:
    """Return the German present tense of a verb, without its prefix."""
    if verb.infinitive in FINITE:
        return FINITE[verb.infinitive][person]
    stem = verb.infinitive[: -2 if verb.infinitive.endswith("en") else -1]
    if person == 0:
        return stem + "e"
    if person > 2:
        return verb.infinitive
    linking = "e" if not verb.changed and stem.endswith(("t", "d", "chn")) else ""
    stem = verb.changed or stem
    if person == 1:
        return stem + linking + ("t" if stem[-1] in "sßzx" else "st")
    return stem + linking + "t"


def english_forms(verb: Verb, tense: str, person: int) -> tuple[str, str, str, str]:
    """Return the English verb: stated, denied, and the auxiliary and the rest that a question takes apart."""
    base, third = verb.en, person == 2
    if tense in ("must", "want"):
        base = f"{MODALS[tense][0]} {base}"
    elif tense in MODALS:
        auxiliary, _, rest = MODALS[tense][0].partition(" ")
        rest = join(rest, base)
        denied = "cannot" if auxiliary == "can" else f"{auxiliary} not"
        return f"{auxiliary} {rest}", f"{denied} {rest}", auxiliary, rest
    elif base == "be":
        forms = ("was", "were", "was", "were", "were") if tense == "past" else ("am", "are", "is", "are", "are")
        return forms[person], f"{forms[person]} not", forms[person], ""
    first, _, rest = base.partition(" ")
    auxiliary = "did" if tense == "past" else "does" if third else "do"
    stated = base
    if tense == "past":
        stated = verb.past
    elif third:
        stated = join("has" if first == "have" else lexicon.english_s(first), rest)
    return stated, f"{auxiliary} not {base}", auxiliary, base


@cache
def conjugate(verb: Verb, tense: str, person: int) -> Form:
    """Conjugate a verb in both languages.

    Args:
        verb: the verb.
        tense: ``"present"``, ``"past"`` (the German perfect) or a key of ``MODALS``.
        person: 0 to 4 for I, you, he/she/it, we, they.

    Returns:
        The forms that the orders of a clause need.
    """
    whole = verb.prefix + verb.infinitive
    zu = f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
    if tense in MODALS:
        finite, end = MODALS[tense][1][person], whole
        last = f"{end} {finite}"
    elif tense == "past" and verb.infinitive in PRETERITE:
        finite, end = PRETERITE[verb.infinitive][person], ""
        last = finite
    elif tense == "past":
        finite, end = FINITE["sein" if verb.sein else "haben"][person], verb.participle
        last = f"{end} {finite}"
    else:
        finite, end = present(verb, person), verb.prefix
        last = end + finite
    return Form(*english_forms(verb, tense, person), finite, end, last, zu)


def build(subject: Phrase, verb: Verb, tense: str, parts: list[Part], negated=False, adverb=("", ""), first=("", "")) -> Clause:
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
    english = sorted([(ENGLISH_RANK[slot], en) for slot, en, _ in parts]) if len(parts) > 1 else parts
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
    return Clause(subject, conjugate(verb, tense, subject.person), negated, en, de, adverb[0], first)


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
    return join(first[0], clause.subject.en, en), join(first[1], clause.subject.nom, clause.de, clause.form.last)


def question(clause: Clause, first: Pair = ("", "")) -> Pair:
    """Speak a question; ``first`` is the question word, and there is none in a yes/no question."""
    form = clause.form
    en = join(first[0], form.auxiliary, clause.subject.en, clause.adverb, form.base, clause.en)
    return en, join(first[1], form.finite, clause.subject.nom, clause.de, form.end)


def infinitive(clause: Clause) -> Pair:
    """Speak a clause as an infinitive: *to get up*, *aufzustehen*."""
    return join("to", clause.form.base, clause.en), join(clause.de, clause.form.zu)
