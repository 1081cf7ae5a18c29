"""Each plot shows what it was given, and everything lies within the figure."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tf_transformer.visualization import plots
from tf_transformer.visualization.architecture_diagram import BOXES

RANDOM = np.random.default_rng(0)
TOKENS = ["▁I", "▁am", "▁sam", "<pad>"]


def texts(figure):
    """All texts of a figure, after drawing it."""
    assert isinstance(figure, Figure)
    FigureCanvasAgg(figure).draw()
    artists = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return [artist.get_text() for artist in artists if artist.get_text()]


def assert_everything_is_inside(figure):
    FigureCanvasAgg(figure).draw()
    content = figure.get_tightbbox()
    whole = figure.bbox_inches
    assert content.x0 >= -0.05
    assert content.y0 >= -0.05
    assert content.x1 <= whole.width + 0.05
    assert content.y1 <= whole.height + 0.05


FIGURES = {
    "matrix": lambda: plots.plot_matrix(
        [[0.7, 0.2], [0.25, -3]], TOKENS[:2], TOKENS[2:], "scores", "weight"
    ),
    "large matrix": lambda: plots.plot_matrix(RANDOM.normal(size=(50, 64)), title="large"),
    "zeros": lambda: plots.plot_matrix(np.zeros((2, 2))),
    "product": lambda: plots.plot_product(
        ("X", np.eye(3)), "×", ("W", -np.ones((3, 2))), "=", ("Q", -np.ones((3, 2)))
    ),
    "heads": lambda: plots.plot_attention_heads(
        np.full((8, 4, 4), 0.25), TOKENS, TOKENS, "layer 1"
    ),
    "positions": lambda: plots.plot_positional_encoding(RANDOM.uniform(-1, 1, (50, 128))),
    "curves": lambda: plots.plot_curves(
        {"a": ([1, 2, 4], [1, 10, 100]), "b": ([1, 2], [3, 4])}, "n, tokens", "ms", "time", "xy"
    ),
    "bars": lambda: plots.plot_bars(
        {"with": [1, 2], "without": [3, 4]},
        ["a quite long name of a bar"] * 2,
        "padding, %",
        "batches",
    ),
    "histograms": lambda: plots.plot_histograms(
        {"d_k = 4": RANDOM.normal(size=99), "d_k = 64": [1, 2]}, "q · k", "scores"
    ),
    "batch": lambda: plots.plot_batch([[5, 4, 0, 0], [5, 6, 7, 3]], "two sentences"),
    "beam": lambda: plots.plot_beam(
        [(["▁Er", "▁Sie"], [0, 0], [-0.1, -2.0]), (["▁geht", "▁x"], [1, 0], [-0.2, -1e9])], [1, 0]
    ),
    "transformer": lambda: plots.plot_transformer({box.key: (64, 38, 512) for box in BOXES}, 6),
}


@pytest.mark.parametrize("name", FIGURES)
def test_everything_is_inside_the_figure(name):
    figure = FIGURES[name]()
    assert texts(figure)
    assert_everything_is_inside(figure)


def test_only_small_matrices_show_their_values():
    assert {"0.7", "-3", "0.25", *TOKENS, "scores", "weight"} <= set(texts(FIGURES["matrix"]()))
    assert len(texts(FIGURES["large matrix"]())) < 20


@pytest.mark.parametrize(
    "limits, expected",
    [
        ({}, (-3, 3)),
        ({"low": -1}, (-1, 3)),
        ({"high": 5}, (-5, 5)),
        ({"low": 0, "high": 1}, (0, 1)),
    ],
)
def test_each_limit_of_the_colour_map_is_optional(limits, expected):
    figure = plots.plot_matrix([[0.7, 0.2], [0.25, -3]], **limits)
    assert figure.axes[0].images[0].get_clim() == expected


def test_axes_have_names_and_lines_a_legend():
    assert {"n, tokens", "ms", "a", "b"} <= set(texts(FIGURES["curves"]()))
    assert {"padding, %", "with", "without"} <= set(texts(FIGURES["bars"]()))
    assert {"3 × 3", "3 × 2", "X", "×"} <= set(texts(FIGURES["product"]()))


def test_a_beam_leaves_out_impossible_hypotheses():
    shown = texts(FIGURES["beam"]())
    assert "▁geht\n-0.20" in shown
    assert not any("▁x" in text for text in shown)


def test_a_batch_shows_its_fraction_of_padding():
    shown = texts(FIGURES["batch"]())
    assert any("75% tokens (dark), 25% padding (light)" in text for text in shown)


def test_figure_1_has_every_box_with_its_shape():
    shown = texts(FIGURES["transformer"]())
    assert shown.count("(64, 38, 512)") == len(BOXES)
    assert shown.count("6×") == 2
    with pytest.raises(KeyError):
        plots.plot_transformer({}, 6)
