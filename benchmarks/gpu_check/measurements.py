"""The speed of training and of search, and the peak that it is compared with."""

import functools
import itertools
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from gpu_check.results import Result, Table, run_measurement
from gpu_check.sizes import Sizes, SpeedCase
from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import Config, DecodeConfig
from tf_transformer.decoding.inference import search_translations
from tf_transformer.decoding.translator import Replicas
from tf_transformer.paper.flops import matrix_operations
from tf_transformer.special_tokens import END, PAD, START
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.memory_plan import activation_bytes, process_bytes, state_bytes
from tf_transformer.training.precision import choose_jit_compile, choose_precision
from tf_transformer.training.run_log import memory_gb
from tf_transformer.training.update import Update, gradient_accumulation_steps

WARM_UP = 3  # updates and searches that are not timed
PRODUCTS = 10  # matrix products in a row
ROUNDS = 5  # of products, and of searches; the best product and the median search count
VOCABULARY = 37_000  # Sec. 5.1
TF32 = "Products in float32 use TF32, as `train` and `translate` do, where a GPU has it."
TRAINING_COLUMNS = (
    "model", "replicas", "micro-batch", "precision", "XLA", "s an update", "target tokens/s",
    "share of peak", "GB", "GB planned",
)  # fmt: skip
SEARCH_COLUMNS = ("search", "sentences", "precision", "XLA", "s a batch", "tokens/s")


def measure_training(sizes: Sizes, replicas: int) -> tuple[Table, list[Result]]:
    """Measures the speed of training on one device, and where there are several, on all.

    Args:
      sizes: a `Sizes`.
      replicas: devices of this host.
    Returns: the table, and the failed measurements.
    """
    rows, failures = [], []
    gpus = tf.config.get_visible_devices("GPU")
    peaks: dict[str, float] = {}
    for number in sorted({1, replicas}):
        for case in sizes.speeds:
            precision = choose_precision(case.precision, gpus)
            jit_compile = choose_jit_compile(case.jit_compile, gpus)
            labels = (
                case.model, f"{number}", f"{case.micro_batch_tokens:,}", precision,
                "on" if jit_compile else "off",
            )  # fmt: skip

            def measure(
                case: SpeedCase = case, number: int = number, precision: str = precision
            ) -> tuple[str, ...]:
                if precision not in peaks:
                    peaks[precision] = peak_rate(sizes.product, precision)
                return _training_row(case, sizes, number, precision, peaks[precision])

            row, failure = run_measurement(
                f"training of {case.model}, {number} replicas, micro-batch {labels[2]}, "
                f"{precision}, XLA {labels[4]}",
                labels,
                len(TRAINING_COLUMNS),
                measure,
            )
            rows.append(row)
            failures += [failure] if failure else []
    best = ", ".join(f"{rate / 1e12:,.1f} TFLOP/s {name}" for name, rate in peaks.items())
    note = (
        f"{sizes.batch_rows} x {sizes.length} source and as many target tokens for each replica, "
        f"without padding; {VOCABULARY:,} sub-words. A micro-batch is computed at once. The peak "
        f"is the best product of two {sizes.product:,} x {sizes.product:,} matrices on this "
        f"device: {best or 'not measured'}. The share counts matrix products only. {TF32} GB: the "
        "most on a GPU, or that of the process on a CPU, beside what `train --dry_run` plans."
    )
    return Table("Training", note, TRAINING_COLUMNS, rows), failures


