"""Table 1 as benchmarks/layers.py counts it: against TensorFlow's own counts, closed formulas, and counting by hand."""

import importlib
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import scaled_dot_product_attention

sys.path.append(str(pathlib.Path(__file__).parents[1] / "benchmarks"))
layer_types, layers = importlib.import_module("layer_types"), importlib.import_module("layers")

R, K, HEADS = 8, 3, 2
ROWS = [
    *layer_types.attention_layers(R, HEADS),
    layer_types.recurrent_layer(unroll=True),
    *layer_types.convolutions(K),
]
NAMES = [
    "self-attention",
    "multi-head",
    "restricted",
    "recurrent",
    "convolution",
    "dilated",
    "separable",
]


def every_row(values):
    """Parameters of a test: each row with its value."""
    return pytest.mark.parametrize("row, expected", list(zip(ROWS, values)), ids=NAMES)


def test_the_rows_are_these():
    assert [row.name.split()[0].rstrip(",") for row in ROWS] == NAMES


@pytest.mark.parametrize("n, d", [(12, 8), (24, 4)])
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_tensorflow_counts_the_same_multiply_adds(row, n, d):
    """Its profiler knows each operation of the graph and the shapes in it. A multiply-add is two of its operations.

    (A dilated convolution fills the sentence up to a multiple of the dilation, 3: here it is one.)
    """
    graph = (
        tf.function(row.build(d), autograph=False)
        .get_concrete_function(tf.TensorSpec((1, n, d)))
        .graph
    )
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    products = [f"^{kind}$" for kind in layer_types.PRODUCTS]
    options = (
        builder({**builder.float_operation(), "account_type_regexes": products})
        .with_empty_output()
        .build()
    )
    counted = tf.compat.v1.profiler.profile(graph, cmd="graph", options=options).total_float_ops
    assert counted == 2 * layer_types.multiply_adds(row.shapes(n, d))


@every_row([4096, 4096 + 4096, 3072, 8192, 3072, 3072, 384 + 1024])
def test_multiply_adds_by_hand(row, expected):
    """16 words of width 8: two products of 16 x 16 x 8; those and four of 16 x 8 x 8; two of 16 x 12 x 8; eight of 16 x 8 x 8; ..."""
    assert layer_types.multiply_adds(row.shapes(16, 8)) == expected


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_far_enough_out_the_counts_grow_as_table_1_says(row):
    """Also with projections, when sentences are much longer than they are wide."""
    n, d = 2.0**30, 2.0**10
    lengths, widths = n * np.array([1, 2, 4]), d * np.array([1, 2, 4])
    of_n = layers.power(lengths, [layer_types.multiply_adds(row.shapes(n, d)) for n in lengths])
    of_d = layers.power(widths, [layer_types.multiply_adds(row.shapes(n, d)) for d in widths])
    np.testing.assert_allclose([of_n, of_d], row.powers, atol=2e-3)


@every_row([2, 2 + 2, 2, None, 1, 1, 2])
def test_products_in_a_row(row, expected):
    """Scores and mixture, between two projections; as many as words in a recurrence, and otherwise a number that knows no n."""
    for n in (4, 8):
        assert layer_types.longest_chain(row.build(8), n, 8) == (expected or n)


def test_products_side_by_side_are_not_in_a_row():
    a, b, c = tf.random.normal((3, 4, 4))

    def layer(x):
        return x @ a @ b + tf.nn.softmax(x @ c)

    assert layer_types.longest_chain(layer, 3, 4) == 2
    assert layer_types.longest_chain(tf.nn.relu, 3, 4) == 0


