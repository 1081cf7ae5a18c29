"""Adam (Sec. 5.3) with the schedule of a run."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_transformer.config import ModelConfig, TrainConfig
from tf_transformer.training.schedule import make_schedule


class FusedAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` by TensorFlow's fused kernel.

        m = b1 m + (1 - b1) g
        v = b2 v + (1 - b2) g^2
        w = w - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon)

    Keras computes this with about twenty operations for each weight, each of which is a kernel of
    its own on a GPU (on a CPU, an update takes as long: `benchmarks/kernels.py`), and divides by
    1 - b1^t, which is 0 where an update is skipped. There is no `amsgrad` and no moving average.
    """

    def apply_if(
        self, finite: tf.Tensor, gradients: Sequence[tf.Tensor], variables: Sequence[keras.Variable]
    ) -> None:
        """Applies one update in each replica to its own copy of the weights.

        The gradients are dense, and already summed over the replicas, as `apply_gradients` would
        do again. Where `finite`, a bool scalar, is false, they are taken as 0, with b1 = b2 = 1 and
        lr = 0, so that m, v and w stay: a `tf.cond` would make the host wait for the gradients. The
        number of updates, which is the place in the text and the key of the dropout masks, rises.
        """
        mask = tf.cast(finite, tf.float32)
        learning_rate = tf.math.multiply_no_nan(tf.convert_to_tensor(self.learning_rate), mask)
        betas = [tf.where(finite, beta, 1.0) for beta in (self.beta_1, self.beta_2)]
        powers = self._powers()  # once, and not for each of 253 weights of base
        for gradient, variable in zip(gradients, variables):
            gradient = tf.math.multiply_no_nan(gradient, mask)  # also of infinity it makes 0
            self.update_step(gradient, variable.value, learning_rate, betas, powers)
        self.iterations.assign_add(1)

    def update_step(
        self,
        gradient: tf.Tensor,
        variable: tf.Variable,
        learning_rate: tf.Tensor,
        betas: Sequence[tf.Tensor] | None = None,
        powers: Sequence[tf.Tensor] | None = None,
    ) -> None:
        """Updates one weight by a dense gradient of its shape.

        Args:
          betas: other values of b1 and b2.
          powers: b1^t and b2^t with the values of the optimizer; None to compute them.
        """
        beta_1, beta_2 = betas or (self.beta_1, self.beta_2)
        beta_1_power, beta_2_power = powers or self._powers()
        index = self._get_variable_index(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.cast(beta_1_power, variable.dtype),
            beta2_power=tf.cast(beta_2_power, variable.dtype),
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=tf.cast(beta_1, variable.dtype),
            beta2=tf.cast(beta_2, variable.dtype),
            epsilon=self.epsilon,
            grad=tf.cast(gradient, variable.dtype),
        )

    def _powers(self) -> list[tf.Tensor]:
        """b1^t and b2^t for the next update t, float32."""
        step = tf.cast(self.iterations.value + 1, tf.float32)
        return [tf.pow(tf.constant(beta, tf.float32), step) for beta in (self.beta_1, self.beta_2)]


def make_optimizer(model_config: ModelConfig, train_config: TrainConfig) -> FusedAdam:
    """Adam with the learning rate of a run."""
    schedule = make_schedule(model_config, train_config)
    return FusedAdam(schedule, train_config.beta_1, train_config.beta_2, train_config.epsilon)
