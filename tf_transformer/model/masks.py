"""Masks: float tensors in which 1 hides a position and 0 shows it, as in the reference code.

Shapes: B batch, S source, T target.
"""

import tensorflow as tf

from tf_transformer.special_tokens import PAD


def create_padding_mask(seq: tf.Tensor) -> tf.Tensor:
    """Creates a mask that hides the padding of a batch.

    Args:
      seq: ids `[B, S]`, 0 where there is padding.
    Returns: float32 `[B, 1, 1, S]`, to be added to attention logits `[B, H, T, S]`.
    """
    mask = tf.cast(tf.math.equal(seq, PAD), tf.float32)  # (B, S)
    return mask[:, tf.newaxis, tf.newaxis, :]  # (B, 1, 1, S)


def create_look_ahead_mask(size: int | tf.Tensor) -> tf.Tensor:
    """Creates a mask that hides from each position the positions after it (Sec. 3.2.3).

    Args:
      size: T, the number of positions.
    Returns: float32 `[T, T]`; row t has 1 in the columns after t.
    """
    return 1 - tf.linalg.band_part(tf.ones((size, size)), -1, 0)  # (T, T)


def create_masks(inp: tf.Tensor, tar: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Creates the three masks of the model (Sec. 3.2.3).

    Args:
      inp: source ids `[B, S]`.
      tar: decoder input ids `[B, T]`.
    Returns: `enc_padding_mask [B, 1, 1, S]` for the encoder's self-attention;
      `look_ahead_mask [B, 1, T, T]` for the decoder's self-attention, which hides the future and
      the padding; `dec_padding_mask [B, 1, 1, S]` for the attention over the encoder's output.
    """
    enc_padding_mask = create_padding_mask(inp)  # (B, 1, 1, S)
    dec_padding_mask = create_padding_mask(inp)  # (B, 1, 1, S)

    look_ahead_mask = create_look_ahead_mask(tf.shape(tar)[1])  # (T, T)
    dec_target_padding_mask = create_padding_mask(tar)  # (B, 1, 1, T)
    look_ahead_mask = tf.maximum(dec_target_padding_mask, look_ahead_mask)  # (B, 1, T, T)
    return enc_padding_mask, look_ahead_mask, dec_padding_mask
