"""The plan of a training run: micro-batches, batches, memory and disk, and whether Eq. 3 fits."""

import dataclasses

import tensorflow as tf

from tf_transformer.config import NOAM, Config, ModelConfig
from tf_transformer.data.batching import Batches, Bucket
from tf_transformer.training.loss import chunk_tokens
from tf_transformer.training.update import gradient_accumulation_steps

PAPER_TOKENS = 25_000  # in a batch; Eq. 3 was tuned for it
WARNING_FACTOR = 10  # warn where a batch is this many times too small or too large

# On a CPU: Python, TensorFlow and this package; the graph of each replica and layer.
PROCESS_BYTES, GRAPH_BYTES = 770_000_000, 25_000_000


def learning_rate_warning(config: Config, batches: Batches) -> str | None:
    """A warning where the learning rate does not suit the run or the batch size, or None.

    The rule of thumb: the noise of the gradient falls with the square root of the tokens, and
    Adam's learning rate should be proportional to it (Malladi et al. 2022). Eq. 3 with scale 1 was
    tuned for 25,000 tokens. The peak of the other schedules is the user's own choice.
    """
    train = config.train
    if train.warmup_steps >= train.train_steps:
        return (
            f"the warm-up ends after the run: warmup_steps {train.warmup_steps:,}, train_steps "
            f"{train.train_steps:,}. The learning rate does not reach its peak: give a smaller "
            "--warmup_steps"
        )
    if train.learning_rate_schedule != NOAM:
        return None
    padded = sum(bucket.batches * bucket.rows * bucket.length for bucket in batches.buckets)
    tokens, scale = padded / batches.per_epoch, train.learning_rate_scale
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
      accumulation_steps: above 1 the loop over micro-batches holds two more arrays of gradients.
      ema_decay: above 0 the moving average of the weights is held too.
    """
    arrays = 4 + 2 * (accumulation_steps > 1) + (ema_decay > 0)
    return 4 * arrays * model.parameters()


def activation_bytes(model: ModelConfig, rows: int, length: int, precision: str) -> int:
    """Approximate bytes that the forward and backward pass of one shard need.

    These are what the gradients of each layer need, logits and their gradient for one chunk of
    tokens, three gradients of the embedding matrix, and the rounded weights. With the other terms
    of `Plan`, the memory of a process on CPUs was 0.93 to 1.02 times what was measured.

    Args:
      model: a `ModelConfig`.
      rows, length: shape of the shard.
      precision: name of a Keras dtype policy.
    """
    rounded = precision != "float32"
    tokens, d = rows * length, model.d_model
    attention = model.num_heads * length * (6 if rounded else 4)  # its softmax is float32
    encoder_layer = (9 * d + model.dff) * (2 if rounded else 4) + attention
    decoder_layer = (15 * d + model.dff) * (2 if rounded else 4) + 2 * attention
    layers = model.encoder_layers * encoder_layer + model.decoder_layers * decoder_layer
    of_vocabulary = 4 * model.target_vocab_size * (2 * min(tokens, chunk_tokens()) + 3 * d)
    weights = 2 * model.parameters() if rounded else 0
    return tokens * layers + of_vocabulary + weights


def process_bytes(model: ModelConfig, replicas: int, of_replica: int) -> int:
    """Approximate bytes of a process with some replicas on CPUs, without the text."""
    graph = GRAPH_BYTES * (model.encoder_layers + model.decoder_layers)
    return PROCESS_BYTES + replicas * (graph + of_replica)


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

    def with_micro_batches(self, tokens: int) -> "Plan":
        """Returns the plan for other micro-batches, which can hold the longest pair."""
        tokens = max(tokens, self.config.data.max_length)
        return dataclasses.replace(self, config=self.config.replace(micro_batch_tokens=tokens))

    def halved(self) -> "Plan":
        """Returns the plan with half of the tokens in the largest micro-batch."""
        tokens = max(self.shards(bucket)[1] * bucket.length for bucket in self.batches.buckets)
        return self.with_micro_batches(tokens // 2)

    def fitting(self, memory: float) -> "Plan":
        """Returns the plan with the largest micro-batches whose replica needs at most `memory`.

        They are those of whole batches, or a half, a quarter and so on of them.

        Args:
          memory: in bytes.
        """
        plan = self.with_micro_batches(self.config.data.batch_tokens)
        while sum(plan.replica_bytes()) > memory and plan.halved() != plan:
            plan = plan.halved()
        return plan

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

    def replica_bytes(self) -> tuple[int, int]:
        """Returns what a replica needs: for weights, gradients and Adam; for its largest shard."""
        model, train = self.config.model, self.config.train
        bucket, rows = self.largest()
        state = state_bytes(model, self.accumulation_steps, train.ema_decay)
        return state, activation_bytes(model, rows, bucket.length, self.precision)

    def describe_devices(self, strategy: tf.distribute.Strategy, jit_compile: bool) -> str:
        """What computes an update."""
        xla = f"on: {len(self.batches.buckets)} shapes to compile" if jit_compile else "off"
        names = [device.split("device:")[-1] for device in strategy.extended.worker_devices]
        return (
            f"{self.replicas} replica{'s' if self.replicas > 1 else ''} ({', '.join(names)}), "
            f"gradient accumulation steps: {self.accumulation_steps}; {self.precision}, XLA {xla}"
        )

    def describe(self, cpu_replicas: int) -> str:
        """The batches, the memory and the disk space of a run, as text.

        Args:
          cpu_replicas: how many replicas are in this process and on CPUs; 0 for GPUs.
        """
        model, settings = self.config.model, self.config.train
        row = "  {:14} {:>15} {:>14} {:>9} {:>12} {:>16}".format
        columns = ("rows x length", "tokens a side", "an epoch", "accumulation", "rows of a shard")
        lines = [
            f"  updates        {settings.train_steps:,}, {self.batches.per_epoch:,} an epoch: "
            f"{settings.train_steps / self.batches.per_epoch:,.1f} epochs",
            row("batches", *columns),
        ]
        for bucket in self.batches.buckets:
            shape, tokens = f"{bucket.rows} x {bucket.length}", bucket.rows * bucket.length
            lines.append(row("", shape, f"{tokens:,}", f"{bucket.batches:,}", *self.shards(bucket)))
        bucket, rows = self.largest()
        state, activations = self.replica_bytes()
        lines += [
            f"  parameters     {model.parameters():,}",
            f"  memory         about {(state + activations) / 1e9:.2f} GB a replica: "
            f"{state / 1e9:.2f} for weights, gradients and Adam, {activations / 1e9:.2f} for a "
            f"shard of {rows} x {bucket.length}",
        ]
        if cpu_replicas:
            process = process_bytes(model, cpu_replicas, state + activations)
            lines.append(
                f"{'':17}about {process / 1e9:.2f} GB for this process: {cpu_replicas} replicas, "
                "TensorFlow and the graphs, without the text"
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
