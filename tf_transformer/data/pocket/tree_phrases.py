"""Noun phrases, times and places of the pocket treebank, drawn by chance, as text of the Penn Treebank: "(NP (DT the) (NN dog))"."""

from typing import NamedTuple

from tf_transformer.data.pocket import names
from tf_transformer.data.pocket.lexicon import ADJECTIVES_OF, NOUNS, PLACES
from tf_transformer.data.pocket.numbers import UNITS_EN, number_words
from tf_transformer.data.pocket.phrases import CITIES, DAYS, MONTHS, Draw, city, given_name
from tf_transformer.data.pocket.tables import MASS_TABLES

PEOPLE = ("person", "kin", "young", "animal")  # kinds of those who can do something
FIRST, PLURAL, THIRD = 0, 1, 2  # persons of the verb: I; you, we, they; he, she, it
PRONOUNS = (
    ("I", "me", FIRST),
    ("you", "you", PLURAL),
    ("he", "him", THIRD),
    ("she", "her", THIRD),
    ("we", "us", PLURAL),
)
PRONOUNS += (("they", "them", PLURAL),)
DETERMINERS = ("the",) * 6 + ("a",) * 4 + ("this", "that", "own", "own")
PLURAL_DETERMINERS = ("(DT the)",) * 3 + (
    "(DT these)",
    "(DT those)",
    "(DT all)",
)  # and those that go with "there are":
PLURAL_DETERMINERS += ("(DT some)", "(JJ many)", "(JJ several)", "number", "number", "")
OWN = ("my", "your", "his", "her", "our", "their")
SPANS = ("days", "weeks", "months", "years")
TIMES = {
    "present": (
        "every day",
        "every morning",
        "every evening",
        "every week",
        "today",
        "this morning",
        "this week",
    ),
    "past": (
        "yesterday",
        "yesterday",
        "last week",
        "last year",
        "last summer",
        "this morning",
        "yesterday evening",
    ),
    "future": (
        "tomorrow",
        "tomorrow",
        "next week",
        "next year",
        "this evening",
        "today",
        "tomorrow morning",
    ),
}
CLOCK = {5: "five", 10: "ten", 15: "quarter", 20: "twenty", 25: "twenty-five", 30: "half"}


class Writer(Draw):
    """The source of chance, which also numbers the traces of a sentence."""

    last_index = 0

    def index(self):
        """Returns the next co-index."""
        self.last_index += 1
        return self.last_index


class Phrase(NamedTuple):
    """A noun phrase."""

    text: str  # "(NP (DT the) (NN dog))"
    person: int = THIRD
    thing: bool = False  # what is no person
    pronoun: bool = False


def relabel(text, label):
    """Gives the outermost node another label."""
    return f"({label} {text.partition(' ')[2]}"


def leaves(tag, words):
    """A pre-terminal for each of the words: "(NN living) (NN room)"."""
    return " ".join(f"({tag} {word})" for word in words.split())


def adjectives(w, kind):
    """None, one or two adjectives for a noun of a kind, followed by a blank."""
    known = ADJECTIVES_OF[kind]
    chance, one = w.random(), w.pick(known)[0]
    if chance < 0.6:
        return ""
    if chance < 0.9:
        return f"(JJ {one}) "
    if chance < 0.95:
        return f"(ADJP (RB {w.pick(('very', 'really', 'rather'))}) (JJ {one})) "
    return f"(JJ {one}) (JJ {other}) " if (other := w.pick(known)[0]) != one else f"(JJ {one}) "


def counted(w):
    """A number before a noun in the plural: "(CD twelve)", "(QP (JJR more) (IN than) (CD ten))"."""
    number = number_words(w.between(2, 12) if w.chance(0.7) else w.between(13, 99))[0]
    if w.chance(0.75):
        return f"(CD {number})"
    before = w.pick(
        (
            "(JJR more) (IN than)",
            "(JJR fewer) (IN than)",
            "(IN about)",
            "(RB almost)",
            "(IN at) (JJS least)",
        )
    )
    return f"(QP {before} (CD {number}))"


def large_number(w):
    """A number of one word or more, from 2 to 999."""
    words = number_words(w.between(2, 99) if w.chance(0.4) else w.between(100, 999))[0].split()
    parts = " ".join("(CC and)" if word == "and" else f"(CD {word})" for word in words)
    return f"(QP {parts})" if len(words) > 1 else parts


