"""Figure 1 of the paper, with the shapes of a model, and the arrows between its stacks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

Point = tuple[float, float]

ENCODER_X = 3.1  # centers of the two columns
DECODER_X = 7.2
HALF_WIDTH = 1.05  # of a box
LINE_HEIGHT = 0.25  # of a line of text in a box
FRAME = 1.55  # from the center of a column to the outer edge of its frame
INNER_FRAME = 1.3  # to the inner edge
RESIDUAL = 1.32  # to a residual connection
HEAD_GAP = 0.62  # between the arrows of V, K and Q
FONT_SIZE = 10.5
LINE_COLOUR = "0.25"
SHAPE_COLOUR = "#0072B2"

NO_BOX = "none"  # fill colors
EMBEDDING = "#FBE3E4"
ATTENTION = "#FCE0BB"
NORM = "#F3F6C2"
FEED_FORWARD = "#C5E8F7"
LINEAR = "#DDE0F1"
SOFTMAX = "#CBE6D0"


class Box(NamedTuple):
    """A box of Figure 1."""

    key: str  # in the shapes
    text: str
    x: float  # center
    y: float
    colour: str

    @property
    def half_height(self) -> float:
        """Half of the box's height."""
        return 0.1 + LINE_HEIGHT / 2 * (1 + self.text.count("\n"))

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y - self.half_height

    @property
    def top(self) -> float:
        """The upper edge."""
        return self.y + self.half_height

    @property
    def outward(self) -> int:
        """The direction to the nearer edge of the figure: 1 is right, -1 is left."""
        return 1 if self.x == DECODER_X else -1


# In each column from bottom to top.
BOXES = [
    Box("inp", "Inputs", ENCODER_X, 0, NO_BOX),
    Box("enc_embedding", "Input\nEmbedding", ENCODER_X, 0.95, EMBEDDING),
    Box("enc_attention", "Multi-Head\nAttention", ENCODER_X, 3.5, ATTENTION),
    Box("enc_norm1", "Add & Norm", ENCODER_X, 4.3, NORM),
    Box("enc_ffn", "Feed\nForward", ENCODER_X, 5.5, FEED_FORWARD),
    Box("enc_norm2", "Add & Norm", ENCODER_X, 6.3, NORM),
    Box("tar", "Outputs\n(shifted right)", DECODER_X, 0, NO_BOX),
    Box("dec_embedding", "Output\nEmbedding", DECODER_X, 0.95, EMBEDDING),
    Box("dec_attention1", "Masked\nMulti-Head\nAttention", DECODER_X, 3.38, ATTENTION),
    Box("dec_norm1", "Add & Norm", DECODER_X, 4.3, NORM),
    Box("dec_attention2", "Multi-Head\nAttention", DECODER_X, 6.1, ATTENTION),
    Box("dec_norm2", "Add & Norm", DECODER_X, 6.9, NORM),
    Box("dec_ffn", "Feed\nForward", DECODER_X, 8.1, FEED_FORWARD),
    Box("dec_norm3", "Add & Norm", DECODER_X, 8.9, NORM),
    Box("logits", "Linear", DECODER_X, 10.1, LINEAR),
    Box("probabilities", "Softmax", DECODER_X, 10.9, SOFTMAX),
]
BOX_OF = {box.key: box for box in BOXES}
PLUS_Y = 1.8  # of the sum of embedding and positional encoding

# The first and the last box of each stack of N layers.
STACKS = [("enc_attention", "enc_norm2"), ("dec_attention1", "dec_norm3")]

# Each sub-layer, and its "Add & Norm".
SUB_LAYERS = [
    ("enc_attention", "enc_norm1"),
    ("enc_ffn", "enc_norm2"),
    ("dec_attention1", "dec_norm1"),
    ("dec_attention2", "dec_norm2"),
    ("dec_ffn", "dec_norm3"),
]


