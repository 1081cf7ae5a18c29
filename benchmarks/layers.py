"""Measures Table 1: the cost of the layers of Sec. 4 against length n and width d.

    python benchmarks/layers.py             # two minutes on two cores
    python benchmarks/layers.py --rounds=2  # quicker and noisier

One sequence, float32, forward pass. "Counted" are the multiply-adds of the matrix products, from
their shapes. "Measured" are times, taken in turns: each round has all layers and sizes. A power is
the slope of the straight line through the three largest sizes on log-log axes: the cost grows as n,
or d, to this power. "Sequential" is the longest chain of products of which each needs the one
before, in the graph of the layer. "Path" is the number of layers (steps, of the recurrent layer)
until the last of n positions depends on the first, by the derivative. Both are counted on small
layers.

The second table has the times. Below each layer are the times of its parts, which show the origin
of the time. The first of these are the layer's matrix products alone, independent of each other.
"""

import argparse
import functools
import itertools
import os
import time

import numpy as np
from layer_types import (
    SMALL,
    attention_layers,
    convolutions,
    count_small,
    multiply_adds,
    recurrent_layer,
)

HEADS = 8  # of the multi-head attention
LENGTH = 1024  # n where d varies
WIDTH = 256  # d where n varies
FITTED_SIZES = 3  # sizes through which the line of a power is fitted


def independent_products(shapes):
    """A function without arguments that computes products of these shapes."""
    import tensorflow as tf

    def multiply(pairs):
        return [tf.matmul(a, b) for a, b in pairs]

    pairs = []
    for count, rows, inner, columns in shapes:
        a = tf.random.normal((count, rows, inner))
        b = tf.random.normal((count, inner, columns))
        pairs.append((a, b))
    return functools.partial(tf.function(multiply), pairs)


def power(sizes, costs):
    """The slope of the line through the costs of the largest sizes on log-log axes.

    Args:
      sizes: ascending `[sizes]`.
      costs: `[..., sizes]`.
    Returns: `[...]`.
    """
    x = np.log(sizes[-FITTED_SIZES:])
    x = x - np.mean(x)
    return np.log(costs)[..., -FITTED_SIZES:] @ x / (x @ x)


def measure(layers, sizes, rounds):
    """Times each layer and its parts in turns, after a round that builds the graphs.

    Args:
      layers: a list of `Layer`s.
      sizes: a list of (n, d).
      rounds: how many.
    Returns: for each layer a dict, name of the layer or part -> seconds `[rounds, sizes]`.
    """
    functions = [_functions_by_name(layer, sizes) for layer in layers]
    seconds = [
        {name: np.zeros((rounds + 1, len(sizes))) for name in by_name} for by_name in functions
    ]
    for turn in range(rounds + 1):
        for row, by_name in enumerate(functions):
            for name, column in itertools.product(by_name, range(len(sizes))):
                start = time.perf_counter()
                by_name[name][column]()
                seconds[row][name][turn, column] = time.perf_counter() - start
    return [{name: times[1:] for name, times in row.items()} for row in seconds]


def _functions_by_name(layer, sizes):
    """Name of the layer or part -> a function without arguments for each size."""
    import tensorflow as tf

    functions = {}
    for n, d in sizes:
        run = tf.function(layer.build(d), autograph=False)
        of_size = {
            layer.name: functools.partial(run, tf.random.normal((1, n, d))),
            "products alone": independent_products(layer.shapes(n, d)),
            **layer.parts(n, d),
        }
        for name, function in of_size.items():
            functions.setdefault(name, []).append(function)
    return functions


def print_powers(layers, seconds, small, lines):
    """Prints the table of powers.

    Args:
      layers: a list of `Layer`s.
      seconds: as `measure` returns them.
      small: as `count_small` returns it.
      lines: for n and for d: title; sizes; shapes (n, d); slice of these in `seconds`.
    """
    lengths = ", ".join(map(str, SMALL))
    heading = f"{'Table 1':>9}{'counted':>9}{'measured':>15}"
    titles = "".join(f"{title:>33}" for title, *_ in lines)
    print(f"{'':<24} {'operations':<14}{titles}   {'sequential':<15}path")
    print(f"{'layer':<24} {'in Table 1':<14}{heading}{heading}   n = {lengths:<11}n = {lengths}")
    for layer, times, counts in zip(layers, seconds, small):
        text = f"{layer.name:<24} {layer.table_1:<14}"
        for theory, (_, sizes, shapes, part) in zip(layer.powers, lines):
            counted = power(sizes, [multiply_adds(layer.shapes(n, d)) for n, d in shapes])
            measured = power(sizes, times[layer.name][:, part])
            low, middle, high = np.percentile(measured, [25, 50, 75])
            interval = f"{middle:.2f} +- {(high - low) / 2:.2f}"
            text += f"{theory:>9}{counted:>9.2f}{interval:>15}"
        for numbers in counts:
            text += f"   {', '.join(map(str, numbers)):<12}"
        print(text.rstrip())


