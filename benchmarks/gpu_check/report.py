"""Runs all checks and measurements."""

import tempfile

import tensorflow as tf
from invariants import make_case

from gpu_check.checks import check_invariants, check_training, losses_table
from gpu_check.measurements import measure_search, measure_training
from gpu_check.results import Report, Result, Table, describe_error
from gpu_check.short_runs import ShortRuns, pocket_pairs
from gpu_check.sizes import Sizes

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


def check_gpus(sizes: Sizes, report: Report) -> None:
    """Checks and measures all visible GPUs, or where there is none, the logical CPUs.

    Args:
      sizes: a `Sizes`.
      report: gets the results, also where checks fail or a device has too little memory for a part.
    """
    replicas = len(tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU"))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            texts = [source for source, _ in pocket_pairs(sizes.sentences)]
            case = make_case("pocket-en-de", texts, scratch)
            runs = ShortRuns(sizes, case.tokenizers)
        except Exception as error:  # whatever TensorFlow raises
            report.add(Result("built-in model", False, describe_error(error)))
        else:
            check_invariants(case, sizes, report)
            check_training(runs, sizes, replicas, scratch, report)
            report.add_table(losses_table(runs, sizes))
    measure_training(sizes, replicas, report)
    measure_search(sizes, report)
    report.add_table(PUBLISHED)
