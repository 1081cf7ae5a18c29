"""The command info: describes presets, model folders and sentence pairs."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from tf_transformer.checkpoints.model_folder import (
    all_checkpoints,
    find_model_dir,
    load_config,
    read_metrics,
)
from tf_transformer.cli.command import Flag, command, is_for, language_flags, one_of
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.config import TREES, Config
from tf_transformer.paper.flops import (
    P100_RATE,
    PAPER_GPUS,
    PAPER_HOURS,
    WMT_LENGTH,
    paper_operations,
    training_operations,
)
from tf_transformer.presets import PRESETS, VARIATIONS, preset
from tf_transformer.visualization.history import describe_history

if TYPE_CHECKING:
    from tf_transformer.data.corpus import Corpus
    from tf_transformer.data.encoding import EncodedPairs
    from tf_transformer.data.tokenizer import Tokenizer

SAMPLES = 10  # of sentence pairs


@command(
    "info",
    "describe a preset, a model folder with the history of its run, or sentence pairs",
    lambda: [
        Flag(
            "preset", str, f"the preset to describe: {', '.join([*PRESETS, *VARIATIONS])}", "pocket"
        ),
        Flag(
            "model_dir",
            str,
            "model folder to describe instead of a preset; `info FOLDER` does the same",
        ),
        Flag("plot", str, "PNG file for loss, BLEU, learning rate and speed of the run"),
        Flag("data", str, "sentence pairs to describe, as for train"),
        *language_flags("the model's, or that of the preset"),
    ],
    positional="model_dir",
)
def info(values: flags.FlagValues) -> None:
    """Describes a model folder, or else a preset; with --data also sentence pairs."""
    one_of(values, "model_dir", "preset")
    is_for(values, "model_dir", "plot")
    is_for(values, "data", "source", "target")
    model_dir = find_model_dir(values.model_dir) if values.model_dir else ""
    if model_dir:
        parts = [describe_folder(model_dir)]
    else:
        parts = [describe_preset(values.preset)]
    if values.data:
        parts.append(_describe_data(values, model_dir))
    if values.plot:
        from tf_transformer.visualization.history import plot_history

        plot_history(model_dir, values.plot)
        parts.append(f"drew {values.plot}")
    print("\n\n".join(parts))


def _describe_data(values: flags.FlagValues, model_dir: str) -> str:
    """Describes the sentence pairs of --data, with the vocabulary of the model if there is one."""
    start_tensorflow()
    from tf_transformer.data.readers import open_corpus
    from tf_transformer.data.tokenizer import load_tokenizers

    tokenizers = None
    if model_dir:
        config = load_config(model_dir)
        tokenizers = load_tokenizers(model_dir, config.data.shared_vocab)
    else:
        config = preset(values.preset)
    source = values.source or config.data.source
    target = values.target or config.data.target
    return describe_corpus(config, open_corpus(values.data, source, target), tokenizers)


def describe_preset(name: str) -> str:
    """Describes a preset: its model, its recipe, and the operations of its training, as text.

    Args:
      name: of a preset or of a row of Table 3.
    Raises: UserError for an unknown name.
    """
    config = preset(name)
    config = config.with_vocabularies(config.data.vocab_size, config.data.vocab_size)
    operations = describe_operations(config, PAPER_HOURS.get(name))
    return f"preset {name}\n{describe_model(config)}\n{operations}"


def describe_model(config: Config) -> str:
    """Describes the layers, the parameters and the recipe of a `Config`, as text."""
    model = config.model
    data = config.data
    train = config.train
    vocabularies = f"{model.input_vocab_size:,}"
    sharing = "one matrix for both embeddings and the softmax"
    if not model.shared_embeddings:
        vocabularies += f" and {model.target_vocab_size:,}"
        sharing = "separate matrices"
    dropout = f"dropout {model.dropout_rate}"
    if train.dropout_warmup_steps:
        dropout += f" (rising to it over {train.dropout_warmup_steps:,} updates)"
    parameters = model.parameters()
    lines = {
        "layers": f"{model.num_layers} encoder + {model.num_layers} decoder, "
        f"d_model {model.d_model}, d_ff {model.dff}",
        "heads": f"{model.num_heads} of d_k {model.depth}, d_v {model.value_depth}; "
        f"{model.positional_encoding} positions",
        "vocabulary": f"{vocabularies} sub-words, {sharing}",
        "parameters": f"{parameters:,} ({parameters / 1e6:.1f}M)",
        "tokens per step": f"{data.batch_tokens:,} source and {data.batch_tokens:,} target, "
        "padding included",
        "recipe": f"{train.train_steps:,} updates, warm-up {train.warmup_steps:,}, {dropout}, "
        f"label smoothing {train.label_smoothing}",
    }
    return "\n".join(_line(title, text) for title, text in lines.items())


def _line(title: str, text: str) -> str:
    return f"  {title:15s}  {text}"


def describe_operations(config: Config, paper_hours: float | None = None) -> str:
    """Describes the floating-point operations of training, as text.

    Args:
      config: a `Config` with the sizes of its vocabularies.
      paper_hours: training time in the paper, for the paper's own estimate (Table 2); None where
        the paper has none.
    """
    if config.data.target == TREES:
        return _line(
            "training",
            "operations are not counted: trees are several times as long as their sentences",
        )
    counted = training_operations(config)
    lines = [
        _line(
            "training",
            f"{counted:.1e} operations in the matrix products, with {WMT_LENGTH} sub-words per "
            "sentence",
        )
    ]
    if paper_hours:
        estimate = paper_operations(paper_hours)
        lines.append(
            _line(
                "Table 2",
                f"{estimate:.1e} operations: {paper_hours:g} hours x {PAPER_GPUS} P100 x "
                f"{P100_RATE:.1e} per second, the paper's estimate; the matrix products are "
                f"{counted / estimate:.0%} of it",
            )
        )
    return "\n".join(lines)


def describe_folder(model_dir: str) -> str:
    """Describes a model folder: model, data, checkpoints, and the history of the run, as text.

    Raises: UserError when there is no model in the folder.
    """
    config = load_config(model_dir)
    data = config.data
    checkpoints = []
    for path in all_checkpoints(model_dir):
        with contextlib.suppress(FileNotFoundError):  # a training run has just removed it
            size = os.path.getsize(path)
            checkpoints.append(f"    {os.path.relpath(path, model_dir)}  {size / 1e6:,.1f} MB")
    lines = [
        f"model folder {model_dir}",
        describe_model(config),
        _line("data", f"{data.data}, {data.source} to {data.target}"),
        "  checkpoints",
        *(checkpoints or ["    none yet"]),
    ]
    if read_metrics(model_dir):
        lines.append(describe_history(model_dir))
    return "\n".join(lines)


def describe_corpus(
    config: Config, corpus: Corpus, tokenizers: tuple[Tokenizer, Tokenizer] | None = None
) -> str:
    """Describes sizes, lengths, vocabulary and batches of sentence pairs, with samples, as text.

    Args:
      config: a `Config`, whose data settings are used.
      corpus: of `data.readers.open_corpus`; it is streamed.
      tokenizers: of source and target; None to learn them.
    """
    lines = [corpus.name]
    sizes = {}
    for split in corpus.splits:
        sizes[split], sides = describe_split(corpus.read(split))
        lines += [f"  {split}: {sizes[split]:,} pairs", *sides]
    lines += _describe_batches(config, corpus, tokenizers)
    lines.append("  samples of train:")
    every = max(1, sizes.get("train", 0) // SAMPLES)
    for source, target in itertools.islice(corpus.read("train"), 0, SAMPLES * every, every):
        lines.append(f"    {source}\n      {target}")
    return "\n".join(lines)


def _describe_batches(
    config: Config, corpus: Corpus, tokenizers: tuple[Tokenizer, Tokenizer] | None
) -> list[str]:
    """The lines on sub-words and batches of the train split; arguments as above."""
    from tf_transformer.data.batching import Batches
    from tf_transformer.data.encoding import cached_pairs, describe_dropped
    from tf_transformer.data.tokenizer import learn_tokenizers

    data = config.data
    vocabulary = "the model's vocabulary"
    if tokenizers is None:
        vocabulary = "a vocabulary learned from it"
        tokenizers = learn_tokenizers(
            lambda: corpus.read("train"),
            data.vocab_size,
            data.shared_vocab,
            subword_model=data.subword_model,
        )
    with tempfile.TemporaryDirectory(prefix="tf_transformer-") as cache:
        pairs = cached_pairs(corpus, "train", tokenizers, data, cache)
        batches = Batches(pairs, data.batch_tokens, config.train.seed, max_shapes=data.max_shapes)
        mean_lengths = pairs.lengths.mean(axis=0)
        weights = _describe_weights(pairs)
    shapes = ", ".join(f"{bucket.rows} x {bucket.length}" for bucket in batches.buckets)
    return [
        f"  sub-words of train: {tokenizers[0].vocab_size:,} in {vocabulary}; mean length "
        f"{mean_lengths[0]:.1f} of sources, {mean_lengths[1]:.1f} of targets; "
        f"dropped: {describe_dropped(pairs)}",
        *weights,
        f"  batches: {batches.per_epoch:,} per epoch, {batches.non_padding_fraction:.1%} of their "
        "tokens are not padding, rows x length:",
        f"    {shapes}",
    ]


def _describe_weights(pairs: EncodedPairs) -> list[str]:
    """A line on the weights of the pairs in the loss, where they have some."""
    if not pairs.weighted:
        return []
    weights = pairs.weights(np.arange(len(pairs)), len(pairs))
    return [
        f"  weights of train: {weights.min():g} to {weights.max():g}, mean {weights.mean():.3g}, "
        f"{np.mean(weights == 1):.1%} are 1"
    ]


def describe_split(pairs: Iterable[tuple[str, str]]) -> tuple[int, list[str]]:
    """Describes the words of one split.

    Args:
      pairs: an iterator of (source, target) strings.
    Returns: the number of pairs; a line on the words of each side.
    """
    lengths: tuple[list[int], list[int]] = ([], [])
    vocabularies: tuple[collections.Counter[str], collections.Counter[str]] = (
        collections.Counter(),
        collections.Counter(),
    )
    for pair in pairs:
        for side, sentence in enumerate(pair):
            words = sentence.split()
            lengths[side].append(len(words))
            vocabularies[side].update(words)
    number = len(lengths[0])
    if not number:
        return 0, []
    lines = []
    for name, counts, vocabulary in zip(("source", "target"), lengths, vocabularies):
        lines.append(
            f"    {name}: {sum(counts):,} words, {len(vocabulary):,} different; {min(counts)} to "
            f"{max(counts)} words per sentence, mean {np.mean(counts):.1f}, median "
            f"{np.median(counts):.0f}"
        )
    return number, lines
