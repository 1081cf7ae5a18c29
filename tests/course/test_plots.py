"""Each plot shows what it was given, and everything lies within the figure."""

import numpy as np
import pytest
from course import plots
from course.architecture_diagram import BOX_OF, BOXES, plot_transformer
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

RANDOM = np.random.default_rng(0)
TOKENS = ["▁I", "▁am", "▁sam", "<pad>"]
LABELS = ["_I", "_am", "_sam", "<pad>"]


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


BEAM_NAMES = ["[PAD]", "[UNK]", "[START]", "[END]", "▁Er", "▁Sie", "▁geht", "▁x"]
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
        [
            ([((2, 4), -0.1), ((2, 5), -2.0)], []),
            ([((2, 5, 6), -0.2), ((2, 4, 7), -1e9)], [((2, 4, 3), -0.4)]),
        ],
        BEAM_NAMES,
        (2, 5, 6),
        "two steps",
    ),
    "transformer": lambda: plot_transformer({box.key: (64, 38, 512) for box in BOXES}, 6),
}


@pytest.mark.parametrize("name", FIGURES)
def test_everything_is_inside_the_figure(name):
    figure = FIGURES[name]()
    assert texts(figure)
    assert_everything_is_inside(figure)


def test_only_small_matrices_show_their_values():
    assert {"0.7", "-3", "0.25", *LABELS, "scores", "weight"} <= set(texts(FIGURES["matrix"]()))
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
def test_each_limit_of_the_color_map_is_optional(limits, expected):
    figure = plots.plot_matrix([[0.7, 0.2], [0.25, -3]], **limits)
    assert figure.axes[0].images[0].get_clim() == expected


def test_axes_have_names_and_lines_a_legend():
    assert {"n, tokens", "ms", "a", "b"} <= set(texts(FIGURES["curves"]()))
    assert {"padding, %", "with", "without"} <= set(texts(FIGURES["bars"]()))
    assert {"3 × 3", "3 × 2", "X", "×"} <= set(texts(FIGURES["product"]()))


def test_a_beam_leaves_out_impossible_hypotheses():
    figure = FIGURES["beam"]()
    shown = texts(figure)
    assert "_geht\n-0.20" in shown
    assert not any("_x" in text for text in shown)


def test_a_beam_has_its_root_and_as_many_ranks_as_hypotheses():
    log_probs = [-0.1, -2.0, -1e9, -1e9]
    steps = [([((2, 4 + i), log_prob) for i, log_prob in enumerate(log_probs)], [])]
    figure = plots.plot_beam(steps, BEAM_NAMES, (2, 4))
    assert "[START]\n0.00" in texts(figure)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["1", "2"]
    assert len(figure.axes[0].lines) == 2  # from the root to each hypothesis


def test_a_beam_shows_ended_hypotheses_below_the_alive_ones():
    figure = FIGURES["beam"]()
    panel = figure.axes[0]
    assert [text.get_text() for text in panel.get_yticklabels()] == ["1", "2", "ended"]
    rows = {text.get_text(): text.get_position()[1] for text in panel.texts}
    assert rows["[END]\n-0.40"] > rows["_Sie\n-2.00"] == 1
    widths = {line.get_linewidth() for line in panel.lines if line.get_color() == plots.COLORS[1]}
    assert widths == {2.5}, "the highlighted path"


@pytest.mark.parametrize("tokens, columns", [(5, 4), (13, 4), (24, 2), (40, 1)])
def test_tokens_of_heads_are_legible(tokens, columns):
    names = ["▁Regierung"] * tokens
    figure = plots.plot_attention_heads(np.full((2, 4, tokens, tokens), 0.1), names, names)
    assert_everything_is_inside(figure)
    assert figure.get_figwidth() <= plots.MAX_WIDTH
    figure.draw_without_rendering()
    labels = [label for panel in figure.axes[:8] for label in panel.get_yticklabels()]
    assert len(labels) == 8 // columns * tokens
    assert all(label.get_fontsize() >= 9 for label in labels)
    boxes = [label.get_window_extent() for label in labels[:tokens]]
    assert all(a.y0 >= b.y1 - 1 for a, b in zip(boxes, boxes[1:])), "labels overlap"


def test_rotated_labels_end_at_their_column():
    figure = plots.plot_matrix(np.eye(3), columns=["▁Gestern", "▁habe", "▁ich"])
    figure.draw_without_rendering()
    panel = figure.axes[0]
    for column, label in enumerate(panel.get_xticklabels()):
        middle = panel.transData.transform((column, 0))[0]
        assert abs(label.get_window_extent().x1 - middle) < 12  # pixels; a column has about 40


def test_matrices_of_a_product_share_a_scale_on_request():
    parts = (("A", np.eye(2)), "softmax\n→", ("B", 9 * np.eye(2)))
    assert [panel.images[0].get_clim() for panel in plots.plot_product(*parts).axes[::2]] == [
        (0, 1),
        (0, 9),
    ]
    shared = plots.plot_product(*parts, high=9)
    assert [panel.images[0].get_clim() for panel in shared.axes[::2]] == [(0, 9), (0, 9)]


def test_curves_have_levels_marks_and_an_axis_from_zero():
    figure = plots.plot_curves(
        {"a": ([1, 2], [3, 4])},
        "n",
        "y",
        levels={"chance": 3.5},
        marks={"limit": 1.5},
        from_zero=True,
    )
    assert {"a", "chance", "limit"} <= set(texts(figure))
    assert figure.axes[0].get_ylim()[0] == 0


def test_histograms_share_both_axes():
    panels = FIGURES["histograms"]().axes
    assert panels[0].get_ylim() == panels[1].get_ylim()
    assert panels[0].get_xlim() == panels[1].get_xlim()


def test_a_batch_shows_its_fraction_of_padding():
    shown = texts(FIGURES["batch"]())
    assert any("75% tokens (dark), 25% padding (light)" in text for text in shown)


def test_figure_1_has_every_box_with_its_shape():
    shown = texts(FIGURES["transformer"]())
    assert shown.count("(64, 38, 512)") == len(BOXES)
    assert shown.count("6×") == 2
    with pytest.raises(KeyError):
        plot_transformer({}, 6)


def test_figure_1_without_shapes_is_that_of_the_paper():
    shown = texts(plot_transformer())
    assert shown.count("N×") == 2
    assert not any("64" in text for text in shown)
    for name in "VKQ":
        assert shown.count(name) == 3  # an arrow into each attention box
    assert shown.count("Positional\nEncoding") == 2


def test_keys_and_values_of_the_second_attention_come_from_the_encoder():
    panel = plot_transformer().axes[0]
    start = BOX_OF["enc_norm2"]
    end = BOX_OF["dec_attention2"]
    lines = [line.get_xydata() for line in panel.lines]
    (path,) = [path for path in lines if np.allclose(path[0], (start.x, start.top))]
    assert path[-1][0] < end.x
    arrows = [arrow._posA_posB for arrow in panel.patches if hasattr(arrow, "_posA_posB")]
    into = [pair for pair in arrows if pair[1][1] == end.bottom and abs(pair[1][0] - end.x) < 1]
    assert sorted(pair[0][1] == path[-1][1] for pair in into) == [False, True, True]
