"""The speed of training and of search, and the peak that it is compared with."""

import functools
import itertools
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from gpu_check.results import Report, Table
from gpu_check.sizes import Sizes, SpeedCase
from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import Config, DecodeConfig
from tf_transformer.decoding.inference import search_translations
from tf_transformer.decoding.translator import Replicas
from tf_transformer.paper.flops import matrix_operations
from tf_transformer.special_tokens import END, PAD, START
from tf_transformer.training.compilation import choose_jit_compile
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.precision import choose_precision
from tf_transformer.training.run_log import memory_gb, reset_memory_peak
from tf_transformer.training.update import Update

WARM_UP = 3  # updates and searches that are not timed
PRODUCTS = 10  # matrix products in a row
ROUNDS = 5  # of products, and of searches; the best product and the median search count
VOCABULARY = 37_000  # Sec. 5.1
TF32 = "Products in float32 use TF32, as `train` and `translate` do, where a GPU has it."
TRAINING_COLUMNS = (
    "model", "replicas", "micro-batch", "precision", "XLA", "s an update", "target tokens/s",
    "share of peak", "GB", "s to compile",
)  # fmt: skip
SEARCH_COLUMNS = (
    "search", "sentences", "precision", "XLA", "s a batch", "tokens/s", "s the first time",
)  # fmt: skip


def measure_training(sizes: Sizes, replicas: int, report: Report) -> None:
    """Measures the speed of training on one device, and where there are several, on all.

    Args:
      sizes: a `Sizes`.
      replicas: devices of this host.
      report: gets the table.
    """
    note = (
        f"{sizes.batch_rows} x {sizes.length} source and as many target tokens for each replica, "
        f"without padding; {VOCABULARY:,} sub-words. A micro-batch is computed at once. The peak "
        f"is the best product of two {sizes.product:,} x {sizes.product:,} matrices on this "
        f"device. The share counts matrix products only. {TF32} GB: the most on a GPU, or of the "
        "process on a CPU."
    )
    report.add_table(Table("Training", note, TRAINING_COLUMNS, []))
    gpus = tf.config.get_visible_devices("GPU")
    for number in sorted({1, replicas}):
        for case in sizes.speeds:
            precision = choose_precision(case.precision, gpus)
            xla = "on" if choose_jit_compile(case.jit_compile, gpus) else "off"
            labels = case.model, f"{number}", f"{case.micro_batch_tokens:,}", precision, xla
            report.measure(
                f"training of {case.model}, {number} replicas, micro-batch {labels[2]}, "
                f"{precision}, XLA {xla}",
                labels,
                functools.partial(_training_row, case, sizes, number, precision),
            )


def _training_row(case: SpeedCase, sizes: Sizes, replicas: int, precision: str) -> tuple[str, ...]:
    """The cells of a training: seconds, tokens/s, share of peak, memory, seconds to compile."""
    config = case.config.with_vocabularies(VOCABULARY, VOCABULARY).replace(
        max_length=sizes.length, micro_batch_tokens=case.micro_batch_tokens
    )
    peak = peak_rate(sizes.product, precision)
    reset_memory_peak()
    seconds, first = update_seconds(config, sizes, replicas, precision, case.jit_compile)
    rows, length = sizes.batch_rows * replicas, sizes.length
    share = matrix_operations(config.model, rows, length, length) / seconds / (peak * replicas)
    return (
        f"{seconds:.3f}",
        f"{rows * length / seconds:,.0f}",
        f"{share:.0%} of {peak / 1e12:,.1f} TFLOP/s",
        f"{memory_gb():.2f}",
        f"{first:.1f}",
    )


