"""`AttentionView`: attention weights as one interactive HTML page, for a file or a notebook."""

import html
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_transformer.atomic_io import atomic_write

START_PIECE = "[START]"  # the first input of the decoder

# The kinds of attention of Sec. 3.2.3, by the names of their weights.
KINDS = {
    "encoder_layer{}": "encoder_self_attention",
    "decoder_layer{}_block1": "decoder_self_attention",
    "decoder_layer{}_block2": "encoder_decoder_attention",
}

# Pixels of the page in a notebook.
ROW_HEIGHT = 28  # of a sub-word
HEADER_HEIGHT = 250  # of everything above and below the columns of sub-words
MAX_HEIGHT = 900


# Source sub-words, target sub-words, and weights by name.
Example = tuple[Sequence[str], Sequence[str], Mapping[str, np.ndarray]]


class AttentionView:
    """Shows the attention weights of each layer and head.

    Lines join queries and keys; their opacity is the weight. The page shows percentages for one
    sub-word at a time. A notebook displays the view when it is the last expression of a cell.

    Args:
      examples: a list of (source sub-words, target sub-words, weights by name), as
        `Translator.attention` returns them.
    Raises: ValueError for no examples, and for weights that are not finite or do not fit the
      sub-words.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        if not examples:
            raise ValueError("no example: give a list of results of Translator.attention")
        self._examples = [_example(*example) for example in examples]

    def page(self) -> str:
        """Returns the HTML page as a string."""
        template = (pathlib.Path(__file__).parent / "attention_viewer.html").read_text("utf-8")
        data = json.dumps(self._examples, separators=(",", ":"))
        data = data.replace("<", "\\u003c")  # no text can close the script element
        return template.replace("EXAMPLES_AS_JSON", data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file that any browser can open."""
        with atomic_write(os.fspath(path)) as file:
            file.write(self.page())

    def __repr__(self) -> str:
        return f"AttentionView of {len(self._examples)} examples"

    def _repr_html_(self) -> str:
        rows = max(
            max(len(example["source"]), len(example["target"])) for example in self._examples
        )
        height = min(MAX_HEIGHT, HEADER_HEIGHT + ROW_HEIGHT * rows)
        # The sandbox gives the page an opaque origin, so it cannot access the notebook.
        return (
            '<iframe title="Attention weights" sandbox="allow-scripts" '
            f'style="width: 100%; height: {height}px; border: 0" '
            f'srcdoc="{html.escape(self.page())}"></iframe>'
            "<p><small>If the page does not appear above, run the cells up to this one, or trust "
            "the notebook: Jupyter hides HTML in untrusted notebooks.</small></p>"
        )


def _example(
    source: Sequence[str], target: Sequence[str], weights: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Converts an example to the data of the page.

    Returns: a dict with the sub-words, and the weights of each kind of attention in thousandths,
      `[layers][heads][queries][keys]`.
    """
    source = list(source)
    target = list(target)
    shapes = {  # queries, keys
        "encoder_self_attention": (len(source), len(source)),
        "decoder_self_attention": (len(target), len(target)),
        "encoder_decoder_attention": (len(target), len(source)),
    }
    weights_of = {}
    for name, kind in KINDS.items():
        layers: list[list] = []
        while (key := name.format(len(layers) + 1)) in weights:
            layers.append(_thousandths(key, weights[key], *shapes[kind]))
        if layers:
            weights_of[kind] = layers
    if not weights or sum(map(len, weights_of.values())) != len(weights):
        names = ", ".join(weights) or "(none)"
        raise ValueError(
            f"weights {names}: give those of Translator.attention, with their names, from layer 1"
        )
    return {"source": source, "target": target, "start": START_PIECE, "weights": weights_of}


def _thousandths(name: str, weights: np.ndarray, queries: int, keys: int) -> list:
    weights = np.asarray(weights, float)
    if weights.ndim != 3 or weights.shape[1:] != (queries, keys):
        raise ValueError(
            f"{name} has shape {weights.shape}: the sub-words need (heads, {queries}, {keys})"
        )
    if not np.isfinite(weights).all():
        raise ValueError(f"{name} has weights that are not finite")
    return np.rint(1000 * weights).astype(int).tolist()
