"""What a training run is going to do, worked out before it begins: micro-steps, batches, memory, disk; and whether its recipe fits them."""

from tf_transformer.loss import PART_TOKENS
from tf_transformer.train_step import micro_steps

PAPER_TOKENS = 25_000  # in a batch, for which Eq. 3 was made
FAR = 10  # a batch so many times too small or too large for its learning rate is worth a warning


def bucket_shares(bucket, replicas, max_tokens):
    """The micro-steps that a `Bucket`'s batch takes, and the rows of a share; arguments as for `train_step.micro_steps`."""
    micro = micro_steps(bucket.rows, bucket.length, replicas, max_tokens)
    return micro, -(-bucket.rows // (replicas * micro))


def most_micro_steps(buckets, replicas, max_tokens):
    """The largest number of micro-steps that a bucket's batch takes; arguments as for `train_step.micro_steps`."""
    return max(bucket_shares(bucket, replicas, max_tokens)[0] for bucket in buckets)


def tokens_per_step(batches):
    """Mean tokens of a batch on a side, padding included."""
    return sum(bucket.batches * bucket.rows * bucket.length for bucket in batches.buckets) / batches.per_epoch


def learning_rate_warning(config, batches):
    """What to say where the learning rate and the tokens in an update do not go together, or None.

    The rule of thumb: noise in the gradient falls with the square root of the tokens, and so should a learning rate of Adam's be chosen
    (Malladi et al. 2022). Eq. 3 as it stands, which is a scale of 1, was made for 25,000 tokens.
    """
    tokens, scale = tokens_per_step(batches), config.train.learning_rate_scale
    suited = scale**2 * PAPER_TOKENS  # tokens for which this scale is right by the rule
    if suited <= FAR * tokens and tokens <= FAR * suited:
        return None
    return (
        f"an update sees about {tokens:,.0f} tokens, but learning_rate_scale {scale:g} suits about {suited:,.0f}: by the rule of thumb "
        f"sqrt(tokens / {PAPER_TOKENS:,}) give --learning_rate_scale={(tokens / PAPER_TOKENS) ** 0.5:.2f}, or other --tokens_per_step"
    )


def state_bytes(model, micro):
    """Bytes of the weights of a `ModelConfig`, their gradients, and Adam's two means, all float32: what a replica holds at least.

    With several micro-steps there are also the gradients that are added up so far.
    """
    return 4 * (4 if micro == 1 else 5) * model.parameters()


def activation_bytes(model, rows, length, precision):
    """Bytes that a forward and a backward pass need for one share of a batch, about.

    Counted is what the gradients need. For each token: the inputs of the projections and of the feed-forward network's two, the
    queries, keys and values, the attention weights, the normalised values, and a byte of dropout mask for each of these; and two
    tensors over the vocabulary for as many tokens as the loss takes at a time.

    Args:
      model: a `ModelConfig`.
      rows, length: shape of the share.
      precision: name of a Keras dtype policy.
    """
    width, tokens, d = 4 if precision == "float32" else 2, rows * length, model.d_model
    attention = model.num_heads * length * (4 if precision == "float32" else 6)  # of one token, one block
    encoder = (8 * d + model.dff) * width + 2 * d + attention
    decoder = (14 * d + model.dff) * width + 3 * d + 2 * attention
    logits = 2 * 4 * model.target_vocab_size * min(tokens, PART_TOKENS)
    return tokens * model.num_layers * (encoder + decoder) + logits


def largest_bucket(config, batches, replicas, precision):
    """The `Bucket` whose shares need the most memory, and the rows of such a share."""

    def rows(bucket):
        return bucket_shares(bucket, replicas, config.train.max_tokens_per_replica)[1]

    bucket = max(batches.buckets, key=lambda bucket: activation_bytes(config.model, rows(bucket), bucket.length, precision))
    return bucket, rows(bucket)


def describe_devices(strategy, micro, precision, jit):
    """One line on what computes an update: the `strategy`'s replicas, their micro-steps, the name of a dtype policy, and XLA."""
    devices = ", ".join(device.split("device:")[-1] for device in strategy.extended.worker_devices)
    plural = "s" if micro > 1 else ""
    return f"{strategy.num_replicas_in_sync} replicas ({devices}), {micro} micro-step{plural}; {precision}, XLA {'on' if jit else 'off'}"


def describe_plan(config, batches, replicas, precision):
    """The batches, the memory and the disk that a run takes, as text.

    Args:
      config: a `Config` with the sizes of its vocabularies.
      batches: the training `Batches`.
      replicas: how many.
      precision: name of a Keras dtype policy.
    """
    most, settings = config.train.max_tokens_per_replica, config.train
    lines = [
        f"  updates        {settings.steps:,}, {batches.per_epoch:,} an epoch, so {settings.steps / batches.per_epoch:,.1f} epochs",
        f"  batches        {'rows x length':>15} {'tokens a side':>14} {'an epoch':>9} {'micro-steps':>12} {'rows of a share':>16}",
    ]
    for bucket in batches.buckets:
        micro, share = bucket_shares(bucket, replicas, most)
        shape = f"{bucket.rows} x {bucket.length}"
        lines.append(f"{'':16} {shape:>15} {bucket.rows * bucket.length:>14,} {bucket.batches:>9,} {micro:>12} {share:>16}")
    bucket, rows = largest_bucket(config, batches, replicas, precision)
    state = state_bytes(config.model, most_micro_steps(batches.buckets, replicas, most))
    activations = activation_bytes(config.model, rows, bucket.length, precision)
    file, files = 3 * 4 * config.model.parameters(), settings.keep
    disk = files * file + 2 * file / 3  # best.npz and averaged.npz hold the weights alone
    lines += [
        f"  parameters     {config.model.parameters():,}",
        f"  memory         about {(state + activations) / 1e9:.2f} GB a replica: {state / 1e9:.2f} for weights, gradients and Adam, "
        f"{activations / 1e9:.2f} for a share of {rows} x {bucket.length}",
        f"  disk           {disk / 1e9:.2f} GB: {files} checkpoints of {file / 1e9:.2f}, best and average",
    ]
    return "\n".join(lines)