@every_row(
    [
        lambda n: 1,
        lambda n: 1,
        lambda n: -(-(n - 1) // (R // 2)),
        lambda n: n - 1,
        lambda n: -(-(n - 1) // (K // 2)),
    ]
    + [
        lambda n: next(depth for depth in range(n) if K**depth >= n),
        lambda n: -(-(n - 1) // (K // 2)),
    ]
)
def test_path_length_is_that_of_the_windows(row, expected):
    """A layer that sees r / 2, or k // 2, words to a side gets so far; k dilated by k, k^2, ... sees k^depth words."""
    run = row.build(4)
    step = row.step(4) if row.step else lambda x, depth: run(x)
    for n in (8, 12) if row.name.startswith("restricted") else (5, 10):
        assert layer_types.path_length(step, n, 4) == expected(n)


@pytest.mark.parametrize("shift, length", [(1, 6), (2, 3), (3, 2), (6, 1), (0, np.inf)])
def test_path_length_of_a_layer_that_moves_words(shift, length):
    assert layer_types.path_length(lambda x, depth: tf.roll(x, shift, axis=1), 7, 2) == length


def test_small_counts_are_in_the_order_of_the_rows():
    small = [
        *layer_types.attention_layers(8, 2),
        layer_types.recurrent_layer(),
        *layer_types.convolutions(K),
    ]
    assert [row.name for row in small] == [row.name for row in ROWS]


@pytest.mark.parametrize("n, r", [(16, 8), (12, 4), (8, 2), (8, 16)])
def test_restricted_attention_is_attention_with_a_mask(n, r):
    """A word sees r / 2 words to either side: with r = 2n, all of them."""
    x = tf.random.normal((2, n, 5))
    hidden = abs(np.subtract.outer(np.arange(n), np.arange(n))) > r // 2
    expected, weights = scaled_dot_product_attention(x, x, x, hidden)
    assert (
        np.count_nonzero(weights[0], axis=1)
        == [min(w, r // 2) + min(n - 1 - w, r // 2) + 1 for w in range(n)]
    ).all()
    np.testing.assert_allclose(layer_types.restricted_attention(x, r), expected, atol=1e-6)


def test_power_is_the_slope_through_the_three_largest():
    sizes = [10, 20, 40, 80, 160]
    costs = np.array([3 * np.array(sizes) ** 1.7, 5 / np.array(sizes)])
    costs[:, :2] = 1000
    np.testing.assert_allclose(layers.power(sizes, costs), [1.7, -1])


def test_measured_are_the_layer_its_products_and_its_parts_in_turns():
    """A layer that notes when it runs: once to warm up, then once in each round, for each size."""
    calls = []

    def note(name):
        return lambda: calls.append(name)

    def build(d):
        def run(x):
            tf.py_function(lambda: calls.append((x.shape[1], d)), [], [])
            return x

        return run

    row = layer_types.Layer(
        "a",
        "n d",
        (1, 1),
        lambda n, d: [(1, n, d, d)],
        build,
        lambda n, d: {"part": note(f"part {n} {d}")},
    )
    [found] = layers.measure([row], [(2, 3), (4, 3)], rounds=2)
    assert calls == [(2, 3), (4, 3), "part 2 3", "part 4 3"] * 3
    assert list(found) == ["a", "products alone", "part"]
    assert all(times.shape == (2, 2) and (times > 0).all() for times in found.values())


def test_the_tables(capsys):
    """Times of 2 n^2 d milliseconds: 2 and 1 as in Table 1; their part takes n milliseconds."""
    lengths, widths = [1, 2, 4, 8], [3, 6, 12]
    shapes = [(n, 3) for n in lengths], [(2, d) for d in widths]
    lines = [
        ("power of n", lengths, shapes[0], slice(4)),
        ("power of d", widths, shapes[1], slice(4, None)),
    ]
    n, d = np.transpose(shapes[0] + shapes[1])
    seconds = [
        {ROWS[0].name: np.array([2 * n * n * d] * 3) / 1000, "softmax": np.array([n] * 3) / 1000}
    ]
    layers.print_powers(ROWS[:1], seconds, [[[2, 2, 2], [1, 1, 1]]], lines)
    layers.print_times(seconds, lines)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[2][3:] == "n^2 d 2 2.00 2.00 +- 0.00 1 1.00 1.00 +- 0.00 2, 2, 2 1, 1, 1".split()
    assert rows[5][-9:] == "6.00 24.00 96.00 384.00 2.00 24.00 48.00 96.00 1.00".split()
    assert rows[6] == "softmax 1.00 2.00 4.00 8.00 1.00 2.00 2.00 2.00 0.00".split()
