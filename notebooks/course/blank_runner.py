"""Executes a reader's code in a process of its own; `course.blanks` starts it.

It reads a pickle of tasks from standard input, and writes one pickle for each task to
standard output. It knows neither the right answers nor the tests: `course.blanks`
compares the outputs. The package, the course and the solutions cannot be imported or
read here, and the functions of TensorFlow and Keras that compute a blank are refused.
"""

import ast
import io
import linecache
import os
import pickle
import sys
import threading
import traceback

DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)
NOT_HERE = ("tf_transformer", "course", "solutions", "transformer")
PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")

# What a reader must write: the function -> what to write it from.
ATTENTION = "write it from tf.matmul and tf.nn.softmax"
NORM = "write it from tf.reduce_mean and tf.sqrt"
LOSS = "write it from tf.nn.log_softmax and tf.one_hot"
DROPOUT = "use self.dropout1, which the constructor makes"
REFUSED_CLASSES = {
    "MultiHeadAttention": ATTENTION,
    "Attention": ATTENTION,
    "AdditiveAttention": ATTENTION,
    "GroupQueryAttention": ATTENTION,
    "LayerNormalization": NORM,
    "GroupNormalization": NORM,
    "RMSNormalization": NORM,
    "BatchNormalization": NORM,
    "UnitNormalization": NORM,
}
REFUSED_FUNCTIONS = {
    "tf.nn.batch_normalization": NORM,
    "keras.ops.layer_normalization": NORM,
    "keras.ops.normalize": NORM,
    "keras.ops.rms_normalization": NORM,
    "keras.ops.batch_normalization": NORM,
    "keras.ops.dot_product_attention": ATTENTION,
    "keras.ops.categorical_crossentropy": LOSS,
    "keras.ops.sparse_categorical_crossentropy": LOSS,
    "keras.losses.categorical_crossentropy": LOSS,
    "keras.losses.sparse_categorical_crossentropy": LOSS,
    "tf.nn.softmax_cross_entropy_with_logits": LOSS,
    "tf.nn.sparse_softmax_cross_entropy_with_logits": LOSS,
    "tf.compat.v1.losses.softmax_cross_entropy": LOSS,
    "tf.compat.v1.nn.softmax_cross_entropy_with_logits": LOSS,
    "tf.compat.v1.nn.softmax_cross_entropy_with_logits_v2": LOSS,
    "tf.compat.v1.nn.sparse_softmax_cross_entropy_with_logits": LOSS,
    "tf.raw_ops.SoftmaxCrossEntropyWithLogits": LOSS,
    "tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits": LOSS,
    "tf.nn.dropout": DROPOUT,
    "tf.io.read_file": "the code needs no files",
}


class Refused(Exception):
    """The reader's code uses something that a blank must not use."""


def refuse_imports():
    """Makes the package, the course and the solutions impossible to import."""

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in NOT_HERE:
                raise Refused(f"{name} cannot be imported here: write the code yourself")

    sys.path.pop(0)  # the folder of this script
    sys.meta_path.insert(0, Finder())


def refuse_files(folders):
    """Makes the files of the package, the course and the solutions unreadable."""
    folders = tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)

    def audit(event, arguments):
        if event in PROCESSES:
            raise Refused("the code must not start another process")
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if path.startswith(folders) and path != os.path.realpath(__file__):
                raise Refused("the code must not read the files of the project")

    sys.addaudithook(audit)


def refuse_functions(tf, keras):
    """Replaces the functions and classes of TensorFlow and Keras that fill a blank."""

    def refusal(name, advice):
        def refused(*_, **__):
            raise Refused(f"{name} fills this blank by itself: {advice}")

        return refused

    for name, advice in REFUSED_CLASSES.items():
        if hasattr(keras.layers, name):
            full_name = f"keras.layers.{name}"
            getattr(keras.layers, name).__new__ = refusal(full_name, advice)
    for name in ("CategoricalCrossentropy", "SparseCategoricalCrossentropy"):
        getattr(keras.losses, name).__new__ = refusal(f"keras.losses.{name}", LOSS)
    replaced = {}  # id of a function -> its replacement
    for name, advice in REFUSED_FUNCTIONS.items():
        value = {"tf": tf, "keras": keras}[name.split(".")[0]]
        for part in name.split(".")[1:]:
            value = getattr(value, part, None)
        if value is not None:
            replaced[id(value)] = refusal(name, advice)
    for module in list(sys.modules.values()):
        attributes = getattr(module, "__dict__", {})
        for attribute, value in list(attributes.items()):
            if id(value) in replaced:
                attributes[attribute] = replaced[id(value)]


def fix_dropout(tf, keras):
    """Makes dropout keep fixed columns, so that its place can be tested exactly."""

    def call(self, inputs, training=False):
        if not training:
            return inputs
        columns = tf.range(tf.shape(inputs)[-1])
        return inputs * tf.where(columns % 3 == 0, 0.0, 1.5)

    keras.layers.Dropout.call = call


