"""The replicas and workers of a run.

One device is one replica, one process is one worker. The replicas of all workers make each update
together. Every replica gets the whole batch of ids, a few hundred kilobytes, and takes its own rows
of it.
"""

import contextlib
import functools
import itertools
import json
import logging
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.config import TrainConfig
from tf_transformer.errors import UserError
from tf_transformer.host import number_of_cores

logger = logging.getLogger(__name__)

# What an error of TensorFlow says where another worker cannot be reached any more.
WORKER_GONE = re.compile(
    r"connection (reset|refused|timed out)|failed to connect|socket closed|remote target|heartbeat",
    re.IGNORECASE,
)
WAITING_SECONDS = 30.0  # between two messages that name the workers which are missing

# One strategy per process: a second one would reuse the first one's collective keys.
_mirrored_strategy = functools.cache(tf.distribute.MirroredStrategy)


def split_cpu(logical_devices: int = 0) -> None:
    """Divides the CPU into logical devices, each of which is a replica.

    Half of the rows on each half of the cores is faster than every operation on all cores: most are
    too small to be parallelized. This must come before TensorFlow's first operation.

    Args:
      logical_devices: how many, in place of all GPUs, which are hidden; 0 for two where there are
        two or more cores, no GPU, and no other worker.
    """
    cores = number_of_cores()
    one_is_enough = tf.config.list_physical_devices("GPU") or cores < 2 or "TF_CONFIG" in os.environ
    if not logical_devices and one_is_enough:
        return
    devices = [tf.config.LogicalDeviceConfiguration()] * (logical_devices or 2)
    try:
        if logical_devices:
            tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(max(1, cores // len(devices)))
        tf.config.threading.set_inter_op_parallelism_threads(cores)
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, devices)
    except RuntimeError:
        pass  # TensorFlow has run an operation already


def make_strategy(
    logical_devices: int = 0,
    replicas: int | None = None,
    worker_minutes: float = TrainConfig.worker_minutes,
) -> tf.distribute.Strategy:
    """Makes the strategy for all GPUs, or all logical CPUs, also of the workers of `TF_CONFIG`.

    Args:
      logical_devices: how many logical CPUs to use, even where there are GPUs; 0 for all devices.
      replicas: how many of the devices to use, the first ones; None for all.
      worker_minutes: how long to wait for the other workers.
    Raises: UserError for an invalid `TF_CONFIG`, and where a worker does not come.
    """
    if "TF_CONFIG" in os.environ:
        _check_cluster(os.environ["TF_CONFIG"])
        if logical_devices:
            raise UserError("--logical_devices is for one host: leave it out, or unset TF_CONFIG")
        return _multi_worker_strategy(worker_minutes)
    gpus = [] if logical_devices else tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    names = tuple(device.name for device in devices[: logical_devices or replicas])
    return _mirrored_strategy(names)


def _check_cluster(text: str) -> None:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        config = json.loads(text)
        task, addresses = config["task"], itertools.chain(*config["cluster"].values())
        is_known = 0 <= int(task["index"]) < len(config["cluster"][task["type"]])
        if is_known and all(re.fullmatch(r".+:\d+", address) for address in addresses):
            return
    raise UserError(
        f"invalid TF_CONFIG {text!r}: give the workers and the index of this one, such as "
        '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
        '"task": {"type": "worker", "index": 0}}, or unset it'
    )


@functools.cache
def _multi_worker_strategy(minutes: float) -> tf.distribute.MultiWorkerMirroredStrategy:
    _wait_for_workers(minutes)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's would not run meanwhile
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, ValueError) as error:
        raise UserError(
            f"the workers of TF_CONFIG {os.environ['TF_CONFIG']!r} cannot connect: {error}"
        ) from error
    finally:
        for number, handler in before.items():  # TensorFlow has set its own for SIGTERM
            signal.signal(number, handler)


def _wait_for_workers(minutes: float) -> None:
    """Waits until the ports of all workers of `TF_CONFIG` answer; meanwhile this one's does.

    TensorFlow would wait without a limit, without names, and without Python's signal handlers.

    Raises: UserError when some do not answer within the minutes, or this port is taken.
    """
    config = json.loads(os.environ["TF_CONFIG"])
    missing = {  # the name of a worker -> its host and port
        f"{kind} {index}": tuple(address.rsplit(":", 1))
        for kind, addresses in config["cluster"].items()
        for index, address in enumerate(addresses)
    }
    own = f"{config['task']['type']} {config['task']['index']}"
    logger.info("waiting for the other workers of TF_CONFIG")
    start = told = time.monotonic()
    with _listen(int(missing.pop(own)[1])):
        while True:
            for name, (host, port) in list(missing.items()):
                with contextlib.suppress(OSError):
                    socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
                    del missing[name]
            if not missing:
                return
            names = " and ".join(f"{name} ({':'.join(each)})" for name, each in missing.items())
            now = time.monotonic()
            if now - start > 60 * minutes:
                raise UserError(
                    f"{names} did not answer within {minutes:g} minutes (--worker_minutes): start "
                    "all workers, and open the ports of TF_CONFIG on each host"
                )
            if now - told > WAITING_SECONDS:
                logger.warning(f"waiting for {names} since {now - start:.0f} seconds")
                told = now
            time.sleep(0.2)