def plot_transformer(
    shapes: Mapping[str, Sequence[int | None]] | None = None, num_layers: int | str = "N"
) -> Figure:
    """Plots Figure 1, with the output shape of each box.

    Args:
      shapes: a dict from the key of each of `BOXES` to its shape; None for a figure without shapes.
      num_layers: N.
    """
    figure = Figure(figsize=(8.8, 9.8), dpi=100)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set(xlim=(-0.1, 10.4), ylim=(-0.45, 12))
    panel.set_axis_off()
    for first, last in STACKS:
        _draw_stack(panel, BOX_OF[first], BOX_OF[last], num_layers)
    for box in BOXES:
        _draw_box(panel, box)
        if shapes is not None:
            _draw_shape(panel, box, shapes[box.key])
    for key in ("enc_embedding", "dec_embedding"):
        _draw_positions(panel, BOX_OF[key])
    for sub_layer, norm in SUB_LAYERS:
        _draw_sub_layer(panel, BOX_OF[sub_layer], BOX_OF[norm])
    for below, above in (("inp", "enc_embedding"), ("tar", "dec_embedding")):
        _draw_arrow(panel, (BOX_OF[below].x, BOX_OF[below].top), _bottom(BOX_OF[above]))
    for below, above in (("dec_norm3", "logits"), ("logits", "probabilities")):
        _draw_arrow(panel, (DECODER_X, BOX_OF[below].top), _bottom(BOX_OF[above]))
    _draw_encoder_output(panel)
    top = BOX_OF["probabilities"].top
    _draw_arrow(panel, (DECODER_X, top), (DECODER_X, top + 0.35))
    _draw_text(panel, DECODER_X, top + 0.55, "Output Probabilities")
    return figure


def walk(model, inp, tar, enc_mask, look_ahead_mask, dec_mask) -> dict[str, tf.Tensor]:
    """Computes a model box by box.

    Args:
      model: a `Transformer` of the package.
      inp, tar: ids, `[B, S]` and `[B, T]`.
      enc_mask, look_ahead_mask, dec_mask: from `create_masks`.
    Returns: what leaves each of `BOXES` in the last layer, by its key.
    """
    at = {"inp": inp, "tar": tar}
    at["enc_embedding"] = model.encoder.embedding(inp)  # (B, S, D)
    x = model.encoder.pos_encoding(at["enc_embedding"])
    for layer in model.encoder.enc_layers:
        at["enc_attention"], _ = layer.mha(x, x, x, enc_mask)  # (B, S, D)
        out1 = at["enc_norm1"] = layer.layernorm1(x + at["enc_attention"])
        at["enc_ffn"] = layer.ffn(out1)
        x = at["enc_norm2"] = layer.layernorm2(out1 + at["enc_ffn"])
    at["dec_embedding"] = model.decoder.embedding(tar)  # (B, T, D)
    y = model.decoder.pos_encoding(at["dec_embedding"])
    for layer in model.decoder.dec_layers:
        at["dec_attention1"], _ = layer.mha1(y, y, y, look_ahead_mask)  # (B, T, D)
        out1 = at["dec_norm1"] = layer.layernorm1(y + at["dec_attention1"])
        at["dec_attention2"], _ = layer.mha2(x, x, out1, dec_mask)
        out2 = at["dec_norm2"] = layer.layernorm2(out1 + at["dec_attention2"])
        at["dec_ffn"] = layer.ffn(out2)
        y = at["dec_norm3"] = layer.layernorm3(out2 + at["dec_ffn"])
    at["logits"] = model.logits(y)  # (B, T, V)
    at["probabilities"] = tf.nn.softmax(at["logits"])
    return at


