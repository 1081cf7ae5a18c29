"""The command gpu-check: checks training and search on GPUs, and measures their speed."""

import contextlib
import io
import os

from absl import flags

from tf_transformer.cli.doctor import doctor
from tf_transformer.cli.logs import without_progress_bars
from tf_transformer.cli.terminal import open_output, start_tensorflow
from tf_transformer.errors import UserError


def gpu_check(values: flags.FlagValues) -> int:
    """Writes a report, with the output of doctor, that can be attached to a bug report.

    Returns: the exit code: 0 where all checks pass, else 1.
    """
    if "TF_CONFIG" in os.environ:
        raise UserError("gpu-check is for one host: unset TF_CONFIG")
    start_tensorflow()
    _choose_devices(values.logical_devices)
    from tf_transformer.gpu_check.report import Report, as_markdown, check_gpus
    from tf_transformer.gpu_check.results import Result
    from tf_transformer.gpu_check.sizes import SIZES

    with open_output(values.output) as file:
        with contextlib.redirect_stdout(io.StringIO()) as installation:
            works = doctor(values) == 0
        report = Report([], 0.0, [], [])  # where training does not work
        if works:
            with without_progress_bars():
                report = check_gpus(SIZES[values.scale]())
        report.results.insert(0, Result("doctor", works, "see Installation"))
        file.write(as_markdown(report, installation.getvalue()))
    for name, passed, measured in report.results:
        if passed is False:
            print(f"failed: {name}: {measured}")
    print(f"{'failed' if report.failed else 'OK'}; the report is in {values.output}")
    return 1 if report.failed else 0


def _choose_devices(logical_devices: int) -> None:
    """Uses all GPUs, or logical devices of the CPU instead.

    Raises: UserError where there is no GPU and logical devices are not wanted.
    """
    import tensorflow as tf

    from tf_transformer.training.distribution import split_cpu

    if logical_devices:
        split_cpu(logical_devices)
        if tf.config.get_visible_devices("GPU"):
            tf.config.set_visible_devices([], "GPU")
    elif not tf.config.get_visible_devices("GPU"):
        raise UserError(
            "TensorFlow finds no GPU: `tf-transformer doctor` says why; to try this command on the "
            "CPU, give --logical_devices=2 --scale=small"
        )
    tf.config.list_logical_devices()  # from now on the devices stay as they are
