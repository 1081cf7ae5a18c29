"""The plan of a training run: micro-batches, batches, memory and disk, and whether Eq. 3 fits."""

import dataclasses

import tensorflow as tf

from tf_transformer.config import NOAM, Config, ModelConfig
from tf_transformer.data.batching import Batches, Bucket
from tf_transformer.training.loss import CHUNK_TOKENS
from tf_transformer.training.update import gradient_accumulation_steps

PAPER_TOKENS = 25_000  # in a batch; Eq. 3 was tuned for it
WARNING_FACTOR = 10  # warn where a batch is this many times too small or too large

# Memory on a CPU, measured there with TensorFlow 2.21 (`MEASURED` in the tests).
PROCESS_BYTES = 770_000_000  # Python, TensorFlow and this package, before there is a model
# Keras layers and the graph of an update, for each replica and layer (encoder and decoder).
GRAPH_BYTES = 50_000_000
# Tensors of the size of the embedding matrix while its gradient is added up: the sum of the chunks
# of tokens so far, the product of one chunk, and their sum.
TABLE_GRADIENTS = 3
# Arrays of the size of the weights that the loop over micro-batches holds beside the gradients.
ACCUMULATION_ARRAYS = 2


def learning_rate_warning(config: Config, batches: Batches) -> str | None:
    """A warning where the learning rate does not suit the batch size, or None.

    The rule of thumb: the noise of the gradient falls with the square root of the tokens, and
    Adam's learning rate should be proportional to it (Malladi et al. 2022). Eq. 3 with scale 1 was
    tuned for 25,000 tokens. The peak of the other schedules is the user's own choice.
    """
    if config.train.learning_rate_schedule != NOAM:
        return None
    padded = sum(bucket.batches * bucket.rows * bucket.length for bucket in batches.buckets)
    tokens, scale = padded / batches.per_epoch, config.train.learning_rate_scale
    suited = scale**2 * PAPER_TOKENS  # the tokens for which this scale is right by the rule
    if suited <= WARNING_FACTOR * tokens and tokens <= WARNING_FACTOR * suited:
        return None
    return (
        f"an update sees about {tokens:,.0f} tokens, but learning_rate_scale {scale:g} suits about "
        f"{suited:,.0f}: by the rule of thumb sqrt(tokens / {PAPER_TOKENS:,}) give "
        f"--learning_rate_scale={(tokens / PAPER_TOKENS) ** 0.5:.2f}, or other --batch_tokens"
    )


def state_bytes(model: ModelConfig, accumulation_steps: int, ema_decay: float = 0.0) -> int:
    """Bytes of weights, gradients and Adam's two moments, float32: the least a replica holds.

    Args:
      model: its sizes.
      accumulation_steps: above 1 the loop over micro-batches holds the sum so far and the next.
      ema_decay: above 0 the moving average of the weights is held too.
    """
    accumulation = ACCUMULATION_ARRAYS if accumulation_steps > 1 else 0
    arrays = 4 + accumulation + (ema_decay > 0)
    return 4 * arrays * model.parameters()


def activation_bytes(model: ModelConfig, rows: int, length: int, precision: str) -> int:
    """Approximate bytes that the forward and backward pass of one shard need.

    Counted is what the gradients need. For each token: the inputs of the projections and of the
    feed-forward network's two layers, queries, keys and values, attention weights, normalized
    values, and a byte of dropout mask for each output of a sub-layer; and two tensors over the
    vocabulary for the tokens of one chunk of the loss.

    Args:
      model: a `ModelConfig`.
      rows, length: shape of the shard.
      precision: name of a Keras dtype policy.
    """
    width = 4 if precision == "float32" else 2
    tokens = rows * length
    d = model.d_model
    # Attention weights of one token in one block: float32 for the softmax, and a rounded copy.
    attention = model.num_heads * length * (4 if precision == "float32" else 6)
    encoder = (8 * d + model.dff) * width + 2 * d + attention
    decoder = (14 * d + model.dff) * width + 3 * d + 2 * attention
    logits = 2 * 4 * model.target_vocab_size * min(tokens, CHUNK_TOKENS)
    return tokens * model.num_layers * (encoder + decoder) + logits


def temporary_bytes(model: ModelConfig, precision: str) -> int:
    """Bytes of the temporary gradients of the output projection, and of rounded weights."""
    rounded = 0 if precision == "float32" else 2 * model.parameters()
    return TABLE_GRADIENTS * 4 * model.target_vocab_size * model.d_model + rounded


def replica_bytes(
    model: ModelConfig,
    rows: int,
    length: int,
    precision: str,
    accumulation_steps: int = 1,
    ema_decay: float = 0.0,
) -> int:
    """Approximate bytes that a replica needs on its device; arguments as of its three terms."""
    state = state_bytes(model, accumulation_steps, ema_decay)
    activations = activation_bytes(model, rows, length, precision)
    return state + activations + temporary_bytes(model, precision)


def process_bytes(model: ModelConfig, replicas: int, of_replica: int) -> int:
    """Approximate bytes of a process with some replicas on CPUs, without the text."""
    return PROCESS_BYTES + replicas * (GRAPH_BYTES * model.num_layers + of_replica)


