"""Numbers and clock times of the pocket corpus, in words."""

from tf_transformer.data.pocket.lexicon import Pair

UNITS_EN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
TENS_EN = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
UNITS_DE = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
TENS_DE = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


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
    en, de = UNITS_EN[rest % 20], UNITS_DE[rest % 20]
    if rest >= 20:
        en, de = TENS_EN[tens], TENS_DE[tens]
        if units:
            en += "-" + UNITS_EN[units]
            de = ("ein" if units == 1 else UNITS_DE[units]) + "und" + de
    if not hundreds:
        return en, de
    hundred_de = ("" if hundreds == 1 else UNITS_DE[hundreds]) + "hundert"
    hundred_en = UNITS_EN[hundreds] + " hundred"
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
        return f"at {UNITS_EN[hour]} o'clock", f"um {'ein' if hour == 1 else UNITS_DE[hour]} Uhr"
    if minute == 30:
        return f"at half past {UNITS_EN[hour]}", f"um halb {UNITS_DE[following]}"
    distance = min(minute, 60 - minute)
    en, de = ("quarter", "Viertel") if distance == 15 else number_words(distance)
    near = UNITS_EN[hour if minute < 30 else following]
    if distance == 25:  # German counts these from the half hour.
        de = f"fünf {'vor' if minute < 30 else 'nach'} halb {UNITS_DE[following]}"
    else:
        de += f" nach {UNITS_DE[hour]}" if minute < 30 else f" vor {UNITS_DE[following]}"
    return f"at {en} {'past' if minute < 30 else 'to'} {near}", f"um {de}"
