"""The command info: describes presets and model folders."""

from __future__ import annotations

import contextlib
import os

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.cli.command import Flag, command, is_for, one_of
from tf_transformer.config import TREES, Config
from tf_transformer.paper import flops
from tf_transformer.presets import PRESETS, VARIATIONS, preset
from tf_transformer.visualization.history import describe_history, plot_history


@command("info", lambda: [
    Flag("preset", str, f"the preset to describe: {', '.join([*PRESETS, *VARIATIONS])}", "pocket"),
    Flag("model_dir", str, "model folder to describe; `info FOLDER` does the same"),
    Flag("plot", str, "PNG file for loss, BLEU, learning rate and speed of the run"),
], positional="model_dir")  # fmt: skip
def info(values: flags.FlagValues) -> None:
    """Describe a preset, or a model folder with the history of its run."""
    one_of(values, "model_dir", "preset")
    is_for(values, "model_dir", "plot")
    if values.model_dir:
        _show_folder(model_folder.find_model_dir(values.model_dir), values.plot)
        return
    print(f"preset {values.preset}")
    config = preset(values.preset)
    config = config.with_vocabularies(config.data.vocab_size, config.data.vocab_size)
    _show_model(config)
    if config.data.target == TREES:  # several times as long as their sentences
        return
    counted = flops.training_operations(config)
    products = f"{counted:.1e} operations in the matrix products"
    _show("training", f"{products}, with {flops.WMT_LENGTH} sub-words per sentence")
    if hours := flops.PAPER_HOURS.get(values.preset):
        estimate = flops.paper_operations(hours)
        hardware = f"{flops.PAPER_GPUS} P100 x {flops.P100_RATE:.1e} per second"
        text = f"{estimate:.1e} operations: {hours:g} hours x {hardware}, the paper's estimate"
        _show("Table 2", f"{text}; the matrix products are {counted / estimate:.0%} of it")


def _show(title: str, text: str) -> None:
    print(f"  {title:15s}  {text}")


def _show_model(config: Config) -> None:
    model, data, train = config.model, config.data, config.train
    vocabularies, sharing = "", "one matrix for both embeddings and the softmax"
    if not model.shared_embeddings:
        vocabularies, sharing = f" and {model.target_vocab_size:,}", "separate matrices"
    dropout = f"dropout {model.dropout_rate}"
    if train.dropout_warmup_steps:
        dropout += f" (rising to it over {train.dropout_warmup_steps:,} updates)"
    parameters = model.parameters()
    lines = {
        "layers": f"{model.encoder_layers} encoder + {model.decoder_layers} decoder, "
        f"{model.norm}-norm, d_model {model.d_model}, d_ff {model.dff}",
        "heads": f"{model.num_heads} of d_k {model.depth}, d_v {model.value_depth}; "
        f"{model.positional_encoding} positions",
        "vocabulary": f"{model.input_vocab_size:,}{vocabularies} sub-words, {sharing}",
        "parameters": f"{parameters:,} ({parameters / 1e6:.1f}M)",
        "tokens per step": f"{data.batch_tokens:,} source and {data.batch_tokens:,} target, "
        "padding included",
        "recipe": f"{train.train_steps:,} updates, warm-up {train.warmup_steps:,}, {dropout}, "
        f"label smoothing {train.label_smoothing}",
    }
    for title, text in lines.items():
        _show(title, text)


def _show_folder(model_dir: str, plot: str | None) -> None:
    """Prints model, data, checkpoints and history of a model folder, and draws the history."""
    config = model_folder.load_config(model_dir)
    print(f"model folder {model_dir}")
    _show_model(config)
    _show("data", f"{config.data.data}, {config.data.source} to {config.data.target}")
    extra = config.decode.extra_decode_length
    _show("longest output", f"{extra} sub-words more than the source (extra_decode_length)")
    print("  checkpoints")
    for path in model_folder.all_checkpoints(model_dir):
        with contextlib.suppress(FileNotFoundError):  # a training run has just removed it
            size = os.path.getsize(path)
            print(f"    {os.path.relpath(path, model_dir)}  {size / 1e6:,.1f} MB")
    if model_folder.read_metrics(model_dir):
        print(describe_history(model_dir))
    if plot:
        plot_history(model_dir, plot)
        print(f"\ndrew {plot}")
