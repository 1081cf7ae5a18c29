"""What `tf-transformer info` prints: a preset, a model folder, sentence pairs."""

import collections
import os

import numpy as np

from tf_transformer import checkpoint
from tf_transformer.batching import Batches
from tf_transformer.config import preset
from tf_transformer.datasets import open_corpus
from tf_transformer.encoding import encode_pairs
from tf_transformer.model_folder import load_config, step_checkpoints
from tf_transformer.tokenizer import learn_tokenizers

SAMPLES = 10


def describe(preset_name, model_dir, data, source, target):
    """Describes a model folder where one is named, else the preset; and sentence pairs where some are named.

    Args:
      preset_name: of `config.PRESETS`.
      model_dir: a model folder, or None.
      data: as for `datasets.open_corpus`, or None.
      source, target: language codes.
    Returns: text of several lines.
    Raises: UserError when there is nothing of these names.
    """
    parts = []
    if model_dir:
        parts.append(describe_folder(model_dir))
    config = load_config(model_dir) if model_dir else preset(preset_name)
    if not model_dir:
        size = config.data.vocab_size
        config = config.replace(input_vocab_size=size, target_vocab_size=size)
        parts.append(f"preset {preset_name}\n{describe_model(config)}")
    if data:
        parts.append(describe_data(config, open_corpus(data, source, target)))
    return "\n\n".join(parts)


def describe_model(config):
    """The layers, the parameters and the recipe of a `Config`, as text."""
    m, d, t = config.model, config.data, config.train
    built = checkpoint.build_model(m).count_params()
    assert built == m.parameters(), f"{built} weights, but the formula says {m.parameters()}"
    depth = f"d_k {m.key_dim or m.d_model // m.num_heads}, d_v {m.value_dim or m.d_model // m.num_heads}"
    vocabularies = f"{m.input_vocab_size:,}" if m.shared_embeddings else f"{m.input_vocab_size:,} and {m.target_vocab_size:,}"
    sharing = "one matrix for both embeddings and the softmax" if m.shared_embeddings else "separate"
    return "\n".join([
        f"  layers           {m.num_layers} encoder + {m.num_layers} decoder, d_model {m.d_model}, d_ff {m.dff}",
        f"  heads            {m.num_heads} of {depth}; {m.positions} positions",
        f"  vocabulary       {vocabularies} sub-words, {sharing}",
        f"  parameters       {built:,} ({built / 1e6:.1f}M)",
        f"  tokens a step    {d.tokens_per_step:,} source and {d.tokens_per_step:,} target, padding included",
        f"  recipe           {t.steps:,} updates, warm-up {t.warmup_steps:,}, dropout {m.rate}, label smoothing {t.label_smoothing}",
    ])  # fmt: skip


def describe_folder(model_dir):
    """What a model folder holds, as text."""
    config = load_config(model_dir)
    found = [path for path in (os.path.join(model_dir, f"{name}.npz") for name in ("averaged", "best")) if os.path.exists(path)]
    found += step_checkpoints(model_dir)
    d = config.data
    lines = [f"model folder {model_dir}", describe_model(config), f"  data             {d.data}, {d.source} to {d.target}", "  checkpoints"]
    lines += [f"    {os.path.relpath(path, model_dir)}  {os.path.getsize(path) / 1e6:,.1f} MB" for path in found]
    return "\n".join(lines if found else [*lines, "    none yet"])


def describe_data(config, corpus):
    """Sizes, lengths, vocabulary and batches of sentence pairs under the settings of a `Config`, and samples, as text."""
    lines = [f"{corpus.name}"]
    for split in corpus.splits:
        pairs = list(corpus.read(split))
        lines.append(f"  {split}: {len(pairs):,} pairs")
        for side, sentences in zip(("source", "target"), zip(*pairs)):
            words = [sentence.split() for sentence in sentences]
            lengths = np.array([len(w) for w in words])
            types = collections.Counter(word for sentence in words for word in sentence)
            lines.append(
                f"    {side}: {lengths.sum():,} words, {len(types):,} different; {lengths.min()} to {lengths.max()} words a sentence, "
                f"mean {lengths.mean():.1f}, median {np.median(lengths):.0f}"
            )
    train = list(corpus.read("train"))
    tokenizers = learn_tokenizers(lambda: iter(train), config.data.vocab_size, config.data.shared_vocab)
    encoded = encode_pairs(iter(train), tokenizers, config.data.max_length, config.data.max_ratio)
    batches = Batches(encoded, config.data.tokens_per_step, config.train.seed)
    means = (encoded.source.lengths.mean(), encoded.target.lengths.mean())
    dropped = ", ".join(f"{count:,} for {reason}" for reason, count in encoded.dropped.items() if count)
    lines += [
        f"  sub-words of train: {tokenizers[0].vocab_size:,} in the vocabulary; {means[0]:.1f} a source, {means[1]:.1f} a target; "
        f"dropped: {dropped or 'none'}",
        f"  batches: {batches.per_epoch:,} an epoch, {batches.useful_share:.1%} of their tokens useful, rows x length:",
        "    " + ", ".join(f"{bucket.rows} x {bucket.length}" for bucket in batches.buckets),
        "  samples of train:",
    ]
    for source, target in train[:: max(1, len(train) // SAMPLES)][:SAMPLES]:
        lines.append(f"    {source}\n      {target}")
    return "\n".join(lines)
