"""Table 1 measured: what the layers of Sec. 4 cost against the number of words n and the width d, and how far apart they leave two words.

    python benchmarks/layers.py             # two minutes on two cores
    python benchmarks/layers.py --rounds=2  # quicker and noisier

One sentence, float32, forwards. Operations are the multiply-adds of the matrix products, counted from their shapes. Times are taken in
turns, all layers and sizes in each round. A power is the slope of the straight line through the three largest sizes on log-log axes: the
cost grows as n, or d, to this power. "In a row" is the longest chain of products of which each needs the one before, in the graph of the
layer. "Apart" is how many layers, or steps of the recurrent one, it takes until the last of n words depends on the first, by the
derivative. Both are counted on small layers. The second table has the times, and under each layer its parts alone, which say where the
time comes from: first its products with nothing between them and none waiting for another.
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

HEADS, LENGTH, WIDTH = (
    8,
    1024,
    256,
)  # heads of the multi-head attention, n where d changes, d where n changes
UPPER = 3  # sizes through which the line of a power is laid


def products_alone(shapes):
    """A function of nothing that computes products of these shapes, which have nothing to do with each other."""
    import tensorflow as tf

    factors = [
        (tf.random.normal(shape[:3]), tf.random.normal((shape[0], *shape[2:]))) for shape in shapes
    ]
    return functools.partial(
        tf.function(lambda pairs: [tf.matmul(a, b) for a, b in pairs]), factors
    )


def power(sizes, costs):
    """The slope of the line through the costs of the largest sizes on log-log axes. costs `[..., sizes]` -> `[...]`."""
    x = np.log(sizes[-UPPER:]) - np.mean(np.log(sizes[-UPPER:]))
    return np.log(costs)[..., -UPPER:] @ x / (x @ x)


def measure(layers, sizes, rounds):
    """Seconds of each layer and its parts: for each layer, by name, `[rounds, sizes]`. sizes: (n, d)."""
    import tensorflow as tf

    functions = [{} for _ in layers]
    for (n, d), (layer, found) in itertools.product(sizes, zip(layers, functions)):
        run = functools.partial(
            tf.function(layer.build(d), autograph=False), tf.random.normal((1, n, d))
        )
        for name, function in {
            layer.name: run,
            "products alone": products_alone(layer.shapes(n, d)),
            **layer.parts(n, d),
        }.items():
            found.setdefault(name, []).append(function)
    seconds = [{name: np.zeros((rounds + 1, len(sizes))) for name in found} for found in functions]
    for turn in range(rounds + 1):  # the first one builds the graphs and warms up
        for row, found in enumerate(functions):
            for name, column in itertools.product(found, range(len(sizes))):
                start = time.perf_counter()
                found[name][column]()
                seconds[row][name][turn, column] = time.perf_counter() - start
    return [{name: found[1:] for name, found in row.items()} for row in seconds]


def print_powers(layers, seconds, small, lines):
    """The table. lines: for n and for d, what it is called, the sizes, the shapes (n, d) of all measured, and where these begin."""
    words, heading = ", ".join(map(str, SMALL)), f"{'Table 1':>9}{'counted':>9}{'measured':>15}"
    print(
        f"{'':<24} {'operations':<14}"
        + "".join(f"{title:>33}" for title, *_ in lines)
        + f"   {'in a row':<15}apart"
    )
    print(f"{'layer':<24} {'in Table 1':<14}{heading}{heading}   n = {words:<11}n = {words}")
    for layer, found, counts in zip(layers, seconds, small):
        text = f"{layer.name:<24} {layer.table_1:<14}"
        for theory, (_, line, shapes, part) in zip(layer.powers, lines):
            counted = power(line, [multiply_adds(layer.shapes(n, d)) for n, d in shapes])
            low, middle, high = np.percentile(power(line, found[layer.name][:, part]), [25, 50, 75])
            text += f"{theory:>9}{counted:>9.2f}{f'{middle:.2f} +- {(high - low) / 2:.2f}':>15}"
        print(text + "".join(f"   {', '.join(map(str, count)):<12}" for count in counts).rstrip())


def print_times(seconds, lines):
    """The times behind it, of each layer and of its parts, with the powers of these."""
    heading = (
        "".join(f"{f'{name}={size}':>9}" for size in line) + "  power"
        for name, (_, line, *_) in zip("nd", lines)
    )
    print(f"\n{'milliseconds':<28}" + "".join(heading))
    for found in seconds:
        for place, (name, times) in enumerate(found.items()):
            text = f"{'    ' * bool(place) + name:<28}"
            for _, line, _, part in lines:
                text += "".join(f"{1000 * one:>9.2f}" for one in np.median(times[:, part], 0))
                text += f"{np.median(power(line, times[:, part])):>7.2f}"
            print(text)


def main():
    """Prints the table, and the times behind it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns, of which the median is taken")
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
    parser.add_argument("--kernel", type=int, default=3, help="k, words that a convolution sees")
    parser.add_argument(
        "--neighbourhood",
        type=int,
        default=64,
        help="r, neighbours that a word of restricted self-attention sees",
    )
    args = parser.parse_args()
    for sizes in (args.lengths, args.widths):
        sizes.sort()  # a power is fitted to the last ones
        if len(sizes) < UPPER or len(set(sizes)) < len(sizes) or sizes[0] < 1:
            parser.error(
                f"a power needs {UPPER} sizes at least in --lengths and --widths, each once and above 0"
            )
    if args.rounds < 1:
        parser.error(f"--rounds is {args.rounds}: give 1 or more")
    if args.kernel < 3:
        parser.error(
            f"--kernel is {args.kernel}: give 3 or more, so that a convolution sees the words on both sides"
        )
    if (
        args.neighbourhood < 2
        or args.neighbourhood % 2
        or any(n % (args.neighbourhood // 2) for n in [*args.lengths, LENGTH])
    ):
        parser.error(
            f"--neighbourhood is {args.neighbourhood}: give an even number, half of which divides {LENGTH} and --lengths"
        )
    if any(d % HEADS for d in args.widths):
        parser.error(f"--widths must be multiples of the {HEADS} heads")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tf_transformer.cli.allocator import use_allocator

    use_allocator()
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # it takes the many graphs of one function for a mistake
    layers = [
        *attention_layers(args.neighbourhood, HEADS),
        recurrent_layer(),
        *convolutions(args.kernel),
    ]
    shapes = [(n, WIDTH) for n in args.lengths], [(LENGTH, d) for d in args.widths]
    first = len(args.lengths)
    lines = [
        (f"power of n, d = {WIDTH}", args.lengths, shapes[0], slice(first)),
        (f"power of d, n = {LENGTH}", args.widths, shapes[1], slice(first, None)),
    ]
    print(
        f"one sentence, float32, forwards, {HEADS} heads, {os.cpu_count()} cores; median of {args.rounds} rounds +- half the middle half"
    )
    seconds = measure(layers, shapes[0] + shapes[1], args.rounds)
    print_powers(layers, seconds, count_small(args.kernel), lines)
    print_times(seconds, lines)


if __name__ == "__main__":
    main()
