"""The devices and machines of a run. One device is one replica; the replicas of all machines make each update together.

Every replica gets the whole batch of ids (a few hundred kilobytes) and takes its own rows of it.
"""

import contextlib
import functools
import json
import os
import signal
import sys
import threading

import numpy as np
import tensorflow as tf

from tf_transformer.config import UserError


def divide_processor(replicas=0):
    """Makes several devices, so as many replicas, of a processor.

    Half of the rows on each half of the cores is faster than each operation on all cores: most operations are too small to be divided.
    To be called before TensorFlow's first operation; after it, the devices stay as they are.

    Args:
      replicas: how many; 0 for two where there are two or more cores, no GPU, and no other machine.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if not replicas and (tf.config.list_physical_devices("GPU") or cores < 2 or "TF_CONFIG" in os.environ):
        return
    devices = [tf.config.LogicalDeviceConfiguration()] * (replicas or 2)
    try:
        tf.config.threading.set_intra_op_parallelism_threads(max(1, cores // len(devices)))
        tf.config.threading.set_inter_op_parallelism_threads(cores)
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    except RuntimeError:
        pass  # TensorFlow is at work already


def make_strategy(on_processor=False):
    """The strategy over all visible GPUs, or where there is none, over all logical CPUs; over all machines where `TF_CONFIG` names some.

    Args:
      on_processor: True for the logical CPUs even where there are GPUs.
    Raises: UserError for a `TF_CONFIG` that cannot be used.
    """
    if "TF_CONFIG" in os.environ:
        _check_cluster(os.environ["TF_CONFIG"])
        if on_processor:
            raise UserError("--virtual_replicas is for one machine: leave it out, or unset TF_CONFIG")
        return _strategy(_all_machines)
    gpus = [] if on_processor else tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    return _strategy(tf.distribute.MirroredStrategy, tuple(device.name for device in devices))


@functools.cache
def _strategy(kind, *arguments):
    """One for the whole process: the collective operations of a second one would get the numbers of the first one's."""
    return kind(*arguments)


def _check_cluster(text):
    example = '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
    try:
        config = json.loads(text)
        addresses = config["cluster"][config["task"]["type"]]
        if 0 <= int(config["task"]["index"]) < len(addresses):
            return
    except (ValueError, KeyError, TypeError):
        pass
    raise UserError(f"TF_CONFIG is {text!r}: give the machines and which one this is, such as {example}, or unset it")


def _all_machines():
    print("waiting for the other machines of TF_CONFIG", file=sys.stderr, flush=True)
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}
    try:
        if main:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would not hear of it while TensorFlow waits
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, ValueError) as error:
        raise UserError(f"TF_CONFIG is {os.environ['TF_CONFIG']!r}, with which no machines meet: {error}") from error
    finally:
        for number, handler in before.items():  # TensorFlow has set its own for SIGTERM
            signal.signal(number, handler)


@contextlib.contextmanager
def together():
    """What the machines do together. Raises: UserError when another one stops meanwhile."""
    errors = tf.errors
    try:
        yield
    except (
        errors.UnavailableError, errors.AbortedError, errors.CancelledError, errors.InternalError, errors.UnknownError,
        errors.DeadlineExceededError, errors.FailedPreconditionError,
    ) as error:  # fmt: skip
        if "TF_CONFIG" not in os.environ:
            raise
        lines = [line for line in str(error).splitlines() if "abort" in line] or [error.message]
        raise UserError(f"another machine has stopped ({lines[0]}): start all again; the run goes on from the last checkpoint") from error


class Machines:
    """The machines of a run. The chief, which is the first, reads and writes the model folder and tells the others what they need.

    Args:
      strategy: as `make_strategy` returns it.
    """

    def __init__(self, strategy):
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver else {}
        self.strategy, self.replicas = strategy, strategy.num_replicas_in_sync
        self.count = max(1, sum(map(len, cluster.values())))
        first = ("chief" if "chief" in cluster else "worker", 0)
        self.chief = self.count == 1 or (resolver.task_type, resolver.task_id) == first
        self.name = f"{resolver.task_type} {resolver.task_id}" if self.count > 1 else "this machine"

    def share_weights(self, variables):
        """Gives float32 variables the values that they have on the chief."""
        if self.count > 1:
            for variable in variables:
                values = self._vector_from_chief(variable.numpy().astype(np.float32).ravel())
                variable.assign(values.reshape(variable.shape))

    def from_chief(self, value):
        """What the chief gave, on all machines; anything that JSON holds."""
        if self.count == 1:
            return value
        content = np.frombuffer(json.dumps(value).encode(), np.uint8)
        (size,) = self._vector_from_chief(np.float32([len(content)])).astype(int)
        content = content if self.chief else np.zeros(size, np.uint8)
        return json.loads(self._vector_from_chief(content.astype(np.float32)).astype(np.uint8).tobytes())

    def _vector_from_chief(self, vector):
        """float32 `[n]`, n the same on all machines: the sum of the chief's and of zeros."""
        return self._sum(tf.constant(vector if self.chief else np.zeros_like(vector))).numpy()

    @functools.cached_property
    def _sum(self):
        def add(vector):
            replica = tf.distribute.get_replica_context()
            return replica.all_reduce("sum", tf.where(replica.replica_id_in_sync_group == 0, vector, 0.0))

        return on_all_replicas(self.strategy, add, [tf.TensorSpec([None], tf.float32)])


def on_all_replicas(strategy, step, signature):
    """Makes a graph of `step`, which runs in every replica and returns the same in all of them.

    Args:
      strategy: of the replicas.
      step: a function of tensors.
      signature: their `tf.TensorSpec`s. Each replica gets the whole of them.
    Returns: a function that returns what `step` returns.
    """

    def first(result):
        return strategy.experimental_local_results(result)[0]

    @tf.function(input_signature=signature, autograph=False)
    def run(*arguments):
        return tf.nest.map_structure(first, strategy.run(step, args=arguments))

    return run
