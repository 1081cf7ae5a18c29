"""The command info: describes presets and model folders."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator

from absl import flags

from tf_transformer.checkpoints.model_folder import (
    all_checkpoints,
    find_model_dir,
    load_config,
    read_metrics,
)
from tf_transformer.cli.command import Flag, command, is_for, one_of
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
from tf_transformer.visualization.history import describe_history, plot_history


@command(
    "info",
    "describe a preset, or a model folder with the history of its run",
    lambda: [
        Flag(
            "preset", str, f"the preset to describe: {', '.join([*PRESETS, *VARIATIONS])}", "pocket"
        ),
        Flag("model_dir", str, "model folder to describe; `info FOLDER` does the same"),
        Flag("plot", str, "PNG file for loss, BLEU, learning rate and speed of the run"),
    ],
    positional="model_dir",
)  # fmt: skip
def info(values: flags.FlagValues) -> None:
    """Describes a model folder, or else a preset."""
    one_of(values, "model_dir", "preset")
    is_for(values, "model_dir", "plot")
    if not values.model_dir:
        print(*_describe_preset(values.preset), sep="\n")
        return
    model_dir = find_model_dir(values.model_dir)
    print(*_describe_folder(model_dir), sep="\n")
    if values.plot:
        plot_history(model_dir, values.plot)
        print(f"\ndrew {values.plot}")


def _line(title: str, text: str) -> str:
    return f"  {title:15s}  {text}"


def _describe_preset(name: str) -> Iterator[str]:
    """The lines on a preset: its model, its recipe, and the operations of its training."""
    config = preset(name)
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


def _describe_folder(model_dir: str) -> Iterator[str]:
    """The lines on a model folder: model, data, checkpoints, and the history of the run."""
    config = load_config(model_dir)
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
