"""Normalization of text by SentencePiece, before it is divided into sub-words.

A rule replaces strings by others, such as a letter and its accent by one character. It is part of
the SentencePiece model, so that all programs that use the model apply it. With every rule, several
blanks become one, and those at the ends of a text are removed. A blank is the character U+0020;
U+2581, SentencePiece's sign for it, is read as a blank too.
"""

from collections.abc import Callable
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.config import NORMALIZATIONS
from tf_transformer.errors import UserError


def normalizer_spec(rule: str) -> messages.NormalizerSpec:
    """Returns a rule in the form of a SentencePiece model.

    Args:
      rule: one of `NORMALIZATIONS`, or a TSV file in the form of SentencePiece: on each line the
        code points of a string, hexadecimal, separated by blanks, then a tab, and those of the
        string that replaces it.
    Raises: UserError when the file cannot be read.
    """
    sentencepiece.set_min_log_level(2)  # it describes the files that it reads
    try:
        kind = "rule_name" if rule in NORMALIZATIONS else "rule_tsv"
        found: Any = sentencepiece.SentencePieceNormalizer(**{kind: rule})  # type: ignore[arg-type]
    except (RuntimeError, OSError) as error:
        raise UserError(
            f"the rules of normalization in {rule} cannot be read ({error}): each line has code "
            "points, a tab, and code points, such as '2026<tab>2E 2E 2E'"
        ) from None
    spec = messages.NormalizerSpec.FromString(found.serialized_normalizer_spec())
    return messages.NormalizerSpec(name=spec.name, precompiled_charsmap=spec.precompiled_charsmap)


def normalizer(spec: messages.NormalizerSpec, single_blanks: bool = True) -> Callable[[str], str]:
    """Returns the function from a text to its normal form.

    Args:
      spec: of a rule.
      single_blanks: whether to remove other blanks too.
    """
    return sentencepiece.SentencePieceNormalizer(
        normalizer_spec=spec,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=single_blanks,
    ).normalize
