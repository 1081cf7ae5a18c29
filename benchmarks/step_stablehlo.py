"""Writes the gradients of a training step as StableHLO for a GPU. It needs no GPU.

    .venv/bin/python benchmarks/step_stablehlo.py --output_dir=/tmp/stablehlo

`benchmarks/compile_for_gpu.py` compiles the files. XLA's text for a GPU can be had without one only
where no variables are captured, so the weights become arguments.
"""

import argparse
import functools
import json
import pathlib
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.paper.flops import matrix_operations
from tf_transformer.presets import preset
from tf_transformer.training.memory_plan import activation_bytes, temporary_bytes
from tf_transformer.training.train_step import shard_gradients

CASES = (
    "base:143:float32",
    "base:143:mixed_bfloat16",
    "base:1000:mixed_bfloat16",
    "big:143:mixed_bfloat16",
    "big:1000:mixed_bfloat16",
)


def main() -> None:
    """Writes a file of StableHLO for each case, and its planned memory beside it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--cases", nargs="+", default=CASES, help="preset:rows:precision")
    parser.add_argument("--length", type=int, default=25, help="tokens of a row on a side")
    parser.add_argument("--vocabulary", type=int, default=37_000, help="sub-words (Sec. 5.1)")
    args = parser.parse_args()
    args.output_dir.mkdir(parents=True, exist_ok=True)
    for case in args.cases:
        name, rows, precision = case.split(":")
        config = preset(name).with_vocabularies(args.vocabulary, args.vocabulary)
        shape = int(rows), args.length
        tf.keras.backend.clear_session()
        model = build_model(config.model, precision)
        gradients = functools.partial(shard_gradients, config.train, model)
        text = gpu_stablehlo(gradients, model, *shape)
        path = args.output_dir / f"{name}-{rows}-{precision}.mlir"
        path.write_text(text, "utf-8")
        planned = activation_bytes(config.model, *shape, precision)
        facts = {
            "model": name,
            "shape": shape,
            "precision": precision,
            "matrix_operations": matrix_operations(config.model, *shape, args.length),
            "planned_bytes": planned + temporary_bytes(config.model, precision),
        }
        path.with_suffix(".json").write_text(json.dumps(facts), "utf-8")
        print(f"{path}: {len(text):,} characters", flush=True)


def gpu_stablehlo(
    gradients: Callable[..., tuple[list[tf.Tensor], tf.Tensor]],
    model: tf.keras.Model,
    rows: int,
    length: int,
) -> str:
    """The StableHLO of `shard_gradients` for ids of one shape.

    Args:
      gradients: takes source and target ids, seed, step and scale, as `shard_gradients` does.
      model: a `Transformer`, whose weights become the first arguments.
      rows, length: the shape of the source ids; the target ids have one token more.
    """
    arguments = [
        tf.TensorSpec([rows, length], tf.int32, "inp"),
        tf.TensorSpec([rows, length + 1], tf.int32, "tar"),
        tf.TensorSpec([2], tf.int32, "seed"),
        tf.TensorSpec([], tf.int64, "step"),
        tf.TensorSpec([], tf.float32, "scale"),
    ]
    function = tf.function(gradients, autograph=False).get_concrete_function(*arguments)
    constant = convert_variables_to_constants_v2(function, lower_control_flow=False)
    graph = constant.graph.as_graph_def()
    shapes = {tuple(weight.shape) for weight in model.weights}
    weights = {
        node.name: tf.TensorSpec(_constant_shape(node), tf.float32)
        for node in graph.node
        if node.op == "Const"
        and node.attr["dtype"].type == tf.float32.as_datatype_enum
        and _constant_shape(node) in shapes
    }
    if len(weights) != len(model.weights):
        raise ValueError(f"{len(weights)} constants for {len(model.weights)} weights")
    nodes = [node for node in graph.node if node.op != "Placeholder" and node.name not in weights]
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name.partition(":")[0] for node in nodes for name in node.input}
    names = [*weights, *(argument.name for argument in arguments)]
    outputs = [output.name for output in constant.outputs]

    @tf.function(jit_compile=True, autograph=False)
    def pure(*values):
        mapped = {f"{name}:0": x for name, x in zip(names, values, strict=True) if name in used}
        return tf.import_graph_def(graph, input_map=mapped, return_elements=outputs)

    compiler_ir = pure.experimental_get_compiler_ir(*weights.values(), *arguments)
    return compiler_ir(stage="stablehlo", platform_name="GPU")


def _constant_shape(node: tf.compat.v1.NodeDef) -> tuple[int, ...]:
    return tuple(dim.size for dim in node.attr["value"].tensor.tensor_shape.dim)


if __name__ == "__main__":
    main()
