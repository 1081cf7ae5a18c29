"""What must hold on every device: the invariants, and that all ways to train agree.

Differences are relative to the largest value that is compared. A GPU adds numbers in another order
in each run, so trainings on it are not equal to the last bit.
"""

import contextlib
import functools
import logging
import os
import shutil
from collections.abc import Iterator
from typing import Any

import invariants
import numpy as np

from gpu_check.results import Report, Result, Table
from gpu_check.short_runs import ShortRuns, pocket_pairs, tensor_float_32
from gpu_check.sizes import SAME, Sizes, Tolerance, Variant
from tf_transformer.checkpoints.model_folder import checkpoint_step, read_metrics, step_checkpoints
from tf_transformer.training.trainer import Trainer, build_trainer

MAX_SKIPPED = 5  # float16: updates until the loss scale is small enough
SHOWN_LOSSES = 6  # rows of the table of losses
RESUME_PAIRS = 400


def relative_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest absolute difference, divided by the largest absolute expected value."""
    return float(np.max(np.abs(actual - expected)) / np.max(np.abs(expected)))


def check_invariants(case: invariants.Case, sizes: Sizes, report: Report) -> None:
    """Checks the invariants of a `Case` in float32, without TF32."""
    for number in sizes.invariants:
        with tensor_float_32(False):
            _, name, holds, measured = invariants.check(number, case)
        report.add(Result(name, holds, measured))


def check_training(
    runs: ShortRuns, sizes: Sizes, replicas: int, scratch: str, report: Report
) -> None:
    """Checks that replicas, micro-batches, XLA, precisions and an interruption change no update.

    Args:
      runs: a `ShortRuns`.
      sizes: a `Sizes`.
      replicas: devices of this host.
      scratch: an empty folder.
      report: gets the results.
    """
    if replicas == 1:
        report.add(Result("replicas", None, "there is one device"))
    else:
        tolerance = Tolerance(Variant(replicas=replicas), SAME)
        check = functools.partial(_same_training, runs, tolerance)
        report.check(f"{replicas} replicas", check)
    for name, tolerance in sizes.variants.items():
        report.check(name, functools.partial(_same_training, runs, tolerance))
    report.check("resume", functools.partial(_resume, sizes, scratch))


def _same_training(runs: ShortRuns, tolerance: Tolerance) -> tuple[bool, str]:
    """Whether the losses of a variant are those of one replica in float32."""
    variant, most = tolerance
    expected, actual = runs.history(Variant()), runs.history(variant)
    losses = relative_difference(actual.losses, expected.losses)
    measured = (
        f"losses of {len(actual.losses)} updates differ from those of one replica in float32 by "
        f"{losses:.2g} (at most {most:g})"
    )
    if actual.skipped:
        measured += f"; {actual.skipped} updates skipped (at most {MAX_SKIPPED})"
    return losses <= most and actual.skipped <= MAX_SKIPPED, measured


def losses_table(runs: ShortRuns, sizes: Sizes) -> Table:
    """The losses of the variants that were computed, side by side."""
    variants = {"float32": Variant()}
    variants |= {name: tolerance.variant for name, tolerance in sizes.variants.items()}
    known = {name: runs.known.get(variant) for name, variant in variants.items()}
    histories = {name: history for name, history in known.items() if history}
    updates = min((len(history.losses) for history in histories.values()), default=0)
    shown = np.unique(np.linspace(min(1, updates), updates, SHOWN_LOSSES).astype(int))
    rows = [
        (f"{update}", *(f"{history.losses[update - 1]:.4f}" for history in histories.values()))
        for update in shown[shown > 0]
    ]
    note = "Nats a token, with label smoothing, on the same batches; float32 is without TF32."
    return Table("Losses", note, ("update", *histories), rows)


def _resume(sizes: Sizes, scratch: str) -> tuple[bool, str]:
    """Whether a run on all devices that resumes from a checkpoint equals an uninterrupted one."""
    text = os.path.join(scratch, "text")
    os.makedirs(text)
    pairs = pocket_pairs(RESUME_PAIRS)
    for side, language in enumerate(("en", "de")):
        with open(os.path.join(text, f"train.{language}"), "w", encoding="utf-8") as file:
            file.writelines(f"{pair[side]}\n" for pair in pairs)
    first = sizes.resume_updates
    config = sizes.config.replace(
        data=text, vocab_size=500, train_steps=2 * first, save_steps=first, eval_steps=2 * first,
        max_checkpoints=2, bleu_sentences=0, log_steps=1, precision="float32", jit_compile="off",
    )  # fmt: skip
    uninterrupted = os.path.join(scratch, "uninterrupted")
    resumed = os.path.join(scratch, "resumed")
    with tensor_float_32(False), _errors_only():
        _train(build_trainer(config, uninterrupted))
        shutil.copytree(uninterrupted, resumed)
        for path in step_checkpoints(resumed):
            if checkpoint_step(path) > first:
                os.remove(path)
        trainer = build_trainer(config, resumed)
        restored = trainer.step
        _train(trainer)
    expected, actual = (
        np.array([line["loss"] for line in _updates(folder) if line["step"] > first])
        for folder in (uninterrupted, resumed)
    )
    with (
        np.load(step_checkpoints(uninterrupted)[-1]) as arrays,
        np.load(step_checkpoints(resumed)[-1]) as others,
    ):
        same = sum(np.array_equal(arrays[name], others[name]) for name in arrays.files)
        number = len(arrays.files)
    losses = relative_difference(actual, expected)
    measured = (
        f"resumed after update {restored} of {2 * first}: losses of the later updates differ by "
        f"{losses:.2g} (at most {SAME:g}); {same} of {number} arrays equal to the last bit"
    )
    return restored == first and losses <= SAME, measured


def _train(trainer: Trainer) -> None:
    """Makes a run. Raises: KeyboardInterrupt where a signal has stopped it."""
    if not trainer.run():
        raise KeyboardInterrupt


def _updates(folder: str) -> list[dict[str, Any]]:
    """The metrics of the updates of a run."""
    return [line for line in read_metrics(folder) if line["kind"] == "train"]


@contextlib.contextmanager
def _errors_only() -> Iterator[None]:
    """Hides the messages of a training; its learning rate, for one, suits no real run."""
    logger = logging.getLogger("tf_transformer.training")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
