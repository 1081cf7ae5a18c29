"""What the server needs of a model in memory, whichever engine computes it.

`tensorflow_model` runs a SavedModel. `ctranslate2_model` runs the export for CTranslate2. This
module imports neither of them.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

Value = str | bytes | int | float
Inputs = Mapping[str, Sequence[Value]]  # of a signature, by name; all of the same length
Outputs = dict[str, np.ndarray]  # arrays [N, ...] by name, of bytes or numbers


class InvalidInputError(Exception):
    """The model cannot compute a request because of its content."""


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of a signature, `[N]`, as `export/signatures.py` defines it for a SavedModel.

    Attributes:
      dtype: the name of a type of TensorFlow, such as "DT_STRING" or "DT_INT32".
      default: the value of the rows of a request without this input; None: each request has it.
    """

    dtype: str = "DT_STRING"
    default: Value | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedSignature:
    """A function of a model in memory: values `[N]` by name -> arrays `[N, ...]` by name.

    Attributes:
      run: computes the function, as a call does.
      inputs: their types and defaults by name, sorted by name.
      may_be_batched: whether the outputs of a row have the same shape in every batch. Otherwise
        they are padded to the longest row, and each request is a batch of its own, so that its
        response is independent of other requests.
      metadata: its `SignatureDef` as a dict.
    """

    run: Callable[[Inputs, float | None], Outputs]
    inputs: dict[str, Input]
    may_be_batched: bool
    metadata: dict[str, Any]

    def __call__(self, inputs: Inputs, deadline: float | None = None) -> Outputs:
        """Computes the function.

        Args:
          inputs: lists of values by name, all of the same length.
          deadline: a time of `time.monotonic` at which the computation is stopped; None for none.
        Returns: NumPy arrays by name.
        Raises: TimeoutError after the deadline; InvalidInputError.
        """
        return self.run(inputs, deadline)

    def warm_up(self) -> None:
        """Computes a row, as the first run takes longer than the next ones."""
        self(
            {
                name: ["." if given.default is None else given.default]
                for name, given in self.inputs.items()
            }
        )


class Model(Protocol):
    """A version of an exported model in memory.

    Attributes:
      signatures: the functions by name.
    """

    signatures: dict[str, LoadedSignature]

    def close(self) -> None:
        """Ends the computations as soon as possible, and frees the memory."""


LoadModel = Callable[[str], Model]  # loads the version in a folder
