"""The command info: describes presets, model folders and sentence pairs."""

from __future__ import annotations

import array
import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
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
from tf_transformer.data.readers import open_corpus
from tf_transformer.paper.flops import (
    P100_RATE,
    PAPER_GPUS,
    PAPER_HOURS,
    WMT_LENGTH,
    paper_operations,
    training_operations,
)
from tf_transformer.presets import PRESETS, VARIATIONS, preset
from tf_transformer.visualization.history import describe_history, plot_history

if TYPE_CHECKING:
    from tf_transformer.data.corpus import Corpus

SAMPLES = 10  # of sentence pairs


@command(
    "info",
    "describe a preset, a model folder with the history of its run, or sentence pairs",
    lambda: [
        Flag(
            "preset", str, f"the preset to describe: {', '.join([*PRESETS, *VARIATIONS])}", "pocket"
        ),
        Flag("model_dir", str, "model folder to describe; `info FOLDER` does the same"),
        Flag("plot", str, "PNG file for loss, BLEU, learning rate and speed of the run"),
        Flag("data", str, "sentence pairs to describe, as for train"),
        *language_flags("the model's, or that of the preset"),
    ],
    positional="model_dir",
)  # fmt: skip
def info(values: flags.FlagValues) -> None:
    """Describes a model folder, or else a preset; with --data also sentence pairs."""
    one_of(values, "model_dir", "preset")
    is_for(values, "model_dir", "plot")
    is_for(values, "data", "source", "target")
    model_dir = find_model_dir(values.model_dir) if values.model_dir else ""
    if model_dir:
        config = load_config(model_dir)
        lines = _describe_folder(config, model_dir)
    else:
        config = preset(values.preset)
        lines = _describe_preset(config, values.preset)
    print(*lines, sep="\n")
    if values.data:
        start_tensorflow()
        languages = values.source or config.data.source, values.target or config.data.target
        corpus = open_corpus(values.data, *languages, hold_out=config.data.hold_out)
        print("", *_describe_corpus(config, corpus, model_dir), sep="\n")
    if values.plot:
        plot_history(model_dir, values.plot)
        print(f"\ndrew {values.plot}")


def _line(title: str, text: str) -> str:
    return f"  {title:15s}  {text}"


def _describe_preset(config: Config, name: str) -> Iterator[str]:
    """The lines on a preset: its model, its recipe, and the operations of its training."""
    config = config.with_vocabularies(config.data.vocab_size, config.data.vocab_size)
    yield f"preset {name}"
    yield from _describe_model(config)
    if config.data.target == TREES:  # several times as long as their sentences
        return
    counted = training_operations(config)
    text = f"{counted:.1e} operations in the matrix products, with {WMT_LENGTH} sub-words per "
    yield _line("training", text + "sentence")
    if hours := PAPER_HOURS.get(name):
        estimate = paper_operations(hours)
        yield _line(
            "Table 2",
            f"{estimate:.1e} operations: {hours:g} hours x {PAPER_GPUS} P100 x {P100_RATE:.1e} per "
            f"second, the paper's estimate; the matrix products are {counted / estimate:.0%} of it",
        )


def _describe_model(config: Config) -> Iterator[str]:
    """The lines on the layers, the parameters and the recipe of a `Config`."""
    model, data, train = config.model, config.data, config.train
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
        "layers": f"{model.encoder_layers} encoder + {model.decoder_layers} decoder, "
        f"{model.norm}-norm, d_model {model.d_model}, d_ff {model.dff}",
        "heads": f"{model.num_heads} of d_k {model.depth}, d_v {model.value_depth}; "
        f"{model.positional_encoding} positions",
        "vocabulary": f"{vocabularies} sub-words, {sharing}",
        "parameters": f"{parameters:,} ({parameters / 1e6:.1f}M)",
        "tokens per step": f"{data.batch_tokens:,} source and {data.batch_tokens:,} target, "
        "padding included",
        "recipe": f"{train.train_steps:,} updates, warm-up {train.warmup_steps:,}, {dropout}, "
        f"label smoothing {train.label_smoothing}",
    }
    yield from itertools.starmap(_line, lines.items())


