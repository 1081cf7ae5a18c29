"""Short trainings on the same batches, which differ in devices, precision or compilation."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from gpu_check.sizes import Sizes, Variant
from tf_transformer.data.readers import open_corpus
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.special_tokens import PAD, START
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.update import Sums, Update


class History(NamedTuple):
    """The updates of a training."""

    losses: np.ndarray  # float32 [updates], nats a token
    norms: np.ndarray  # float32 [updates], of the gradients
    skipped: int  # updates whose gradients were not finite


class ShortRuns:
    """Trains each `Variant` once, with the same initial weights, batches and learning rates.

    Args:
      sizes: a `Sizes`.
      tokenizers: of source and target.
    """

    def __init__(self, sizes: Sizes, tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
        vocabularies = [tokenizer.vocab_size for tokenizer in tokenizers]
        self._config = sizes.config.with_vocabularies(*vocabularies)
        self._batches = text_batches(tokenizers, sizes.rows, sizes.updates)
        self.known: dict[Variant, History] = {}

    def history(self, variant: Variant) -> History:
        """The `History` of a variant."""
        if variant not in self.known:
            with tensor_float_32(variant.tf32):
                self.known[variant] = self._train(variant)
        return self.known[variant]

    def _train(self, variant: Variant) -> History:
        rows, length = self._batches[0][0].shape
        tokens = -(-rows // (variant.replicas * variant.micro_batches)) * length
        config = self._config.replace(max_length=length, micro_batch_tokens=tokens)
        keras.utils.set_random_seed(config.train.seed)
        strategy = make_strategy(replicas=variant.replicas)
        accumulate = variant.micro_batches > 1
        update = Update(
            config,
            variant.precision,
            strategy,
            accumulate=accumulate,
            jit_compile=variant.jit_compile,
        )
        losses, norms, skipped = [], [], 0
        for inp, tar in self._batches:
            result = update(inp, tar, tf.zeros([2]))
            sums = Sums(*result["sums"].numpy())
            losses.append(sums.loss / sums.target_tokens)
            norms.append(result["gradient_norm"].numpy())
            skipped += int(result["skipped"].numpy())
        return History(np.array(losses), np.array(norms), skipped)


def pocket_pairs(number: int) -> list[tuple[str, str]]:
    """Sentence pairs of the built-in corpus."""
    return list(itertools.islice(open_corpus("pocket", "en", "de").read("train"), number))


def text_batches(
    tokenizers: tuple[Tokenizer, Tokenizer], rows: int, number: int
) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Batches of sentence pairs, all of one shape: source ids `[rows, S]`, target `[rows, T + 1]`.

    Args:
      tokenizers: of source and target.
      rows: pairs of a batch.
      number: of batches.
    """
    sources, targets = zip(*pocket_pairs(rows * number))
    inp = tokenizers[0].encode(list(sources)).to_tensor(PAD)  # (rows * number, S)
    tar = tokenizers[1].encode(list(targets)).to_tensor(PAD)  # (rows * number, T)
    tar = tf.pad(tar, [[0, 0], [1, 0]], constant_values=START)
    return list(zip(tf.split(inp, number), tf.split(tar, number)))


@contextlib.contextmanager
def tensor_float_32(enabled: bool) -> Iterator[None]:
    """Sets whether float32 products may use TF32, the GPU's 19-bit numbers."""
    config = tf.config.experimental
    before = config.tensor_float_32_execution_enabled()
    config.enable_tensor_float_32_execution(enabled)
    try:
        yield
    finally:
        config.enable_tensor_float_32_execution(before)
