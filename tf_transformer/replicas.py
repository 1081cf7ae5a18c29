"""One device is one replica: which devices there are, and each one's share of a step.

Every replica gets the whole batch of ids (a few hundred kilobytes) and takes its own rows of it.
"""

import functools
import os

import tensorflow as tf

from tf_transformer.config import PAD


def divide_processor():
    """Makes two devices, so two replicas, of a processor with two or more cores, where there is no GPU.

    Half of the rows on each half of the cores is faster than each operation on all cores: most operations are too small to be divided.
    To be called before TensorFlow's first operation; after it, the devices stay as they are.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if tf.config.list_physical_devices("GPU") or cores < 2:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(cores // 2)
        tf.config.threading.set_inter_op_parallelism_threads(cores)
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
    except RuntimeError:
        pass  # TensorFlow is at work already


@functools.cache
def make_strategy():
    """The `MirroredStrategy` over all visible GPUs, or where there is none, over all logical CPUs.

    There is one for the whole process: the collective operations of a second one would get the numbers of the first one's.
    """
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def my_rows(ids):
    """This replica's share of a batch: ids `[B, L]` -> `[B / replicas, L]`, filled up with rows of padding where B does not divide."""
    replica = tf.distribute.get_replica_context()
    count = replica.num_replicas_in_sync
    ids = tf.pad(ids, [[0, -tf.shape(ids)[0] % count], [0, 0]], constant_values=PAD)
    return ids[replica.replica_id_in_sync_group :: count]


def on_all_replicas(strategy, step):
    """Makes a graph of `step(inp, tar)` that runs in every replica and returns the sum of the results."""
    ids = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[ids, ids], autograph=False)
    def run(inp, tar):
        return strategy.reduce("sum", strategy.run(step, args=(inp, tar)), axis=None)

    return run
