"""Search and teacher forcing of a batch with a model, in or out of a graph; ids to text.

`Translator` and the exported model (`export.signatures`) share these functions.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_transformer.config import DEFAULT_GENERATION, DecodeConfig, GenerationConfig
from tf_transformer.data.text_files import LINE_SEPARATORS
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import (
    LogitsProcessor,
    SearchProblem,
    SearchResult,
    beam_search,
    greedy_search,
)
from tf_transformer.decoding.ensemble import (
    Model,
    average_probabilities,
    make_ensemble_step,
    members,
    single_model,
)
from tf_transformer.decoding.logits_processors import PROCESSORS, make_processors
from tf_transformer.decoding.sampling import sample
from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import END, PAD, START


def search_translations(
    model: Model,
    inp: tf.Tensor,
    decode: DecodeConfig,
    n_best: int = 1,
    prefix: tf.Tensor | None = None,
    generation: GenerationConfig = DEFAULT_GENERATION,
    length_penalty: tf.Tensor | None = None,
    max_decode_length: tf.Tensor | None = None,
    for_xla: bool = False,
    **values: tf.Tensor,
) -> SearchResult:
    """Searches the translations of a batch; runs in a graph.

    Args:
      model: a built one.
      inp: source ids `[B, S]`, each ending with the end token, then padding.
      n_best: hypotheses wanted for each sentence, at most `decode.beam_size`.
      prefix: int32 `[B, P]`, the first target ids of each translation, without the end token, then
        padding; at most `model.pe_target` - 1 ids. None: all translations are free.
      length_penalty: float32 `[B]`, for each sentence instead of `decode.length_penalty`.
      max_decode_length: int32 `[B]`, the longest translations in sub-words with the end token,
        which can only be shorter than `decode` allows; 0 for no own limit.
      for_xla: whether XLA compiles the graph: then all shapes follow from the shape of the batch.
        The result is the same, with more padding.
      **values: as for `make_processors`.
    """
    beam_size = decode.beam_size
    processors = make_processors(generation, **values)
    limits = prefix, max_decode_length, for_xla
    problem = _search_problem(model, inp, decode, beam_size, processors, *limits)
    if length_penalty is not None:
        problem = problem._replace(alpha=length_penalty)
    if beam_size == 1:
        return greedy_search(problem)
    return beam_search(problem, beam_size, n_best)


def alternative_translations(
    model: Model,
    inp: tf.Tensor,
    decode: DecodeConfig,
    number: int,
    prefix: tf.Tensor,
    min_length: int | tf.Tensor = 0,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Completes each prefix in several ways, which differ in the next token; runs in a graph.

    The `number` most probable tokens after the prefix are taken, and greedy search completes each
    of them: what CTranslate2 calls `return_alternatives`.

    Args:
      model, inp, decode: as for `search_translations`; the beam size has no effect.
      number: n, at most V - 3.
      prefix: as for `search_translations`, but at most `model.pe_target` - 2 ids.
      min_length: fewest tokens without the end token, as of `GenerationConfig`; or int32 `[B]`.
    Returns: ids, scores and `truncated` as in a `SearchResult`, of whole translations, the one with
      the most probable next token first; the probabilities of the token after the prefix, float32
      `[B, n]`.
    """
    position = _count(prefix)  # (B), of the next token
    prefix = tf.pad(prefix, [[0, 0], [0, 1]], constant_values=PAD)  # (B, P + 1)
    logits = tf.gather(target_logits(model, inp, prefix), position, batch_dims=1)  # (B, V)
    p = tf.nn.softmax(tf.cast(logits, tf.float32))  # (B, V)
    vocabulary = tf.range(p.shape[-1])
    impossible = (vocabulary == PAD) | (vocabulary == START)  # (V)
    impossible |= (vocabulary == END) & (position < min_length)[:, tf.newaxis]  # (B, V)
    p = tf.where(impossible, NEGATIVE_INFINITY, p)
    probabilities, tokens = tf.math.top_k(p, number)  # (B, n)

    is_next = tf.range(tf.shape(prefix)[1]) == position[:, tf.newaxis]  # (B, P + 1)
    tokens = tokens[:, :, tf.newaxis]  # (B, n, 1)
    prefixes = tf.where(is_next[:, tf.newaxis], tokens, prefix[:, tf.newaxis])  # (B, n, P + 1)
    prefixes = tf.reshape(prefixes, [-1, tf.shape(prefix)[1]])  # (B * n, P + 1)
    processors = make_processors(DEFAULT_GENERATION, min_length=min_length)
    problem = _search_problem(model, inp, decode, 1, processors)
    max_lengths = tf.maximum(problem.max_lengths, position + 2)  # room for these prefixes and END
    problem = problem._replace(max_lengths=max_lengths).repeat(number)
    ids, scores, _, truncated = greedy_search(problem._replace(prefix=prefixes))
    ids = tf.reshape(ids, [-1, number, tf.shape(ids)[2]])  # (B, n, L)
    scores, truncated = (tf.reshape(each, [-1, number]) for each in (scores, truncated))  # (B, n)
    return ids, scores, truncated, probabilities


