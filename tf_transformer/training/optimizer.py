"""Adam (Sec. 5.3) with the schedule and the moving average of a run."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_transformer.config import ModelConfig, TrainConfig
from tf_transformer.training.schedule import make_schedule


class FusedAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` with an update that can be skipped, by TensorFlow's fused kernel.

        m = b1 m + (1 - b1) g
        v = b2 v + (1 - b2) g^2
        w = w - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon)

    With `use_ema`, it keeps a moving average of the weights, with the decay rate

        d_t = min(ema_momentum, t / (t + 9))

    after t earlier updates: that of `tf.train.ExponentialMovingAverage` with `num_updates`, for
    which the initial weights do not count for long. (Keras has a constant rate after t = 0.)
    """

    def apply_if(
        self,
        finite: tf.Tensor,
        gradients: Sequence[tf.Tensor],
        variables: Sequence[keras.Variable],
    ) -> None:
        """Applies one update in each replica to its own copy of the weights.

        The gradients are already summed over the replicas. (`apply_gradients` would sum them
        again.)

        Where the gradients are not finite, they are taken as 0, with b1 = b2 = 1 and lr = 0, so
        that m, v and w stay as they are. This is decided on the device: a `tf.cond` would make the
        host wait for the gradients before it starts the update. (Keras' own `update_step` divides
        by 1 - b1^t, which would be 0.)

        Args:
          finite: bool scalar. Where it is false, weights and moments do not change.
          gradients: dense, equal in all replicas.
          variables: the weights, as given to `build`.
        """
        mask = tf.cast(finite, tf.float32)
        learning_rate = tf.math.multiply_no_nan(tf.convert_to_tensor(self.learning_rate), mask)
        beta_1, beta_2 = (tf.where(finite, beta, 1.0) for beta in (self.beta_1, self.beta_2))
        step = tf.cast(self.iterations.value + 1, tf.float32)
        powers = [
            tf.pow(tf.constant(beta, tf.float32), step) for beta in (self.beta_1, self.beta_2)
        ]
        for gradient, variable in zip(gradients, variables):
            index = self._get_variable_index(variable)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.value.handle,
                m=self._momentums[index].value.handle,
                v=self._velocities[index].value.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=learning_rate,
                beta1=beta_1,
                beta2=beta_2,
                epsilon=self.epsilon,
                grad=tf.math.multiply_no_nan(gradient, mask),  # also of infinity it makes 0
            )
        self._update_model_variables_moving_average(variables)
        self.iterations.assign_add(1)

    @property
    def averages(self) -> list[keras.Variable]:
        """The moving averages, in the order of the weights given to `build`."""
        return self._model_variables_moving_average

    def _update_model_variables_moving_average(self, variables: Sequence[keras.Variable]) -> None:
        """Updates the averages with the new weights, where there are any; in each replica."""
        if not self.use_ema:
            return
        step = tf.cast(self.iterations.value, tf.float32)
        decay = tf.minimum(self.ema_momentum, step / (step + 9.0))
        for variable, average in zip(variables, self.averages):
            difference = tf.convert_to_tensor(average) - tf.convert_to_tensor(variable)
            tf.raw_ops.AssignSubVariableOp(
                resource=average.value.handle, value=(1.0 - decay) * difference
            )


def make_optimizer(model_config: ModelConfig, train_config: TrainConfig) -> FusedAdam:
    """Adam with the learning rate and the moving average of the weights of a run."""
    return FusedAdam(
        make_schedule(model_config, train_config),
        beta_1=train_config.beta_1,
        beta_2=train_config.beta_2,
        epsilon=train_config.epsilon,
        use_ema=bool(train_config.ema_decay),
        ema_momentum=train_config.ema_decay,
    )
