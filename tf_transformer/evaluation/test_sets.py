"""The test sets of sacreBLEU."""

import sacrebleu

from tf_transformer.data.languages import base_language
from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError


def read_segments(name: str, source: str, target: str) -> tuple[list[str], list[list[str]]]:
    """Reads a test set, which is downloaded to sacreBLEU's cache at the first use.

    Args:
      name: of sacreBLEU, such as "wmt14/full".
      source, target: language codes.
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
        paths = [
            sacrebleu.get_source_file(name, pair),
            *sacrebleu.get_reference_files(name, pair),
        ]
    except (OSError, SystemExit) as error:  # sacreBLEU exits where the download is damaged
        raise UserError(
            f"the test set {name} could not be downloaded ({error}): try again with a network, or "
            "copy sacreBLEU's cache (~/.sacrebleu) from another computer"
        ) from None
    sources, *references = (list(read_lines(path)) for path in paths)
    return sources, references
