"""Masks: float tensors in which 1 hides a position and 0 shows it, as in the reference code.

A boolean mask is one of Keras, in which True shows a position: `float_mask` turns it into such a
float mask. Where a layer without a mask hides something, the mask 0.0 hides nothing.

Shapes: B batch, S source, T target, H heads.
"""

from typing import Any

import tensorflow as tf

from tf_transformer.model.keras_compat import functional
from tf_transformer.special_tokens import PAD


@functional
def create_padding_mask(seq: tf.Tensor) -> tf.Tensor:
    """Creates a mask that hides the padding of a batch.

    Args:
      seq: ids `[B, S]`, 0 where there is padding.
    Returns: float32 `[B, 1, 1, S]`, to be added to attention logits `[B, H, T, S]`.
    """
    mask = tf.cast(tf.math.equal(seq, PAD), tf.float32)  # (B, S)
    return tf.expand_dims(tf.expand_dims(mask, 1), 1)  # (B, 1, 1, S), which LiteRT runs too


@functional
def create_look_ahead_mask(size: int | tf.Tensor) -> tf.Tensor:
    """Creates a mask that hides from each position the positions after it (Sec. 3.2.3).

    Args:
      size: T, the number of positions. In a functional model, Keras refuses the `tf.shape` of an
        input: there, `create_masks` makes the mask from the ids.
    Returns: float32 `[T, T]`; row t has 1 in the columns after t.
    """
    return 1 - tf.linalg.band_part(tf.ones((size, size)), -1, 0)  # (T, T)


@functional
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


def float_mask(mask: Any, logits_shape: tf.TensorShape) -> tf.Tensor:
    """Returns a mask of attention logits in the form of the reference code.

    Args:
      mask: 1 = hidden, of a shape that broadcasts to the logits; or boolean, True = shown, as in
        Keras: `[B, S]` (not padding), `[B, T, S]`, or the shape of the logits.
      logits_shape: `[..., T, S]`.
    Returns: float32, 1 = hidden.
    Raises: ValueError for a boolean mask that is a scalar, or of another batch; and for a mask of
      integers: 1 is hidden in some programs, and shown in others.
    """
    mask = tf.convert_to_tensor(mask)
    if mask.dtype.is_integer and mask.shape.rank != 0:
        raise ValueError(
            f"a mask of {mask.dtype.name} can mean both: cast it to bool where 1 is visible, as in "
            "Keras, or to float32 where 1 is hidden, as in the reference code"
        )
    if mask.dtype != tf.bool:
        return tf.cast(mask, tf.float32)
    batch = mask.shape[:1]
    if not mask.shape.rank or (batch != [1] and not batch.is_compatible_with(logits_shape[:1])):
        raise ValueError(
            f"a boolean mask is [B, S], [B, T, S] or [B, H, T, S], True = shown; {mask.shape} is "
            f"none for attention logits {logits_shape}. The mask 0.0 hides nothing"
        )
    while mask.shape.rank < logits_shape.rank:  # [B, S] becomes [B, 1, 1, S]
        mask = tf.expand_dims(mask, 1)
    return 1 - tf.cast(mask, tf.float32)