def plot_stacks(num_layers: int) -> Figure:
    """Plots the layers of both stacks: the last encoder layer feeds every decoder layer."""
    figure = Figure(figsize=(7.4, 0.85 * num_layers + 2.2), dpi=90)
    panel = figure.add_axes((0, 0, 1, 1))
    top = num_layers + 0.9
    panel.set(xlim=(0, 10), ylim=(-0.7, top + 0.3))
    panel.set_axis_off()
    columns = (
        ("Inputs", "Encoder", 2.4, NORM),
        ("Outputs (shifted right)", "Decoder", 7.6, LINEAR),
    )
    for below, name, x, colour in columns:
        _draw_text(panel, x, -0.4, below)
        for i in range(num_layers):
            _draw_arrow(panel, (x, i - 0.2 if i == 0 else i - 0.3), (x, i))
            _draw_rectangle(panel, (x - 1.5, i), 3, 0.7, colour, LINE_COLOUR)
            _draw_text(panel, x, i + 0.35, f"{name} layer {i + 1}")
    _draw_arrow(panel, (7.6, num_layers - 0.3), (7.6, top - 0.4))
    _draw_text(panel, 7.6, top - 0.15, "Linear, Softmax")
    last = num_layers - 0.3  # the upper edge of the last encoder layer
    _draw_line(panel, (2.4, last), (2.4, last + 0.4), (5, last + 0.4), (5, 0.35))
    _draw_text(panel, 3.7, last + 0.62, "$z$, the output of the encoder")
    for i in range(num_layers):
        _draw_arrow(panel, (5, i + 0.35), (6.1, i + 0.35))
        _draw_text(panel, 5.5, i + 0.52, "K, V")
    return figure


def _bottom(box: Box) -> Point:
    return box.x, box.bottom


def _draw_text(panel: Axes, x: float, y: float, text: str, align: str = "center") -> None:
    panel.text(x, y, text, ha=align, va="center", fontsize=FONT_SIZE, linespacing=1.15)


def _draw_box(panel: Axes, box: Box) -> None:
    """Draws a box with its text."""
    if box.colour != NO_BOX:
        corner = (box.x - HALF_WIDTH, box.bottom)
        height = 2 * box.half_height
        _draw_rectangle(panel, corner, 2 * HALF_WIDTH, height, box.colour, LINE_COLOUR)
    _draw_text(panel, box.x, box.y, box.text)


def _draw_shape(panel: Axes, box: Box, shape: Sequence[int | None]) -> None:
    """Writes the output shape of a box outside of its stack."""
    panel.text(
        box.x + (FRAME + 0.12) * box.outward,
        box.y,
        str(tuple(shape)),
        ha="left" if box.outward > 0 else "right",
        va="center",
        fontsize=FONT_SIZE,
        family="monospace",
        color=SHAPE_COLOUR,
    )


def _draw_rectangle(
    panel: Axes, corner: Point, width: float, height: float, fill: str, edge: str
) -> None:
    style = "round,pad=0,rounding_size=0.1"
    panel.add_patch(
        FancyBboxPatch(corner, width, height, style, facecolor=fill, edgecolor=edge, zorder=2)
    )


def _draw_arrow(panel: Axes, start: Point, end: Point) -> None:
    panel.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=11,
            color=LINE_COLOUR,
            shrinkA=0,
            shrinkB=0,
            zorder=3,
        )
    )


def _draw_line(panel: Axes, *points: Point) -> None:
    xs, ys = zip(*points)
    panel.plot(xs, ys, color=LINE_COLOUR, linewidth=1, solid_joinstyle="miter", zorder=3)


def _draw_circle(panel: Axes, x: float, y: float, size: float) -> None:
    panel.plot(
        x, y, "o", markersize=size, markerfacecolor="white", markeredgecolor=LINE_COLOUR, zorder=4
    )


def _draw_positions(panel: Axes, embedding: Box) -> None:
    """Draws the sum of an embedding and the positional encoding, a circle with a sine."""
    x = embedding.x
    sine_x = x + 0.95 * embedding.outward
    _draw_arrow(panel, (x, embedding.top), (x, PLUS_Y - 0.17))
    _draw_line(panel, (sine_x, PLUS_Y), (x, PLUS_Y))
    _draw_circle(panel, x, PLUS_Y, 19)
    for dx, dy in ((0.08, 0), (0, 0.08)):
        panel.plot([x - dx, x + dx], [PLUS_Y - dy, PLUS_Y + dy], color=LINE_COLOUR, zorder=5)
    _draw_circle(panel, sine_x, PLUS_Y, 27)
    phase = np.linspace(-np.pi, np.pi, 40)
    panel.plot(
        sine_x + 0.14 * phase / np.pi, PLUS_Y + 0.08 * np.sin(phase), color=LINE_COLOUR, zorder=5
    )
    label_x = sine_x + 0.28 * embedding.outward
    align = "left" if embedding.outward > 0 else "right"
    _draw_text(panel, label_x, PLUS_Y, "Positional\nEncoding", align)


