"""The layer types of Table 1: how many multiply-adds they take, how many one after the other, and how far they leave two words apart.

Two of the columns are counted on the layers themselves: the longest chain of products is that of the layer's graph, and the path between
two words ends where a derivative is no longer zero. `layers.py` measures the rest.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SMALL = (
    8,
    16,
    32,
)  # words of the layers in which is counted, and these are their width, neighbourhood and heads:
SMALL_WIDTH, SMALL_NEIGHBOURHOOD, SMALL_HEADS = 8, 8, 2
PRODUCTS = {
    "MatMul",
    "BatchMatMulV2",
    "Conv2D",
    "DepthwiseConv2dNative",
}  # TensorFlow's operations that multiply matrices


class Layer(NamedTuple):
    """A row of the table. A shape is that of a matrix product: (how many, rows, inner, columns)."""

    name: str
    table_1: str
    powers: tuple[int, int]  # of n and of d in Table 1
    shapes: Callable  # (n, d) -> the shapes of its products
    build: Callable  # d -> a function [1, n, d] -> [1, n, d]
    parts: Callable = lambda n, d: {}  # (n, d) -> what else it does: functions of nothing, by name
    step: Callable | None = (
        None  # d -> a function ([1, n, d], depth) -> [1, n, d], where a step of the path is not the layer again
    )


def multiply_adds(shapes):
    """Of all products of the shapes (how many, rows, inner, columns)."""
    return sum(many * rows * inner * columns for many, rows, inner, columns in shapes)


def restricted_attention(x, r):
    """Self-attention in which a word sees r / 2 words to either side (Sec. 4), by `scaled_dot_product_attention`.

    The sentence is cut into blocks of r / 2 words. Each attends to itself and the blocks beside it, and a mask hides what is too far
    away: so 3 r / 2 keys are multiplied, where r would do.

    Args:
      x: queries, keys and values `[B, S, D]`, S a multiple of r / 2.
      r: how many neighbours a word sees, an even number.
    Returns: `[B, S, D]`.
    """
    import tensorflow as tf

    from tf_transformer.model.attention import scaled_dot_product_attention

    block, words = r // 2, x.shape[1]
    queries = tf.reshape(x, (-1, words // block, block, x.shape[2]))  # (B, S/b, b, D)
    around = tf.pad(queries, [[0, 0], [1, 1], [0, 0], [0, 0]])  # (B, S/b + 2, b, D)
    keys = tf.concat([around[:, :-2], queries, around[:, 2:]], axis=2)  # (B, S/b, 3b, D)
    query_at = np.arange(words).reshape(-1, block, 1)  # (S/b, b, 1)
    key_at = np.arange(0, words, block).reshape(-1, 1, 1) + np.arange(
        -block, 2 * block
    )  # (S/b, 1, 3b)
    hidden = (abs(query_at - key_at) > block) | (key_at < 0) | (key_at >= words)  # (S/b, b, 3b)
    output, _ = scaled_dot_product_attention(queries, keys, keys, hidden)  # (B, S/b, b, D)
    return tf.reshape(output, tf.shape(x))


def attention_layers(r, heads):
    """Eq. 1 as Table 1 counts it, the layer of the Transformer with its four projections, and Eq. 1 in neighbourhoods of r."""
    import tensorflow as tf

    from tf_transformer.model.attention import MultiHeadAttention, scaled_dot_product_attention

    def multi_head(d):
        layer = MultiHeadAttention(d, heads)
        return lambda x: layer(x, x, x, None)[0]

    def softmax(*shape):
        return {"softmax": functools.partial(tf.function(tf.nn.softmax), tf.random.normal(shape))}

    def blocks(n, d):
        return [(2 * n // r, r // 2, d, 3 * r // 2), (2 * n // r, r // 2, 3 * r // 2, d)]

    def with_projections(n, d):
        return [(heads, n, d // heads, n), (heads, n, n, d // heads)] + [(1, n, d, d)] * 4

    return [
        Layer("self-attention (Eq. 1)", "n^2 d", (2, 1), lambda n, d: [(1, n, d, n), (1, n, n, d)],
              lambda d: lambda x: scaled_dot_product_attention(x, x, x, None)[0], lambda n, d: softmax(1, n, n)),
        Layer("multi-head, W^Q to W^O", "n^2 d", (2, 1), with_projections, multi_head, lambda n, d: softmax(heads, n, n)),
        Layer(f"restricted, r = {r}", "r n d", (1, 1), blocks, lambda d: functools.partial(restricted_attention, r=r),
              lambda n, d: softmax(2 * n // r, r // 2, 3 * r // 2)),
    ]  # fmt: skip


def recurrent_layer(unroll=False):
    """An LSTM, the layer of translators before the paper. `unroll`: without a loop, so that its graph can be counted.

    It has four gates, so four products with the state where Table 1 counts one: another factor, the same powers.
    """
    import keras
    import tensorflow as tf

    def lstm(d):
        return keras.layers.LSTM(d, return_sequences=True, unroll=unroll)

    def parts(n, d):
        words, kernel, recurrent_kernel = (
            tf.random.normal(shape) for shape in ((n, 1, d), (d, 4 * d), (d, 4 * d))
        )

        def word_by_word(words, kernel, recurrent_kernel):
            def join(state, word):
                return tf.tanh(tf.matmul(word, kernel) + tf.matmul(state, recurrent_kernel))[
                    :, :d
                ]  # (1, d)

            return tf.scan(join, words, tf.zeros((1, d)))

        products = functools.partial(tf.function(word_by_word), words, kernel, recurrent_kernel)
        loop = functools.partial(tf.function(lstm(1), autograph=False), tf.random.normal((1, n, 1)))
        return {"products word by word": products, "the same, d = 1": loop}

    def step(d):
        cell = keras.layers.LSTMCell(d)

        def join(x, depth):
            before = tf.pad(
                x[0, :-1], [[1, 0], [0, 0]]
            )  # (n, d): what the word before has is the state
            return cell(x[0], [before, before])[0][tf.newaxis]

        return join

    return Layer(
        "recurrent, LSTM", "n d^2", (1, 2), lambda n, d: [(1, n, d, 4 * d)] * 2, lstm, parts, step
    )


def convolutions(k):
    """Of kernel k: plain, dilated (k times more in each layer of a stack; timed is the second one), separable (Sec. 4)."""
    import keras
    import tensorflow as tf

    def plain(d):
        return keras.layers.Conv1D(d, k, padding="same")

    def dilated(d, depth=1):
        return keras.layers.Conv1D(d, k, padding="causal", dilation_rate=k**depth)

    def separable(d):
        return keras.layers.SeparableConv1D(d, k, padding="same")

    def windows(n, d):
        return [(1, n, k * d, d)]

    def one_word(build, d):
        return {
            "the same, n = 1": functools.partial(
                tf.function(build(d), autograph=False), tf.random.normal((1, 1, d))
            )
        }

    return [
        Layer(f"convolution, k = {k}", "k n d^2", (1, 2), windows, plain, lambda n, d: one_word(plain, d)),
        Layer(f"dilated, k = {k}", "k n d^2", (1, 2), windows, dilated, lambda n, d: one_word(dilated, d),
              lambda d: lambda x, depth: dilated(d, depth)(x)),
        Layer(f"separable, k = {k}", "k n d + n d^2", (1, 2), lambda n, d: [(1, n * d, k, 1), (1, n, d, d)], separable,
              lambda n, d: one_word(separable, d)),
    ]  # fmt: skip


def longest_chain(layer, n, d):
    """How many matrix products come one after the other in the graph of a function `[1, n, d]` -> `[1, n, d]` without loops."""
    import tensorflow as tf

    graph = (
        tf.function(layer, autograph=False).get_concrete_function(tf.TensorSpec((1, n, d))).graph
    )
    chain = {}
    for operation in graph.get_operations():  # in an order in which inputs come first
        chain[operation] = max((chain[x.op] for x in operation.inputs), default=0) + (
            operation.type in PRODUCTS
        )
    return max(chain.values())


def path_length(step, n, d):
    """After how many layers the last of n words depends on the first: when its derivative is not 0, which is exact.

    Args:
      step: the layer, a function (`[1, n, d]`, how many came before) -> `[1, n, d]`.
    Returns: the number of layers, or infinity where n layers do not reach.
    """
    import tensorflow as tf

    x, change = (
        tf.random.normal((1, n, d)),
        tf.one_hot([0], n)[..., tf.newaxis] * tf.random.normal((d,)),
    )  # (1, n, d)
    for depth in range(n):
        with tf.autodiff.ForwardAccumulator(x, change) as derivative:
            y = step(x, depth)
        x, change = y, derivative.jvp(y)
        if tf.reduce_any(change[0, -1] != 0):
            return depth + 1
    return np.inf


def count_small(k):
    """For each row, in layers of `SMALL` words: products in a row, and how far the first and the last word are apart."""
    found = []
    for layer in [
        *attention_layers(SMALL_NEIGHBOURHOOD, SMALL_HEADS),
        recurrent_layer(unroll=True),
        *convolutions(k),
    ]:
        run = layer.build(SMALL_WIDTH)
        step = layer.step(SMALL_WIDTH) if layer.step else lambda x, depth, run=run: run(x)
        found.append(
            [
                [longest_chain(run, n, SMALL_WIDTH) for n in SMALL],
                [path_length(step, n, SMALL_WIDTH) for n in SMALL],
            ]
        )
    return found
