"""Adam (Sec. 5.3) by TensorFlow's fused kernel."""

import keras
import tensorflow as tf

from tf_transformer.schedule import CustomSchedule


def make_optimizer(model_config, train_config):
    """Adam with the schedule of Eq. 3 (Sec. 5.3)."""
    learning_rate = CustomSchedule(model_config.d_model, train_config.warmup_steps, train_config.learning_rate_scale)
    return FusedAdam(learning_rate, train_config.beta_1, train_config.beta_2, train_config.epsilon)


@keras.saving.register_keras_serializable(package="tf_transformer")
class FusedAdam(keras.optimizers.Adam):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon).

    Keras writes this as some twenty operations for each weight, which are a third of the graph of a training step; here it is one. The
    arguments are those of `keras.optimizers.Adam`, whose results it gives, but for `amsgrad`. Raises: ValueError when that is asked for.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.amsgrad:
            raise ValueError("FusedAdam has no amsgrad: use keras.optimizers.Adam")

    def apply_where(self, good, gradients, variables):
        """One update, in each replica, of its own copy of the weights. (`apply_gradients` would sum over the replicas once more.)

        Args:
          good: bool scalar; where it is false only the updates are counted.
          gradients: dense, and the same in every replica.
          variables: the weights, as `build` got them.
        """
        learning_rate = self.learning_rate

        def update():
            for gradient, variable in zip(gradients, variables):
                self.update_step(gradient, variable.value, learning_rate)

        tf.cond(good, update, lambda: None)
        self.iterations.assign_add(1)

    def update_step(self, gradient, variable, learning_rate):
        """One update of one weight, by a dense gradient of its shape."""
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations.value + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(tf.constant(self.beta_1, variable.dtype), step),
            beta2_power=tf.pow(tf.constant(self.beta_2, variable.dtype), step),
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, variable.dtype),
        )