def common(w, kind, plural=None, determiners=DETERMINERS):
    """A noun of a kind with what stands before it, a `Phrase`."""
    noun, thing, before = w.pick(NOUNS[kind]), kind not in PEOPLE, adjectives(w, kind)
    if kind in MASS_TABLES:
        start = w.pick(("", "", "", "(DT some) ", "(DT the) "))
        return Phrase(f"(NP {start}{before}{leaves('NN', noun.en)})", THIRD, thing)
    if w.chance(0.25) if plural is None else plural:
        start = (
            f"(PRP$ {w.pick(OWN)})"
            if kind == "kin"
            else w.pick(PLURAL_DETERMINERS[6 if determiners == ("a",) else 0 :])
        )
        start = counted(w) if start == "number" else start
        words = " ".join(
            [
                *(f"(NN {word})" for word in noun.en.split()[:-1]),
                f"(NNS {noun.en_plural.split()[-1]})",
            ]
        )
        return Phrase(f"(NP {start}{' ' * bool(start)}{before}{words})", PLURAL, thing)
    start, words = (
        w.pick(
            ("own", "own", "the") if kind == "kin" and determiners is DETERMINERS else determiners
        ),
        leaves("NN", noun.en),
    )
    if start == "own":
        if w.chance(0.25):
            return Phrase(f"(NP {possessor(w)} {before}{words})", THIRD, thing)
        return Phrase(f"(NP (PRP$ {w.pick(OWN)}) {before}{words})", THIRD, thing)
    if start == "a":
        following = (before + words).split()
        start = (
            "an" if next(part for part in following if part.endswith(")"))[0] in "aeiou" else "a"
        )
    return Phrase(f"(NP (DT {start}) {before}{words})", THIRD, thing)


def possessor(w):
    """Whose: "(NP (NNP Anna) (POS 's))"."""
    text = name(w).text if w.chance(0.6) else f"(NP (DT the) (NN {w.pick(NOUNS['person']).en}))"
    return f"{text[:-1]} (POS 's))"


def name(w):
    """Somebody who is called by name: Anna, Mr. Keller, Anna Keller."""
    surname = (
        w.pick(names.SURNAMES)
        if w.chance(0.7)
        else w.pick(names.FAMILY_STARTS) + w.pick(names.FAMILY_ENDS)
    )
    chance = w.random()
    if chance < 0.2:
        return Phrase(f"(NP (NNP {w.pick(('Mr.', 'Mrs.', 'Dr.'))}) (NNP {surname}))")
    family = f" (NNP {surname})" if chance < 0.3 else ""
    return Phrase(f"(NP (NNP {given_name(w)[0]}){family})")


def someone(w, case=0, simple=False):
    """A person or some persons; `case` is 0 for a subject, 1 for an object. `simple` is without phrases that follow the noun."""
    chance = w.random()
    if chance < 0.25:
        *words, person = w.pick(PRONOUNS)
        return Phrase(f"(NP (PRP {words[case]}))", person, pronoun=True)
    if chance < 0.5:
        return name(w)
    if chance < 0.56:
        one, two = name(w).text, name(w).text
        plain = one.count("NNP") == two.count("NNP") == 1
        return Phrase(
            f"(NP {one[4:-1]} (CC and) {two[4:-1]})" if plain else f"(NP {one} (CC and) {two})",
            PLURAL,
        )
    if chance < 0.62 and not simple:
        more = f"{common(w, 'person', False).text} (, ,) " if w.chance(0.2) else ""
        return Phrase(
            f"(NP {more}{common(w, 'kin', False).text} (CC and) {common(w, 'person', False).text})",
            PLURAL,
        )
    kind = w.pick(("person", "person", "kin", "young"))
    phrase = common(
        w,
        kind,
        None,
        ("every", "no") if case == 0 and kind != "kin" and w.chance(0.06) else DETERMINERS,
    )
    return phrase if simple or w.chance(0.8) else described(w, phrase)


def something(w, kind):
    """A thing of a kind, at times with a phrase that follows the noun, or two things."""
    phrase, chance = common(w, kind), w.random()
    if chance < 0.07 and kind not in MASS_TABLES:
        return Phrase(
            f"(NP {phrase.text} (CC {w.pick(('and', 'and', 'or'))}) {common(w, kind).text})",
            PLURAL,
            True,
        )
    if chance > 0.22:
        return phrase
    if kind in ("text", "page", "written", "told"):
        return _with(
            phrase,
            f"(PP (IN about) {w.pick((someone(w, 1, True), common(w, 'animal'), common(w, 'sight'))).text})",
        )
    if kind in ("opening", "room"):
        return _with(phrase, f"(PP (IN of) {common(w, w.pick(('vehicle', 'sight')), False).text})")
    if kind in ("thing", "present", "device", "upright"):
        if w.chance(0.3):
            return (
                _with(phrase, f"(PP (IN of) {someone(w, 1, True).text})")
                if "picture" in phrase.text
                else phrase
            )
        return _with(
            phrase,
            f"(PP-LOC (IN {w.pick(('on', 'under', 'behind'))}) {common(w, 'furniture', False, ('the', 'own')).text})",
        )
    return phrase