def sample_translations(
    model: Model,
    inp: tf.Tensor,
    decode: DecodeConfig,
    seeds: tf.Tensor,
    n_best: int = 1,
    prefix: tf.Tensor | None = None,
    generation: GenerationConfig = DEFAULT_GENERATION,
    max_decode_length: tf.Tensor | None = None,
    **sampling: Any,
) -> SearchResult:
    """Draws translations of a batch from the model's distribution; runs in a graph.

    The other arguments are as for `search_translations`; the beam size has no effect.

    Args:
      seeds: as for `sample`.
      n_best: samples of each sentence.
      **sampling: `temperature`, `top_k` and `top_p`, as for `sample`; and values as for
        `make_processors`.
    Returns: a `SearchResult`, in the order of drawing.
    """
    values = {name: sampling.pop(name) for name in PROCESSORS if name in sampling}
    processors = make_processors(generation, **values)
    problem = _search_problem(model, inp, decode, 1, processors, prefix, max_decode_length)
    return sample(problem, seeds, n_best, **sampling)


def _search_problem(
    model: Model,
    inp: tf.Tensor,
    decode: DecodeConfig,
    beam_size: int,
    processors: Sequence[LogitsProcessor] = (),
    prefix: tf.Tensor | None = None,
    max_decode_length: tf.Tensor | None = None,
    for_xla: bool = False,
) -> SearchProblem:
    """The problem of a batch. The longest outputs have room for the prefix and the end token."""
    max_lengths = max_output_lengths(model, _count(inp) - 1, decode)  # of the input without END
    if max_decode_length is not None:
        shorter = tf.minimum(max_lengths, max_decode_length)
        max_lengths = tf.where(max_decode_length == 0, max_lengths, shorter)
    # The most that these can be, from the shapes alone.
    longest = tf.maximum(max_output_lengths(model, tf.shape(inp)[1] - 1, decode), 1)
    if prefix is not None:
        max_lengths = tf.maximum(max_lengths, _count(prefix) + 1)
        longest = tf.maximum(longest, tf.shape(prefix)[1] + 1)
    fixed_length = longest if for_xla else None
    step, state = make_ensemble_step(model, inp, beam_size, fixed_length)
    options = decode.length_penalty, prefix, processors, fixed_length
    return SearchProblem(step, state, max_lengths, *options)


def _count(ids: tf.Tensor) -> tf.Tensor:
    """The lengths of rows of ids without their padding: int32 `[B, T]` -> int32 `[B]`."""
    return tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=1)


def max_output_lengths(model: Model, input_lengths: tf.Tensor, decode: DecodeConfig) -> tf.Tensor:
    """The longest outputs: input + `extra_decode_length`, at most the model's positions.

    Input lengths in sub-words and outputs are int32 of the same shape.
    """
    extra = min(decode.extra_decode_length, model.pe_target)  # without an integer overflow
    return tf.minimum(input_lengths + extra, model.pe_target)


def teacher_forcing(
    model: Transformer, inp: tf.Tensor, tar_real: tf.Tensor
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Runs the model on sources and given targets.

    Args:
      inp: source ids `[B, S]`, each ending with the end token, then padding.
      tar_real: target ids `[B, T]`, in the same form.
    Returns: logits `[B, T, V]`, attention weights by name. Logits t predict target token t.
    """
    start = tf.fill([tf.shape(tar_real)[0], 1], START)
    tar_inp = tf.concat([start, tar_real[:, :-1]], axis=1)  # (B, T)
    return model(inp, tar_inp, training=False)


def cross_attention(model: Transformer, inp: tf.Tensor, tar_real: tf.Tensor) -> tf.Tensor:
    """The decoder's attention over the source, `[B, L, H, T, S]`: of each layer and head.

    Row t is where the model attends when it predicts target token t. Arguments are as for
    `teacher_forcing`.
    """
    _, weights = teacher_forcing(model, inp, tar_real)
    layers = range(1, model.decoder.num_layers + 1)
    return tf.stack([weights[f"decoder_layer{i}_block2"] for i in layers], axis=1)


def align_tokens(model: Model, inp: tf.Tensor, tar_real: tf.Tensor) -> tf.Tensor:
    """The source token with the most attention of each target token, int64 `[B, T]`; -1 for none.

    It has the largest mean of all heads of all layers; the end token of the source stands for none.
    Arguments are as for `teacher_forcing`.
    """
    weights = cross_attention(single_model(model), inp, tar_real)  # (B, L, H, T, S)
    best = tf.argmax(tf.reduce_mean(weights, axis=[1, 2]), axis=-1)  # (B, T)
    is_end = tf.gather(inp, best, batch_dims=1) == END
    return tf.where(is_end, tf.constant(-1, tf.int64), best)


def target_logits(model: Model, inp: tf.Tensor, tar_real: tf.Tensor) -> tf.Tensor:
    """The logits of `teacher_forcing`, also of an `Ensemble`: `[B, T, V]`."""
    logits = [teacher_forcing(each, inp, tar_real)[0] for each in members(model)]
    return average_probabilities(logits)


def target_log_probs(model: Model, inp: tf.Tensor, tar_real: tf.Tensor) -> tf.Tensor:
    """log p(target token t | source, tokens before t), float32 `[B, T]`; 0 at padding."""
    logits = tf.cast(target_logits(model, inp, tar_real), tf.float32)  # (B, T, V)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tar_real, logits)  # (B, T)
    return tf.where(tar_real != PAD, -losses, 0.0)


def detokenize(tokenizer: Tokenizer, ids: tf.Tensor) -> tf.Tensor:
    """Converts ids `[N, T]` to texts `[N]` that are valid UTF-8 and one line.

    The vocabulary has a sub-word for each byte, so a model can write any bytes. U+FFFD replaces
    invalid UTF-8, and a blank each line separator.
    """
    texts = tf.strings.unicode_transcode(tokenizer.decode(ids), "UTF-8", "UTF-8")
    return tf.strings.regex_replace(texts, LINE_SEPARATORS, " ")
