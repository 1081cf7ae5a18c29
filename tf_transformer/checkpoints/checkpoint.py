"""Checkpoints: save, restore, average (Sec. 6.1).

A checkpoint is one `.npz` file: the weights by name, the optimizer's state, and the training state as JSON. It is written under another
name and then renamed, so there is never half a one; the archive's CRC tells when a byte has changed since. Anyone can read it with
NumPy.
"""

import json
import os
import zipfile
import zlib

import numpy as np

from tf_transformer.atomic_io import atomic_write
from tf_transformer.errors import DamagedError, UserError

MODEL = ("model/",)  # beginnings of the names of arrays
OPTIMIZER = ("optimizer/",)


def named_weights(model):
    """The trainable variables of a model by their place in it, such as "encoder/layer1/mha/wq/kernel"."""
    named = {variable.path.split("/", 1)[1]: variable for variable in model.trainable_variables}
    assert len(named) == len(model.trainable_variables), "two weights of one name"
    return named


def save(path, model, optimizer=None, state=None):
    """Writes a checkpoint, whole or not at all.

    Args:
      path: ends in `.npz`.
      model: a built Transformer.
      optimizer: its state is saved too, when given.
      state: a dict for JSON, such as `{"step": 1000}`.
    Raises: UserError when it cannot be written.
    """
    arrays = {f"model/{name}": variable.numpy() for name, variable in named_weights(model).items()}
    for i, variable in enumerate(optimizer.variables if optimizer else ()):
        arrays[f"optimizer/{i:04d}"] = variable.numpy()
    _write(path, arrays, state or {})


def restore(path, model, optimizer=None):
    """Reads a checkpoint into a model, and an optimizer where given.

    Returns: the state that was saved with it.
    Raises: UserError when the file is missing or belongs to a model of other shapes, DamagedError when it is not as it was written.
    """
    arrays, state = _read(path, MODEL + OPTIMIZER if optimizer else MODEL)
    targets = {f"model/{name}": variable for name, variable in named_weights(model).items()}
    targets |= {
        f"optimizer/{i:04d}": variable
        for i, variable in enumerate(optimizer.variables if optimizer else ())
    }
    for name, variable in targets.items():
        found = arrays[name].shape if name in arrays else "nothing"
        if found != tuple(variable.shape):
            raise UserError(
                f"{path} is of another model: {name} has shape {found}, this model wants {tuple(variable.shape)}"
            )
    for name, variable in targets.items():
        variable.assign(arrays[name])
    return state


def average(paths, path):
    """Writes the mean of the weights of several checkpoints (Sec. 6.1), added up in float64.

    Args:
      paths: the checkpoints.
      path: of the new one. It has no optimizer state.
    Raises: UserError when there is none, or they are not of one model.
    """
    if not paths:
        raise UserError("no checkpoint to average: train first")
    sums, state = {}, {}
    for one in paths:
        arrays, state = _read(one, MODEL)
        weights = {name: array.astype(np.float64) for name, array in arrays.items()}
        if sums and {n: a.shape for n, a in sums.items()} != {
            n: a.shape for n, a in weights.items()
        }:
            raise UserError(f"{one} is of another model than {paths[0]}")
        sums = {name: sums.get(name, 0.0) + array for name, array in weights.items()}
    means = {name: (array / len(paths)).astype(np.float32) for name, array in sums.items()}
    _write(path, means, {**state, "averaged": [os.path.basename(one) for one in paths]})


def validation_score(values):
    """By what validations are compared: ("BLEU", score), or where none was computed ("loss", -loss); more is better."""
    return ("BLEU", values["BLEU"]) if "BLEU" in values else ("loss", -values["loss"])


def best_checkpoints(paths, number):
    """Those with the best validation scores, of the checkpoints of a run.

    Args:
      paths: the checkpoints.
      number: how many are wanted.
    Raises: UserError when fewer were validated at the update at which they were written.
    """
    scores = {}
    for path in paths:
        state = read_state(path)
        step, values = state["progress"]["validated"]
        if values and step == state["step"]:
            scores[path] = validation_score(values)[1]
    if not 1 <= number <= len(scores):
        raise UserError(
            f"--best={number}: of {len(paths)} checkpoints that are kept, {len(scores)} were validated (train says with --max_checkpoints, "
            "--save_steps and --eval_steps how many)"
        )
    return sorted(sorted(scores, key=scores.get)[-number:])


def _write(path, arrays, state):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        with atomic_write(path, "wb") as file:
            np.savez(file, state=np.array(json.dumps({**state, "arrays": list(arrays)})), **arrays)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{path} could not be written ({reason}): make room; the checkpoints before it are as they were"
        ) from None


def read_state(path):
    """The training state in a checkpoint. Raises: as `restore`."""
    return _read(path, ())[1]


def _read(path, parts):
    """Reads a checkpoint.

    Args:
      path: of the file.
      parts: the arrays to read, a tuple of the beginnings of their names.
    Returns: the arrays by name, and the training state.
    """
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files if name.startswith(parts)}
            state = json.loads(str(file["state"]))
            if {*state.pop("arrays"), "state"} != set(file.files):
                raise ValueError("it has other arrays than were written")
        return arrays, state
    except FileNotFoundError:
        raise UserError(f"no checkpoint {path}") from None
    except PermissionError:
        raise UserError(f"no permission to read {path}") from None
    except (
        zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, AttributeError, EOFError,
        RuntimeError, OSError,
    ) as error:  # fmt: skip
        raise DamagedError(f"{path} is damaged ({error}): use an earlier checkpoint") from None
