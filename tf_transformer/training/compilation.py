"""XLA: on which devices it is used, for how many shapes of batches, and when it compiles them.

XLA compiles an update anew for each shape of a batch. On an H200, a shape of base takes 27 s, and
updates take 45 ms with XLA and 211 ms without it. So the shapes are compiled side by side, while
the updates run without XLA.
"""

import concurrent.futures
import itertools
import logging
import math
import re
import time
from collections.abc import Sequence

import tensorflow as tf

from tf_transformer.config import Config
from tf_transformer.data.batching import Bucket
from tf_transformer.errors import UserError
from tf_transformer.host import number_of_cores
from tf_transformer.training.update import Update

logger = logging.getLogger(__name__)

MIN_SHAPES, MAX_SHAPES = 2, 12
TOKENS_PER_SECOND = 550_000  # of base on an H200
# What one more shape costs: 27 s of eight compilations at a time, while updates have a quarter of
# their speed.
SECONDS_OF_A_SHAPE = 2.6
PADDING = 0.5  # with n shapes, about 1 / (2 n) of the time of an update is spent on padding


def most_shapes(config: Config) -> int:
    """Chooses how many shapes the batches of a run have, where XLA compiles them.

    With n shapes, a run of S seconds takes S (1 + PADDING / n) + n SECONDS_OF_A_SHAPE. The n with
    the least time is a square root: 4 for 2,000 updates of base, 12 for its 100,000. It depends on
    the settings alone, so that the batches of a run are the same on every machine.
    """
    train = config.train
    seconds = train.train_steps * config.data.batch_tokens / TOKENS_PER_SECOND
    if train.train_minutes:
        seconds = min(seconds, 60 * train.train_minutes)
    best = math.sqrt(PADDING * seconds / SECONDS_OF_A_SHAPE)
    return min(max(round(best), MIN_SHAPES), MAX_SHAPES)


def choose_jit_compile(wanted: str, gpus: Sequence[tf.config.PhysicalDevice]) -> bool:
    """Whether XLA compiles the gradients.

    Args:
      wanted: "on", "off", or "auto": on for GPUs that `missing_machine_code` does not name. (On
        CPUs XLA is slower.)
      gpus: the physical GPUs of the run.
    """
    return bool(gpus) and not missing_machine_code(gpus) if wanted == "auto" else wanted == "on"


def missing_machine_code(gpus: Sequence[tf.config.PhysicalDevice]) -> str:
    """Says for which of the GPUs TensorFlow has no machine code; "" where it has it for all.

    Machine code of capability 8.0 runs on 8.6 too, and not on 9.0. For a later GPU than all, the
    driver compiles TensorFlow's own operations, but XLA ends the process
    (github.com/tensorflow/tensorflow/issues/111958).
    """
    names = tf.sysconfig.get_build_info().get("cuda_compute_capabilities", [])
    numbers = [int(number) for name in names for number in re.findall(r"_(\d+)", name)]
    built = [divmod(number, 10) for number in numbers]  # such as (8, 9) of "sm_89"
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        capability = details.get("compute_capability")
        if capability and built:
            major, minor = capability
            if not any(major == other and minor >= least for other, least in built):
                return (
                    f"{details.get('device_name', gpu.name)} has compute capability "
                    f"{major}.{minor}, and TensorFlow {tf.__version__} has machine code for "
                    f"{', '.join(f'{a}.{b}' for a, b in built)}"
                )
    return ""


def check_products(gpus: Sequence[tf.config.PhysicalDevice]) -> None:
    """Computes a small matrix product on each GPU.

    Raises: UserError where TensorFlow cannot.
    """
    for gpu in gpus:
        name = gpu.name.removeprefix("/physical_device:")
        try:
            with tf.device(name):
                tf.linalg.matmul(tf.ones([8, 8]), tf.ones([8, 8])).numpy()
        except tf.errors.OpError as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserError(
                f"TensorFlow {tf.__version__} cannot compute on {name} ({reason}): update the "
                "NVIDIA driver, install a TensorFlow that is built for this GPU (docs/guides/"
                "devices.md), or train on the CPU with CUDA_VISIBLE_DEVICES=-1"
            ) from None


class ShapeCompiler:
    """Compiles the update of a run for each shape of its batches, several at a time.

    A shape that XLA cannot compile is computed without it.

    Args:
      update: an `Update` with `jit_compile`.
      buckets: of the batches. The most frequent shape comes first.
      replicas: of this host: each of them compiles a shape.
      wait: whether an update waits until its shape is compiled. Then an update does not depend on
        how fast XLA is; else it runs without XLA until then, with other rounding.
    """

    def __init__(
        self, update: Update, buckets: Sequence[Bucket], replicas: int, wait: bool
    ) -> None:
        self._update, self._wait = update, wait
        threads = max(1, number_of_cores() // 2 // replicas)
        self._executor = concurrent.futures.ThreadPoolExecutor(threads, "xla")
        self._shapes, self._done, self._started = len(buckets), itertools.count(1), time.monotonic()
        self._compiled = {
            (bucket.rows, bucket.length): self._executor.submit(self._compile, bucket)
            for bucket in sorted(buckets, key=lambda bucket: -bucket.batches)
        }

    def is_compiled(self, rows: int, length: int) -> bool:
        """Whether an update of this shape is to run as XLA compiled it."""
        future = self._compiled[rows, length]
        return (self._wait or future.done()) and future.result()

    def close(self) -> None:
        """Starts no further compilation, and waits for those that run."""
        self._executor.shutdown(cancel_futures=True)

    def _compile(self, bucket: Bucket) -> bool:
        """Compiles a shape. Returns: whether it is compiled."""
        try:
            self._update.compile(bucket)
        except tf.errors.OpError as error:
            reason = str(error).strip().partition("\n")[0][:300]
            logger.warning(
                f"XLA cannot compile updates of {bucket.rows:,} x {bucket.length} ids, which run "
                f"without it: {type(error).__name__}: {reason}"
            )
            return False
        finally:
            if next(self._done) == self._shapes:
                seconds = time.monotonic() - self._started
                logger.info(f"XLA has finished with {self._shapes} shapes after {seconds:.0f} s")
        return True
