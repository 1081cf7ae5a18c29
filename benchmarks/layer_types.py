"""The layer types of Table 1: multiply-adds, sequential operations, and path length.

Two of these are counted on the layers themselves. The number of sequential operations is that of
the longest chain of matrix products in the layer's graph. The path between two positions is found
by derivatives: it has as many layers as it takes until the last position depends on the first.
`layers.py` measures the times.

Notation of Table 1: n positions, d width, k kernel size, r neighbourhood.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Sizes of the layers on which is counted.
SMALL = (8, 16, 32)  # n
SMALL_WIDTH = 8
SMALL_NEIGHBOURHOOD = 8
SMALL_HEADS = 2
# TensorFlow's operations that multiply matrices.
PRODUCTS = {"MatMul", "BatchMatMulV2", "Conv2D", "DepthwiseConv2dNative"}


def no_parts(n, d):
    """The parts of a layer that has none to measure separately."""
    return {}


class Layer(NamedTuple):
    """A row of the table. The shape of a matrix product is (count, rows, inner, columns)."""

    name: str
    table_1: str
    powers: tuple[int, int]  # of n and of d in Table 1
    shapes: Callable  # (n, d) -> the shapes of its products
    build: Callable  # d -> a function [1, n, d] -> [1, n, d]
    parts: Callable = no_parts  # (n, d) -> its other parts: name -> function without arguments
    # d -> a function ([1, n, d], depth) -> [1, n, d], one step of the path; None for the layer.
    step: Callable | None = None


def multiply_adds(shapes):
    """The number of multiply-adds of products of shapes (count, rows, inner, columns)."""
    return sum(count * rows * inner * columns for count, rows, inner, columns in shapes)


def restricted_attention(x, r):
    """Self-attention over r / 2 positions to either side (Sec. 4).

    The sequence is divided into blocks of r / 2 positions. Each block attends to itself and to the
    blocks beside it, and a mask hides the keys that are too far away. So 3 r / 2 keys are
    multiplied, where r are needed.

    Args:
      x: queries, keys and values `[B, S, D]`, S a multiple of r / 2.
      r: the number of neighbours that a position sees, even.
    Returns: `[B, S, D]`.
    """
    import tensorflow as tf

    from tf_transformer.model.attention import scaled_dot_product_attention

    block = r // 2  # b
    length = x.shape[1]
    queries = tf.reshape(x, (-1, length // block, block, x.shape[2]))  # (B, S/b, b, D)
    padded = tf.pad(queries, [[0, 0], [1, 1], [0, 0], [0, 0]])  # (B, S/b + 2, b, D)
    keys = tf.concat([padded[:, :-2], queries, padded[:, 2:]], axis=2)  # (B, S/b, 3b, D)

    query_positions = np.arange(length).reshape(-1, block, 1)  # (S/b, b, 1)
    block_starts = np.arange(0, length, block).reshape(-1, 1, 1)  # (S/b, 1, 1)
    key_positions = block_starts + np.arange(-block, 2 * block)  # (S/b, 1, 3b)
    too_far = abs(query_positions - key_positions) > block  # (S/b, b, 3b)
    mask = too_far | (key_positions < 0) | (key_positions >= length)  # (S/b, b, 3b)

    mask = tf.cast(mask, tf.float32)  # 1 = hidden
    output, _ = scaled_dot_product_attention(queries, keys, keys, mask)  # (B, S/b, b, D)
    return tf.reshape(output, tf.shape(x))


def attention_layers(r, heads):
    """Makes the rows of attention.

    Args:
      r: neighbours that a position of restricted attention sees.
      heads: of the multi-head attention.
    Returns: three `Layer`s: Eq. 1 alone, which Table 1 counts; multi-head attention with its four
      projections; Eq. 1 restricted to r neighbours.
    """
    import tensorflow as tf

    from tf_transformer.model.attention import MultiHeadAttention, scaled_dot_product_attention

    def softmax(*shape):
        return {"softmax": functools.partial(tf.function(tf.nn.softmax), tf.random.normal(shape))}

    def attention_shapes(n, d):
        return [(1, n, d, n), (1, n, n, d)]

    def build_attention(d):
        return lambda x: scaled_dot_product_attention(x, x, x, None)[0]

    def multi_head_shapes(n, d):
        depth = d // heads
        return [(heads, n, depth, n), (heads, n, n, depth)] + [(1, n, d, d)] * 4

    def build_multi_head(d):
        layer = MultiHeadAttention(d, heads)
        return lambda x: layer(x, x, x, None)[0]

    def restricted_shapes(n, d):
        blocks = 2 * n // r
        return [(blocks, r // 2, d, 3 * r // 2), (blocks, r // 2, 3 * r // 2, d)]

    def build_restricted(d):
        return functools.partial(restricted_attention, r=r)

    return [
        Layer(
            name="self-attention (Eq. 1)",
            table_1="n^2 d",
            powers=(2, 1),
            shapes=attention_shapes,
            build=build_attention,
            parts=lambda n, d: softmax(1, n, n),
        ),
        Layer(
            name="multi-head, W^Q to W^O",
            table_1="n^2 d",
            powers=(2, 1),
            shapes=multi_head_shapes,
            build=build_multi_head,
            parts=lambda n, d: softmax(heads, n, n),
        ),
        Layer(
            name=f"restricted, r = {r}",
            table_1="r n d",
            powers=(1, 1),
            shapes=restricted_shapes,
            build=build_restricted,
            parts=lambda n, d: softmax(2 * n // r, r // 2, 3 * r // 2),
        ),
    ]


def recurrent_layer(unroll=False):
    """Makes the row of recurrence, an LSTM: the recurrent layer of translation models.

    It has four gates, so four products with the state where Table 1 counts one. That changes the
    factor, not the powers.

    Args:
      unroll: True for a graph without a loop, in which the products can be counted.
    """
    import keras
    import tensorflow as tf

    def build_lstm(d):
        return keras.layers.LSTM(d, return_sequences=True, unroll=unroll)

    def parts(n, d):
        inputs = tf.random.normal((n, 1, d))
        kernel = tf.random.normal((d, 4 * d))
        recurrent_kernel = tf.random.normal((d, 4 * d))

        def step_by_step(inputs, kernel, recurrent_kernel):
            def next_state(state, x):
                product = tf.matmul(x, kernel) + tf.matmul(state, recurrent_kernel)  # (1, 4d)
                return tf.tanh(product)[:, :d]  # (1, d)

            return tf.scan(next_state, inputs, tf.zeros((1, d)))

        products = functools.partial(tf.function(step_by_step), inputs, kernel, recurrent_kernel)
        narrow = tf.function(build_lstm(1), autograph=False)
        loop = functools.partial(narrow, tf.random.normal((1, n, 1)))
        return {"products step by step": products, "the same, d = 1": loop}

    def path_step(d):
        cell = keras.layers.LSTMCell(d)

        def next_states(x, depth):
            """Each position takes its state from the position before."""
            state = tf.pad(x[0, :-1], [[1, 0], [0, 0]])  # (n, d)
            output, _ = cell(x[0], [state, state])
            return output[tf.newaxis]

        return next_states

    return Layer(
        name="recurrent, LSTM",
        table_1="n d^2",
        powers=(1, 2),
        shapes=lambda n, d: [(1, n, d, 4 * d)] * 2,
        build=build_lstm,
        parts=parts,
        step=path_step,
    )


def convolutions(k):
    """Makes the rows of convolution (Sec. 4).

    Args:
      k: kernel size.
    Returns: three `Layer`s: plain; dilated, k times more in each layer of a stack, where the time
      is that of the second layer; separable.
    """
    import keras
    import tensorflow as tf

    def build_plain(d):
        return keras.layers.Conv1D(d, k, padding="same")

    def build_dilated(d, depth=1):
        return keras.layers.Conv1D(d, k, padding="causal", dilation_rate=k**depth)

    def build_separable(d):
        return keras.layers.SeparableConv1D(d, k, padding="same")

    def dilated_step(d):
        return lambda x, depth: build_dilated(d, depth)(x)

    def convolution_shapes(n, d):
        return [(1, n, k * d, d)]

    def separable_shapes(n, d):
        return [(1, n * d, k, 1), (1, n, d, d)]

    def one_position(build, d):
        run = tf.function(build(d), autograph=False)
        return {"the same, n = 1": functools.partial(run, tf.random.normal((1, 1, d)))}

    return [
        Layer(
            name=f"convolution, k = {k}",
            table_1="k n d^2",
            powers=(1, 2),
            shapes=convolution_shapes,
            build=build_plain,
            parts=lambda n, d: one_position(build_plain, d),
        ),
        Layer(
            name=f"dilated, k = {k}",
            table_1="k n d^2",
            powers=(1, 2),
            shapes=convolution_shapes,
            build=build_dilated,
            parts=lambda n, d: one_position(build_dilated, d),
            step=dilated_step,
        ),
        Layer(
            name=f"separable, k = {k}",
            table_1="k n d + n d^2",
            powers=(1, 2),
            shapes=separable_shapes,
            build=build_separable,
            parts=lambda n, d: one_position(build_separable, d),
        ),
    ]


def longest_chain(layer, n, d):
    """Counts the sequential matrix products of a layer.

    Args:
      layer: a function `[1, n, d]` -> `[1, n, d]`, without loops in its graph.
      n, d: length and width.
    Returns: the length of the longest chain of products of which each needs the one before.
    """
    import tensorflow as tf

    function = tf.function(layer, autograph=False)
    graph = function.get_concrete_function(tf.TensorSpec((1, n, d))).graph
    chains = {}
    for operation in graph.get_operations():  # inputs come before the operations that use them
        longest_input = max((chains[x.op] for x in operation.inputs), default=0)
        chains[operation] = longest_input + (operation.type in PRODUCTS)
    return max(chains.values())


def path_length(step, n, d):
    """Counts the layers after which the last of n positions depends on the first.

    The dependence is exact: the derivative is not 0.

    Args:
      step: the layer, a function (`[1, n, d]`, number of layers before) -> `[1, n, d]`.
      n, d: length and width.
    Returns: the number of layers, or infinity where n layers are not enough.
    """
    import tensorflow as tf

    x = tf.random.normal((1, n, d))
    first = tf.one_hot([0], n)[..., tf.newaxis]  # (1, n, 1)
    tangent = first * tf.random.normal((d,))  # (1, n, d)
    for depth in range(n):
        with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
            y = step(x, depth)
        tangent = accumulator.jvp(y)
        x = y
        if tf.reduce_any(tangent[0, -1] != 0):
            return depth + 1
    return np.inf


def count_small(k):
    """Counts sequential products and path lengths in layers of `SMALL` positions.

    Args:
      k: kernel size of the convolutions.
    Returns: for each row of the table two lists, each with a number for each length of `SMALL`.
    """
    layers = [
        *attention_layers(SMALL_NEIGHBOURHOOD, SMALL_HEADS),
        recurrent_layer(unroll=True),
        *convolutions(k),
    ]
    counts = []
    for layer in layers:
        run = layer.build(SMALL_WIDTH)
        step = layer.step(SMALL_WIDTH) if layer.step else lambda x, depth, run=run: run(x)
        chains = [longest_chain(run, n, SMALL_WIDTH) for n in SMALL]
        paths = [path_length(step, n, SMALL_WIDTH) for n in SMALL]
        counts.append([chains, paths])
    return counts
