"""In which numbers, and by which compiler, a training step is computed. Weights, softmax, loss and layer norm are float32 always."""

import pathlib

import tensorflow as tf

FIRST_SCALE, DOUBLE_AFTER = 2.0**15, 2000  # of a loss in float16; as in Micikevicius et al. 2018, Sec. 3.2


def choose_precision(wanted, gpus):
    """The name of a Keras dtype policy.

    Args:
      wanted: the setting `precision`; "auto" takes bfloat16 where every device multiplies matrices in it, which are GPUs of compute
        capability 8 or more, and processors with AMX (on others TensorFlow's bfloat16 is slower than its float32).
      gpus: the physical GPUs of the run, none for a processor.
    """
    if wanted != "auto":
        return wanted
    if gpus:
        capabilities = [tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0)) for gpu in gpus]
        return "mixed_bfloat16" if min(capabilities) >= (8, 0) else "float32"
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    return "mixed_bfloat16" if cpuinfo.exists() and "amx_bf16" in cpuinfo.read_text() else "float32"


def choose_jit(wanted, gpus):
    """Whether XLA compiles the gradients: "on", "off", or "auto", which is on GPUs (on processors XLA is the slower way)."""
    return bool(gpus) if wanted == "auto" else wanted == "on"


class LossScale:
    """A power of two on the loss in float16, so that small gradients do not become 0 (Micikevicius et al. 2018, Sec. 3.2).

    It is halved when a gradient overflows, whose update is skipped, and doubled after `DOUBLE_AFTER` updates without that.
    """

    def __init__(self):
        options = {"trainable": False, "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA}
        self.scale = tf.Variable(FIRST_SCALE, **options)
        self._good = tf.Variable(0, **options)  # updates without an overflow since the last change

    def update(self, good):
        """good: bool scalar, whether the last gradient was finite. Runs in each replica."""
        grown = good & (self._good + 1 >= DOUBLE_AFTER)
        scale = tf.where(good, tf.where(grown, self.scale * 2, self.scale), tf.maximum(self.scale / 2, 1.0))
        count = tf.where(good & ~grown, self._good + 1, 0)
        self.scale.assign(scale)
        self._good.assign(count)

    def state(self):
        """What a checkpoint keeps of it."""
        return [float(self.scale.numpy()), int(self._good.numpy())]

    def restore(self, state):
        """state: as `state` returned it, or None, which changes nothing."""
        if state:
            self.scale.assign(state[0])
            self._good.assign(state[1])
