"""XLA: on which devices it is used, for how many shapes of batches, and when it compiles them.

XLA compiles an update anew for each shape of a batch. On an H200, a shape of base takes 27 s, and
updates take 45 ms with XLA and 211 ms without it. So the shapes are compiled side by side, while
the updates run without XLA.
"""

import concurrent.futures
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from tf_transformer.config import Config
from tf_transformer.data.batching import Bucket
from tf_transformer.gpus import missing_machine_code
from tf_transformer.host import number_of_cores
from tf_transformer.training.update import Update

logger = logging.getLogger(__name__)

MIN_SHAPES, MAX_SHAPES = 3, 12
TOKENS_PER_SECOND = 550_000  # of base on an H200
# What one more shape costs: 27 s, but several are compiled at a time, beside slower updates.
SECONDS_OF_A_SHAPE = 8
PADDING = 1.4  # with n shapes, a token comes with about PADDING / n tokens of padding (Multi30k)


def most_shapes(config: Config) -> int:
    """Chooses how many shapes the batches of a run have, where XLA compiles them.

    With n shapes, a run of S seconds without padding takes S (1 + PADDING / n) + n
    SECONDS_OF_A_SHAPE, which is least at a square root: 4 for 2,000 updates of base, 12 for its
    100,000. It depends on the settings alone, so that every machine with XLA has the same batches.
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
      wait: whether an update waits until its shape is compiled, and so does not depend on how fast
        XLA is. Else it runs without XLA until then, with other rounding.
    """

    def __init__(
        self, update: Update, buckets: Sequence[Bucket], replicas: int, wait: bool
    ) -> None:
        cores = number_of_cores()
        # Each compilation blocks a thread of TensorFlow for each replica; updates need others.
        self._update, self._wait = update, wait or cores < 2 * replicas
        self._alone, self._failed = threading.Lock(), set[tuple[int, int]]()
        threads = max(1, cores // 2 // replicas)
        self._executor = concurrent.futures.ThreadPoolExecutor(threads, "xla")
        self._shapes, self._done, self._started = len(buckets), itertools.count(1), time.monotonic()
        self._compiled = {
            (bucket.rows, bucket.length): self._executor.submit(self._compile, bucket)
            for bucket in sorted(buckets, key=lambda bucket: -bucket.batches)
        }

    def is_compiled(
        self, rows: int, length: int, is_stopped: Callable[[], bool] = lambda: False
    ) -> bool:
        """Whether an update of this shape is to run as XLA compiled it. A stop ends the wait."""
        future = self._compiled[rows, length]
        while self._wait and not future.done() and not is_stopped():
            concurrent.futures.wait([future], timeout=0.2)
        return future.done() and (rows, length) not in self._failed

    def give_up(self, rows: int, length: int, error: Exception) -> None:
        """Lets the updates of a shape run without XLA, because of an error, with a warning."""
        self._failed.add((rows, length))
        reason = str(error).strip().partition("\n")[0][:300]
        logger.warning(
            f"XLA cannot compile updates of {rows:,} x {length} ids, which run without it: "
            f"{type(error).__name__}: {reason}"
        )

    def wait(self) -> None:
        """Waits for all shapes."""
        concurrent.futures.wait(self._compiled.values())

    def close(self) -> None:
        """Starts no further compilation, and waits for those that run."""
        self._executor.shutdown(cancel_futures=True)

    def _compile(self, bucket: Bucket) -> None:
        try:
            try:
                self._update.compile(bucket)
            except tf.errors.ResourceExhaustedError:  # it runs once; several may have done so
                with self._alone:
                    self._update.compile(bucket)
        except Exception as error:  # whatever XLA raises
            self.give_up(bucket.rows, bucket.length, error)
        finally:
            if next(self._done) == self._shapes:
                seconds = time.monotonic() - self._started
                logger.info(f"XLA has finished with {self._shapes} shapes after {seconds:.0f} s")