def _input_of(sub_layer: Box) -> Point:
    """Where the input of a sub-layer comes from: the box or the sum below it."""
    below = BOXES[BOXES.index(sub_layer) - 1]
    return sub_layer.x, PLUS_Y + 0.13 if "embedding" in below.key else below.top


def _draw_sub_layer(panel: Axes, sub_layer: Box, norm: Box) -> None:
    """Draws the input of a sub-layer, its residual connection, and its "Add & Norm"."""
    x, start = _input_of(sub_layer)
    if sub_layer.key == "dec_attention2":
        branch = start + 0.22
        _draw_line(panel, (x, start), (x, branch))
        _draw_head_arrows(panel, sub_layer, branch, "Q")
    elif "attention" in sub_layer.key:
        split = sub_layer.bottom - 0.42
        branch = split - 0.22
        _draw_line(panel, (x, start), (x, split))
        _draw_head_arrows(panel, sub_layer, split, "VKQ")
    else:
        branch = (start + sub_layer.bottom) / 2 - 0.08
        _draw_arrow(panel, (x, start), _bottom(sub_layer))
    outside = x + RESIDUAL * sub_layer.outward
    _draw_line(panel, (x, branch), (outside, branch), (outside, norm.y))
    _draw_arrow(panel, (outside, norm.y), (x + HALF_WIDTH * sub_layer.outward, norm.y))
    _draw_arrow(panel, (x, sub_layer.top), _bottom(norm))


def _draw_head_arrows(panel: Axes, attention: Box, start: float, names: str) -> None:
    """Draws the arrows of V, K and Q, or some of them, from a horizontal line upwards."""
    xs = [attention.x + HEAD_GAP * ("VKQ".index(name) - 1) for name in names]
    _draw_line(panel, (min(*xs, attention.x), start), (max(*xs, attention.x), start))
    for x, name in zip(xs, names):
        _draw_arrow(panel, (x, start), (x, attention.bottom))
        panel.text(x + 0.07, attention.bottom - 0.2, name, fontsize=9, style="italic", va="center")


def _draw_encoder_output(panel: Axes) -> None:
    """Draws the keys and values of the encoder-decoder attention from the encoder output."""
    output = BOX_OF["enc_norm2"]
    attention = BOX_OF["dec_attention2"]
    middle = (ENCODER_X + DECODER_X) / 2
    top, split = output.top + 0.45, attention.bottom - 0.42
    _draw_line(
        panel,
        (output.x, output.top),
        (output.x, top),
        (middle, top),
        (middle, split),
        (attention.x - HEAD_GAP, split),
    )
    _draw_head_arrows(panel, attention, split, "VK")


def _draw_stack(panel: Axes, first: Box, last: Box, num_layers: int | str) -> None:
    """Draws the frame around a layer, and the number of layers outside of it."""
    bottom, top = first.bottom - 0.82, last.top + 0.2
    left, right = (FRAME, INNER_FRAME) if first.outward < 0 else (INNER_FRAME, FRAME)
    corner = (first.x - left, bottom)
    _draw_rectangle(panel, corner, left + right, top - bottom, "0.96", "0.6")
    feed_forward = BOXES[BOXES.index(last) - 1]
    panel.text(
        first.x + (FRAME + 0.12) * first.outward,
        (feed_forward.y + BOXES[BOXES.index(last) - 2].y) / 2,
        f"{num_layers}×",
        fontsize=15,
        ha="left" if first.outward > 0 else "right",
        va="center",
    )
