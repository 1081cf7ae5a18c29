"""`AttentionView`: attention weights as one interactive HTML page, for a file or a notebook."""

import html
import itertools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_transformer.files import atomic_write

START_PIECE = "[START]"  # the first input of the decoder
PAD_PIECE = "[PAD]"  # padding, which the padding mask hides

# The kinds of attention of Sec. 3.2.3, by the names of their weights.
KINDS = {
    "encoder_layer{}": "encoder_self_attention",
    "decoder_layer{}_block1": "decoder_self_attention",
    "decoder_layer{}_block2": "encoder_decoder_attention",
}

# The parts of the page that the server's page has too.
DISPLAY = pathlib.Path(__file__).with_name("attention_display")

# Pixels of the page in a notebook.
ROW_HEIGHT = 28  # of a sub-word
HEADER_HEIGHT = 460  # of everything above and below the sub-words, and two names in two lines
MAX_HEIGHT = 1000

Weights = Mapping[str, np.ndarray]
QueriesAndKeys = Mapping[str, tuple[np.ndarray, np.ndarray]]
# Source sub-words, target sub-words, weights by name, and optionally queries and keys by name.
Example = (
    tuple[Sequence[str], Sequence[str], Weights]
    | tuple[Sequence[str], Sequence[str], Weights, QueriesAndKeys]
)


class AttentionView:
    """Shows the attention weights of each layer and head, as lines or as a map.

    Lines join queries and keys; their opacity is the weight. The map is the matrix of the weights.
    The page highlights one sub-word at a time, with percentages. A notebook displays the view when
    it is the last expression of a cell.

    With queries and keys, the page computes the weights itself, and has switches for the scale and
    for each mask.

    Args:
      examples: a list of (source sub-words, target sub-words, weights by name), as
        `Translator.attention` returns them; with queries `[H, T, K]` and keys `[H, S, K]` by name
        as the fourth item, the page has the switches.
    Raises: ValueError for no examples, and for weights that do not fit the sub-words.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        if not examples:
            raise ValueError("no example: give a list of results of Translator.attention")
        self._examples = [_example(*example) for example in examples]

    def page(self) -> str:
        """Returns the HTML page as a string."""
        page = (pathlib.Path(__file__).parent / "attention_viewer.html").read_text("utf-8")
        parts = {
            "ATTENTION_CSS": "attention.css",
            "ATTENTION_CONTROLS": "controls.html",
            "ATTENTION_HTML": "attention.html",
            "ATTENTION_JS": "attention.js",
        }
        for placeholder, file in parts.items():
            page = page.replace(f"{placeholder}\n", (DISPLAY / file).read_text("utf-8"))
        data = json.dumps(self._examples, separators=(",", ":"))
        data = data.replace("<", "\\u003c")  # no text can close the script element
        return page.replace("EXAMPLES_AS_JSON", data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file that any browser can open."""
        with atomic_write(os.fspath(path)) as file:
            file.write(self.page())

    def __repr__(self) -> str:
        return f"AttentionView of {len(self._examples)} examples"

    def _repr_html_(self) -> str:
        sides = [example[side] for example in self._examples for side in ("source", "target")]
        height = min(MAX_HEIGHT, HEADER_HEIGHT + ROW_HEIGHT * max(map(len, sides)))
        # The sandbox gives the page an opaque origin, so it cannot access the notebook.
        return (
            '<iframe title="Attention weights" sandbox="allow-scripts" '
            f'style="width: 100%; height: {height}px; border: 0" '
            f'srcdoc="{html.escape(self.page())}"></iframe>'
            "<p><small>If the page does not appear above, run the cells up to this one, or trust "
            "the notebook: Jupyter hides HTML in untrusted notebooks.</small></p>"
        )


def _example(
    source: Sequence[str],
    target: Sequence[str],
    weights: Weights,
    queries_and_keys: QueriesAndKeys | None = None,
) -> dict[str, Any]:
    """Converts an example to the data of the page.

    Returns: a dict with the sub-words; the weights of each kind of attention,
      `[layers][heads][queries][keys]`; and the queries and keys of each layer, if they are given.
    """
    shapes = {  # queries, keys
        "encoder_self_attention": (len(source), len(source)),
        "decoder_self_attention": (len(target), len(target)),
        "encoder_decoder_attention": (len(target), len(source)),
    }
    if wrong := [piece for piece in (*source, *target) if not isinstance(piece, str)]:
        raise ValueError(f"sub-word {wrong[0]!r}: give strings, such as {wrong[0]!r}.decode()")
    weights_of: dict[str, list] = {}
    projections_of: dict[str, list] = {}
    for name, kind in KINDS.items():
        names = itertools.takewhile(weights.__contains__, map(name.format, itertools.count(1)))
        for key in names:
            if np.ndim(weights[key]) != 3 or weights[key].shape[1:] != shapes[kind]:
                queries, keys = shapes[kind]
                raise ValueError(
                    f"{key} has shape {np.shape(weights[key])}: the sub-words need "
                    f"(heads, {queries}, {keys})"
                )
            weights_of.setdefault(kind, []).append(_rounded(weights[key], 4))
            if queries_and_keys is not None:
                q, k = (_rounded(x, 3) for x in queries_and_keys[key])
                projections_of.setdefault(kind, []).append({"q": q, "k": k})
    if not weights or sum(map(len, weights_of.values())) != len(weights):
        names_given = ", ".join(weights) or "(none)"
        raise ValueError(
            f"weights {names_given}: give the weights of Translator.attention, with their names, "
            "from layer 1"
        )
    example = {
        "source": list(source),
        "target": list(target),
        "start": START_PIECE,
        "pad": PAD_PIECE,
        "weights": weights_of,
    }
    if queries_and_keys is not None:
        example["queries_and_keys"] = projections_of
    return example


def _rounded(array: np.ndarray, digits: int) -> list:
    if not np.isfinite(array).all():
        raise ValueError("the weights, queries or keys are not finite: the model is damaged")
    return np.round(np.asarray(array, float), digits).tolist()
