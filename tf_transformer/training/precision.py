"""The precision of a training step.

Weights, sums over tokens, softmax, loss and layer norm are float32 in every precision.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_transformer.host import cpu_info

INITIAL_LOSS_SCALE = 2.0**15  # for float16 (Micikevicius et al. 2018, Sec. 3.2)
GROWTH_INTERVAL = 2000  # finite updates after which the loss scale doubles


def choose_precision(wanted: str, gpus: Sequence[tf.config.PhysicalDevice]) -> str:
    """Chooses the name of the Keras dtype policy.

    Args:
      wanted: the setting `precision`. "auto" chooses bfloat16 where every device has matrix units
        for it: GPUs of compute capability 8 or higher, and CPUs with AMX. On other CPUs, float32
        is faster.
      gpus: of the run, none for a CPU.
    """
    if wanted != "auto":
        return wanted
    if gpus:
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        capability = min(detail.get("compute_capability", (0, 0)) for detail in details)
        return "mixed_bfloat16" if capability >= (8, 0) else "float32"
    return "mixed_bfloat16" if "amx_bf16" in cpu_info("flags").split() else "float32"


class LossScale:
    """A power of two on the loss in float16, so that small gradients do not underflow; else 1.

    It is halved when a gradient overflows, and the update skipped, and doubled after
    `GROWTH_INTERVAL` updates without an overflow (Micikevicius et al. 2018, Sec. 3.2).
    """

    def __init__(self, precision: str = "float32") -> None:
        self.scale: Any = 1.0
        self._varies = precision == "mixed_float16"
        if self._varies:
            options = {"trainable": False, "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA}
            self.scale = tf.Variable(INITIAL_LOSS_SCALE, **options)
            # Since the last change. TensorFlow adds int64 on a GPU, and int32 on the host.
            self._finite_updates = tf.Variable(tf.constant(0, tf.int64), **options)

    def unscale(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Divides the gradients of scale x loss by the scale."""
        return [gradient / self.scale for gradient in gradients] if self._varies else gradients

    def update(self, finite: tf.Tensor) -> None:
        """Adapts the scale in each replica to whether the last gradient was finite."""
        if not self._varies:
            return
        grow = finite & (self._finite_updates + 1 >= GROWTH_INTERVAL)
        if_finite = tf.where(grow, self.scale * 2, self.scale)
        scale = tf.where(finite, if_finite, tf.maximum(self.scale / 2, 1.0))
        finite_updates = tf.where(finite & ~grow, self._finite_updates + 1, 0)
        self.scale.assign(scale)
        self._finite_updates.assign(finite_updates)

    def state(self) -> list[float] | None:
        """The state to checkpoint; None where the scale is always 1."""
        if not self._varies:
            return None
        return [float(self.scale.numpy()), int(self._finite_updates.numpy())]

    def restore(self, state: list[float] | None) -> None:
        """Restores what `state` returned; None changes nothing."""
        if state and self._varies:
            self.scale.assign(state[0])
            self._finite_updates.assign(state[1])
