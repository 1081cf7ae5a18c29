"""A file of sentence pairs with the errors of collected text, for notebook F."""

import pathlib
import random

from tf_transformer.data.pocket import read_pairs

KINDS = ["empty side", "not translated", "wrong encoding", "sides swapped", "glued lines"]


def damage(kind, source, target):
    """Returns the pair with an error that is typical of collected text."""
    if kind == "empty side":
        return source, ""
    if kind == "not translated":
        return source, source
    if kind == "wrong encoding":  # UTF-8 that was read as Latin-1: "ü" becomes "Ã¼"
        return source, target.encode("utf-8").decode("latin-1")
    if kind == "sides swapped":
        return target, source
    return source, f"{target} {target} {target} {target}"  # several lines in one


def write_damaged_text(path, share=0.02, most_words=6):
    """Writes short sentences of the built-in corpus, some damaged or twice, to a TSV file.

    Returns: the set of the damaged pairs.
    """
    draw = random.Random(1)
    good, lines = [], []
    for pair in list(read_pairs())[:60_000]:
        if max(len(text.split()) for text in pair) <= most_words:
            good.append(pair)
            is_damaged = draw.random() < share
            lines.append(damage(draw.choice(KINDS), *pair) if is_damaged else pair)
    lines += draw.sample(good, 100)  # duplicates
    draw.shuffle(lines)
    text = "".join(f"{source}\t{target}\n" for source, target in lines)
    pathlib.Path(path).write_text(text, encoding="utf-8")
    return set(lines) - set(good)
