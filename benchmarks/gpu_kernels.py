"""Lists what a GPU would have to copy to the host, from TensorFlow's registry; needs no GPU.

    python benchmarks/gpu_kernels.py            # a table
    python benchmarks/gpu_kernels.py --list     # each copy too

A copy to the host makes the host wait for the GPU. It occurs where a GPU kernel computes a tensor
of which the next kernel reads the values in host memory: kernels for int32, mostly, which
TensorFlow reserves for shapes and indices, and operations that have no GPU kernel. The table has
the operations of each graph that run in a loop (each step of a search; each chunk of the
cross-entropy), and those that run once. TensorFlow's wheels for Linux contain the GPU kernels, so
their registry tells where each kernel reads and writes.
"""

import argparse
import collections
import functools
import os
from typing import NamedTuple

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import kernels, op_def_registry

# Function arguments and results of these types, and loop variables, are in host memory.
HOST_TYPES = {types_pb2.DT_INT32, types_pb2.DT_STRING, types_pb2.DT_RESOURCE}
LOOPS = {"While", "StatelessWhile"}
CALLS = LOOPS | {"If", "StatelessIf", "Case", "StatelessCase"}
CALLS |= {"PartitionedCall", "StatefulPartitionedCall"}
DECISIONS = {"cond", "branch_index"}  # inputs of conditionals: the host decides what runs next
FORWARD = {"Identity", "IdentityN"}  # leave a tensor where it is
# Write messages and stop the program; their tensors are copied only then.
MESSAGES = {"Assert", "StringFormat", "PrintV2"}
SENTENCES = tf.TensorSpec([None, None], tf.int32)


class Copy(NamedTuple):
    """A tensor that a GPU has computed and the host reads."""

    op: str  # the operation that reads it
    argument: str  # its input
    dtype: str
    tensor: str  # the name in the graph
    in_loop: bool


def copies_to_host(concrete: tf.types.experimental.ConcreteFunction) -> list[Copy]:
    """Finds the tensors of a graph and of its functions that would be copied to the host.

    Args:
      concrete: a concrete function, traced without XLA.
    """
    graph = concrete.graph.as_graph_def()
    functions = {function.signature.name: function for function in graph.library.function}
    in_loops = _in_loops(graph, functions)
    copies = _copies(graph.node, [], in_loop=False)
    for name, function in functions.items():
        copies += _copies(function.node_def, function.signature.input_arg, name in in_loops)
    return copies


def _in_loops(graph, functions):
    """The names of the functions that loops call, themselves or through other functions."""
    calls = {name: _called(function.node_def, CALLS) for name, function in functions.items()}
    found = set()
    new = set().union(
        *(_called(function.node_def, LOOPS) for function in functions.values()),
        _called(graph.node, LOOPS),
    )
    while new:
        found |= new
        new = set().union(*(calls[name] for name in new)) - found
    return found


def _called(nodes, ops):
    """The names of the functions that nodes of these operations call."""
    attributes = [value for node in nodes if node.op in ops for value in node.attr.values()]
    names = {value.func.name for value in attributes if value.HasField("func")}
    return names | {f.name for value in attributes for f in value.list.func}


def _copies(nodes, arguments, in_loop):
    """The copies in a function with these nodes and arguments, a list of `Copy`."""
    on_host = {argument.name: argument.type in HOST_TYPES for argument in arguments}
    for node in nodes:
        outputs = _tensors(node, "output_arg")
        for index, (name, number, _, host) in enumerate(outputs):
            on_host[f"{node.name}:{name}:{number}"] = host  # as functions name it
            on_host[f"{node.name}:{index}"] = host  # as graphs name it
        on_host[node.name] = bool(outputs) and outputs[0][3]
    copies = []
    for node in nodes:
        if node.op in MESSAGES:
            continue
        inputs = [name for name in node.input if not name.startswith("^")]
        for tensor, (argument, _, dtype, host) in zip(inputs, _tensors(node, "input_arg")):
            if host and not on_host[tensor]:
                dtype = types_pb2.DataType.Name(dtype).removeprefix("DT_").lower()
                copies.append(Copy(node.op, argument, dtype, tensor, in_loop))
    return copies


