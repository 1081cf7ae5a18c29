"""Learning rate schedules: Eq. 3 (Sec. 5.3), and others with the same linear warm-up."""

import dataclasses
import inspect
from typing import Any

import keras
import tensorflow as tf

from tf_transformer import config
from tf_transformer.config import ModelConfig, TrainConfig


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that keeps each argument of its constructor as an attribute."""

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}


@keras.saving.register_keras_serializable(package="tf_transformer")
@dataclasses.dataclass(eq=False)
class CustomSchedule(_Schedule):
    """The learning rate of Eq. 3, with an additional factor.

        lrate = scale * d_model^-0.5 * min(step_num^-0.5, step_num * warmup_steps^-1.5)

    Keras counts updates from 0, so the first update has rate 0, as in the reference code.

    Args:
      d_model: width of the model.
      warmup_steps: updates while the rate rises.
      scale: 1 in the paper. Batches much smaller than the paper's have noisier gradients and need a
        lower rate.
    """

    d_model: int
    warmup_steps: int = 4000
    scale: float = 1.0

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


@keras.saving.register_keras_serializable(package="tf_transformer")
@dataclasses.dataclass(eq=False)
class InverseSqrtSchedule(_Schedule):
    """The curve of Eq. 3 with its peak given.

        lrate = learning_rate * min(step / warmup_steps, sqrt(warmup_steps / step))

    The peak is `learning_rate`, at `warmup_steps`.
    """

    learning_rate: float
    warmup_steps: int

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the learning rate; arguments and result as of `CustomSchedule`."""
        step = tf.cast(step, tf.float32)
        decay = tf.sqrt(self.warmup_steps / tf.maximum(step, self.warmup_steps))  # 1 before
        return self.learning_rate * tf.minimum(step / self.warmup_steps, decay)


@keras.saving.register_keras_serializable(package="tf_transformer")
@dataclasses.dataclass(eq=False)
class LinearSchedule(_Schedule):
    """A learning rate that rises linearly, and then stays or falls linearly to 0.

        lrate = learning_rate * min(1, step / warmup_steps,
                                    (train_steps - step) / (train_steps - warmup_steps))

    Without `train_steps` it stays at its peak, `learning_rate`.
    """

    learning_rate: float
    warmup_steps: int
    train_steps: int | None = None

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the learning rate; arguments and result as of `CustomSchedule`."""
        step = tf.cast(step, tf.float32)
        factor = tf.minimum(1.0, step / self.warmup_steps)
        if self.train_steps is not None:
            decay = (self.train_steps - step) / max(self.train_steps - self.warmup_steps, 1)
            factor = tf.maximum(0.0, tf.minimum(factor, decay))
        return self.learning_rate * factor


def make_schedule(
    model_config: ModelConfig, train_config: TrainConfig
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Makes the schedule of a run; the width of the model is in Eq. 3."""
    peak, warmup_steps = train_config.learning_rate, train_config.warmup_steps
    train_steps = train_config.train_steps
    match train_config.learning_rate_schedule:
        case config.NOAM:
            scale = train_config.learning_rate_scale
            return CustomSchedule(model_config.d_model, warmup_steps, scale)
        case config.INVERSE_SQRT:
            return InverseSqrtSchedule(peak, warmup_steps)
        case config.CONSTANT:
            return LinearSchedule(peak, warmup_steps)
        case config.LINEAR:
            return LinearSchedule(peak, warmup_steps, train_steps)
        case config.COSINE:
            decay_steps = max(train_steps - warmup_steps, 1)
            return keras.optimizers.schedules.CosineDecay(
                0.0, decay_steps, warmup_target=peak, warmup_steps=warmup_steps
            )
        case name:
            raise ValueError(f"no schedule {name!r}")
