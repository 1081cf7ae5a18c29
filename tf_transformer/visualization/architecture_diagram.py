"""Figure 1 of the paper, with the shapes of a model."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

Point = tuple[float, float]

ENCODER_X = 0.0  # centres of the two columns
DECODER_X = 4.4
LINE_COLOUR = "0.3"
SHAPE_COLOUR = "#0072B2"

NO_BOX = "none"  # fill colours
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
    x: float  # centre
    y: float
    colour: str


# In each column from bottom to top.
BOXES = [
    Box("inp", "Inputs", ENCODER_X, 0, NO_BOX),
    Box("enc_embedding", "Input Embedding\n+ Positional Encoding", ENCODER_X, 1, EMBEDDING),
    Box("enc_attention", "Multi-Head\nAttention", ENCODER_X, 2.4, ATTENTION),
    Box("enc_norm1", "Add & Norm", ENCODER_X, 3.3, NORM),
    Box("enc_ffn", "Feed Forward", ENCODER_X, 4.2, FEED_FORWARD),
    Box("enc_norm2", "Add & Norm", ENCODER_X, 5.1, NORM),
    Box("tar", "Outputs\n(shifted right)", DECODER_X, 0, NO_BOX),
    Box("dec_embedding", "Output Embedding\n+ Positional Encoding", DECODER_X, 1, EMBEDDING),
    Box("dec_attention1", "Masked Multi-Head\nAttention", DECODER_X, 2.4, ATTENTION),
    Box("dec_norm1", "Add & Norm", DECODER_X, 3.3, NORM),
    Box("dec_attention2", "Multi-Head\nAttention", DECODER_X, 4.2, ATTENTION),
    Box("dec_norm2", "Add & Norm", DECODER_X, 5.1, NORM),
    Box("dec_ffn", "Feed Forward", DECODER_X, 6.0, FEED_FORWARD),
    Box("dec_norm3", "Add & Norm", DECODER_X, 6.9, NORM),
    Box("logits", "Linear", DECODER_X, 8.2, LINEAR),
    Box("probabilities", "Softmax", DECODER_X, 9.1, SOFTMAX),
]
BOX_OF = {box.key: box for box in BOXES}

# The first and the last box of each stack of N layers.
STACKS = [("enc_attention", "enc_norm2"), ("dec_attention1", "dec_norm3")]

# The sub-layer that each residual connection skips, and its "Add & Norm".
RESIDUALS = [
    ("enc_attention", "enc_norm1"),
    ("enc_ffn", "enc_norm2"),
    ("dec_attention1", "dec_norm1"),
    ("dec_attention2", "dec_norm2"),
    ("dec_ffn", "dec_norm3"),
]


def plot_transformer(shapes: Mapping[str, Sequence[int | None]], num_layers: int) -> Figure:
    """Plots Figure 1 with the output shape of each box.

    Args:
      shapes: a dict from the key of each of `BOXES` to its shape.
      num_layers: N.
    """
    figure = Figure(figsize=(8.5, 9.5), dpi=90, layout="constrained")
    panel = figure.subplots()
    for box in BOXES:
        _draw_box(panel, box, shapes[box.key])
    for below, box in zip(BOXES, BOXES[1:]):
        if below.x == box.x:
            _draw_arrow(panel, (box.x, below.y + 0.28), (box.x, box.y - 0.28))
    for sub_layer, norm in RESIDUALS:
        _draw_residual(panel, BOX_OF[sub_layer], BOX_OF[norm])
    _draw_encoder_output(panel)
    for first, last in STACKS:
        _draw_stack(panel, BOX_OF[first], BOX_OF[last], num_layers)
    panel.text(DECODER_X, 9.75, "Output Probabilities", ha="center", fontsize=9)
    _draw_arrow(panel, (DECODER_X, 9.38), (DECODER_X, 9.65))
    panel.set(xlim=(-3.8, 8.4), ylim=(-0.5, 10))
    panel.set_axis_off()
    return figure


def _draw_box(panel: Axes, box: Box, shape: Sequence[int | None]) -> None:
    """Draws a box with its text, and the shape outside of its stack."""
    if box.colour != NO_BOX:
        _draw_rectangle(panel, (box.x - 1.0, box.y - 0.22), 2.0, 0.44, box.colour, LINE_COLOUR)
    panel.text(box.x, box.y, box.text, ha="center", va="center", fontsize=9)
    panel.text(
        box.x + 1.5 * _outward(box),
        box.y,
        str(tuple(shape)),
        ha="left" if box.x == DECODER_X else "right",
        va="center",
        fontsize=9,
        family="monospace",
        color=SHAPE_COLOUR,
    )


def _outward(box: Box) -> int:
    """The direction from a box to the nearer edge of the figure: 1 is right, -1 is left."""
    return 1 if box.x == DECODER_X else -1


def _draw_rectangle(
    panel: Axes, corner: Point, width: float, height: float, fill: str, edge: str
) -> None:
    style = "round,pad=0.05"
    panel.add_patch(FancyBboxPatch(corner, width, height, style, facecolor=fill, edgecolor=edge))


def _draw_arrow(panel: Axes, start: Point, end: Point) -> None:
    panel.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=10,
            color=LINE_COLOUR,
            shrinkA=0,
            shrinkB=0,
        )
    )


def _draw_line(panel: Axes, xs: Sequence[float], ys: Sequence[float]) -> None:
    panel.plot(xs, ys, color=LINE_COLOUR, linewidth=1)


def _draw_residual(panel: Axes, sub_layer: Box, norm: Box) -> None:
    """Draws the connection from below a sub-layer to its "Add & Norm"."""
    x = sub_layer.x
    start = sub_layer.y - 0.4
    edge = x + 1.05 * _outward(sub_layer)
    outside = x + 1.14 * 1.05 * _outward(sub_layer)
    _draw_line(panel, [x, outside, outside], [start, start, norm.y])
    _draw_arrow(panel, (outside, norm.y), (edge, norm.y))


def _draw_encoder_output(panel: Axes) -> None:
    """Draws the connection from the encoder output to the encoder-decoder attention."""
    output = BOX_OF["enc_norm2"]
    attention = BOX_OF["dec_attention2"]
    middle = (ENCODER_X + DECODER_X) / 2
    top = output.y + 0.6
    _draw_line(
        panel,
        [output.x, output.x, middle, middle],
        [output.y + 0.28, top, top, attention.y],
    )
    _draw_arrow(panel, (middle, attention.y), (attention.x - 1.05, attention.y))


def _draw_stack(panel: Axes, first: Box, last: Box, num_layers: int) -> None:
    """Draws the frame around a layer, and the number of layers."""
    height = last.y - first.y + 0.8
    _draw_rectangle(panel, (first.x - 1.25, first.y - 0.45), 2.5, height, "none", "0.6")
    inward = -_outward(first)
    panel.text(
        first.x + 1.4 * inward,
        last.y + 0.45,
        f"{num_layers}×",
        fontsize=12,
        ha="left" if inward > 0 else "right",
        va="center",
    )
