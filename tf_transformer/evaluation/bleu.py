"""BLEU and chrF of sacreBLEU, and tokenised BLEU as the paper and as papers on Multi30k report."""

import dataclasses
import functools
import itertools
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import lazy_loader
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

from tf_transformer.config import DataConfig
from tf_transformer.data.languages import LANGUAGES_WITHOUT_BLANKS, base_language
from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)
_warn_once = functools.cache(logger.warning)  # a text is scored by several metrics
sacremoses = lazy_loader.load("sacremoses")  # slow to import; only published scores need it

CHARACTERS_OF_WORD = 12  # mean length of what blanks separate, above which they separate no words
QUOTES = str.maketrans(dict.fromkeys("„“”«»", '"') | dict.fromkeys("‚‘’‹›", "'"))


@dataclasses.dataclass(frozen=True)
class Scores:
    """Corpus scores of detokenised text."""

    bleu: float  # 0 to 100
    chrf: float  # 0 to 100
    bleu_signature: str  # the settings of the metric, needed to compare scores
    chrf_signature: str

    def __str__(self) -> str:
        return (
            f"BLEU {self.bleu:.2f}  ({self.bleu_signature})\n"
            f"chrF {self.chrf:.2f}  ({self.chrf_signature})"
        )


def bleu_tokenizer(language: str, tokenizer: str = "auto") -> str:
    """The name of sacreBLEU's tokenizer: words, or characters where no blanks are between words.

    Args:
      language: a code such as "ja", "jpn" or "zh_TW".
      tokenizer: the name itself, unless it is "auto".
    """
    if tokenizer != "auto":
        return tokenizer
    code = base_language(language)
    if code == "zh":  # for which sacreBLEU has a tokenizer
        return "zh"
    return "char" if code in LANGUAGES_WITHOUT_BLANKS else "13a"


def make_bleu(tokenizer: str, **options: Any) -> BLEU:
    """Makes sacreBLEU's metric with a tokenizer of `BLEU.TOKENIZERS`, and other options of it.

    Raises: UserError for a tokenizer that needs another package, or a download that fails.
    """
    try:
        return BLEU(tokenize=tokenizer, **options)
    except (RuntimeError, ImportError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"sacreBLEU's tokenizer {tokenizer} cannot be used ({reason}): install what it needs, "
            "or give another --bleu_tokenizer"
        ) from None


def check_tokenizer(tokenizer: str, references: Sequence[str]) -> None:
    """Warns where a tokenizer of words meets text without blanks between words."""
    words = sum(len(line.split()) for line in references)
    if tokenizer in ("13a", "intl") and sum(map(len, references)) > CHARACTERS_OF_WORD * words > 0:
        logger.warning(
            f"BLEU counts what stands between blanks as a word (tok:{tokenizer}), and the "
            "references have hardly any blanks: give --bleu_tokenizer=char, or the code of their "
            "language"
        )


def score(
    translations: Sequence[str],
    references: Sequence[str],
    language: str = "en",
    tokenizer: str = "auto",
) -> Scores:
    """Computes BLEU and chrF with sacreBLEU, with one reference for each translation.

    Args:
      translations: a list of strings, detokenised.
      references: a list of strings of the same length.
      language, tokenizer: as for `bleu_tokenizer`.
    Raises: UserError as `scored_segments` and `make_bleu`.
    """
    sides = scored_segments([references], translations)
    metrics = make_bleu(bleu_tokenizer(language, tokenizer)), CHRF()
    scores = (metric.corpus_score(sides[-1], sides[:1]).score for metric in metrics)
    return Scores(*scores, *(str(metric.get_signature()) for metric in metrics))


def has_papers_bleu(data: DataConfig) -> bool:
    """Whether the paper reports `compound_split_bleu` for a `DataConfig`: English to German."""
    return (base_language(data.source), base_language(data.target)) == ("en", "de")


