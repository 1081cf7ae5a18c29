"""The verbs of the pocket corpus: their forms in every tense and person, in both languages."""

from functools import cache
from typing import NamedTuple

from tf_transformer.data.pocket import lexicon
from tf_transformer.data.pocket.lexicon import Verb


def join(*parts: str) -> str:
    """Join the parts that are not empty with blanks."""
    return " ".join(filter(None, parts))


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
        forms = (
            ("was", "were", "was", "were", "were")
            if tense == "past"
            else ("am", "are", "is", "are", "are")
        )
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