def _training_row(
    case: SpeedCase, sizes: Sizes, replicas: int, precision: str, peak: float
) -> tuple[str, ...]:
    """The cells of a training: seconds, tokens/s, share of peak and memory."""
    config = case.config.with_vocabularies(VOCABULARY, VOCABULARY).replace(
        max_length=sizes.length, micro_batch_tokens=case.micro_batch_tokens
    )
    reset_peak_memory()
    seconds = update_seconds(config, sizes, replicas, precision, case.jit_compile)
    rows, length = sizes.batch_rows * replicas, sizes.length
    share = matrix_operations(config.model, rows, length, length) / seconds / (peak * replicas)
    steps = gradient_accumulation_steps(rows, length, replicas, case.micro_batch_tokens)
    planned = state_bytes(config.model, steps)
    planned += activation_bytes(config.model, -(-sizes.batch_rows // steps), length, precision)
    if not tf.config.list_logical_devices("GPU"):
        planned = process_bytes(config.model, replicas, planned)
    return (
        f"{seconds:.3f}",
        f"{rows * length / seconds:,.0f}",
        f"{share:.0%}",
        f"{memory_gb():.2f}",
        f"{planned / 1e9:.2f}",
    )


def update_seconds(
    config: Config, sizes: Sizes, replicas: int, precision: str, jit_compile: str
) -> float:
    """Seconds of an update on random ids, while the next one is started before it ends."""
    strategy = make_strategy(replicas=replicas)
    accumulate = config.train.micro_batch_tokens < sizes.batch_rows * sizes.length
    jit = choose_jit_compile(jit_compile, tf.config.get_visible_devices("GPU"))
    update = Update(config, precision, strategy, accumulate=accumulate, jit_compile=jit)
    rows = sizes.batch_rows * replicas
    inp = random_ids(rows, sizes.length, config.model.input_vocab_size)
    tar = random_ids(rows, sizes.length + 1, config.model.target_vocab_size)
    votes = tf.zeros([2])
    return _mean_seconds(lambda: update(inp, tar, votes)["sums"], sizes.timed_updates)


def _mean_seconds(start: Callable[[], tf.Tensor], number: int) -> float:
    """Mean seconds of a computation that is started several times."""
    for _ in range(WARM_UP):
        start().numpy()
    before = time.perf_counter()
    for _ in range(number):
        result = start()
    result.numpy()
    return (time.perf_counter() - before) / number


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


def measure_search(sizes: Sizes) -> tuple[Table, list[Result]]:
    """Measures greedy and beam search of an untrained model on one device.

    Returns: the table, and the failed measurements.
    """
    fastest = choose_precision("auto", tf.config.get_visible_devices("GPU"))
    rows, failures = [], []
    precisions = sorted({"float32", fastest})
    for precision, beam_size, jit in itertools.product(precisions, sizes.beam_sizes, (False, True)):
        name = "greedy" if beam_size == 1 else f"beam {beam_size}"
        measure = functools.partial(_search_row, sizes, precision, beam_size, jit)
        labels = (name, f"{sizes.search_rows}", precision, "on" if jit else "off")
        row, failure = run_measurement(
            f"{name} search, {precision}, XLA {labels[3]}", labels, len(SEARCH_COLUMNS), measure
        )
        rows.append(row)
        failures += [failure] if failure else []
    note = (
        f"Sources of {sizes.length} sub-words; the model is untrained, and its translations have "
        "the longest length. Tokens of the best translation of each sentence. " + TF32
    )
    return Table("Search", note, SEARCH_COLUMNS, rows), failures


def _search_row(sizes: Sizes, precision: str, beam_size: int, jit_compile: bool) -> tuple[str, ...]:
    """The cells of a search: seconds and tokens/s."""
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
    return f"{median:.3f}", f"{np.sum(result.ids != PAD) / median:,.0f}"


def random_ids(rows: int, length: int, vocab_size: int) -> tf.Tensor:
    """Random sentences without padding, int32 `[rows, length]`, with START and END."""
    ids = np.random.default_rng(0).integers(4, vocab_size, (rows, length))
    ids[:, 0] = START
    ids[:, -1] = END
    return tf.constant(ids, tf.int32)


def reset_peak_memory() -> None:
    """Forgets the most memory that was in use on each GPU."""
    for gpu in tf.config.list_logical_devices("GPU"):
        tf.config.experimental.reset_memory_stats(gpu.name.removeprefix("/device:"))