def _listen(port: int) -> socket.socket:
    """Opens a port of this host. The kernel answers; nobody has to accept."""
    both = socket.has_dualstack_ipv6()  # IPv4 and IPv6
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)
    except OSError as error:
        raise UserError(
            f"port {port} of this worker of TF_CONFIG cannot be opened ({error.strerror}): give "
            "one that is free"
        ) from None


@contextlib.contextmanager
def worker_failures() -> Iterator[None]:
    """Turns TensorFlow's error where another worker is gone into a `UserError`; no other error."""
    try:
        yield
    except tf.errors.OpError as error:
        reasons = [line for line in str(error).splitlines() if WORKER_GONE.search(line)]
        if "TF_CONFIG" not in os.environ or not reasons:
            raise
        raise UserError(
            f"another worker has stopped ({reasons[0]}): start all workers again; the run resumes "
            "from the last checkpoint"
        ) from error


class Workers:
    """The workers of a strategy.

    The chief, the first one, reads and writes the model folder, and broadcasts what others need.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        self.replicas = strategy.num_replicas_in_sync
        self.is_chief = strategy.extended.should_checkpoint
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver else {}
        tasks = [(kind, i) for kind in sorted(cluster) for i in range(len(cluster[kind]))]
        self.count = max(1, len(tasks))
        self.index, self.name = 0, "this worker"  # index: the chief has 0
        if self.count > 1:
            self.index = tasks.index((resolver.task_type, resolver.task_id))
            self.name = f"{resolver.task_type} {resolver.task_id}"

    def broadcast_weights(self, variables: Sequence[keras.Variable]) -> None:
        """Assigns float32 variables the values that they have on the chief."""
        if self.count > 1:
            for variable in variables:
                values = self._broadcast_vector(variable.numpy().ravel())
                variable.assign(values.reshape(variable.shape))

    def broadcast(self, value: Any, sender: int = 0) -> Any:
        """Returns a worker's value, the chief's by default, on all; JSON can hold it."""
        if self.count == 1:
            return value
        content = np.frombuffer(json.dumps(value).encode(), np.uint8).astype(np.int64)
        (size,) = self._broadcast_vector(np.array([len(content)]), sender)
        if self.index != sender:
            content = np.zeros(size, np.int64)
        content = self._broadcast_vector(content, sender)
        return json.loads(content.astype(np.uint8).tobytes())

    def gather(self, value: Any) -> list[Any]:
        """Returns the values of all workers on all; JSON can hold them."""
        return [self.broadcast(value, sender) for sender in range(self.count)]

    def _broadcast_vector(self, vector: np.ndarray, sender: int = 0) -> np.ndarray:
        """The vector of a worker; int64 or float32 `[n]`, n and type equal on all workers."""
        return self._of_sender[vector.dtype.name](tf.constant(vector), tf.constant(sender)).numpy()

    @functools.cached_property
    def _of_sender(self) -> dict[str, Callable[..., tf.Tensor]]:
        """Graphs that add the vector of a worker's first replica and zeros."""

        def add(vector: tf.Tensor, sender: tf.Tensor) -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            sends = replica.replica_id_in_sync_group == sender * (self.replicas // self.count)
            return replica.all_reduce("sum", tf.where(sends, vector, tf.zeros_like(vector)))

        return {
            name: on_all_replicas(
                self.strategy, add, [tf.TensorSpec([None], name), tf.TensorSpec([], "int32")]
            )
            for name in ("int64", "float32")
        }


def make_workers(settings: TrainConfig) -> Workers:
    """Makes the strategy of a run, and its `Workers`. Raises: UserError as `make_strategy`."""
    return Workers(make_strategy(settings.logical_devices, None, settings.worker_minutes))


def on_all_replicas(
    strategy: tf.distribute.Strategy, step: Callable[..., Any], signature: Sequence[tf.TensorSpec]
) -> Callable[..., Any]:
    """Makes a graph that runs `step`, with the same result, in every replica.

    Each gets the whole tensors, whose `signature` is given.
    """

    @tf.function(input_signature=signature, autograph=False)
    def run(*arguments: tf.Tensor) -> Any:
        results = strategy.run(step, args=arguments)
        local_results = strategy.experimental_local_results
        return tf.nest.map_structure(lambda result: local_results(result)[0], results)

    return run
