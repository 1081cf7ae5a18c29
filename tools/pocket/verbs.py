"""The verbs of the pocket corpus: their forms in all tenses and persons, in both languages."""

from functools import cache
from typing import NamedTuple

from pocket import lexicon
from pocket.lexicon import Verb

# Each tuple has the forms of the five persons: I, you, he/she/it, we, they.
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
BE_PRESENT = ("am", "are", "is", "are", "are")
BE_PAST = ("was", "were", "was", "were", "were")
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
    """A verb in one tense and person."""

    en: str  # English, affirmative: "gets up"
    en_not: str  # English, negated: "does not get up"
    auxiliary: str  # of an English question: "does"
    base: str  # the rest of the English verb in a question: "get up"
    finite: str  # the German finite verb of a main clause: "steht"
    end: str  # what stands at the end of a German main clause: "auf"
    last: str  # the German verb at the end of a subordinate clause: "aufsteht"
    zu: str  # the German infinitive with "zu": "aufzustehen"


def join(*parts: str) -> str:
    """Joins the parts that are not empty with blanks."""
    return " ".join(filter(None, parts))


def present(verb: Verb, person: int) -> str:
    """Returns the German present tense of a verb, without its prefix."""
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
    """Returns the English fields of `Form`: affirmative, negated, auxiliary and base."""
    if tense in MODALS and tense not in ("must", "want"):
        return _english_modal(verb, tense)
    if verb.en == "be" and tense not in MODALS:
        form = (BE_PAST if tense == "past" else BE_PRESENT)[person]
        return form, f"{form} not", form, ""
    base = f"{MODALS[tense][0]} {verb.en}" if tense in MODALS else verb.en
    if tense == "past":
        affirmative = verb.past
        auxiliary = "did"
    elif person == 2:
        first, _, rest = base.partition(" ")
        affirmative = join("has" if first == "have" else lexicon.english_s(first), rest)
        auxiliary = "does"
    else:
        affirmative = base
        auxiliary = "do"
    return affirmative, f"{auxiliary} not {base}", auxiliary, base


def _english_modal(verb: Verb, tense: str) -> tuple[str, str, str, str]:
    auxiliary, _, rest = MODALS[tense][0].partition(" ")
    rest = join(rest, verb.en)
    negated = "cannot" if auxiliary == "can" else f"{auxiliary} not"
    return f"{auxiliary} {rest}", f"{negated} {rest}", auxiliary, rest


@cache
def conjugate(verb: Verb, tense: str, person: int) -> Form:
    """Conjugates a verb in both languages.

    Args:
      verb: the verb.
      tense: "present", "past" (the German perfect) or a key of `MODALS`.
      person: 0 to 4 for I, you, he/she/it, we, they.
    Returns: the forms that a clause needs.
    """
    if tense in MODALS:
        finite = MODALS[tense][1][person]
        end = verb.dictionary_form
        last = f"{end} {finite}"
    elif tense == "past" and verb.infinitive in PRETERITE:
        finite = PRETERITE[verb.infinitive][person]
        end = ""
        last = finite
    elif tense == "past":
        finite = FINITE["sein" if verb.sein else "haben"][person]
        end = verb.participle
        last = f"{end} {finite}"
    else:
        finite = present(verb, person)
        end = verb.prefix
        last = end + finite
    zu = f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
    return Form(*english_forms(verb, tense, person), finite, end, last, zu)