def described(w, phrase):
    """A person with what a phrase says of him: the man with the red hat, the sister of the queen."""
    if w.chance(0.6) or not phrase.text.startswith(("(NP (DT the)", "(NP (DT a)")):
        return _with(
            phrase,
            f"(PP (IN {w.pick(('with', 'with', 'without'))}) {common(w, w.pick(('clothing', 'thing'))).text})",
        )
    return _with(
        phrase, f"(PP (IN of) {common(w, 'person', False, ('the', 'the', 'a', 'this')).text})"
    )


def _with(phrase, following):
    return phrase._replace(text=f"(NP {phrase.text} {following})")


def transport(w):
    """A train or bus, perhaps from or to a city."""
    phrase = common(w, "transport", False, ("the",))
    if w.chance(0.4):
        return phrase
    sort = w.pick(("(IN from)", "(TO to)"))
    return _with(phrase, f"(PP-DIR {sort} (NP (NNP {w.pick(CITIES)[0]})))")


def time(w, group):
    """When something happens that is "present", "past" or "future"."""
    chance = w.random()
    if chance < 0.4:
        tags = {"every": "DT", "this": "DT", "last": "JJ", "next": "JJ"}
        words = " ".join(
            f"({tags.get(word, 'NN')} {word})" for word in w.pick(TIMES[group]).split()
        )
        return f"(NP-TMP {words})"
    if chance < 0.55:
        first, *part = w.pick(DAYS)[0].split()
        return f"(PP-TMP (IN on) (NP (NNP {first}){''.join(f' (NN {word})' for word in part)}))"
    if chance < 0.65:
        return f"(PP-TMP (IN in) (NP (NNP {w.pick(MONTHS)[0]})))"
    if chance < 0.72:
        return f"(PP-TMP (IN in) (NP (DT the) (NN {w.pick(('morning', 'evening', 'afternoon'))})))"
    if chance < 0.8 and group == "past":
        return f"(ADVP-TMP (NP {counted(w)} (NNS {w.pick(SPANS)})) (RB ago))"
    if chance < 0.8 and group == "future":
        return f"(PP-TMP (IN in) (NP {counted(w)} (NNS {w.pick(SPANS)})))"
    return clock(w)


def clock(w):
    """A time of day: "at three o'clock", "at quarter past two", "before half past six"."""
    before, hour, minute = (
        w.pick(("at", "at", "before", "after")),
        UNITS_EN[w.between(1, 12)],
        5 * w.between(0, 6),
    )
    if minute == 0:
        return f"(PP-TMP (IN {before}) (NP (CD {hour}) (RB o'clock)))"
    past = "(IN past)" if minute == 30 or w.chance(0.5) else "(TO to)"
    word = f"(NN {CLOCK[minute]})" if minute in (15, 30) else f"(CD {CLOCK[minute]})"
    return f"(PP-TMP (IN {before}) (NP (NP {word}) (PP {past} (NP (CD {hour})))))"


def place(w, group):
    """Where something happens, of a group of places: "in the old garden", "at home", "in Berlin or in Paris"."""
    if group == "home" and w.chance(0.25):
        return "(PP-LOC (IN at) (NP (NN home)))"
    if group == "town" and w.chance(0.35):
        return _in_city(w)
    found = w.pick(PLACES[group])
    text = f"(PP-LOC (IN {found.where}) {_spot(w, group, found)})"
    if w.chance(0.93):
        return text
    other = w.pick(PLACES[group])
    return f"(PP-LOC {relabel(text, 'PP')} (CC {w.pick(('or', 'and'))}) (PP (IN {other.where}) {_spot(w, group, other)}))"


def _in_city(w):
    return f"(PP-LOC (IN in) (NP (NNP {city(w)[0]})))"


def _spot(w, group, found):
    return f"(NP (DT {w.pick(('the', 'the', 'the', 'this'))}) {adjectives(w, group)}{leaves('NN', found.noun.en)})"


def goal(w, group="any"):
    """Where somebody goes: "to the station", "home", "to Berlin"."""
    chance = w.random()
    if chance < 0.1 and group == "any":
        return "(ADVP-DIR (RB home))"
    if chance < 0.35 or group == "far":
        return f"(PP-DIR (TO to) (NP (NNP {city(w)[0]})))"
    group = w.pick(("home", "town", "meal", "shopping", "way"))
    found = w.pick(PLACES[group])
    return f"(PP-DIR ({'TO' if found.whither == 'to' else 'IN'} {found.whither}) {_spot(w, group, found)})"