def print_times(seconds, lines):
    """Prints the times of each layer and of its parts, with the powers of these."""
    headings = []
    for name, (_, sizes, *_) in zip("nd", lines):
        columns = [f"{name}={size}" for size in sizes]
        headings.append("".join(f"{column:>9}" for column in columns) + "  power")
    print(f"\n{'milliseconds':<28}" + "".join(headings))
    for by_name in seconds:
        for i, (name, times) in enumerate(by_name.items()):
            indent = "    " if i else ""
            text = f"{indent + name:<28}"
            for _, sizes, _, part in lines:
                medians = np.median(times[:, part], 0)
                text += "".join(f"{1000 * median:>9.2f}" for median in medians)
                text += f"{np.median(power(sizes, times[:, part])):>7.2f}"
            print(text)


def parse_arguments():
    """Reads and checks the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns; medians are printed")
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[256, 512, 1024, 2048, 4096],
        help=f"n, where d is {WIDTH}",
    )
    parser.add_argument(
        "--widths",
        type=int,
        nargs="+",
        default=[64, 128, 256, 512, 1024],
        help=f"d, where n is {LENGTH}",
    )
    parser.add_argument("--kernel", type=int, default=3, help="k, positions of a convolution")
    parser.add_argument(
        "--neighbourhood",
        type=int,
        default=64,
        help="r, neighbours that a position of restricted self-attention sees",
    )
    args = parser.parse_args()
    for sizes in (args.lengths, args.widths):
        sizes.sort()  # a power is fitted to the last sizes
        if len(sizes) < FITTED_SIZES or len(set(sizes)) < len(sizes) or sizes[0] < 1:
            parser.error(
                f"give at least {FITTED_SIZES} different sizes above 0 in --lengths and --widths: "
                "a power is fitted to them"
            )
    if args.rounds < 1:
        parser.error(f"--rounds is {args.rounds}: give 1 or more")
    if args.kernel < 3:
        parser.error(
            f"--kernel is {args.kernel}: give 3 or more, so that a convolution sees both sides"
        )
    half = args.neighbourhood // 2
    if half < 1 or args.neighbourhood % 2 or any(n % half for n in [*args.lengths, LENGTH]):
        parser.error(
            f"--neighbourhood is {args.neighbourhood}: give an even number, half of which divides "
            f"{LENGTH} and --lengths"
        )
    if any(d % HEADS for d in args.widths):
        parser.error(f"--widths must be multiples of the {HEADS} heads")
    return args


def main():
    """Prints the tables of powers and of times."""
    args = parse_arguments()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from allocator import use_allocator

    use_allocator()
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # it would warn of the many graphs of one function
    layers = [
        *attention_layers(args.neighbourhood, HEADS),
        recurrent_layer(),
        *convolutions(args.kernel),
    ]
    shapes_n = [(n, WIDTH) for n in args.lengths]
    shapes_d = [(LENGTH, d) for d in args.widths]
    first = len(args.lengths)
    lines = [
        (f"power of n, d = {WIDTH}", args.lengths, shapes_n, slice(first)),
        (f"power of d, n = {LENGTH}", args.widths, shapes_d, slice(first, None)),
    ]
    print(
        f"one sequence, float32, forward pass, {HEADS} heads, {os.cpu_count()} cores; "
        f"median of {args.rounds} rounds +- half the interquartile range"
    )
    seconds = measure(layers, shapes_n + shapes_d, args.rounds)
    print_powers(layers, seconds, count_small(args.kernel), lines)
    print_times(seconds, lines)


if __name__ == "__main__":
    main()
