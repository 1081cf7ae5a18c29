"""Checks training and search on the GPUs of this host, and measures their speed.

`make gpu-check` writes a report, with the output of `tf-transformer doctor`, that can be attached
to a bug report.
"""

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Sequence

os.environ["TQDM_DISABLE"] = "1"  # no progress bars
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from absl.flags import FlagValues

from gpu_check.report import check_gpus
from gpu_check.results import Report
from gpu_check.sizes import SIZES
from tf_transformer.cli.doctor import doctor
from tf_transformer.cli.terminal import set_environment
from tf_transformer.errors import UserError
from tf_transformer.training.distribution import split_cpu


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the report. Returns: the exit code: 0 where all checks pass, else 1."""
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--scale", choices=["full", "small"], default="full",
        help="small: to try the program on a CPU; full: base and big, some minutes",
    )  # fmt: skip
    parser.add_argument(
        "--logical_devices", type=int, default=0,
        help="check this many logical devices of the CPU; 0 means all GPUs",
    )  # fmt: skip
    parser.add_argument("--output", default="gpu-report.md", help="Markdown file for the report")
    args = parser.parse_args(arguments)
    try:
        failed = _check(args.scale, args.logical_devices, args.output)
    except (UserError, OSError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"stopped; the report so far is in {args.output}")
        return 130
    print(f"{'failed: ' + ', '.join(failed) if failed else 'OK'}; the report is in {args.output}")
    return 1 if failed else 0


def _check(scale: str, logical_devices: int, output: str) -> list[str]:
    """Checks the devices and writes the report. Returns: the names of the failed checks."""
    if "TF_CONFIG" in os.environ:
        raise UserError("gpu-check is for one host: unset TF_CONFIG")
    _choose_devices(logical_devices)
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    names = ", ".join(device.name.split("device:")[-1] for device in devices)
    report = Report(output, names)

    def check_installation() -> tuple[bool, str]:
        with contextlib.redirect_stdout(report.installation):
            return doctor(FlagValues()) == 0, "see Installation"

    report.check("doctor", check_installation)
    if not report.failed:
        check_gpus(SIZES[scale](), report)
    report.finish()
    return report.failed


def _choose_devices(logical_devices: int) -> None:
    """Uses all GPUs, or logical devices of the CPU instead.

    Raises: UserError where there is no GPU and logical devices are not wanted.
    """
    set_environment()  # which TensorFlow reads when it makes its devices
    if logical_devices:
        split_cpu(logical_devices)
    elif not tf.config.get_visible_devices("GPU"):
        raise UserError(
            "TensorFlow finds no GPU: `tf-transformer doctor` says why; to try this program on the "
            "CPU, give --logical_devices=2 --scale=small"
        )
    tf.config.list_logical_devices()  # from now on the devices stay as they are


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    sys.exit(main())
