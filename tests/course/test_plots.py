"""Each plot shows what it was given, and everything lies within the figure."""

import numpy as np
import pytest
from course import figures_02, figures_d, plots
from course.architecture_diagram import BOXES, plot_stacks, plot_transformer
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
    content, whole = figure.get_tightbbox(), figure.bbox_inches
    assert min(content.x0, content.y0) >= -0.05
    assert content.x1 <= whole.width + 0.05 and content.y1 <= whole.height + 0.05


BEAM_NAMES = ["[PAD]", "[UNK]", "[START]", "[END]", "▁Er", "▁Sie", "▁geht", "▁x"]
BEAM = [  # of each step: the hypotheses that are alive, and those that have ended
    ([((2, 4), -0.1), ((2, 5), -2.0)], []),
    ([((2, 5, 6), -0.2), ((2, 4, 7), -1e9)], [((2, 4, 3), -0.4)]),
]
MATRIX = [[0.7, 0.2], [0.25, -3]]
NAMES = ["a quite long name of a bar"] * 2
LINES = {"a": ([1, 2, 4], [1, 10, 100]), "b": ([1, 2], [3, 4])}
PRODUCT = ("X", np.eye(3)), "×", ("W", -np.ones((3, 2))), "=", ("Q", -np.ones((3, 2)))
# What draws a figure, its arguments, and texts that the figure must show.
FIGURES = {
    "matrix": (plots.plot_matrix, (MATRIX, TOKENS[:2], TOKENS[2:], "scores", "weight"),
               {"0.7", "-3", "0.25", *LABELS, "scores", "weight"}),
    "masked": (figures_02.plot_masked, ({"a": (MATRIX, [[0, 1]])}, ["I", "am"], TOKENS[2:]),
               {"0.7", "0.25", "a", "queries"}),
    "positions": (plots.plot_positional_encoding, (np.eye(9), (0, 8)), {"column 0", "column 8"}),
    "large matrix": (plots.plot_matrix, (RANDOM.normal(size=(50, 64)),), set()),
    "product": (plots.plot_product, PRODUCT, {"3 × 3", "3 × 2", "X", "×"}),
    "curves": (plots.plot_curves, (LINES, "n, tokens", "ms"), {"n, tokens", "ms", "a", "b"}),
    "beam": (plots.plot_beam, (BEAM, BEAM_NAMES, (2, 5, 6), "two steps"), {"[START]\n0.00"}),
    "edges": (figures_d.plot_edges, (TOKENS, TOKENS[:3], {"head 1": np.eye(4, 3)}, [1], "scores"),
              {*LABELS, "head 1", "scores"}),
    "edges of a long sentence": (figures_d.plot_edges, (NAMES * 12, NAMES * 12, {"a": np.eye(24)}),
                                 {*NAMES, "a"}),
    "tables": (figures_d.plot_tables, ({"a": np.eye(2), "b": np.eye(2)}, NAMES, TOKENS[:2]),
               {"a", "b", "1.00", *NAMES}),
    "five steps": (figures_02.plot_five_steps,
                   (TOKENS, 2, RANDOM.normal(size=(4, 4)), np.eye(4), 128, 4, 3),
                   {"4 × 32", "128 × 128", "1.00", *LABELS}),
    "transformer": (plot_transformer, (), {"N×", "Q", "K", "V", "Positional\nEncoding"}),
    "stacks": (plot_stacks, (3,), {"Encoder layer 3", "Decoder layer 1", "K, V"}),
}  # fmt: skip


@pytest.mark.parametrize("draw, arguments, expected", FIGURES.values(), ids=FIGURES)
def test_everything_is_inside_the_figure(draw, arguments, expected):
    figure = draw(*arguments)
    assert expected <= set(texts(figure))
    assert_everything_is_inside(figure)


def test_the_opacity_of_an_edge_is_its_weight():
    weights = np.array([[0.25, 0.75, 0.0], [0.5, 0.0, 0.5]])
    figure = figures_d.plot_edges(TOKENS[:2], TOKENS[:3], {"head": weights}, only=[0])
    edges = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert sorted(line.get_alpha() for line in edges) == [0.25, 0.75]


def test_an_edge_of_a_beam_meets_no_box_but_its_two():
    steps = [
        ([((2,) * n + (word,), -0.1 * word) for word in range(2, 6)], []) for n in range(1, 11)
    ]
    figure = plots.plot_beam(steps, ["▁gekauft"] * 6)
    FigureCanvasAgg(figure).draw()
    (panel,) = figure.axes
    boxes = [text.get_bbox_patch().get_window_extent() for text in panel.texts]
    assert len(boxes) == 41 and len(panel.lines) == 40
    for line in panel.lines:
        edge = line.get_transform().transform_path(line.get_path())
        assert sum(edge.intersects_bbox(box, filled=False) for box in boxes) == 2


def test_hidden_cells_are_gray_and_have_no_number():
    figure = figures_02.plot_masked({"a": (MATRIX, [[0, 1]])}, ["I", "am"], TOKENS[2:])
    assert not {"0.2", "-3"} & set(texts(figure))
    (image,) = figure.axes[0].images
    colors = image.to_rgba(image.get_array())  # (2, 2, 4)
    assert np.allclose(colors[:, 1, :3], float(plots.HIDDEN))


def test_figure_1_has_every_box_with_its_shape():
    shown = texts(plot_transformer({box.key: (64, 38, 512) for box in BOXES}, 6))
    assert shown.count("(64, 38, 512)") == len(BOXES)
    assert shown.count("6×") == 2
    with pytest.raises(KeyError):
        plot_transformer({}, 6)