def execute(sources, namespace):
    """Executes the definitions of cells: pairs (name, source)."""
    for name, source in sources:
        lines = source.splitlines(True)
        linecache.cache[name] = (len(source), None, lines, name)
        tree = ast.parse(source)
        tree.body = [node for node in tree.body if _is_definition(node)]
        exec(compile(tree, name, "exec"), namespace)


def _is_definition(node):
    """Whether a statement defines something, and is not an import of the course."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course"):
        return False
    return isinstance(node, DEFINITIONS)


class Unused(Exception):
    """A part that the constructor makes has no weights after a call."""


def set_weights(layer, weights):
    """Assigns arrays to the variables of a layer, such as "mha.wq.kernel"."""
    for path, array in weights.items():
        *parts, variable_name = path.split(".")
        part = layer
        for name in parts:
            part = part.layers[int(name)] if name.isdigit() else getattr(part, name)
        variable = getattr(part, variable_name, None)
        if variable is None:
            raise Unused(parts[0] if "." not in variable_name else path)
        if tuple(variable.shape) != array.shape:
            shapes = f"{tuple(variable.shape)}, should be {array.shape}"
            raise ValueError(f"self.{path} has the shape {shapes}")
        variable.assign(array)


def run_job(job, namespace, tf):
    """Calls a function or a layer.

    Returns: a dict of the outputs, and of which inputs have a gradient.
    """
    function = namespace[job["name"]]
    inputs = [tf.constant(a) if hasattr(a, "shape") else a for a in job["args"]]
    named = {
        name: tf.constant(a) if hasattr(a, "shape") else a for name, a in job["kwargs"].items()
    }
    if "init" in job:
        function = function(**job["init"])
        function(*inputs, **named)  # creates the weights
        set_weights(function, job["weights"])
    watched = [a for a in inputs[: job.get("inputs")] if tf.is_tensor(a) and a.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = function(*inputs, **named)
        first = outputs[0] if isinstance(outputs, (tuple, list)) and outputs else outputs
        total = tf.reduce_sum(first) if tf.is_tensor(first) else None
    gradients = []
    if total is not None and watched and total.dtype.is_floating:
        gradients = [g is not None for g in tape.gradient(total, watched)]
    is_group = isinstance(outputs, (tuple, list))
    values = [as_value(value) for value in (outputs if is_group else [outputs])]
    return {"is_group": is_group, "values": values, "gradients": gradients}


def as_value(value):
    """A tensor or an array as an array; the name of its type for anything else."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if hasattr(value, "dtype") or isinstance(value, (int, float)):
        import numpy as np

        return np.asarray(value)
    return type(value).__name__


def describe(error, frames, names):
    """The reader's line and the message of an error.

    Args:
      error: the exception, or None for an answer that was stopped.
      frames: a `traceback.StackSummary`.
      names: of the cells.
    """
    own = [frame for frame in frames if frame.filename in names]
    where = {}
    if own:
        where = {"cell": own[-1].filename, "line": own[-1].lineno, "code": own[-1].line}
    if error is None:
        return {"type": "Stopped", "message": "", **where}
    return {"type": type(error).__name__, "message": str(error), **where}


def run_task(task, tf, namespace, answer):
    """Executes the cells of a task and its jobs; fills the dict `answer`."""
    names = [name for name, _ in task["sources"]]
    try:
        execute(task["sources"], namespace)
        for job in task["jobs"]:
            answer["outputs"].append(run_job(job, namespace, tf))
    except (Exception, SystemExit, RecursionError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        answer["error"] = describe(error, frames, names)


def main():
    """Runs the tasks."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what C code prints must not mix with the results
    tasks = pickle.load(sys.stdin.buffer)
    refuse_imports()
    import keras
    import numpy as np
    import tensorflow as tf

    keras.config.disable_traceback_filtering()
    refuse_functions(tf, keras)
    fix_dropout(tf, keras)
    tf.matmul(tf.ones((1, 1)), tf.ones((1, 1)))  # starts TensorFlow
    refuse_files(tasks["folders"])
    main_thread = threading.get_ident()
    for task in tasks["tasks"]:
        answer = {"outputs": [], "error": None, "printed": ""}
        namespace = {"keras": keras, "np": np, "tf": tf, "__name__": "notebook"}
        namespace.update(PAD=0, START=2, END=3)
        printed = sys.stdout = io.StringIO()

        def stop(answer=answer, task=task):
            frames = traceback.extract_stack(sys._current_frames()[main_thread])
            names = [name for name, _ in task["sources"]]
            answer["error"] = describe(None, frames, names)
            pickle.dump(answer, results)
            results.flush()
            os._exit(1)

        timer = threading.Timer(tasks["seconds"], stop)
        timer.daemon = True
        timer.start()
        run_task(task, tf, namespace, answer)
        timer.cancel()
        answer["printed"] = printed.getvalue()[:2000]
        pickle.dump(answer, results)
        results.flush()


if __name__ == "__main__":
    main()
