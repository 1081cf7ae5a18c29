"""Each picture is drawn whole: what was given stands on it, and nothing lies outside it."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tf_transformer.visualization import plots

RANDOM = np.random.default_rng(0)
TOKENS = ["▁I", "▁am", "▁sam", "<pad>"]


def words(figure):
    """All that is written on a figure, after drawing it."""
    assert isinstance(figure, Figure)
    FigureCanvasAgg(figure).draw()
    return [
        text.get_text()
        for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))
        if text.get_text()
    ]


def inside(figure):
    """Whether everything lies on the figure."""
    FigureCanvasAgg(figure).draw()
    box, whole = figure.get_tightbbox(), figure.bbox_inches
    return (
        box.x0 >= -0.05
        and box.y0 >= -0.05
        and box.x1 <= whole.width + 0.05
        and box.y1 <= whole.height + 0.05
    )


FIGURES = {
    "matrix": lambda: plots.plot_matrix(
        [[0.7, 0.2], [0.25, -3]], TOKENS[:2], TOKENS[2:], "scores", "weight"
    ),
    "large matrix": lambda: plots.plot_matrix(RANDOM.normal(size=(50, 64)), title="many"),
    "zeros": lambda: plots.plot_matrix(np.zeros((2, 2))),
    "product": lambda: plots.plot_product(
        ("X", np.eye(3)), "×", ("W", -np.ones((3, 2))), "=", ("Q", -np.ones((3, 2)))
    ),
    "heads": lambda: plots.plot_attention_heads(
        np.full((8, 4, 4), 0.25), TOKENS, TOKENS, "layer 1"
    ),
    "positions": lambda: plots.plot_positional_encoding(RANDOM.uniform(-1, 1, (50, 128))),
    "curves": lambda: plots.plot_curves(
        {"a": ([1, 2, 4], [1, 10, 100]), "b": ([1, 2], [3, 4])}, "n, words", "ms", "time", "xy"
    ),
    "bars": lambda: plots.plot_bars(
        {"with": [1, 2], "without": [3, 4]},
        ["a quite long name of a bar"] * 2,
        "share, %",
        "padding",
    ),
    "histograms": lambda: plots.plot_histograms(
        {"d_k = 4": RANDOM.normal(size=99), "d_k = 64": [1, 2]}, "q · k", "scores"
    ),
    "batch": lambda: plots.plot_batch([[5, 4, 0, 0], [5, 6, 7, 3]], "two sentences"),
    "beam": lambda: plots.plot_beam(
        [(["▁Er", "▁Sie"], [0, 0], [-0.1, -2.0]), (["▁geht", "▁x"], [1, 0], [-0.2, -1e9])], [1, 0]
    ),
    "transformer": lambda: plots.plot_transformer(
        {box[0]: (64, 38, 512) for box in plots.BOXES}, 6
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_returned_and_everything_lies_on_it(name):
    figure = FIGURES[name]()
    assert words(figure) and inside(figure)


def test_the_values_stand_in_small_matrices_only():
    assert {"0.7", "-3", "0.25", *TOKENS, "scores", "weight"} <= set(words(FIGURES["matrix"]()))
    assert len(words(FIGURES["large matrix"]())) < 20


def test_the_ends_of_the_colours_can_be_given_one_by_one():
    for ends, expected in (
        ({}, (-3, 3)),
        ({"low": -1}, (-1, 3)),
        ({"high": 5}, (-5, 5)),
        ({"low": 0, "high": 1}, (0, 1)),
    ):
        figure = plots.plot_matrix([[0.7, 0.2], [0.25, -3]], **ends)
        assert figure.axes[0].images[0].get_clim() == expected


def test_axes_have_names_and_lines_a_legend():
    assert {"n, words", "ms", "a", "b"} <= set(words(FIGURES["curves"]()))
    assert {"share, %", "with", "without"} <= set(words(FIGURES["bars"]()))
    assert {"3 × 3", "3 × 2", "X", "×"} <= set(words(FIGURES["product"]()))


def test_a_beam_leaves_out_what_cannot_be():
    found = words(FIGURES["beam"]())
    assert "▁geht\n-0.20" in found and not any("▁x" in text for text in found)


def test_a_batch_tells_its_padding():
    assert any(
        "75% words (dark), 25% padding (light)" in text for text in words(FIGURES["batch"]())
    )


def test_figure_1_has_every_box_with_its_shape():
    found = words(FIGURES["transformer"]())
    assert found.count("(64, 38, 512)") == len(plots.BOXES) and found.count("6×") == 2
    with pytest.raises(KeyError):
        plots.plot_transformer({}, 6)
