"""What the server needs of a model in memory, whichever engine computes it.

`LoadedModel` runs a SavedModel with TensorFlow. `CTranslate2Model` runs the export for CTranslate2.
This module imports neither of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tf_transformer.serving.signature_inputs import Input, Value

Inputs = Mapping[str, Sequence[Value]]  # of a signature, by name; all of the same length
Outputs = dict[str, np.ndarray]  # arrays [N, ...] by name, of bytes or numbers


class InvalidInputError(Exception):
    """The model cannot compute a request because of its content."""


class Signature(Protocol):
    """A function of a model: values `[N]` by name -> arrays `[N, ...]` by name.

    Attributes:
      inputs: their types and defaults by name, sorted by name.
      may_be_batched: whether the outputs of a row have the same shape in every batch.
    """

    inputs: dict[str, Input]
    may_be_batched: bool

    def __call__(self, inputs: Inputs, deadline: float | None = None) -> Outputs:
        """Computes the function.

        Args:
          inputs: lists of values by name, all of the same length.
          deadline: a time of `time.monotonic` at which the computation is stopped; None for none.
        Returns: NumPy arrays by name.
        Raises: TimeoutError after the deadline; InvalidInputError.
        """


class Model(Protocol):
    """A version of an exported model in memory.

    Attributes:
      path: its folder, whose name is the version.
      version: a number.
      metadata: name of a signature -> its `SignatureDef` as a dict.
    """

    path: str
    version: int
    metadata: dict[str, dict[str, Any]]

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The functions by name."""

    def close(self) -> None:
        """Ends the computations as soon as possible, and frees the memory."""


# Loads a version: its folder, and the number of calls that are computed at the same time.
LoadModel = Callable[[str, int], Model]
