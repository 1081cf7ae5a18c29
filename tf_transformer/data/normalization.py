"""Normalization of text by SentencePiece, before it is divided into sub-words.

A rule replaces strings by others, such as a letter and its accent by one character. It is part of
the SentencePiece model, so that all programs that use the model apply it. With every rule, several
blanks become one, and those at the ends of a text are removed. A blank is the character U+0020;
U+2581, SentencePiece's sign for it, is read as a blank too.
"""

import collections
import itertools
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import regex
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.config import NORMALIZATIONS
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import BLANK

logger = logging.getLogger(__name__)

# The fractions of the characters of sources and of targets above which a rule is mentioned.
MENTIONED = (0.01, 0.0)
EXAMPLES = 5  # replacements that are mentioned


def normalizer_spec(rule: str) -> messages.NormalizerSpec:
    """Returns a rule in the form of a SentencePiece model.

    Args:
      rule: one of `NORMALIZATIONS`, or a TSV file in the form of SentencePiece: on each line the
        code points of a string, hexadecimal, separated by blanks, then a tab, and the code points
        that replace it.
    Raises: UserError when the file cannot be read.
    """
    sentencepiece.set_min_log_level(2)  # it describes the files that it reads
    if rule == "identity":
        # SentencePiece's own has no table, and each program that loads the model says so.
        options: dict[str, Any] = {"norm_map": [(BLANK, " ")]}
    else:
        options = {"rule_name" if rule in NORMALIZATIONS else "rule_tsv": rule}
    try:
        normalizer: Any = sentencepiece.SentencePieceNormalizer(**options)
    except (RuntimeError, OSError) as error:
        raise UserError(
            f"the rules of normalization in {rule} cannot be read ({error}): each line has code "
            "points, a tab, and code points, such as '2026<tab>2E 2E 2E'"
        ) from None
    spec = messages.NormalizerSpec.FromString(normalizer.serialized_normalizer_spec())
    name = os.path.basename(rule)
    return messages.NormalizerSpec(name=name, precompiled_charsmap=spec.precompiled_charsmap)


def normalize_by(spec: messages.NormalizerSpec, single_blanks: bool = True) -> Callable[[str], str]:
    """Returns the function from a text to its normal form; `single_blanks`: also of its blanks."""
    return sentencepiece.SentencePieceNormalizer(
        normalizer_spec=spec,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=single_blanks,
    ).normalize


def warn_of_changes(
    specs: Sequence[messages.NormalizerSpec], pairs: Iterable[tuple[str, str]]
) -> None:
    """Warns of targets that a model will not write as they are, and of sources that it reads so.

    The `specs` are of the sources and of the targets. A sample of the pairs is enough.
    """
    texts = tuple(zip(*pairs)) or ((), ())
    for side, spec, least, sentences in zip(("source", "target"), specs, MENTIONED, texts):
        normalize = normalize_by(spec, single_blanks=False)
        # Characters, each with its marks.
        found = collections.Counter(
            each for text in sentences for each in regex.findall(r"\X", text)
        )
        replaced = {old: number for old, number in found.most_common() if normalize(old) != old}
        number = sum(len(old) * number for old, number in replaced.items())
        share = number / max(1, sum(map(len, sentences)))
        if share > least:
            examples = ", ".join(
                # A letter with its mark looks the same before and after.
                f"{old!a} by {normalize(old)!a}"
                if len(old) > 1
                else f"{old!r} by {normalize(old)!r}"
                for old in itertools.islice(replaced, EXAMPLES)
            )
            effect = "will not write them" if side == "target" else "reads both as the same"
            logger.warning(
                f"the rule {spec.name} of the {side}s replaces {100 * share:.2g}% of their "
                f"characters, such as {examples}: the model {effect}; a new vocabulary with "
                f"--{side}_normalization=identity keeps them"
            )
