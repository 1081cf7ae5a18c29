"""Attention weights to walk about in: one HTML page that needs nothing but a browser, as a file or inside a notebook."""

import html
import json
import os
import pathlib
import re

import numpy as np

from tf_transformer.atomic_io import atomic_write

START_PIECE = "[START]"  # what the decoder is given where it writes its first sub-word
PLACES = {
    "encoder_layer{}": "encoder",
    "decoder_layer{}_block1": "decoder",
    "decoder_layer{}_block2": "source",
}
ROW, FRAME, TALLEST = (
    28,
    250,
    900,
)  # pixels: of a sub-word, of what stands around the columns, of the page in a notebook


class AttentionView:
    """Who looks at whom, in each layer and head: lines whose opacity is the weight, and percentages for one sub-word at a time.

    The last expression of a notebook's cell shows it there.

    Args:
      examples: a list of (source sub-words, target sub-words, weights by name), each as `Translator.attention` returns it.
    Raises: ValueError for no example, weights of other shapes than the sub-words, or weights that are no numbers.
    """

    def __init__(self, examples):
        if not examples:
            raise ValueError("no example: give what Translator.attention returned, in a list")
        self._examples = [_example(*example) for example in examples]

    def page(self):
        """The page, a string."""
        template = (pathlib.Path(__file__).parent / "attention_viewer.html").read_text("utf-8")
        data = json.dumps(self._examples, separators=(",", ":")).replace(
            "<", "\\u003c"
        )  # so that no text ends the script
        return template.replace("EXAMPLES_AS_JSON", data)

    def save(self, path):
        """Writes the page to a file, to be opened in any browser."""
        with atomic_write(os.fspath(path)) as file:
            file.write(self.page())

    def __repr__(self):
        return f"AttentionView of {len(self._examples)} examples"

    def _repr_html_(self):
        rows = max(
            len(example[side]) for example in self._examples for side in ("source", "target")
        )
        frame = f'style="width: 100%; height: {min(TALLEST, FRAME + ROW * rows)}px; border: 0"'
        return (  # without its own origin, so that the page cannot touch the notebook
            f'<iframe title="Attention weights" sandbox="allow-scripts" {frame} srcdoc="{html.escape(self.page())}"></iframe>'
            "<p><small>If nothing shows above, run the cells up to this one, or trust the notebook: until then it hides pages.</small></p>"
        )


def _example(source, target, weights):
    """What the page gets of an example: sub-words, and for each place of attention weights `[layers][heads][from][to]` in thousandths."""
    source, target = list(source), list(target)
    asked_and_asking = {
        "encoder": (source, source),
        "decoder": (target, [START_PIECE, *target[:-1]]),
        "source": (target, source),
    }
    places = {}
    for name, place in PLACES.items():
        layers = []
        while (key := name.format(len(layers) + 1)) in weights:
            layers.append(_thousandths(key, weights[key], *map(len, asked_and_asking[place])))
        if layers:
            places[place] = layers
    known = {re.sub(r"\d+", "{}", name, count=1) for name in weights} <= set(PLACES)
    if not weights or not known or sum(map(len, places.values())) != len(weights):
        raise ValueError(
            f"weights {', '.join(weights) or 'of nothing'}: give those of Translator.attention, by its names, from layer 1 on"
        )
    return {"source": source, "target": target, "start": START_PIECE, "weights": places}


def _thousandths(name, weights, rows, columns):
    weights = np.asarray(weights, float)
    if weights.ndim != 3 or weights.shape[1:] != (rows, columns):
        raise ValueError(
            f"{name} has shape {weights.shape}: the sub-words want (heads, {rows}, {columns})"
        )
    if not np.isfinite(weights).all():
        raise ValueError(f"{name} has weights that are no numbers")
    return np.rint(1000 * weights).astype(int).tolist()
