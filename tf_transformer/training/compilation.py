"""XLA: on which devices it is used, for how many shapes of batches, and when it compiles them.

XLA compiles an update anew for each shape of a batch. On an H200, a shape of base takes 27 s, and
updates take 45 ms with XLA and 211 ms without it. So the shapes are compiled side by side, while
the updates run without XLA.
"""

import concurrent.futures
import itertools
import logging
import math
import time
from collections.abc import Sequence

import tensorflow as tf

from tf_transformer.config import Config
from tf_transformer.data.batching import Bucket
from tf_transformer.gpus import missing_machine_code
from tf_transformer.host import number_of_cores
from tf_transformer.training.update import Update

logger = logging.getLogger(__name__)

MIN_SHAPES, MAX_SHAPES = 3, 12
TOKENS_PER_SECOND = 550_000  # of base on an H200
# What one more shape costs: 27 s, but several are compiled at a time, and updates run meanwhile, at
# a quarter of their speed.
SECONDS_OF_A_SHAPE = 8
PADDING = 1.4  # with n shapes, a token comes with about PADDING / n tokens of padding (Multi30k)


def most_shapes(config: Config) -> int:
    """Chooses how many shapes the batches of a run have, where XLA compiles them.

    With n shapes, a run of S seconds without padding takes S (1 + PADDING / n) + n
    SECONDS_OF_A_SHAPE. The n with the least time is a square root: 4 for 2,000 updates of base, 12
    for its 100,000. It depends on the settings alone, so that the batches of a run are the same on
    every machine.
    """
    train = config.train
    seconds = train.train_steps * config.data.batch_tokens / TOKENS_PER_SECOND
    if train.train_minutes:
        seconds = min(seconds, 60 * train.train_minutes)
    best = math.sqrt(PADDING * seconds / SECONDS_OF_A_SHAPE)
    return min(max(round(best), MIN_SHAPES), MAX_SHAPES)


def choose_jit_compile(wanted: str, gpus: Sequence[tf.config.PhysicalDevice]) -> bool:
    """Whether XLA compiles the gradients, by the setting `jit_compile` and the GPUs of a run.

    "auto" is on for GPUs that `missing_machine_code` does not name. (On CPUs XLA is slower.)
    """
    return bool(gpus) and not missing_machine_code(gpus) if wanted == "auto" else wanted == "on"


class ShapeCompiler:
    """Compiles the update of a run for each shape of its batches, several at a time.

    The most frequent shape comes first. A shape that XLA cannot compile is computed without it.

    Args:
      update, buckets: of the run.
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
