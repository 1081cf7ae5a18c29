"""Adam (Sec. 5.3) with the schedule and the moving average of a run."""

from tf_transformer.config import ModelConfig, TrainConfig
from tf_transformer.kernels.adam import FusedAdam
from tf_transformer.training.schedule import make_schedule


def make_optimizer(model_config: ModelConfig, train_config: TrainConfig) -> FusedAdam:
    """Adam with the learning rate and the moving average of the weights of a run.

    Args:
      model_config: a `ModelConfig`.
      train_config: a `TrainConfig`.
    Returns: a `FusedAdam`.
    """
    return FusedAdam(
        make_schedule(model_config, train_config),
        beta_1=train_config.beta_1,
        beta_2=train_config.beta_2,
        epsilon=train_config.epsilon,
        use_ema=bool(train_config.ema_decay),
        ema_momentum=train_config.ema_decay,
    )
