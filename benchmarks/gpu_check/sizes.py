"""The sizes of a GPU check: `full` for GPUs, and `small` to try the check itself on a CPU."""

from collections.abc import Callable
from typing import NamedTuple

from tf_transformer.config import MICRO_BATCH_TOKENS, Config
from tf_transformer.presets import preset

SAME = 1e-3  # largest relative difference of losses between two ways to compute in float32
PAPER_TOKENS = 25_000  # of a batch (Sec. 5.1)


class Variant(NamedTuple):
    """A way to compute the same training."""

    replicas: int = 1
    micro_batches: int = 1
    precision: str = "float32"
    tf32: bool = False
    jit_compile: bool = False


class Tolerance(NamedTuple):
    """A variant, and how much its losses may differ from those of one replica in float32."""

    variant: Variant
    most: float


class SpeedCase(NamedTuple):
    """A training whose speed is measured."""

    model: str
    config: Config
    micro_batch_tokens: int
    precision: str = "auto"
    jit_compile: str = "auto"


class Sizes(NamedTuple):
    """How much is checked and measured."""

    invariants: tuple[int, ...]  # their numbers in tools/invariants.py
    sentences: int  # for the invariants
    config: Config  # of the short trainings that are compared with each other
    variants: dict[str, Tolerance]
    rows: int  # sentence pairs of their batches
    updates: int  # of each of them
    resume_updates: int  # before and after the interruption
    speeds: tuple[SpeedCase, ...]
    batch_rows: int  # of the batches of `speeds`, for each replica
    length: int  # of their sentences, sub-words
    timed_updates: int
    product: int  # n of the product of two [n, n] matrices, the peak
    search: Config  # the model whose search is measured
    search_rows: int
    beam_sizes: tuple[int, ...]


def _full() -> Sizes:
    base, big = preset("base"), preset("big")
    return Sizes(
        invariants=(1, 2, 3, 4, 5, 8),
        sentences=12,
        config=preset("small").replace(dropout_rate=0.0),
        variants={
            "2 micro-batches": Tolerance(Variant(micro_batches=2), SAME),
            "XLA": Tolerance(Variant(jit_compile=True), SAME),
            "TF32": Tolerance(Variant(tf32=True), 0.01),
            "bfloat16": Tolerance(Variant(precision="mixed_bfloat16", tf32=True), 0.03),
            "float16": Tolerance(Variant(precision="mixed_float16", tf32=True), 0.03),
        },
        rows=64,
        updates=50,
        resume_updates=20,
        speeds=(
            SpeedCase("base", base, MICRO_BATCH_TOKENS),
            SpeedCase("base", base, PAPER_TOKENS),
            SpeedCase("base", base, PAPER_TOKENS, jit_compile="off"),
            SpeedCase("big", big, PAPER_TOKENS),
        ),
        batch_rows=1000,
        length=25,
        timed_updates=20,
        product=8192,
        search=base,
        search_rows=32,
        beam_sizes=(1, 4),
    )


def _small() -> Sizes:
    config = preset("pocket").replace(num_layers=1, d_model=32, num_heads=2, dff=64)
    return Sizes(
        # The others have no size that takes less than some seconds.
        invariants=(1, 3),
        sentences=4,
        config=config,
        variants={
            "2 micro-batches": Tolerance(Variant(micro_batches=2), SAME),
            "float16": Tolerance(Variant(precision="mixed_float16"), 0.03),
        },
        rows=8,
        updates=3,
        resume_updates=2,
        speeds=(SpeedCase("tiny", config, 32),),
        batch_rows=8,
        length=8,
        timed_updates=2,
        product=128,
        search=config,
        search_rows=2,
        beam_sizes=(4,),
    )


SIZES: dict[str, Callable[[], Sizes]] = {"full": _full, "small": _small}
