"""Runs all checks and measurements, and writes the report as Markdown."""

import logging
import tempfile
import time
from typing import NamedTuple

import tensorflow as tf
from invariants import make_case

from gpu_check.checks import check_invariants, check_training, losses_table
from gpu_check.measurements import measure_search, measure_training
from gpu_check.results import Result, Table, describe_error
from gpu_check.short_runs import ShortRuns, pocket_pairs
from gpu_check.sizes import Sizes
from tf_transformer import __version__

logger = logging.getLogger(__name__)

# For orientation: other text, lengths and vocabularies than those measured.
PUBLISHED = Table(
    "Published figures",
    "For orientation: their sentences, vocabularies and batches differ, and so does what they "
    "count.",
    ("what", "device", "figure", "source"),
    [
        (
            "fairseq, training of base, fp16",
            "V100",
            "40,000 words/s a GPU (160,000 on 4)",
            "[fairseq#940](https://github.com/facebookresearch/fairseq/issues/940)",
        ),
        (
            "NVIDIA, training of big, fp16",
            "V100-16G",
            "32,153 tokens/s",
            "[DeepLearningExamples](https://github.com/NVIDIA/DeepLearningExamples/tree/master/"
            "PyTorch/Translation/Transformer)",
        ),
        (
            "CTranslate2, translation with base, float16",
            "A10G",
            "10,991 tokens/s",
            "[CTranslate2](https://github.com/OpenNMT/CTranslate2#benchmarks)",
        ),
    ],
)

MARKS = {True: "passed", False: "**FAILED**", None: "not checked"}


class Report(NamedTuple):
    """What a GPU check found."""

    devices: list[str]
    seconds: float
    results: list[Result]
    tables: list[Table]

    @property
    def failed(self) -> list[str]:
        """The names of the failed checks."""
        return [result.name for result in self.results if result.passed is False]


def check_gpus(sizes: Sizes) -> Report:
    """Checks and measures all visible GPUs, or where there is none, the logical CPUs.

    Args:
      sizes: a `Sizes`.
    Returns: a `Report`, also where checks fail or a device has too little memory for a part.
    """
    started = time.monotonic()
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    replicas = len(devices)
    results: list[Result] = []
    tables: list[Table] = []
    with tempfile.TemporaryDirectory() as scratch:
        try:
            texts = [source for source, _ in pocket_pairs(sizes.sentences)]
            case = make_case("pocket-en-de", texts, scratch)
            runs = ShortRuns(sizes, case.tokenizers)
        except Exception as error:  # whatever TensorFlow raises
            results.append(_logged(Result("built-in model", False, describe_error(error))))
        else:
            for result in check_invariants(case, sizes):
                results.append(_logged(result))
            for result in check_training(runs, sizes, replicas, scratch):
                results.append(_logged(result))
            tables.append(losses_table(runs, sizes))
    for table, failures in (measure_training(sizes, replicas), measure_search(sizes)):
        tables.append(table)
        results += failures
    tables.append(PUBLISHED)
    names = [device.name.split("device:")[-1] for device in devices]
    return Report(names, time.monotonic() - started, results, tables)


def _logged(result: Result) -> Result:
    logger.info("%s: %s (%s)", result.name, MARKS[result.passed].strip("*"), result.measured)
    return result


def as_markdown(report: Report, doctor: str) -> str:
    """The report as a Markdown document.

    Args:
      report: a `Report`.
      doctor: the output of the command doctor.
    """
    failed = report.failed
    conclusion = f"Failed: {', '.join(failed)}." if failed else "All checks passed."
    checks = Table(
        "Checks",
        "float32 without TF32, except where a precision is named.",
        ("check", "result", "measured"),
        [(name, MARKS[passed], measured) for name, passed, measured in report.results],
    )
    parts = [
        "# GPU check",
        f"tf_transformer {__version__}, {', '.join(report.devices)}, "
        f"{time.strftime('%Y-%m-%d')}, {report.seconds / 60:.1f} minutes. {conclusion}",
        *(_table_as_markdown(table) for table in (checks, *report.tables)),
        f"## Installation\n\n```text\n{doctor.strip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _table_as_markdown(table: Table) -> str:
    lines = [f"## {table.title}", "", table.note, ""]
    for cells in (table.columns, ["---"] * len(table.columns), *table.rows):
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)
