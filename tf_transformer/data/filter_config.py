"""The settings of the filters of `tf-transformer clean`."""

import dataclasses

from tf_transformer.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class FilterConfig(Settings):
    """Which pairs are rejected.

    A word is what stands between blanks. In scripts without blanks, two characters of Chinese or
    Japanese, and five of Thai, Lao, Khmer, Burmese or Tibetan, count as one word.
    """

    max_words: int = setting(150, "maximum number of words of a side; 0 means no limit", minimum=0)
    max_characters: int = setting(
        1000, "maximum number of characters of a side; 0 means no limit", minimum=0
    )
    max_word_length: int = setting(
        50, "maximum number of characters of a word; 0 means no limit", minimum=0
    )
    max_word_ratio: float = setting(
        3.0,
        "maximum ratio of the word counts of the two sides, where one of them has more than 10 "
        "words; 0 means no limit",
        minimum=0,
    )
    max_overlap: float = setting(
        0.7,
        "maximum fraction of the different words of both sides that are on both, without numbers "
        "and punctuation; 1 means no limit",
        minimum=0,
        maximum=1,
    )
    min_letters: float = setting(
        0.3,
        "minimum fraction of letters in the characters of a side, without blanks; 0 means no limit",
        minimum=0,
        maximum=1,
    )
    min_script: float = setting(
        0.5,
        "minimum fraction of letters of the script of its language in the letters of a side; 0 "
        "means no limit",
        minimum=0,
        maximum=1,
    )
    drop_damaged: bool = setting(
        True,
        "drop pairs with control, private or replacement characters, or with UTF-8 that was "
        "decoded as Windows-1252",
    )
    drop_html: bool = setting(True, "drop pairs with HTML tags or entities")
    drop_duplicates: bool = setting(True, "drop all but the first of equal pairs")
    drop_source_duplicates: bool = setting(
        False, "drop all but the first of the pairs with the same source and target language"
    )
