"""Writes the update of a training as StableHLO for a GPU. It needs no GPU.

    .venv/bin/python benchmarks/step_stablehlo.py --output_dir=/tmp/stablehlo

`benchmarks/compile_for_gpu.py` compiles the files without a GPU; `benchmarks/run_stablehlo.py` runs
them on one. XLA's text for a GPU can be had without one only where no variables are captured, so
weights and moments become arguments.
"""

import argparse
import functools
import json
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from gpu_check.short_runs import pocket_pairs, tensor_float_32, text_batches
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import Config
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.paper.flops import matrix_operations
from tf_transformer.presets import preset
from tf_transformer.training import loss
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.schedule import make_schedule
from tf_transformer.training.update import (
    Sums,
    Update,
    count_tokens,
    dropout_seed,
    micro_batch_gradients,
)

CASES = (
    "base:1000:float32",
    "base:1000:tf32",
    "base:1000:mixed_bfloat16",
    "base:143:mixed_bfloat16",
    "big:1000:mixed_bfloat16",
)
TF32 = "tf32"  # float32, whose products may be computed with the GPU's 19-bit numbers
CURVE_ROWS = 32  # sentence pairs of an update of the loss curve

Shape = tuple[int, int]  # of the source ids; the target ids have one token more


def main() -> None:
    """Writes a file of StableHLO for each case, and facts about it beside it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--cases", nargs="*", default=CASES, help="preset:rows:precision")
    parser.add_argument("--length", type=int, default=25, help="tokens of a row on a side")
    parser.add_argument("--vocabulary", type=int, default=37_000, help="sub-words (Sec. 5.1)")
    parser.add_argument("--gradients", action="store_true", help="without Adam")
    parser.add_argument(
        "--curve", type=int, default=0, metavar="UPDATES",
        help="train pocket on this CPU, and write the same training for a GPU, to compare losses",
    )  # fmt: skip
    args = parser.parse_args()
    args.output_dir.mkdir(parents=True, exist_ok=True)
    loss.chunk_tokens = lambda: loss.GPU_CHUNK_TOKENS  # as on a host with a GPU
    for case in args.cases:
        name, rows, precision = case.split(":")
        config = preset(name).with_vocabularies(args.vocabulary, args.vocabulary)
        path = args.output_dir / f"{name}-{rows}-{precision}.mlir"
        write(path, config, (int(rows), args.length), precision, args.gradients)
    if args.curve:
        write_curve(args.output_dir / "curve.mlir", args.curve)


def write(
    path: pathlib.Path, config: Config, shape: Shape, precision: str, only_gradients: bool = False
) -> None:
    """Writes one case."""
    policy = "float32" if precision == TF32 else precision
    tf.keras.backend.clear_session()
    model = build_model(config.model, policy)
    make = gradients_text if only_gradients else update_text
    with tensor_float_32(precision == TF32):
        text = make(config, model, shape)
    path.write_text(text, "utf-8")
    facts = {
        "model": path.stem.partition("-")[0],
        "shape": shape,
        "precision": precision,
        "vocabulary": config.model.input_vocab_size,
        "matrix_operations": matrix_operations(config.model, *shape, shape[1]),
        # shape, mean and standard deviation of each
        "weights": [
            (tuple(weight.shape), float(np.mean(weight)), float(np.std(weight)))
            for weight in model.trainable_variables
        ],
    }
    path.with_suffix(".json").write_text(json.dumps(facts), "utf-8")
    print(f"{path}: {len(text):,} characters", flush=True)


def write_curve(path: pathlib.Path, updates: int) -> None:
    """Writes an update of `pocket`, and the weights, batches and losses of a training on this CPU.

    The training makes `updates` updates as `tf-transformer train` makes them.
    """
    config = preset("pocket")
    pairs = pocket_pairs(CURVE_ROWS * updates)
    tokenizer = Tokenizer.learn([text for pair in pairs for text in pair], config.data.vocab_size)
    config = config.with_vocabularies(tokenizer.vocab_size, tokenizer.vocab_size)
    batches = text_batches((tokenizer, tokenizer), CURVE_ROWS, updates)
    inp, tar = (np.concatenate(side) for side in zip(*batches))
    length = max(inp.shape[1], tar.shape[1] - 1)
    inp, tar = (
        np.pad(ids, [(0, 0), (0, n - ids.shape[1])]).reshape(updates, CURVE_ROWS, n)
        for ids, n in ((inp, length), (tar, length + 1))
    )
    write(path, config, (CURVE_ROWS, length), "float32")
    tf.keras.utils.set_random_seed(config.train.seed)
    strategy = make_strategy(logical_devices=1)
    update = Update(config, "float32", strategy, accumulate=False)
    initial = [weight.numpy() for weight in update.model.trainable_variables]
    losses = []
    for batch in zip(map(tf.constant, inp), map(tf.constant, tar)):
        sums = Sums(*update(*batch, tf.zeros([2]))["sums"].numpy())
        losses.append(sums.loss / sums.target_tokens)
    np.savez_compressed(
        path.with_suffix(".npz"),
        inp=inp.astype(np.uint16),
        tar=tar.astype(np.uint16),
        losses=np.array(losses),
        **{f"weight{i:04}": weight for i, weight in enumerate(initial)},
    )
    print(f"{path}: loss {losses[0]:.3f}, after {updates:,} updates {losses[-1]:.3f}")


def update_text(config: Config, model: tf.keras.Model, shape: Shape) -> str:
    """The StableHLO of `pure_update`."""
    specs = [*weights(model) * 3, tf.TensorSpec([], tf.int32), *ids(shape)]
    return gpu_text(pure_update(config, model, shape), specs)


def pure_update(
    config: Config, model: tf.keras.Model, shape: Shape
) -> Callable[..., list[tf.Tensor]]:
    """An update of one replica as a function without variables: gradients and Adam (Sec. 5.3).

    Arguments: the weights, the first moments and the second moments, each in the order of
    `model.trainable_variables`; the update, counted from 0, int32 scalar; source and target ids.
    Results: the same up to the step, with their new values; and the `Sums`.

    Args:
      config: a `Config`.
      model: a `Transformer`.
      shape: of the source ids.
    """
    gradients = pure_gradients(config, model, shape)
    settings = config.train
    schedule = make_schedule(config.model, settings)
    number = len(model.trainable_variables)

    def update(*arguments: tf.Tensor) -> list[tf.Tensor]:
        *state, step, inp, tar = arguments
        values, firsts, seconds = (state[i * number : (i + 1) * number] for i in range(3))
        seed = dropout_seed(step, settings.seed, 0)
        scale = 1.0 / count_tokens(tar[:, 1:])
        *new, sums = gradients(*values, inp, tar, seed, tf.cast(step, tf.int64), scale)
        t = tf.cast(step + 1, tf.float32)
        correction = tf.sqrt(1 - settings.beta_2**t) / (1 - settings.beta_1**t)
        rate = schedule(step) * correction
        firsts = [settings.beta_1 * m + (1 - settings.beta_1) * g for m, g in zip(firsts, new)]
        seconds = [settings.beta_2 * v + (1 - settings.beta_2) * g**2 for v, g in zip(seconds, new)]
        values = [
            w - rate * m / (tf.sqrt(v) + settings.epsilon)
            for w, m, v in zip(values, firsts, seconds)
        ]
        return [*values, *firsts, *seconds, step + 1, sums]

    return update


def gradients_text(config: Config, model: tf.keras.Model, shape: Shape) -> str:
    """The StableHLO of `micro_batch_gradients`; arguments and results as of `pure_gradients`."""
    specs = [*weights(model), *other_arguments(shape)]
    return gpu_text(pure_gradients(config, model, shape), specs)


def pure_gradients(
    config: Config, model: tf.keras.Model, shape: Shape
) -> Callable[..., Sequence[tf.Tensor]]:
    """`micro_batch_gradients` as a function without variables.

    Args:
      config: a `Config`.
      model: a `Transformer`.
      shape: of the source ids.
    Returns: a function of the weights, in the order of `model.trainable_variables`, and of
      `other_arguments`. It returns the gradients, in the same order, and the sums.
    """
    gradients = functools.partial(micro_batch_gradients, config.train, model)
    specs = other_arguments(shape)
    function = tf.function(gradients, autograph=False).get_concrete_function(*specs)
    constant = convert_variables_to_constants_v2(function, lower_control_flow=False)
    # The constant of a weight has the name of the captured handle that it replaces.
    names = {
        id(handle): captured.name.partition(":")[0] for handle, captured in function.graph.captures
    }
    inputs = [names[id(weight.value.handle)] for weight in model.trainable_variables]
    inputs += [spec.name for spec in specs]
    graph = constant.graph.as_graph_def()
    nodes = [node for node in graph.node if node.name not in inputs]
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name.partition(":")[0] for node in nodes for name in node.input}
    outputs = [output.name for output in constant.outputs]

    def pure(*values: tf.Tensor) -> Sequence[tf.Tensor]:
        mapped = {f"{name}:0": x for name, x in zip(inputs, values, strict=True) if name in used}
        return tf.import_graph_def(graph, input_map=mapped, return_elements=outputs)

    return pure


def weights(model: tf.keras.Model) -> list[tf.TensorSpec]:
    """The weights, in the order of `model.trainable_variables`; moments have the same shapes."""
    return [tf.TensorSpec(weight.shape, tf.float32) for weight in model.trainable_variables]


def other_arguments(shape: Shape) -> list[tf.TensorSpec]:
    """Source and target ids, seed, step and scale, as of `micro_batch_gradients`."""
    return [
        *ids(shape),
        tf.TensorSpec([2], tf.int32, "seed"),
        tf.TensorSpec([], tf.int64, "step"),
        tf.TensorSpec([], tf.float32, "scale"),
    ]


def ids(shape: Shape) -> list[tf.TensorSpec]:
    """Source and target ids."""
    rows, length = shape
    return [
        tf.TensorSpec([rows, length], tf.int32, "inp"),
        tf.TensorSpec([rows, length + 1], tf.int32, "tar"),
    ]


def gpu_text(function: Callable[..., Sequence[tf.Tensor]], specs: list[tf.TensorSpec]) -> str:
    """The StableHLO of a function without variables, for a GPU."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    compiler_ir = compiled.experimental_get_compiler_ir(*specs)
    return compiler_ir(stage="stablehlo", platform_name="GPU")


if __name__ == "__main__":
    main()
