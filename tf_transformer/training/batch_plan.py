"""How the batches of a run are divided into micro-batches, and whether Eq. 3 suits their size."""

import dataclasses

from tf_transformer.config import NOAM, Config
from tf_transformer.data.batching import Batches, Bucket
from tf_transformer.training.update import gradient_accumulation_steps

PAPER_TOKENS = 25_000  # in a batch; Eq. 3 was tuned for it
WARNING_FACTOR = 10  # warn where a batch is this many times too small or too large


def learning_rate_warning(config: Config, batches: Batches) -> str | None:
    """A warning where the learning rate does not suit the run or the batch size, or None.

    The rule of thumb: Adam's learning rate should be proportional to the square root of the tokens
    (Malladi et al. 2022). The peak of the schedules other than Eq. 3 is the user's own choice.
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


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    """How the training batches are divided: a replica computes `micro_batch_tokens` at once."""

    config: Config
    batches: Batches
    replicas: int

    def with_micro_batches(self, tokens: int) -> "BatchPlan":
        """Returns the plan for other micro-batches, which can hold the longest pair."""
        tokens = max(tokens, self.config.data.max_length)
        return dataclasses.replace(self, config=self.config.replace(micro_batch_tokens=tokens))

    def halved(self) -> "BatchPlan":
        """Returns the plan with half of the tokens in the largest micro-batch."""
        tokens = max(self.micro_batches(x)[1] * x.length for x in self.batches.buckets)
        return self.with_micro_batches(tokens // 2)

    def micro_batches(self, bucket: Bucket) -> tuple[int, int]:
        """Returns the gradient accumulation steps for a bucket, and the rows of a micro-batch."""
        steps = gradient_accumulation_steps(
            bucket.rows, bucket.length, self.replicas, self.config.train.micro_batch_tokens
        )
        return steps, -(-bucket.rows // (self.replicas * steps))

    @property
    def accumulation_steps(self) -> int:
        """The largest number of gradient accumulation steps of any bucket."""
        return max(self.micro_batches(bucket)[0] for bucket in self.batches.buckets)

    def describe(self) -> str:
        """The updates, the batches and the disk space of a run, as text."""
        settings, batches = self.config.train, self.batches
        row = "  {:14} {:>15} {:>14} {:>9} {:>12} {:>21}".format
        columns = (
            "rows x length", "tokens a side", "an epoch", "accumulation", "rows of a micro-batch"
        )  # fmt: skip
        lines = [
            f"  updates        {settings.train_steps:,}, {batches.per_epoch:,} an epoch: "
            f"{settings.train_steps / batches.per_epoch:,.1f} epochs",
            row("batches", *columns),
        ]
        for each in batches.buckets:
            shape, tokens = f"{each.rows} x {each.length}", f"{each.rows * each.length:,}"
            lines.append(row("", shape, tokens, f"{each.batches:,}", *self.micro_batches(each)))
        weights = 4 * self.config.model.parameters()
        checkpoint = 3 * weights  # with Adam's two moments
        disk = settings.max_checkpoints * checkpoint + 2 * weights
        lines += [
            f"  parameters     {self.config.model.parameters():,}",
            f"  disk           {disk / 1e9:.2f} GB: {settings.max_checkpoints} checkpoints of "
            f"{checkpoint / 1e9:.2f}, best and average",
        ]
        return "\n".join(lines)