def _describe_folder(config: Config, model_dir: str) -> Iterator[str]:
    """The lines on a model folder: model, data, checkpoints, and the history of the run."""
    yield f"model folder {model_dir}"
    yield from _describe_model(config)
    yield _line("data", f"{config.data.data}, {config.data.source} to {config.data.target}")
    extra = config.decode.extra_decode_length
    yield _line("longest output", f"{extra} sub-words more than the source (extra_decode_length)")
    yield "  checkpoints"
    for path in all_checkpoints(model_dir):
        with contextlib.suppress(FileNotFoundError):  # a training run has just removed it
            size = os.path.getsize(path)
            yield f"    {os.path.relpath(path, model_dir)}  {size / 1e6:,.1f} MB"
    if read_metrics(model_dir):
        yield describe_history(model_dir)


def _describe_corpus(config: Config, corpus: Corpus, model_dir: str) -> Iterator[str]:
    """The lines on sizes, lengths, vocabulary and batches of sentence pairs, with samples.

    Args:
      config: a `Config`, whose data settings are used.
      corpus: of `data.readers.open_corpus`; it is streamed.
      model_dir: of the model with the vocabulary; "" to learn it.
    """
    yield corpus.name
    sizes = {}
    for split in corpus.splits:
        sizes[split], sides = _describe_split(corpus.read(split))
        yield f"  {split}: {sizes[split]:,} pairs"
        yield from sides
    yield from _describe_batches(config, corpus, model_dir)
    yield "  samples of train:"
    every = max(1, sizes.get("train", 0) // SAMPLES)
    for source, target in itertools.islice(corpus.read("train"), 0, SAMPLES * every, every):
        yield f"    {source}\n      {target}"


def _describe_split(pairs: Iterable[tuple[str, str]]) -> tuple[int, list[str]]:
    """The number of pairs of a split, and a line on the words of each side."""
    lengths = array.array("I"), array.array("I")
    vocabularies: tuple[set[str], set[str]] = (set(), set())
    for pair in pairs:
        for words, counts, vocabulary in zip(map(str.split, pair), lengths, vocabularies):
            counts.append(len(words))
            vocabulary.update(words)
    lines = [
        f"    {name}: {sum(counts):,} words, {len(vocabulary):,} different; {min(counts)} to "
        f"{max(counts)} words per sentence, mean {np.mean(counts):.1f}, median "
        f"{np.median(counts):.0f}"
        for name, counts, vocabulary in zip(("source", "target"), lengths, vocabularies)
        if counts
    ]
    return len(lengths[0]), lines


def _describe_batches(config: Config, corpus: Corpus, model_dir: str) -> Iterator[str]:
    """The lines on sub-words and batches of the train split; arguments as above."""
    from tf_transformer.data.batching import Batches
    from tf_transformer.data.encoding import cached_pairs, describe_dropped
    from tf_transformer.data.tokenizer import learn_tokenizers, load_tokenizers

    data = config.data
    coverage = config.train.decode_length_coverage or 1.0
    if model_dir:
        vocabulary = "the model's vocabulary"
        tokenizers = load_tokenizers(model_dir)
    else:
        vocabulary = "a vocabulary learned from it"
        tokenizers = learn_tokenizers(
            lambda: corpus.read("train"),
            data.vocab_size,
            data.shared_vocab,
            subword_model=data.subword_model,
            normalization=data.normalization,
        )
    with tempfile.TemporaryDirectory(prefix="tf_transformer-") as cache:
        pairs = cached_pairs(corpus, "train", tokenizers, data, cache)
        batches = Batches(pairs, data.batch_tokens, config.train.seed, max_shapes=data.max_shapes)
        lengths = pairs.lengths.mean(axis=0)
        extra = pairs.extra_length(coverage)
        weights = pairs.weights if pairs.weighted else None
    yield (
        f"  sub-words of train: {tokenizers[0].vocab_size:,} in {vocabulary}; mean length "
        f"{lengths[0]:.1f} of sources, {lengths[1]:.1f} of targets; "
        f"dropped: {describe_dropped(pairs)}"
    )
    yield (
        f"  longest outputs: extra_decode_length {extra} for {coverage:.2%} of the targets of train"
    )
    if weights is not None:
        yield (
            f"  weights of train: {weights.min():g} to {weights.max():g}, mean "
            f"{weights.mean():.3g}, {np.mean(weights == 1):.1%} are 1"
        )
    shapes = ", ".join(f"{bucket.rows} x {bucket.length}" for bucket in batches.buckets)
    yield (
        f"  batches: {batches.per_epoch:,} per epoch, {batches.non_padding_fraction:.1%} of their "
        f"tokens are not padding, rows x length:\n    {shapes}"
    )
