"""Checkpoints: save, restore, average (Sec. 6.1).

A checkpoint is a `.npz` file, which NumPy can read. It holds the weights by name, the state of the
optimizer by the names of the weights, and the training state as JSON. It is written under a
temporary name and then renamed, so a checkpoint is always complete. The CRCs of the archive detect
bytes that change later. `model_folder.py` makes the names of the files.

A file of finished weights can store them in fewer bytes (`store`). Reading returns float32 always.
"""

import json
import logging
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.checkpoints.model_folder import checkpoint_step
from tf_transformer.errors import NPZ_DAMAGE, DamagedError, UserError, is_damage
from tf_transformer.files import DISK_FULL, atomic_write

logger = logging.getLogger(__name__)

AVERAGED_PART = 1 / 8  # of the updates of a run: its last checkpoints, which are averaged

# Prefixes of the names of arrays.
MODEL = "model/"
OPTIMIZER = "optimizer/"
# Ends of the names of the two arrays in which a matrix is stored as int8.
INT8 = ".int8"
SCALE = ".scale"

STORAGE_TYPES = ("float32", "float16", "int8")  # of the weights in a file


def named_weights(model: keras.Model) -> dict[str, tf.Variable]:
    """Returns the weights of a model by name, such as "encoder/layer1/mha/wq/kernel".

    A name is the path of the variable in the model. It does not depend on the models built before.
    """
    named = {variable.path.split("/", 1)[1]: variable for variable in model.weights}
    assert len(named) == len(model.weights), "two weights have the same name"
    return named


def _named_variables(
    model: keras.Model, optimizer: keras.optimizers.Optimizer | None
) -> dict[str, tf.Variable]:
    """Returns the variables of a checkpoint by the names of their arrays.

    The state of an optimizer has names such as "optimizer/encoder/layer1/mha/wq/kernel/momentum",
    and "optimizer/iteration"; it is in the order of the optimizer.
    """
    weights = named_weights(model)
    named = {f"{MODEL}{name}": variable for name, variable in weights.items()}
    names = {variable.path.replace("/", "_"): name for name, variable in weights.items()}
    state = optimizer.variables if optimizer else []
    for variable in state:  # Keras names it after its weight
        weight, _, kind = variable.name.rpartition("_")
        name = f"{names[weight]}/{kind}" if weight in names else variable.name
        named[f"{OPTIMIZER}{name}"] = variable
    assert len(named) == len(weights) + len(state), "two variables have the same name"
    return named


def save(
    path: str,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None = None,
    state: dict[str, Any] | None = None,
) -> None:
    """Writes a checkpoint, atomically.

    Args:
      path: of the new file, ends in `.npz`.
      optimizer: whose state is saved too, or None.
      state: a dict for JSON, such as `{"step": 1000}`.
    Raises: UserError when the file cannot be written.
    """
    write(path, snapshot(model, optimizer, state))


def snapshot(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None = None,
    state: dict[str, Any] | None = None,
) -> dict[str, np.ndarray]:
    """Copies what a checkpoint holds, for `write`; arguments as for `save`."""
    variables = _named_variables(model, optimizer)
    return _contents({name: variable.numpy() for name, variable in variables.items()}, state or {})


def restore(
    path: str,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None = None,
) -> dict[str, Any]:
    """Restores a checkpoint.

    Args:
      model: a built `Transformer`, which gets the weights.
      optimizer: a built optimizer, which gets its state; None to leave that state unread.
    Returns: the training state that was saved with it.
    Raises: UserError when the file is missing or has the weights of another model; then nothing
      changes. DamagedError when bytes of the file have changed.
    """
    arrays, state = _read(path, (MODEL, OPTIMIZER) if optimizer else (MODEL,))
    variables = _named_variables(model, optimizer)
    if f"{OPTIMIZER}0000" in arrays:  # version 0.2.0 stored the state by its order
        names = [name for name in variables if name.startswith(OPTIMIZER)]
        ordered = sorted(arrays.keys() - variables.keys())
        # A moving average, which is gone, stood after the number of updates.
        del ordered[1 : 1 + max(0, len(ordered) - len(names))]
        arrays |= {name: arrays[each] for name, each in zip(names, ordered)}
    for name, variable in variables.items():
        shape = arrays[name].shape if name in arrays else "nothing"
        if shape != tuple(variable.shape):
            raise UserError(
                f"{path} is of another model: {name} has shape {shape}, this model has "
                f"{tuple(variable.shape)}"
            )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def average(paths: Sequence[str], path: str, skip_damaged: bool = False) -> list[str]:
    """Writes the mean of the weights of several checkpoints (Sec. 6.1), summed in float64.

    Args:
      path: of the new checkpoint. It has no optimizer state, and the training state of the last
        checkpoint that is averaged.
      skip_damaged: whether to leave out damaged checkpoints, with a warning.
    Returns: the damaged checkpoints.
    Raises: UserError when `paths` is empty, or the checkpoints are of different models;
      DamagedError when one of them is damaged, or all are.
    """
    if not paths:
        raise UserError("no checkpoint to average: train first")
    sums: dict[str, np.ndarray] = {}
    state: dict[str, Any] = {}
    averaged: list[str] = []
    for each in paths:
        try:
            arrays, state = _read(each, (MODEL,))
        except DamagedError as error:
            if not skip_damaged or (each == paths[-1] and not averaged):
                raise
            logger.warning("%s; the average is without it", error)
            continue
        shapes = [{name: x.shape for name, x in of.items()} for of in (arrays, sums or arrays)]
        if shapes[0] != shapes[1]:
            raise UserError(f"{each} is of another model than {paths[0]}")
        averaged.append(each)
        for name, array in arrays.items():
            sums[name] = array.astype(np.float64) + sums.get(name, 0.0)
    means = {name: (total / len(averaged)).astype(np.float32) for name, total in sums.items()}
    state["averaged"] = [os.path.basename(each) for each in averaged]
    write(path, _contents(means, state))
    return [each for each in paths if each not in averaged]


