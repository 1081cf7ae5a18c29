"""The moving average of the weights (the setting `ema_decay`), put into the model."""

import contextlib
from collections.abc import Iterator

from tf_transformer.model.transformer import Transformer
from tf_transformer.training.optimizer import FusedAdam


def assign_averages(model: Transformer, optimizer: FusedAdam) -> None:
    """Gives the model the moving averages of its weights, which the optimizer keeps."""
    for variable, average in zip(model.trainable_variables, optimizer.averages):
        variable.assign(average.numpy())


@contextlib.contextmanager
def averaged_weights(model: Transformer, optimizer: FusedAdam) -> Iterator[None]:
    """A context in which the model has these averages; without a moving average, nothing changes.

    Args:
      model: a built `Transformer`. It has its own weights again after the context.
      optimizer: a built `FusedAdam`.
    """
    if not optimizer.use_ema:
        yield
        return
    weights = [variable.numpy() for variable in model.trainable_variables]
    try:
        assign_averages(model, optimizer)
        yield
    finally:
        for variable, value in zip(model.trainable_variables, weights):
            variable.assign(value)
