"""One update of the weights (Sec. 5), as the reference's explicit `train_step`, and one step of validation.

The loss of an update is the sum over all target tokens of the batch, divided by their number. A batch is cut into shares, one for each
replica, or several where a share would not fit into a replica's memory: then a replica computes them one after the other and adds up
their gradients. The rows of a share and its dropout depend on its number alone, so 8 replicas with 1 share each, 2 with 4 and
1 with 8 make the same update.
"""

import functools

import tensorflow as tf

from tf_transformer.config import PAD
from tf_transformer.dropout import dropout_key
from tf_transformer.loss import loss_gradients_in_parts, loss_in_parts

SHARES = 1024  # most shares of a batch that have dropout of their own


def rate_strength(step, rate_warmup_steps):
    """The factor on the dropout rate at an update: it rises linearly from 0 to 1 and stays there (after Morerio et al. 2017).

    A model that knows nothing yet cannot overfit, and learns faster without noise.
    """
    return tf.minimum(1.0, tf.cast(step, tf.float32) / rate_warmup_steps) if rate_warmup_steps else 1.0


def micro_steps(rows, length, replicas, max_tokens):
    """How many shares of a batch each replica computes, one after the other; numbers or tensors.

    Args:
      rows, length: the shape of the batch.
      replicas: how many there are.
      max_tokens: most tokens of a share on a side, padding included; a share has one row at least.
    """
    larger = max if isinstance(length, int) else tf.maximum
    return -(-rows // (replicas * larger(max_tokens // length, 1)))


def share_of(ids, number, shares):
    """The rows of one share: ids `[B, L]` -> `[B / shares, L]`, filled up with rows of padding where B does not divide."""
    ids = tf.pad(ids, [[0, -tf.shape(ids)[0] % shares], [0, 0]], constant_values=PAD)
    return tf.ensure_shape(ids[number::shares], [None, None])


def count_tokens(ids):
    """The tokens that are no padding, float32."""
    return tf.reduce_sum(tf.cast(ids != PAD, tf.float32))


def share_gradients(model, label_smoothing, inp, tar, key, strength, factor):
    """The gradients of one share of a batch.

    Args:
      model: a `Transformer`.
      label_smoothing: epsilon_ls.
      inp: source ids `[b, S]`.
      tar: target ids `[b, T + 1]`, with start and end symbol.
      key, strength: of the dropout.
      factor: on the sum of the token losses.
    Returns: a dense gradient for each weight (Adam would square the parts of a sparse one by one where a word occurs twice); float32
      `[5]`, sums: loss in nats, target tokens, right target tokens, loss without smoothing, source tokens.
    """
    tar_inp, tar_real = tar[:, :-1], tar[:, 1:]
    with tf.GradientTape() as tape, dropout_key(key, strength):
        dec_output, _ = model.dec_output(inp, tar_inp, training=True)  # (b, T, D)
    weights, head = model.trainable_variables, model.logits_weights
    sums, of_output, of_head = loss_gradients_in_parts(model.logits, head, dec_output, tar_real, label_smoothing, factor)
    gradients = tape.gradient(dec_output, weights, output_gradients=of_output)
    # A table that is embedding and projection at once has a gradient from either side; a projection of its own only that of the loss.
    of_head = {id(weight): gradient for weight, gradient in zip(head, of_head)}
    both = [[part for part in (gradient, of_head.get(id(weight))) if part is not None] for gradient, weight in zip(gradients, weights)]
    return [tf.add_n(parts) for parts in both], tf.concat([sums, [count_tokens(inp)]], axis=0)


def train_step(model, optimizer, train_config, inp, tar, stop=(0.0, 0.0), loss_scale=None, jit=False, accumulate=True):
    """One update; runs in each replica.

    Args:
      model: a `Transformer`.
      optimizer: a `FusedAdam`; its number of updates is the step.
      train_config: a `TrainConfig`.
      inp: source ids of the whole batch `[B, S]`.
      tar: target ids of the whole batch `[B, T + 1]`, with start and end symbol.
      stop: float32 `[2]`, this machine's votes to stop, whose sums are returned: all machines stop at the same update.
      loss_scale: a `LossScale` in float16.
      jit: whether XLA compiles the gradients.
      accumulate: False where one share for each replica will do, which makes the graph half as large.
    Returns: a dict, equal in all replicas: sums `[5]` over the batch, as `share_gradients` returns them; load `[replicas]`, the target
      tokens of each; gradient_norm; skipped, 1 where that was no finite number, so that nothing but the step has changed; stop `[2]`.
    """
    replica = tf.distribute.get_replica_context()
    replicas, number, step = replica.num_replicas_in_sync, replica.replica_id_in_sync_group, optimizer.iterations
    strength = rate_strength(step, train_config.rate_warmup_steps)
    scale = loss_scale.scale if loss_scale else 1.0
    factor = scale / tf.maximum(count_tokens(tar[:, 1:]), 1.0)
    gradients_of = functools.partial(share_gradients, model, train_config.label_smoothing)
    if jit:
        gradients_of = tf.function(gradients_of, jit_compile=True, autograph=False)
    rows, length = tf.unstack(tf.shape(inp))
    micro = micro_steps(rows, length, replicas, train_config.max_tokens_per_replica) if accumulate else 1

    def compute(i):
        share, shares = i * replicas + number, micro * replicas
        key = tf.stack([tf.cast(step, tf.int32), train_config.seed * SHARES + share])
        gradients, sums = gradients_of(share_of(inp, share, shares), share_of(tar, share, shares), key, strength, factor)
        return [*gradients, sums]

    if accumulate:
        add = lambda i, totals: (i + 1, list(map(tf.add, totals, compute(i))))  # noqa: E731
        nothing = [tf.zeros(shape) for shape in (*(weight.shape for weight in model.trainable_variables), 5)]
        _, totals = tf.while_loop(lambda i, _: i < micro, add, (0, nothing), parallel_iterations=1)
    else:
        totals = compute(0)
    load = tf.one_hot(number, replicas) * totals[-1][1]
    # Their identities stand on the replica's device, which the reduction must know.
    *gradients, sums, load, stop = replica.all_reduce("sum", [tf.identity(part) for part in (*totals, load, stop)])

    gradients = [gradient / scale for gradient in gradients] if loss_scale else gradients
    norm = tf.linalg.global_norm(gradients)
    good = tf.math.is_finite(norm) & tf.math.is_finite(sums[0])
    if loss_scale:
        loss_scale.update(good)
    if train_config.clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, train_config.clip_norm, use_norm=norm)
    optimizer.apply_where(good, gradients, model.trainable_variables)
    return {"sums": sums, "load": load, "gradient_norm": norm, "skipped": 1.0 - tf.cast(good, tf.float32), "stop": stop}


def eval_step(model, inp, tar):
    """The loss without smoothing (so that its exponential is the perplexity) and the accuracy; runs in each replica.

    Args:
      model: a `Transformer`.
      inp, tar: as for `train_step`.
    Returns: float32 `[3]`, sums over the batch: loss in nats, target tokens, right target tokens.
    """
    replica = tf.distribute.get_replica_context()
    share = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
    inp, tar = share_of(inp, *share), share_of(tar, *share)
    dec_output, _ = model.dec_output(inp, tar[:, :-1], training=False)
    return replica.all_reduce("sum", loss_in_parts(model.logits, dec_output, tar[:, 1:])[:3])