def describe_devices(
    strategy: tf.distribute.Strategy, accumulation_steps: int, precision: str, xla_shapes: int
) -> str:
    """One line on what computes an update.

    Args:
      strategy: of the replicas.
      accumulation_steps: the largest number of gradient accumulation steps.
      precision: name of a Keras dtype policy.
      xla_shapes: shapes of shards for which XLA compiles the gradients; 0 without XLA.
    """
    xla = f"on: {xla_shapes} shapes to compile" if xla_shapes else "off"
    devices = ", ".join(device.split("device:")[-1] for device in strategy.extended.worker_devices)
    number = strategy.num_replicas_in_sync
    return (
        f"{number} replica{'s' if number > 1 else ''} ({devices}), gradient accumulation steps: "
        f"{accumulation_steps}; {precision}, XLA {xla}"
    )


def accumulation_hint(
    strategy: tf.distribute.Strategy, accumulation_steps: int, micro_batch_tokens: int
) -> str | None:
    """What to change where GPUs compute a batch in several micro-batches, or None.

    Small micro-batches do not fill a large GPU: base in bfloat16 takes three times as long with
    4,096 tokens at a time as with 25,000 (`benchmarks/run_stablehlo.py`, on an H200).
    """
    if accumulation_steps == 1 or "GPU" not in strategy.extended.worker_devices[0]:
        return None
    return (
        f"a GPU computes {micro_batch_tokens:,} tokens at a time, {accumulation_steps} times in an "
        "update; it is faster with more of them, where its memory suffices (--dry_run plans it): "
        f"up to --micro_batch_tokens={micro_batch_tokens * accumulation_steps}"
    )


@dataclasses.dataclass(frozen=True)
class Plan:
    """How the batches of a run are divided, and what they need.

    Attributes:
      config: a `Config` with the sizes of its vocabularies.
      batches: the training `Batches`.
      replicas: how many.
      precision: name of a Keras dtype policy.
    """

    config: Config
    batches: Batches
    replicas: int
    precision: str

    def shards(self, bucket: Bucket) -> tuple[int, int]:
        """Returns the gradient accumulation steps for a bucket, and the rows of a shard."""
        steps = gradient_accumulation_steps(
            bucket.rows, bucket.length, self.replicas, self.config.train.micro_batch_tokens
        )
        return steps, -(-bucket.rows // (self.replicas * steps))

    @property
    def accumulation_steps(self) -> int:
        """The largest number of gradient accumulation steps of any bucket."""
        return max(self.shards(bucket)[0] for bucket in self.batches.buckets)

    def compiled_shapes(self) -> list[Bucket]:
        """Returns a bucket for each shape of a shard, which XLA compiles once."""
        shapes: dict[tuple[int, int], Bucket] = {}
        for bucket in self.batches.buckets:
            shapes.setdefault((self.shards(bucket)[1], bucket.length), bucket)
        return list(shapes.values())

    def largest(self) -> tuple[Bucket, int]:
        """Returns the bucket whose shards need the most memory, and the rows of such a shard.

        R-Drop doubles the rows.
        """
        model = self.config.model
        passes = 2 if self.config.train.r_drop else 1
        rows = {bucket: passes * self.shards(bucket)[1] for bucket in self.batches.buckets}
        return max(
            rows.items(), key=lambda x: activation_bytes(model, x[1], x[0].length, self.precision)
        )

    def describe(self, cpu_replicas: int) -> str:
        """The batches, the memory and the disk space of a run, as text.

        Args:
          cpu_replicas: how many replicas are in this process and on CPUs; 0 for GPUs.
        """
        model, settings = self.config.model, self.config.train
        epochs = settings.train_steps / self.batches.per_epoch
        columns = ("rows x length", "tokens a side", "an epoch", "accumulation", "rows of a shard")
        lines = [
            f"  updates        {settings.train_steps:,}, {self.batches.per_epoch:,} an epoch: "
            f"{epochs:,.1f} epochs",
            "  batches        {:>15} {:>14} {:>9} {:>12} {:>16}".format(*columns),
        ]
        for bucket in self.batches.buckets:
            steps, rows = self.shards(bucket)
            shape = f"{bucket.rows} x {bucket.length}"
            lines.append(
                f"{'':16} {shape:>15} {bucket.rows * bucket.length:>14,} {bucket.batches:>9,} "
                f"{steps:>12} {rows:>16}"
            )
        bucket, rows = self.largest()
        state = state_bytes(model, self.accumulation_steps, settings.ema_decay)
        activations = activation_bytes(model, rows, bucket.length, self.precision)
        temporary = temporary_bytes(model, self.precision)
        total = state + activations + temporary
        lines += [
            f"  parameters     {model.parameters():,}",
            f"  memory         about {total / 1e9:.2f} GB a replica: {state / 1e9:.2f} for "
            f"weights, gradients and Adam, {activations / 1e9:.2f} for a shard of {rows} x "
            f"{bucket.length}, {temporary / 1e9:.2f} for temporary gradients and rounded weights",
        ]
        if cpu_replicas:
            process = process_bytes(model, cpu_replicas, total)
            lines.append(
                f"{'':17}about {process / 1e9:.2f} GB for this process: {cpu_replicas} replicas, "
                f"{PROCESS_BYTES / 1e9:.2f} for TensorFlow, and the graphs; without the text"
            )
        # A checkpoint has the weights, Adam's moments and the moving average; best and average have
        # no more than the weights.
        weights = 4 * model.parameters()
        checkpoint = (4 if settings.ema_decay else 3) * weights
        disk = settings.max_checkpoints * checkpoint + 2 * weights
        lines.append(
            f"  disk           {disk / 1e9:.2f} GB: {settings.max_checkpoints} checkpoints of "
            f"{checkpoint / 1e9:.2f}, best and average"
        )
        return "\n".join(lines)
