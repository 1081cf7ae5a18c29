"""The learning rate (Sec. 5.3)."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="tf_transformer")
class CustomSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """lrate = scale * d_model^-0.5 * min(step_num^-0.5, step_num * warmup_steps^-1.5) (Eq. 3, where scale is 1).

    Keras counts the updates from 0, so the first update has rate 0, as in the reference code.

    Args:
      d_model: width of the model.
      warmup_steps: updates over which the rate rises.
      scale: a factor for batches much smaller than the paper's, whose noisier gradients want a lower rate.
    """

    def __init__(self, d_model, warmup_steps=4000, scale=1.0):
        super().__init__()
        self.d_model, self.warmup_steps, self.scale = d_model, warmup_steps, scale

    def __call__(self, step):
        """step: updates made so far, a number or a tensor of any shape -> the rate, float32 of the same shape."""
        step = tf.cast(step, tf.float32)
        arg1 = tf.math.rsqrt(step)
        arg2 = step * self.warmup_steps**-1.5
        return self.scale * self.d_model**-0.5 * tf.math.minimum(arg1, arg2)

    def get_config(self):
        """The constructor's arguments."""
        return {"d_model": self.d_model, "warmup_steps": self.warmup_steps, "scale": self.scale}
