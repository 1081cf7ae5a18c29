"""The optimizer of the paper (Sec. 5.3)."""

from tf_transformer.config import ModelConfig, TrainConfig
from tf_transformer.kernels.adam import FusedAdam
from tf_transformer.training.schedule import CustomSchedule


def make_optimizer(model_config: ModelConfig, train_config: TrainConfig) -> FusedAdam:
    """Adam with the learning rate of Eq. 3.

    Args:
      model_config: a `ModelConfig`.
      train_config: a `TrainConfig`.
    Returns: a `FusedAdam`.
    """
    learning_rate = CustomSchedule(
        model_config.d_model, train_config.warmup_steps, train_config.learning_rate_scale
    )
    betas = train_config.beta_1, train_config.beta_2
    return FusedAdam(learning_rate, *betas, train_config.epsilon)