def store(path: str, output: str, storage: str) -> None:
    """Writes the weights of a checkpoint in a smaller file, without the state of the optimizer.

    With int8, each matrix is stored as whole numbers from -127 to 127 and one float32 scale for
    each output channel: a column of a kernel, a row of an embedding table. A weight differs by at
    most half a scale, which is 1/254 of the largest weight of its channel. Vectors stay float32.

    Args:
      storage: one of `STORAGE_TYPES`.
    Raises: as `restore`; UserError when the file cannot be written.
    """
    arrays, state = _read(path, (MODEL,))
    stored: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if storage == "int8" and array.ndim == 2:
            axis = 1 if name.endswith("/table") else 0
            largest = np.abs(array).max(axis, keepdims=True)
            stored[name + SCALE] = scale = np.where(largest > 0, largest / 127, 1).astype("float32")
            stored[name + INT8] = np.round(array / scale).astype(np.int8)
        else:
            stored[name] = array.astype("float16" if storage == "float16" else "float32")
    write(output, _contents(stored, state), compressed=True)


def validation_score(values: dict[str, Any]) -> tuple[str, float]:
    """Returns the score by which validations are compared; more is better.

    It is ("BLEU", score), or ("loss", -loss) where no BLEU score was computed.
    """
    return ("BLEU", values["BLEU"]) if "BLEU" in values else ("loss", -values["loss"])


def last_eighth(paths: Sequence[str]) -> list[str]:
    """Returns the checkpoints of the last eighth of the updates of a run, at least one.

    Their weights are similar. In a short run, the checkpoints that are kept, `paths`, can reach
    back to the beginning, and then their average is worse than the last of them.
    """
    start = (1 - AVERAGED_PART) * checkpoint_step(paths[-1])
    return [path for path in paths if checkpoint_step(path) > start]


def best_checkpoints(paths: Sequence[str], number: int) -> list[str]:
    """Returns the checkpoints of a run with the best validation scores, sorted by their paths.

    Raises: UserError when fewer of them were validated at the update at which they were written.
    """
    of_measures: dict[str, dict[str, float]] = {}
    for path in paths:
        state = read_state(path)
        step, values = state["progress"]["validated"]
        if values and step == state["step"]:
            measure, score = validation_score(values)
            # BLEU and loss are not compared: a run may compute BLEU only after it was resumed.
            of_measures.setdefault(measure, {})[path] = score
    scores = of_measures.get("BLEU") or of_measures.get("loss", {})
    if not 1 <= number <= len(scores):
        raise UserError(
            f"--best={number}: of {len(paths)} checkpoints that are kept, {len(scores)} were "
            "validated (the flags --max_checkpoints, --save_steps and --eval_steps of train "
            "determine how many)"
        )
    return sorted(sorted(scores, key=lambda path: scores[path])[-number:])


def _contents(arrays: dict[str, np.ndarray], state: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns all arrays of a file: the given ones, and the training state."""
    return {"state": np.array(json.dumps({**state, "arrays": list(arrays)})), **arrays}


def write(path: str, contents: dict[str, Any], compressed: bool = False) -> None:
    """Writes what `snapshot` has copied; atomically. Raises: as `save`."""
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with atomic_write(path, "wb") as file:
            (np.savez_compressed if compressed else np.savez)(file, **contents)
    except OSError as error:
        advice = "free some disk space; " if error.errno in DISK_FULL else ""
        raise UserError(
            f"{path} could not be written ({error.strerror or error}): {advice}earlier checkpoints "
            "are unchanged"
        ) from None


def read_state(path: str) -> dict[str, Any]:
    """Returns the training state in a checkpoint. Raises: as `restore`."""
    return _read(path, ())[1]


def _read(path: str, prefixes: tuple[str, ...]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Reads the arrays whose names begin with a prefix, as float32, and the training state."""
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files if name.startswith(prefixes)}
            state = json.loads(str(file["state"]))
            if {*state.pop("arrays"), "state"} != set(file.files):
                raise ValueError("its arrays are not those that were written")
        return _decode(arrays), state
    except FileNotFoundError:
        raise UserError(f"no checkpoint {path}") from None
    except NPZ_DAMAGE as error:
        if not is_damage(error):
            raise UserError(
                f"{path} cannot be read ({error}): nothing has changed; try again when the disk, "
                "the network or the host allows it"
            ) from None
        raise DamagedError(f"{path} is damaged ({error}): use an earlier checkpoint") from None


def _decode(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the arrays of a file as float32, also where `store` made them smaller."""
    decoded: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if name.endswith(INT8):
            weight = name.removesuffix(INT8)
            decoded[weight] = array * arrays[weight + SCALE]
        elif not name.endswith(SCALE):
            decoded[name] = array.astype(np.float32) if array.dtype == np.float16 else array
    return decoded
