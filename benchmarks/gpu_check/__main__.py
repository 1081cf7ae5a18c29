"""Checks training and search on the GPUs of this host, and measures their speed.

`make gpu-check` writes a report, with the output of `tf-transformer doctor`, that can be attached
to a bug report.
"""

import argparse
import contextlib
import io
import logging
import os
import sys
from collections.abc import Sequence

os.environ["TQDM_DISABLE"] = "1"  # no progress bars
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from gpu_check import report
from gpu_check.results import Result
from gpu_check.sizes import SIZES
from tf_transformer.cli import main as command_line
from tf_transformer.errors import UserError
from tf_transformer.training.distribution import split_cpu


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the report. Returns: the exit code: 0 where all checks pass, else 1."""
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--scale", choices=["full", "small"], default="full",
        help="small: to try the program on a CPU; full: base and big, about ten minutes",
    )  # fmt: skip
    parser.add_argument(
        "--logical_devices", type=int, default=0,
        help="check this many logical devices of the CPU; 0 means all GPUs",
    )  # fmt: skip
    parser.add_argument("--output", default="gpu-report.md", help="Markdown file for the report")
    args = parser.parse_args(arguments)
    try:
        found = _check(args.scale, args.logical_devices, args.output)
    except (UserError, OSError) as error:
        parser.error(str(error))
    for name, passed, measured in found.results:
        if passed is False:
            print(f"failed: {name}: {measured}")
    print(f"{'failed' if found.failed else 'OK'}; the report is in {args.output}")
    return 1 if found.failed else 0


def _check(scale: str, logical_devices: int, output: str) -> report.Report:
    """Checks the devices and writes the report."""
    if "TF_CONFIG" in os.environ:
        raise UserError("gpu-check is for one host: unset TF_CONFIG")
    _choose_devices(logical_devices)
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    with open(output, "w", encoding="utf-8") as file:  # before the work, if it is not possible
        with contextlib.redirect_stdout(io.StringIO()) as installation:
            works = command_line.main(["doctor", "--quiet"]) == 0
        found = report.Report([], 0.0, [], [])  # where training does not work
        if works:
            found = report.check_gpus(SIZES[scale]())
        found.results.insert(0, Result("doctor", works, "see Installation"))
        file.write(report.as_markdown(found, installation.getvalue()))
    return found


def _choose_devices(logical_devices: int) -> None:
    """Uses all GPUs, or logical devices of the CPU instead.

    Raises: UserError where there is no GPU and logical devices are not wanted.
    """
    if logical_devices:
        split_cpu(logical_devices)
        if tf.config.get_visible_devices("GPU"):
            tf.config.set_visible_devices([], "GPU")
    elif not tf.config.get_visible_devices("GPU"):
        raise UserError(
            "TensorFlow finds no GPU: `tf-transformer doctor` says why; to try this program on the "
            "CPU, give --logical_devices=2 --scale=small"
        )
    tf.config.list_logical_devices()  # from now on the devices stay as they are


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    sys.exit(main())
