"""Whether TensorFlow can compute on the GPUs of this host, and whether XLA can."""

import re
from collections.abc import Sequence

import tensorflow as tf

from tf_transformer.errors import UserError


def missing_machine_code(gpus: Sequence[tf.config.PhysicalDevice]) -> str:
    """Says for which of the GPUs TensorFlow has no machine code; "" where it has it for all.

    Machine code of capability 8.0 runs on 8.6 too, and not on 9.0. For a later GPU than all, the
    driver compiles TensorFlow's own operations, but XLA ends the process
    (github.com/tensorflow/tensorflow/issues/111958).
    """
    names = tf.sysconfig.get_build_info().get("cuda_compute_capabilities", [])
    numbers = [int(number) for name in names for number in re.findall(r"_(\d+)", name)]
    built = [divmod(number, 10) for number in numbers]  # such as (8, 9) of "sm_89"
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        capability = details.get("compute_capability")
        if capability and built:
            major, minor = capability
            if not any(major == other and minor >= least for other, least in built):
                return (
                    f"{details.get('device_name', gpu.name)} has compute capability "
                    f"{major}.{minor}, and TensorFlow {tf.__version__} has machine code for "
                    f"{', '.join(f'{a}.{b}' for a, b in built)}"
                )
    return ""


def check_products() -> None:
    """Computes a small matrix product on each GPU that TensorFlow uses.

    Raises: UserError where TensorFlow cannot.
    """
    for gpu in tf.config.list_logical_devices("GPU"):
        name = gpu.name.removeprefix("/device:")
        try:
            with tf.device(name):
                tf.linalg.matmul(tf.ones([8, 8]), tf.ones([8, 8])).numpy()
        except tf.errors.OpError as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserError(
                f"TensorFlow {tf.__version__} cannot compute on {name} ({reason}): update the "
                "NVIDIA driver, install a TensorFlow that is built for this GPU (docs/guides/"
                "devices.md), or train on the CPU with CUDA_VISIBLE_DEVICES=-1"
            ) from None
