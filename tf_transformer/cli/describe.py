"""The text that `tf-transformer info` prints about a preset or a model folder.

This module does not need TensorFlow.
"""

import contextlib
import os

from tf_transformer.checkpoints.model_folder import all_checkpoints, load_config, read_metrics
from tf_transformer.config import TREES, Config
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
