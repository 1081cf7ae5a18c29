"""Numbers and clock times of the pocket corpus, in words."""

from pocket.lexicon import Pair

UNITS_EN = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
""".split()
UNITS_DE = """
    null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn
    sechzehn siebzehn achtzehn neunzehn
""".split()
TENS_EN = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
TENS_DE = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def number_words(number: int) -> Pair:
    """Spells a number.

    Args:
      number: from 0 to 999.
    Returns: the number in English and in German, such as `("twenty-one", "einundzwanzig")`.
    Raises: ValueError when the number is out of range.
    """
    if not 0 <= number <= 999:
        raise ValueError(f"number must be from 0 to 999, not {number}")
    hundreds, rest = divmod(number, 100)
    en, de = _below_hundred(rest)
    if not hundreds:
        return en, de
    hundred_en = UNITS_EN[hundreds] + " hundred"
    hundred_de = ("" if hundreds == 1 else UNITS_DE[hundreds]) + "hundert"
    if not rest:
        return hundred_en, hundred_de
    return f"{hundred_en} and {en}", hundred_de + de


def _below_hundred(number: int) -> Pair:
    if number < 20:
        return UNITS_EN[number], UNITS_DE[number]
    tens, units = divmod(number, 10)
    if not units:
        return TENS_EN[tens], TENS_DE[tens]
    unit_de = "ein" if units == 1 else UNITS_DE[units]
    return f"{TENS_EN[tens]}-{UNITS_EN[units]}", f"{unit_de}und{TENS_DE[tens]}"


def clock(hour: int, minute: int) -> Pair:
    """Writes a time of day in words.

    Args:
      hour: from 1 to 12.
      minute: a multiple of 5 from 0 to 55.
    Returns: the time in English and in German, such as `("at half past six", "um halb sieben")`.
    Raises: ValueError when the hour or the minute is out of range.
    """
    if not 1 <= hour <= 12 or minute not in range(0, 60, 5):
        raise ValueError(
            f"a clock time has an hour from 1 to 12 and a minute that is a multiple of 5, "
            f"not {hour}:{minute:02d}"
        )
    next_hour = hour % 12 + 1
    if minute == 0:
        hour_de = "ein" if hour == 1 else UNITS_DE[hour]
        return f"at {UNITS_EN[hour]} o'clock", f"um {hour_de} Uhr"
    if minute == 30:
        return f"at half past {UNITS_EN[hour]}", f"um halb {UNITS_DE[next_hour]}"
    is_past = minute < 30
    distance = min(minute, 60 - minute)
    en, de = ("quarter", "Viertel") if distance == 15 else number_words(distance)
    if is_past:
        en = f"{en} past {UNITS_EN[hour]}"
        de = f"{de} nach {UNITS_DE[hour]}"
    else:
        en = f"{en} to {UNITS_EN[next_hour]}"
        de = f"{de} vor {UNITS_DE[next_hour]}"
    if distance == 25:  # German counts these from the half hour
        de = f"fünf {'vor' if is_past else 'nach'} halb {UNITS_DE[next_hour]}"
    return f"at {en}", f"um {de}"