def update_seconds(
    config: Config, sizes: Sizes, replicas: int, precision: str, jit_compile: str
) -> tuple[float, float]:
    """Seconds of an update on random ids, while the next one is started before it ends.

    Returns: these, and the seconds of the first update, which compiles and builds the graph.
    """
    strategy = make_strategy(replicas=replicas)
    accumulate = config.train.micro_batch_tokens < sizes.batch_rows * sizes.length
    jit = choose_jit_compile(jit_compile, tf.config.get_visible_devices("GPU"))
    update = Update(config, precision, strategy, accumulate=accumulate, jit_compile=jit)
    rows = sizes.batch_rows * replicas
    inp = random_ids(rows, sizes.length, config.model.input_vocab_size)
    tar = random_ids(rows, sizes.length + 1, config.model.target_vocab_size)
    before = time.perf_counter()
    update(inp, tar, tf.zeros([2]))["sums"].numpy()
    first = time.perf_counter() - before
    seconds = _mean_seconds(lambda: update(inp, tar, tf.zeros([2]))["sums"], sizes.timed_updates)
    return seconds, first


def _mean_seconds(start: Callable[[], tf.Tensor], number: int) -> float:
    """Mean seconds of a computation that is started several times."""
    for _ in range(WARM_UP):
        start().numpy()
    before = time.perf_counter()
    for _ in range(number):
        result = start()
    result.numpy()
    return (time.perf_counter() - before) / number


@functools.cache
def peak_rate(n: int, precision: str) -> float:
    """Operations a second of the best of several chains of products of two `[n, n]` matrices."""
    dtype = keras.DTypePolicy(precision).compute_dtype
    a = tf.cast(tf.random.normal((n, n)), dtype)
    b = tf.cast(tf.random.normal((n, n)) / n**0.5, dtype)  # keeps the size of the values

    @tf.function(autograph=False)
    def products() -> tf.Tensor:
        x = a
        for _ in range(PRODUCTS):
            x = tf.matmul(x, b)
        return x[0, 0]

    seconds = []
    for _ in range(WARM_UP + ROUNDS):
        before = time.perf_counter()
        products().numpy()
        seconds.append(time.perf_counter() - before)
    return PRODUCTS * 2 * n**3 / min(seconds[WARM_UP:])


def measure_search(sizes: Sizes, report: Report) -> None:
    """Measures greedy and beam search of an untrained model on one device.

    Args:
      sizes: a `Sizes`.
      report: gets the table.
    """
    note = (
        f"Sources of {sizes.length} sub-words; the model is untrained, and its translations have "
        "the longest length. Tokens of the best translation of each sentence. " + TF32
    )
    report.add_table(Table("Search", note, SEARCH_COLUMNS, []))
    fastest = choose_precision("auto", tf.config.get_visible_devices("GPU"))
    for beam_size, jit in itertools.product(sizes.beam_sizes, (False, True)):
        name = "greedy" if beam_size == 1 else f"beam {beam_size}"
        labels = name, f"{sizes.search_rows}", fastest, "on" if jit else "off"
        report.measure(
            f"{name} search, {fastest}, XLA {labels[3]}",
            labels,
            functools.partial(_search_row, sizes, fastest, beam_size, jit),
        )


def _search_row(sizes: Sizes, precision: str, beam_size: int, jit_compile: bool) -> tuple[str, ...]:
    """The cells of a search: seconds, tokens/s, and the seconds of the first batch."""
    config = sizes.search.with_vocabularies(VOCABULARY, VOCABULARY)
    model, decode = build_model(config.model, precision), DecodeConfig(beam_size=beam_size)
    replicas = Replicas(model)
    inp = random_ids(sizes.search_rows, sizes.length, VOCABULARY).numpy()
    seconds = []
    for _ in range(ROUNDS):  # the first one builds the graph
        before = time.perf_counter()
        options = {"decode": decode, "for_xla": jit_compile}
        (result,) = replicas.run(search_translations, {"inp": inp}, **options)
        seconds.append(time.perf_counter() - before)
    median = float(np.median(seconds[1:]))
    return f"{median:.3f}", f"{np.sum(result.ids != PAD) / median:,.0f}", f"{seconds[0]:.1f}"


def random_ids(rows: int, length: int, vocab_size: int) -> tf.Tensor:
    """Random sentences without padding, int32 `[rows, length]`, with START and END."""
    ids = np.random.default_rng(0).integers(4, vocab_size, (rows, length))
    ids[:, 0] = START
    ids[:, -1] = END
    return tf.constant(ids, tf.int32)
