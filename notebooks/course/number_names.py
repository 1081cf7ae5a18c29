"""The names of the numbers below a million, in English and German: a small, real language task.

German puts the ones before the tens ("zwei und vierzig", forty-two) and writes a name as one word;
here it is divided into its parts, as sub-words would be.
"""

_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_GERMAN = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ZEHNER = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
WORDS = ["[PAD]", "[UNK]", "[START]", "[END]"] + sorted(
    {*_ENGLISH, *_GERMAN, *_TENS, *_ZEHNER, "hundred", "thousand", "hundert", "tausend", "und"}
)


def english(number):
    """The English name of a number, a list of words."""
    for size, word in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = number % size
            return [*english(number // size), word, *(english(rest) if rest else [])]
    if number < 20:
        return [_ENGLISH[number]]
    return [_TENS[number // 10 - 2]] + ([_ENGLISH[number % 10]] if number % 10 else [])


def german(number):
    """The German name of a number, a list of its parts."""
    for size, word in ((1000, "tausend"), (100, "hundert")):
        if number >= size:
            rest = number % size
            return [*german(number // size), word, *(german(rest) if rest else [])]
    if number < 20:
        return [_GERMAN[number]]
    return ([_GERMAN[number % 10], "und"] if number % 10 else []) + [_ZEHNER[number // 10 - 2]]


def pair(number):
    """A pair for training, lists of ids: the English name and END; START, the German name, END."""
    sides = [*english(number), "[END]"], ["[START]", *german(number), "[END]"]
    return tuple([WORDS.index(word) for word in side] for side in sides)
