"""`AttentionView`: attention weights as one interactive HTML page, for a file or a notebook."""

import base64
import html
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
HEADER_HEIGHT = 350  # of everything above and below the sub-words
SWITCHES_HEIGHT = 90
MAX_HEIGHT = 1000

# The page has the numbers as integers, each times a step.
WEIGHT_STEP = 1e-4
LARGEST_INTEGER = 2**15 - 1  # of queries and keys

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
    Raises: ValueError for no examples, and for weights, queries or keys that do not fit the
      sub-words.
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
        rows = max(map(len, sides))
        height = HEADER_HEIGHT + ROW_HEIGHT * rows
        if any("queries_and_keys" in example for example in self._examples):
            height += SWITCHES_HEIGHT
        height = min(MAX_HEIGHT, height)
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

    Returns: a dict with the sub-words; the weights of each kind of attention as integers times
      `weight_step`, `[layers][heads][queries][keys]`; and its queries and keys, if they are given.
    """
    source = list(source)
    target = list(target)
    shapes = {  # queries, keys
        "encoder_self_attention": (len(source), len(source)),
        "decoder_self_attention": (len(target), len(target)),
        "encoder_decoder_attention": (len(target), len(source)),
    }
    weights_of = {}
    queries_and_keys_of = {}
    for name, kind in KINDS.items():
        layers: list[list] = []
        projections: list[dict[str, Any]] = []
        while (key := name.format(len(layers) + 1)) in weights:
            layers.append(_integers(key, weights[key], *shapes[kind]))
            if queries_and_keys is not None:
                heads = len(layers[-1])
                projections.append(_projections(key, queries_and_keys[key], heads, *shapes[kind]))
        if layers:
            weights_of[kind] = layers
            queries_and_keys_of[kind] = projections
    if not weights or sum(map(len, weights_of.values())) != len(weights):
        names = ", ".join(weights) or "(none)"
        raise ValueError(
            f"weights {names}: give those of Translator.attention, with their names, from layer 1"
        )
    example = {
        "source": source,
        "target": target,
        "start": START_PIECE,
        "pad": PAD_PIECE,
        "weight_step": WEIGHT_STEP,
        "weights": weights_of,
    }
    if queries_and_keys is not None:
        example["queries_and_keys"] = queries_and_keys_of
    return example


def _integers(name: str, weights: np.ndarray, queries: int, keys: int) -> list:
    weights = np.asarray(weights, float)
    if weights.ndim != 3 or weights.shape[1:] != (queries, keys):
        raise ValueError(
            f"{name} has shape {weights.shape}: the sub-words need (heads, {queries}, {keys})"
        )
    return np.rint(weights / WEIGHT_STEP).astype(int).tolist()


def _projections(
    name: str, pair: tuple[np.ndarray, np.ndarray], heads: int, queries: int, keys: int
) -> dict[str, Any]:
    """Converts the queries and keys of a layer to 16-bit integers and their steps.

    Returns: a dict with `depth`; `q` and `k`, the integers `[heads, sub-words, depth]` in
      little-endian order as base64; and `q_step` and `k_step`. A query is `q_step` times its
      integers.
    """
    q, k = (np.asarray(x, float) for x in pair)
    depth = q.shape[-1] if q.ndim else 0
    if q.shape != (heads, queries, depth) or k.shape != (heads, keys, depth):
        raise ValueError(
            f"queries and keys of {name} have shapes {q.shape} and {k.shape}: "
            f"they need ({heads}, {queries}, depth) and ({heads}, {keys}, depth)"
        )
    data: dict[str, Any] = {"depth": depth}
    for key, values in (("q", q), ("k", k)):
        step = float(np.abs(values).max(initial=0.0)) / LARGEST_INTEGER or 1.0
        integers = np.rint(values / step).astype("<i2")
        data[key] = base64.b64encode(integers.tobytes()).decode("ascii")
        data[f"{key}_step"] = step
    return data
