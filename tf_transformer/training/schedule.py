"""The learning rate schedule (Sec. 5.3)."""

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="tf_transformer")
class CustomSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of Eq. 3, with an additional factor.

        lrate = scale * d_model^-0.5 * min(step_num^-0.5, step_num * warmup_steps^-1.5)

    Keras counts updates from 0, so the first update has rate 0, as in the reference code.

    Args:
      d_model: width of the model.
      warmup_steps: updates while the rate rises.
      scale: 1 in the paper. Batches much smaller than the paper's have noisier gradients and need a
        lower rate.
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, scale: float = 1.0) -> None:
        super().__init__()
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the learning rate.

        Args:
          step: updates made so far, a number or a tensor of any shape.
        Returns: float32 of the same shape.
        """
        step = tf.cast(step, tf.float32)
        arg1 = tf.math.rsqrt(step)
        arg2 = step * self.warmup_steps**-1.5
        return self.scale * self.d_model**-0.5 * tf.math.minimum(arg1, arg2)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"d_model": self.d_model, "warmup_steps": self.warmup_steps, "scale": self.scale}
