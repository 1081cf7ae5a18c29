"""The text that `tf-transformer info` prints: a preset, a model folder, sentence pairs."""

import collections
import itertools
import os

import numpy as np

from tf_transformer.checkpoints.paths import all_checkpoints, load_config, read_metrics
from tf_transformer.config import TREES
from tf_transformer.data.batching import Batches
from tf_transformer.data.encoding import describe_dropped, encode_pairs
from tf_transformer.data.sources import open_corpus
from tf_transformer.data.tokenizer import learn_tokenizers, load_tokenizers
from tf_transformer.paper.flops import (
    P100_RATE,
    PAPER_GPUS,
    PAPER_HOURS,
    WMT_LENGTH,
    paper_operations,
    training_operations,
)
from tf_transformer.presets import preset
from tf_transformer.visualization.history import describe_history

SAMPLES = 10


def describe(preset_name, model_dir, data, source, target):
    """Describes a model folder where one is named, else the preset; and sentence pairs where some are named.

    Args:
      preset_name: of `presets.py`.
      model_dir: a model folder, or None.
      data: as for `datasets.open_corpus`, or None.
      source, target: language codes, or None for those of the model or the preset.
    Returns: text of several lines.
    Raises: UserError when there is nothing of these names.
    """
    parts = []
    if model_dir:
        parts.append(describe_folder(model_dir))
    config = load_config(model_dir) if model_dir else preset(preset_name)
    if not model_dir:
        config = config.with_vocabularies(config.data.vocab_size, config.data.vocab_size)
        parts.append(
            f"preset {preset_name}\n{describe_model(config)}\n{describe_operations(config, PAPER_HOURS.get(preset_name))}"
        )
    if data:
        tokenizers = load_tokenizers(model_dir, config.data.shared_vocab) if model_dir else None
        parts.append(
            describe_data(
                config,
                open_corpus(data, source or config.data.source, target or config.data.target),
                tokenizers,
            )
        )
    return "\n\n".join(parts)


def describe_model(config):
    """The layers, the parameters and the recipe of a `Config`, as text."""
    m, d, t = config.model, config.data, config.train
    depth = f"d_k {m.depth}, d_v {m.value_depth}"
    vocabularies = (
        f"{m.input_vocab_size:,}"
        if m.shared_embeddings
        else f"{m.input_vocab_size:,} and {m.target_vocab_size:,}"
    )
    dropout = f"dropout {m.dropout_rate}" + (
        f" (rising to it over {t.dropout_warmup_steps:,} updates)" if t.dropout_warmup_steps else ""
    )
    sharing = (
        "one matrix for both embeddings and the softmax" if m.shared_embeddings else "separate"
    )
    return "\n".join([
        f"  layers           {m.num_layers} encoder + {m.num_layers} decoder, d_model {m.d_model}, d_ff {m.dff}",
        f"  heads            {m.num_heads} of {depth}; {m.positional_encoding} positions",
        f"  vocabulary       {vocabularies} sub-words, {sharing}",
        f"  parameters       {m.parameters():,} ({m.parameters() / 1e6:.1f}M)",
        f"  tokens a step    {d.batch_tokens:,} source and {d.batch_tokens:,} target, padding included",
        f"  recipe           {t.train_steps:,} updates, warm-up {t.warmup_steps:,}, {dropout}, label smoothing {t.label_smoothing}",
    ])  # fmt: skip


def describe_operations(config, paper_hours=None):
    """The floating-point operations of training, counted, and where the paper says how long it trained, by its own estimate (Table 2)."""
    if config.data.target == TREES:
        return "  training         operations are not counted: trees are several times as long as their sentences"
    counted = training_operations(config)
    lines = [
        f"  training         {counted:.1e} operations in the matrix products, at {WMT_LENGTH} sub-words a sentence"
    ]
    if paper_hours:
        estimate = paper_operations(paper_hours)
        lines.append(
            f"  Table 2          {estimate:.1e} operations: {paper_hours:g} hours x {PAPER_GPUS} P100 x {P100_RATE:.1e} a second, as "
            f"the paper estimates; the products are {counted / estimate:.0%} of that"
        )
    return "\n".join(lines)


def describe_folder(model_dir):
    """What a model folder holds, as text."""
    config = load_config(model_dir)
    found = all_checkpoints(model_dir)
    d = config.data
    lines = [
        f"model folder {model_dir}",
        describe_model(config),
        f"  data             {d.data}, {d.source} to {d.target}",
        "  checkpoints",
    ]
    lines += [
        f"    {os.path.relpath(path, model_dir)}  {os.path.getsize(path) / 1e6:,.1f} MB"
        for path in found
    ] or ["    none yet"]
    return "\n".join([*lines, describe_history(model_dir)] if read_metrics(model_dir) else lines)


def describe_data(config, corpus, tokenizers=None):
    """Sizes, lengths, vocabulary and batches of sentence pairs under the settings of a `Config`, and samples, as text.

    Args:
      config: its data settings count.
      corpus: of `datasets.open_corpus`; it is read through, and not kept.
      tokenizers: of source and target; None to learn them.
    """
    lines, train_pairs = [f"{corpus.name}"], 0
    for split in corpus.splits:
        number, sides = describe_split(corpus.read(split))
        lines += [f"  {split}: {number:,} pairs", *sides]
        train_pairs = number if split == "train" else train_pairs
    whose = "model's" if tokenizers else "learnt"
    tokenizers = tokenizers or learn_tokenizers(
        lambda: corpus.read("train"), config.data.vocab_size, config.data.shared_vocab
    )
    encoded = encode_pairs(
        corpus.read("train"), tokenizers, config.data.max_length, config.data.max_length_ratio
    )
    batches = Batches(encoded, config.data.batch_tokens, config.train.seed)
    means = (encoded.source.lengths.mean(), encoded.target.lengths.mean())
    lines += [
        f"  sub-words of train: {tokenizers[0].vocab_size:,} in the {whose} vocabulary; {means[0]:.1f} a source, {means[1]:.1f} a target; "
        f"dropped: {describe_dropped(encoded)}",
        f"  batches: {batches.per_epoch:,} an epoch, {batches.non_padding_fraction:.1%} of their tokens are not padding, rows x length:",
        "    " + ", ".join(f"{bucket.rows} x {bucket.length}" for bucket in batches.buckets),
        "  samples of train:",
    ]
    every = max(1, train_pairs // SAMPLES)
    for source, target in itertools.islice(corpus.read("train"), 0, SAMPLES * every, every):
        lines.append(f"    {source}\n      {target}")
    return "\n".join(lines)


def describe_split(pairs):
    """Returns: the number of pairs, and a line on the words of each side."""
    lengths, types = ([], []), (collections.Counter(), collections.Counter())
    for pair in pairs:
        for side, sentence in enumerate(pair):
            words = sentence.split()
            lengths[side].append(len(words))
            types[side].update(words)
    if not lengths[0]:
        return 0, []
    lines = []
    for name, numbers, different in zip(("source", "target"), map(np.array, lengths), types):
        lines.append(
            f"    {name}: {numbers.sum():,} words, {len(different):,} different; {numbers.min()} to {numbers.max()} words a sentence, "
            f"mean {numbers.mean():.1f}, median {np.median(numbers):.0f}"
        )
    return len(lengths[0]), lines
