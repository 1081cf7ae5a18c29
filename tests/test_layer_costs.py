"""The counts of benchmarks/layers.py (Table 1).

They are compared with TensorFlow's own counts, closed formulas, and counts by hand.
"""

import layer_types
import layers
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import scaled_dot_product_attention

R = 8
K = 3
HEADS = 2
ROWS = [
    *layer_types.attention_layers(R, HEADS),
    layer_types.recurrent_layer(unroll=True),
    *layer_types.convolutions(K),
]
NAMES = [row.name.split()[0].rstrip(",") for row in ROWS]


def every_row(values):
    """Parametrizes a test with each row and its expected value."""
    return pytest.mark.parametrize("row, expected", list(zip(ROWS, values)), ids=NAMES)


@pytest.mark.parametrize("n, d", [(12, 8), (24, 4)])
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_tensorflow_counts_the_same_multiply_adds(row, n, d):
    """TensorFlow's profiler counts two operations for a multiply-add.

    A dilated convolution pads the sequence to a multiple of the dilation 3: here it is a multiple.
    """
    function = tf.function(row.build(d), autograph=False)
    graph = function.get_concrete_function(tf.TensorSpec((1, n, d))).graph
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    products = [f"^{kind}$" for kind in layer_types.PRODUCTS]
    options = {**builder.float_operation(), "account_type_regexes": products}
    options = builder(options).with_empty_output().build()
    profile = tf.compat.v1.profiler.profile(graph, cmd="graph", options=options)
    assert profile.total_float_ops == 2 * layer_types.multiply_adds(row.shapes(n, d))


@every_row([4096, 4096 + 4096, 3072, 8192, 3072, 3072, 384 + 1024])
def test_multiply_adds_by_hand(row, expected):
    """n = 16, d = 8.

    Self-attention has two products of 16 x 16 x 8, multi-head attention four more of 16 x 8 x 8,
    restricted attention two of 16 x 12 x 8, the LSTM eight of 16 x 8 x 8, and so on.
    """
    assert layer_types.multiply_adds(row.shapes(16, 8)) == expected


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_counts_grow_asymptotically_as_in_table_1(row):
    """Also with projections, when sequences are much longer than wide."""
    n, d = 2.0**30, 2.0**10
    lengths, widths = (start * np.array([1, 2, 4]) for start in (n, d))
    counts_n = [layer_types.multiply_adds(row.shapes(length, d)) for length in lengths]
    counts_d = [layer_types.multiply_adds(row.shapes(n, width)) for width in widths]
    powers = [layers.power(lengths, counts_n), layers.power(widths, counts_d)]
    np.testing.assert_allclose(powers, row.powers, atol=2e-3)


@every_row([2, 2 + 2, 2, None, 1, 1, 2])
def test_sequential_products(row, expected):
    """Attention has two, and two projections; recurrence has n; the others do not depend on n."""
    for n in (4, 8):
        assert layer_types.longest_chain(row.build(8), n, 8) == (expected or n)


PATHS = {
    "self-attention": lambda n: 1,
    "multi-head": lambda n: 1,
    "restricted": lambda n: -(-(n - 1) // (R // 2)),
    "recurrent": lambda n: n - 1,
    "convolution": lambda n: -(-(n - 1) // (K // 2)),
    "dilated": lambda n: next(depth for depth in range(n) if K**depth >= n),
    "separable": lambda n: -(-(n - 1) // (K // 2)),
}


@every_row(PATHS.values())
def test_path_length_follows_from_the_window(row, expected):
    """A layer sees r / 2 or k // 2 positions to a side; dilation k, k^2, ... sees k^depth."""
    run = row.build(4)
    step = row.step(4) if row.step else lambda x, depth: run(x)
    for n in (8, 12) if row.name.startswith("restricted") else (5, 10):
        assert layer_types.path_length(step, n, 4) == expected(n)


@pytest.mark.parametrize("n, r", [(16, 8), (12, 4), (8, 2), (8, 16)])
def test_restricted_attention_is_attention_with_a_mask(n, r):
    """A position sees r / 2 positions to either side: with r = 2n, all of them."""
    x = tf.random.normal((2, n, 5))
    mask = abs(np.subtract.outer(np.arange(n), np.arange(n))) > r // 2
    expected, weights = scaled_dot_product_attention(x, x, x, mask.astype(float))
    visible = [min(i, r // 2) + min(n - 1 - i, r // 2) + 1 for i in range(n)]
    assert (np.count_nonzero(weights[0], axis=1) == visible).all()
    np.testing.assert_allclose(layer_types.restricted_attention(x, r), expected, atol=1e-6)
