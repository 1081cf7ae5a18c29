"""The pocket corpus: invariants of all generated pairs, and sentences with known translations."""

import itertools

import pytest
from pocket import corpus
from pocket.grammar import (
    PRONOUN_OF,
    Phrase,
    build,
    finish,
    infinitive,
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
from pocket.verbs import conjugate
from write_pocket import GENERATORS

from tf_transformer.data.pocket import read_pairs

SAMPLE = 30_000


def noun(word: str) -> Noun:
    """Returns a noun by its English singular."""
    return next(noun for table in NOUNS.values() for noun in table if noun.en == word)


def np(determiner, word: str, adjective: str | None = None, plural: bool = False) -> Phrase:
    """Builds a noun phrase from English words."""
    return noun_phrase(determiner, ADJECTIVES[adjective] if adjective else None, noun(word), plural)


ANNA = Phrase("Anna", "Anna", "Anna", "Anna", "Anna", 2, "f")
TEACHER = np("the", "teacher")
BALL = np("a", "ball", "red")
EGO, YOU, HE, SHE, WE, THEY = (PRONOUN_OF[key] for key in "iymfwp")
YESTERDAY = ("when", "yesterday", "gestern")
TODAY = ("when", "today", "heute")


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return corpus.generate(SAMPLE, seed=1)


# Invariants


def test_the_same_seed_gives_the_same_pairs_and_another_seed_gives_others():
    assert corpus.generate(500, seed=3) == corpus.generate(500, seed=3)
    assert corpus.generate(500, seed=3) != corpus.generate(500, seed=4)
    assert corpus.generate(500, seed=3)[:100] == corpus.generate(100, seed=3)


def test_no_sentence_occurs_twice_on_either_side(pairs):
    assert len(pairs) == SAMPLE
    assert len({en for en, _ in pairs}) == SAMPLE
    assert len({de for _, de in pairs}) == SAMPLE


def test_sentences_have_three_to_thirty_words(pairs):
    lengths = [len(side.split()) for pair in pairs for side in pair]
    assert min(lengths) >= 3
    assert max(lengths) <= 30
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
    for _ in range(40_000):
        en, de = sentence(draw)
        assert german.setdefault(en, de) == de
        assert english.setdefault(de, en) == en


def test_the_built_in_corpus_is_what_the_grammar_writes():
    """The first pairs here; the checksum of the file, which the reader verifies, has the others."""
    assert list(itertools.islice(read_pairs("pocket"), 5_000)) == GENERATORS["pocket"](5_000)


@pytest.mark.parametrize("number", [-1, corpus.MAX_PAIRS + 1])
def test_number_out_of_range_is_refused(number):
    with pytest.raises(ValueError, match="number"):
        corpus.generate(number)


def test_too_few_distinct_pairs_are_an_error(monkeypatch):
    monkeypatch.setattr(corpus, "sentence", lambda draw: ("One two three.", "Eins zwei drei."))
    assert corpus.generate(0) == []
    with pytest.raises(ValueError, match="only 1 of 2"):
        corpus.generate(2)


def test_held_out_pairs_have_new_words(pairs):
    known = {word for _, de in pairs[:-1000] for word in de.split()}
    assert any(word not in known for _, de in pairs[-1000:] for word in de.split())


# Numbers and times

NUMBERS = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    7: ("seven", "sieben"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty-one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    45: ("forty-five", "fünfundvierzig"),
    66: ("sixty-six", "sechsundsechzig"),
    70: ("seventy", "siebzig"),
    99: ("ninety-nine", "neunundneunzig"),
    100: ("one hundred", "hundert"),
    101: ("one hundred and one", "hunderteins"),
    321: ("three hundred and twenty-one", "dreihunderteinundzwanzig"),
    700: ("seven hundred", "siebenhundert"),
    999: ("nine hundred and ninety-nine", "neunhundertneunundneunzig"),
}
CLOCK = {
    (1, 0): ("at one o'clock", "um ein Uhr"),
    (3, 0): ("at three o'clock", "um drei Uhr"),
    (4, 5): ("at five past four", "um fünf nach vier"),
    (3, 10): ("at ten past three", "um zehn nach drei"),
    (2, 15): ("at quarter past two", "um Viertel nach zwei"),
    (5, 20): ("at twenty past five", "um zwanzig nach fünf"),
    (2, 25): ("at twenty-five past two", "um fünf vor halb drei"),
    (6, 30): ("at half past six", "um halb sieben"),
    (12, 30): ("at half past twelve", "um halb eins"),
    (2, 35): ("at twenty-five to three", "um fünf nach halb drei"),
    (7, 40): ("at twenty to eight", "um zwanzig vor acht"),
    (8, 45): ("at quarter to nine", "um Viertel vor neun"),
    (12, 50): ("at ten to one", "um zehn vor eins"),
    (11, 55): ("at five to twelve", "um fünf vor zwölf"),
}


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers(number):
    assert number_words(number) == NUMBERS[number]


def test_numbers_are_distinct_in_both_languages():
    words = [number_words(number) for number in range(1000)]
    assert len({en for en, _ in words}) == len({de for _, de in words}) == 1000


@pytest.mark.parametrize("number", [-1, 1000])
def test_numbers_out_of_range_are_refused(number):
    with pytest.raises(ValueError, match="999"):
        number_words(number)


@pytest.mark.parametrize("time", CLOCK)
def test_clock(time):
    assert clock(*time) == CLOCK[time]


@pytest.mark.parametrize("time", [(0, 0), (13, 0), (3, 60), (3, 7)])
def test_invalid_clock_times_are_refused(time):
    with pytest.raises(ValueError, match="clock"):
        clock(*time)


# Phrases: nominative, accusative, dative

DECLENSION = {
    ("the", "coat"): "der neue Mantel, den neuen Mantel, dem neuen Mantel",
    ("the", "lamp"): "die neue Lampe, die neue Lampe, der neuen Lampe",
    ("the", "book"): "das neue Buch, das neue Buch, dem neuen Buch",
    ("a", "coat"): "ein neuer Mantel, einen neuen Mantel, einem neuen Mantel",
    ("a", "lamp"): "eine neue Lampe, eine neue Lampe, einer neuen Lampe",
    ("a", "book"): "ein neues Buch, ein neues Buch, einem neuen Buch",
    ("no", "coat"): "kein neuer Mantel, keinen neuen Mantel, keinem neuen Mantel",
    ("no", "lamp"): "keine neue Lampe, keine neue Lampe, keiner neuen Lampe",
    ("no", "book"): "kein neues Buch, kein neues Buch, keinem neuen Buch",
    ("my", "coat"): "mein neuer Mantel, meinen neuen Mantel, meinem neuen Mantel",
    ("our", "lamp"): "unsere neue Lampe, unsere neue Lampe, unserer neuen Lampe",
    ("her", "book"): "ihr neues Buch, ihr neues Buch, ihrem neuen Buch",
    ("this", "coat"): "dieser neue Mantel, diesen neuen Mantel, diesem neuen Mantel",
    ("which", "lamp"): "welche neue Lampe, welche neue Lampe, welcher neuen Lampe",
    ("", "coffee"): "neuer Kaffee, neuen Kaffee, neuem Kaffee",
}
PLURALS = {
    ("the", "coat"): "die neuen Mäntel, die neuen Mäntel, den neuen Mänteln",
    ("", "book"): "neue Bücher, neue Bücher, neuen Büchern",
    ("no", "lamp"): "keine neuen Lampen, keine neuen Lampen, keinen neuen Lampen",
    ("my", "car"): "meine neuen Autos, meine neuen Autos, meinen neuen Autos",
    ("this", "book"): "diese neuen Bücher, diese neuen Bücher, diesen neuen Büchern",
    ("many", "lamp"): "viele neue Lampen, viele neue Lampen, vielen neuen Lampen",
    ("all", "coat"): "alle neuen Mäntel, alle neuen Mäntel, allen neuen Mänteln",
    (21, "apple"): "einundzwanzig neue Äpfel, einundzwanzig neue Äpfel, einundzwanzig neuen Äpfeln",
}


@pytest.mark.parametrize("plural", [False, True])
def test_adjectives_agree(plural):
    for (determiner, word), forms in (PLURALS if plural else DECLENSION).items():
        phrase = np(determiner, word, "new", plural)
        assert f"{phrase.nom}, {phrase.acc}, {phrase.dat}" == forms


def test_phrases_without_adjectives():
    student = np("the", "student")
    cases = (student.nom, student.acc, student.dat)
    assert cases == ("der Student", "den Studenten", "dem Studenten")
    assert np("a", "neighbour").acc == "einen Nachbarn"
    assert np("the", "teacher", plural=True).dat == "den Lehrern"
    assert np("the", "baby", plural=True).dat == "den Babys"
    assert np("a", "apple").en == "an apple"
    assert np("a", "man", "old").en == "an old man"
    assert np("this", "child", plural=True).en == "these children"
    assert np("the", "man", plural=True).en == "the men"
    assert np("a", "car", "expensive").acc == "ein teures Auto"
    assert np("a", "man", "tired").nom == "ein müder Mann"


PREPOSITIONAL = [
    (("in", "in", "dat", np("the", "kitchen")), "in the kitchen", "in der Küche"),
    (("into", "in", "acc", np("the", "kitchen")), "into the kitchen", "in die Küche"),
    (("in", "in", "dat", np("the", "museum", "new")), "in the new museum", "im neuen Museum"),
    (("to", "in", "acc", np("the", "museum")), "to the museum", "ins Museum"),
    (("to", "in", "acc", np("a", "museum")), "to a museum", "in ein Museum"),
    (("to", "zu", "dat", np("the", "library")), "to the library", "zur Bibliothek"),
    (("of", "von", "dat", TEACHER), "of the teacher", "vom Lehrer"),
    (("with", "mit", "dat", SHE), "with her", "mit ihr"),
]


@pytest.mark.parametrize(("arguments", "english", "german"), PREPOSITIONAL)
def test_prepositions_take_their_case_and_contract(arguments, english, german):
    assert prepositional(*arguments) == (english, german)


CONJUGATION = {
    "lesen": "lese liest liest lesen",
    "essen": "esse isst isst essen",
    "fahren": "fahre fährst fährt fahren",
    "arbeiten": "arbeite arbeitest arbeitet arbeiten",
    "tanzen": "tanze tanzt tanzt tanzen",
    "waschen": "wasche wäschst wäscht waschen",
    "helfen": "helfe hilfst hilft helfen",
    "füttern": "füttere fütterst füttert füttern",
    "wissen": "weiß weißt weiß wissen",
    "haben": "habe hast hat haben",
    "sein": "bin bist ist sind",
    "zeichnen": "zeichne zeichnest zeichnet zeichnen",
    "wohnen": "wohne wohnst wohnt wohnen",
    "ein+laden": "lade lädst lädt laden",
}


@pytest.mark.parametrize("infinitive_form", CONJUGATION)
def test_german_present(infinitive_form):
    forms = [conjugate(VERBS[infinitive_form], "present", person).finite for person in range(4)]
    assert " ".join(forms) == CONJUGATION[infinitive_form]


def test_english_third_person():
    names = ("kaufen", "waschen", "gehen", "haben", "auf+räumen", "auf+passen", "sein")
    forms = [conjugate(VERBS[name], "present", 2).en for name in names]
    assert forms == ["buys", "washes", "goes", "has", "tidies up", "looks after", "is"]


# Clauses

GET_UP = VERBS["auf+stehen"]
BUY = VERBS["kaufen"]
READ = VERBS["lesen"]
GIVE = VERBS["geben"]
HELP = VERBS["helfen"]
REST = VERBS["aus+ruhen"]
TRAVEL = VERBS["fahren"]
BE = VERBS["sein"]
HAVE = VERBS["haben"]
THE_BOOK = np("the", "book")
A_BOOK = np("a", "book", "new")
BOOKS = np("", "book", plural=True)
AT_SIX = ("when", *clock(6, 0))
IN_THE_GARDEN = ("where", "in the garden", "im Garten")
TO_THE_CHILD = ("dative", "the child", np("the", "child").dat)
TO_ROME = ("whither", "to Rome", "nach Rom")
BY_TRAIN = ("how", "by train", "mit dem Zug")
TIRED = ("predicate", "tired", "müde")
ILL = ("predicate", "ill", "krank")
NO_TIME = ("new", "time", "keine Zeit")
WHO = Phrase("who", "", "die", "die", "der", 2, "f")


def obj(phrase: Phrase, negated: bool = False):
    """Makes a phrase the object of a clause."""
    return object_part(phrase, negated)


def because(clause):
    """Returns a clause after *because*."""
    return subordinate(clause, ("because", "weil"))


CLAUSES = [
    # Separable verbs.
    (
        statement(build(ANNA, GET_UP, "present", [AT_SIX])),
        "Anna gets up at six o'clock",
        "Anna steht um sechs Uhr auf",
    ),
    (because(build(ANNA, GET_UP, "present", [])), "because Anna gets up", "weil Anna aufsteht"),
    (statement(build(ANNA, GET_UP, "past", [])), "Anna got up", "Anna ist aufgestanden"),
    (because(build(ANNA, GET_UP, "past", [])), "because Anna got up", "weil Anna aufgestanden ist"),
    (statement(build(ANNA, GET_UP, "must", [])), "Anna has to get up", "Anna muss aufstehen"),
    (infinitive(build(ANNA, GET_UP, "present", [])), "to get up", "aufzustehen"),
    (question(build(YOU, GET_UP, "past", [])), "did you get up", "bist du aufgestanden"),
    (
        statement(build(WE, REST, "past", [YESTERDAY])),
        "we rested yesterday",
        "wir haben uns gestern ausgeruht",
    ),
    (infinitive(build(HE, REST, "present", [])), "to rest", "sich auszuruhen"),
    # The German verb is second.
    (
        statement(build(TEACHER, BUY, "present", [obj(A_BOOK)]), ("today", "heute")),
        "today the teacher buys a new book",
        "heute kauft der Lehrer ein neues Buch",
    ),
    (
        statement(build(TEACHER, BUY, "past", [obj(A_BOOK)], first=("yesterday", "gestern"))),
        "yesterday the teacher bought a new book",
        "gestern hat der Lehrer ein neues Buch gekauft",
    ),
    (
        statement(
            build(HE, READ, "present", [obj(THE_BOOK)]),
            ("because she sleeps,", "weil sie schläft,"),
        ),
        "because she sleeps, he reads the book",
        "weil sie schläft, liest er das Buch",
    ),
    # The middle field: a definite object before the place, an indefinite object after it.
    (
        statement(build(ANNA, READ, "past", [obj(THE_BOOK), IN_THE_GARDEN, YESTERDAY])),
        "Anna read the book in the garden yesterday",
        "Anna hat gestern das Buch im Garten gelesen",
    ),
    (
        statement(build(ANNA, READ, "past", [obj(A_BOOK), IN_THE_GARDEN, YESTERDAY])),
        "Anna read a new book in the garden yesterday",
        "Anna hat gestern im Garten ein neues Buch gelesen",
    ),
    (
        statement(build(TEACHER, GIVE, "past", [TO_THE_CHILD, obj(BALL), YESTERDAY])),
        "the teacher gave the child a red ball yesterday",
        "der Lehrer hat dem Kind gestern einen roten Ball gegeben",
    ),
    (
        because(build(TEACHER, GIVE, "present", [("dative", HE.en_object, HE.dat), obj(BALL)])),
        "because the teacher gives him a red ball",
        "weil der Lehrer ihm einen roten Ball gibt",
    ),
    (
        statement(build(EGO, TRAVEL, "future", [BY_TRAIN, TO_ROME])),
        "I will travel to Rome by train",
        "ich werde mit dem Zug nach Rom fahren",
    ),
    (
        statement(build(TEACHER, READ, "present", [obj(THE_BOOK)], adverb=("often", "oft"))),
        "the teacher often reads the book",
        "der Lehrer liest oft das Buch",
    ),
    # Negation.
    (
        statement(build(ANNA, BUY, "present", [obj(A_BOOK, True)], negated=True)),
        "Anna does not buy a new book",
        "Anna kauft kein neues Buch",
    ),
    (
        statement(build(ANNA, BUY, "past", [obj(BOOKS, True)], negated=True)),
        "Anna did not buy books",
        "Anna hat keine Bücher gekauft",
    ),
    (
        statement(build(ANNA, READ, "present", [obj(THE_BOOK, True), TODAY], negated=True)),
        "Anna does not read the book today",
        "Anna liest das Buch heute nicht",
    ),
    (
        statement(build(SHE, TRAVEL, "can", [TO_ROME], negated=True)),
        "she cannot travel to Rome",
        "sie kann nicht nach Rom fahren",
    ),
    (
        statement(build(HE, GET_UP, "must", [], True)),
        "he does not have to get up",
        "er muss nicht aufstehen",
    ),
    (
        statement(build(THEY, BE, "past", [TIRED], negated=True)),
        "they were not tired",
        "sie waren nicht müde",
    ),
    (
        statement(build(EGO, HAVE, "past", [NO_TIME], negated=True)),
        "I did not have time",
        "ich hatte keine Zeit",
    ),
    # Modal verbs and the future, in main and in subordinate clauses.
    (
        statement(build(YOU, READ, "want", [obj(THE_BOOK)])),
        "you want to read the book",
        "du willst das Buch lesen",
    ),
    (
        because(build(YOU, READ, "wish", [obj(THE_BOOK)])),
        "because you would like to read the book",
        "weil du das Buch lesen möchtest",
    ),
    (
        statement(build(HE, READ, "should", [obj(BOOKS)])),
        "he should read books",
        "er sollte Bücher lesen",
    ),
    # Questions.
    (
        question(build(ANNA, READ, "present", [obj(THE_BOOK)])),
        "does Anna read the book",
        "liest Anna das Buch",
    ),
    (
        question(build(ANNA, HELP, "present", []), ("who", "wem")),
        "who does Anna help",
        "wem hilft Anna",
    ),
    (
        question(build(SHE, BUY, "wish", []), ("what", "was")),
        "what would she like to buy",
        "was möchte sie kaufen",
    ),
    (question(build(HE, BE, "present", [ILL])), "is he ill", "ist er krank"),
    # Relative clauses.
    (
        subordinate(build(ANNA, HELP, "past", []), ("whom", "dem")),
        "whom Anna helped",
        "dem Anna geholfen hat",
    ),
    (
        subordinate(build(WHO, READ, "past", [obj(THE_BOOK)])),
        "who read the book",
        "die das Buch gelesen hat",
    ),
    # Pronouns.
    (
        statement(build(ANNA, VERBS["ab+holen"], "past", [obj(EGO), YESTERDAY])),
        "Anna fetched me yesterday",
        "Anna hat mich gestern abgeholt",
    ),
    (
        statement(build(WE, HELP, "present", [("dative", "them", THEY.dat)])),
        "we help them",
        "wir helfen ihnen",
    ),
]


@pytest.mark.parametrize(("pair", "english", "german"), CLAUSES, ids=[row[2] for row in CLAUSES])
def test_clauses(pair, english, german):
    assert pair == (english, german)


def test_finish_removes_a_final_comma():
    pair = finish(("the man who sings", "der Mann, der singt,"), "?")
    assert pair == ("The man who sings?", "Der Mann, der singt?")