def _tensors(node, kind):
    """The inputs or outputs of a node: (argument, index in it, type, whether on the host)."""
    definition = op_def_registry.get(node.op)
    kernel = _kernel(node)
    found = []
    for argument in getattr(definition, kind):
        if argument.type_list_attr:
            types = list(node.attr[argument.type_list_attr].list.type)
        else:
            number = node.attr[argument.number_attr].i if argument.number_attr else 1
            types = [argument.type or node.attr[argument.type_attr].type] * number
        for number, dtype in enumerate(types):
            if node.op in CALLS | FORWARD | {"Placeholder"}:
                host = dtype in HOST_TYPES or argument.name in DECISIONS
            else:
                host = kernel is None or argument.name in kernel.host_memory_arg
            # A constant can be in either memory before the loop starts.
            found.append((argument.name, number, dtype, host or node.op == "Const"))
    return found


def _kernel(node):
    """The kernel of a node on a GPU; None: it runs on the CPU."""
    found = [
        kernel
        for kernel in _kernels(node.op)
        if all(
            (set(node.attr[rule.name].list.type) or {node.attr[rule.name].type})
            <= set(rule.allowed_values.list.type)
            for rule in kernel.constraint
        )
    ]
    return max(
        found, key=lambda kernel: (kernel.device_type == "GPU", kernel.priority), default=None
    )


@functools.cache
def _kernels(op):
    kernels_of_op = kernels.get_registered_kernels_for_op(op).kernel
    return [kernel for kernel in kernels_of_op if kernel.device_type in ("GPU", "DEFAULT")]


def graphs():
    """The graphs that train, validate and decode; traced when called.

    Returns: a dict, name -> a function that returns a concrete function.
    """
    from tf_transformer.config import DecodeConfig

    traced = {
        f"update, {precision}, {name}": functools.partial(_update, precision, accumulate)
        for precision in ("float32", "mixed_bfloat16", "mixed_float16")
        for name, accumulate in (("one shard", False), ("accumulation", True))
    }
    traced["validation"] = _validation
    for name, beam_size in (("greedy search", 1), ("beam search", 4)):
        traced[name] = functools.partial(_search, DecodeConfig(beam_size=beam_size))
    return traced


def _model(precision="float32"):
    from tf_transformer.checkpoints.loading import build_model
    from tf_transformer.presets import preset

    return build_model(preset("pocket").model, precision)


def _update(precision, accumulate):
    """An update of the weights, as the trainer makes it, without XLA."""
    from tf_transformer.presets import preset
    from tf_transformer.training.update import Update

    settings = dict(clip_norm=1.0, dropout_warmup_steps=10, micro_batch_tokens=4096)
    config = preset("pocket").replace(**settings)
    update = Update(config, precision, tf.distribute.get_strategy(), accumulate)
    graph = tf.function(update.step, autograph=False)
    return graph.get_concrete_function(False, SENTENCES, SENTENCES, tf.TensorSpec([2]))


def _validation():
    from tf_transformer.training.update import eval_step

    graph = tf.function(functools.partial(eval_step, _model()), autograph=False)
    return graph.get_concrete_function(SENTENCES, SENTENCES, tf.TensorSpec([1]))


def _search(decode):
    from tf_transformer.decoding.inference import search_translations

    model = _model()
    graph = tf.function(lambda inp: search_translations(model, inp, decode), autograph=False)
    return graph.get_concrete_function(SENTENCES)


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="print each copy")
    arguments = parser.parse_args()
    print(f"{'copies to the host':40}{'once':>8}{'in a loop':>12}")
    for name, trace in graphs().items():
        copies = copies_to_host(trace())
        looped = sum(copy.in_loop for copy in copies)
        print(f"{name:40}{len(copies) - looped:8}{looped:12}", flush=True)
        if arguments.list:
            for copy, number in sorted(collections.Counter(copies).items()):
                where = "in a loop" if copy.in_loop else "once"
                source = f"{copy.op}({copy.argument}: {copy.dtype})"
                print(f"    {number} x {source}, {where}: {copy.tensor}")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