def split_compounds(tokens: str) -> str:
    """Splits tokens at hyphens: "Ost-West" -> "Ost ##AT##-##AT## West".

    Each hyphen between two characters that are not blanks becomes a token, from left to right. A
    character matches once: "a-b-c" keeps its second hyphen. The program behind the paper's scores,
    `get_ende_bleu.sh` of tensor2tensor, does the same.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens)


def compound_split_bleu(
    translations: Sequence[str], references: Sequence[str], language: str = "de"
) -> tuple[float, str]:
    """Computes tokenised, compound-split BLEU, which the paper reports for English to German.

    It tends to be higher than the BLEU of sacreBLEU. On both sides, quotation marks become ASCII
    quotation marks (as in the reference of the paper's authors), the Moses tokenizer splits the
    text, and compounds are split at their hyphens. BLEU is case-sensitive, without smoothing.

    Returns: BLEU from 0 to 100; the settings of the metric, as text.
    """
    language = base_language(language)
    tokenizer = sacremoses.MosesTokenizer(lang=language)

    def tokenize(line: str) -> str:
        line = line.translate(QUOTES)
        return split_compounds(tokenizer.tokenize(line, return_str=True))

    moses = f"moses.{language}:sacremoses.{sacremoses.__version__}"
    settings = f"quotes:plain|{moses}|compounds:##AT##-##AT##"
    return _bleu_of_tokens(translations, references, tokenize, settings)


def normalized_bleu(
    translations: Sequence[str], references: Sequence[str], language: str
) -> tuple[float, str]:
    """Computes lower-cased, punctuation-normalised, tokenised BLEU, as papers on Multi30k report.

    Both sides are lower-cased, then Moses normalises the punctuation (such as „ and “ to "), then
    its tokenizer splits the text, as the scripts of Multi30k do. BLEU has no smoothing.

    Returns: as `compound_split_bleu`.
    """
    moses = f"moses.{base_language(language)}:sacremoses.{sacremoses.__version__}"
    settings = f"text:lower-cased|punctuation:normalised|{moses}"
    return _bleu_of_tokens(translations, references, lowercase_tokenizer(language), settings)


def lowercase_tokenizer(language: str) -> Callable[[str], str]:
    """Returns the function that prepares text as the scripts of Multi30k do.

    It lower-cases a line, normalises its punctuation, and separates its tokens by blanks. A line
    that is prepared already stays as it is.
    """
    rules = base_language(language)
    normalizer = sacremoses.MosesPunctNormalizer(lang=rules)
    tokenizer = sacremoses.MosesTokenizer(lang=rules)

    def tokenize(line: str) -> str:
        return tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True, escape=False)

    return tokenize


def _bleu_of_tokens(
    translations: Sequence[str],
    references: Sequence[str],
    tokenize: Callable[[str], str],
    settings: str,
) -> tuple[float, str]:
    """BLEU without smoothing of text that `tokenize` splits at blanks; its signature, settings."""
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    segments = scored_segments([references], translations)
    sides = [[tokenize(line) for line in lines] for lines in segments]
    result = bleu.corpus_score(sides[1], sides[:1])
    return result.score, f"{bleu.get_signature()}|{settings}"


def scored_segments(
    references: Sequence[Sequence[str]], *systems: Sequence[str]
) -> list[list[Any]]:
    """Leaves out blank references, and the segments that have no other, with a warning.

    Args:
      references: for each set of references a list with a string for each segment.
      *systems: the translations of each system.
    Returns: the sets of references, where None is a blank one, and the systems.
    Raises: UserError when the numbers of lines differ, or no segment is left.
    """
    for lines in (*references, *systems):
        if len(systems[0]) != len(lines):
            raise UserError(
                f"{len(systems[0]):,} translations, but {len(lines):,} references: "
                "give one reference for each translation"
            )
    found = [[line if line.strip() else None for line in lines] for lines in references]
    kept = list(map(any, zip(*found)))
    if not any(kept):
        raise UserError("nothing to score: there are no lines, or all references are blank")
    if blank := sum(lines.count(None) for lines in found):
        _warn_once(
            f"{blank:,} of {len(kept) * len(found):,} references are blank, and are left out: "
            f"{kept.count(False):,} of {len(kept):,} translations have no score"
        )
    return [list(itertools.compress(lines, kept)) for lines in (*found, *systems)]


def read_segments(name: str, source: str, target: str) -> tuple[list[str], list[list[str]]]:
    """Reads a test set of sacreBLEU, such as "wmt14/full", which is downloaded at the first use.

    Returns: the source sentences, and a list of references for each translator.
    Raises: UserError for an unknown test set, another language pair, or a failed download.
    """
    known = sacrebleu.get_available_testsets()
    if name not in known:
        raise UserError(f"no test set {name!r}: sacreBLEU has {', '.join(sorted(known))}")
    pair = f"{base_language(source)}-{base_language(target)}"
    if pair not in sacrebleu.get_langpairs_for_testset(name):
        pairs = ", ".join(sorted(sacrebleu.get_langpairs_for_testset(name)))
        raise UserError(f"the test set {name} has no {pair}: it has {pairs}")
    try:
        source_file = sacrebleu.get_source_file(name, pair)
        paths = [source_file, *sacrebleu.get_reference_files(name, pair)]
    except (OSError, SystemExit) as error:  # sacreBLEU exits where the download is damaged
        raise UserError(
            f"the test set {name} could not be downloaded ({error}): try again with a network, or "
            "copy sacreBLEU's cache (~/.sacrebleu) from another computer"
        ) from None
    sources, *references = (list(read_lines(path)) for path in paths)
    return sources, references
