"""Table 3, variations on the Transformer: the paper's figures, and training of all rows."""

import dataclasses
import json
import logging
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tf_transformer.config import Config
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write
from tf_transformer.presets import VARIATIONS, preset

logger = logging.getLogger(__name__)


class PaperRow(NamedTuple):
    """A row as printed: newstest2013, beam search, no checkpoint averaging (Sec. 6.2)."""

    perplexity: float  # of a sub-word
    bleu: float
    millions: int | None = None  # of parameters; None where the paper leaves the cell empty


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of training a row; `result.json` holds it."""

    row: str
    updates: int
    parameters: int
    perplexity: float  # of a sub-word, without label smoothing
    bleu: float  # sacreBLEU of the beam search
    signature: str  # of `bleu`
    split_bleu: float | None  # tokenised, compound-split BLEU as in the paper; None except en-de
    config: Config


# An empty parameter cell means as many as base.
ROWS = {
    "base": PaperRow(4.92, 25.8, 65),
    "A1": PaperRow(5.29, 24.9),
    "A2": PaperRow(5.00, 25.5),
    "A3": PaperRow(4.91, 25.8),
    "A4": PaperRow(5.01, 25.4),
    "B1": PaperRow(5.16, 25.1, 58),
    "B2": PaperRow(5.01, 25.4, 60),
    "C1": PaperRow(6.11, 23.7, 36),
    "C2": PaperRow(5.19, 25.3, 50),
    "C3": PaperRow(4.88, 25.5, 80),
    "C4": PaperRow(5.75, 24.5, 28),
    "C5": PaperRow(4.66, 26.0, 168),
    "C6": PaperRow(5.12, 25.4, 53),
    "C7": PaperRow(4.75, 26.2, 90),
    "D1": PaperRow(5.77, 24.6),
    "D2": PaperRow(4.95, 25.5),
    "D3": PaperRow(4.67, 25.3),
    "D4": PaperRow(5.47, 25.7),
    "E": PaperRow(4.92, 25.7),
    "big": PaperRow(4.33, 26.4, 213),
}
assert set(ROWS) == {"base", *VARIATIONS, "big"}
SCALES = ("small", "full")
COLUMNS = ["row", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "e_ls", "updates"]


def full(name: str) -> Config:
    """Returns the `Config` of a row at the paper's size.

    One checkpoint is kept, because the paper's table averages none.
    """
    return preset(name).replace(max_checkpoints=1)


def small(name: str) -> Config:
    """Returns the `Config` of a row at a reduced size, for a CPU with two cores.

    N / 2, d_model / 4, d_ff / 4, and d_k / 4 where the row sets it; 4,000 sub-words, 1,024 tokens
    in an update, updates / 200. h, P_drop, label smoothing and the positional encoding stay. Eq. 3
    gets a scale for the small batches, and a shorter warm-up.
    """
    config = full(name)
    model = config.model
    train_steps = config.train.train_steps // 200
    return config.replace(
        num_layers=model.num_layers // 2,
        d_model=model.d_model // 4,
        dff=model.dff // 4,
        key_dim=model.key_dim // 4,
        vocab_size=4000,
        max_length=128,
        batch_tokens=1024,
        train_steps=train_steps,
        warmup_steps=250,
        learning_rate_scale=0.6,
        save_steps=100,
        eval_steps=train_steps,
        bleu_sentences=0,
    )


def row_config(name: str, scale: str, train_steps: int | None = None, **settings: Any) -> Config:
    """Returns the `Config` of a row.

    Args:
      name: a key of `ROWS`.
      scale: one of `SCALES`.
      train_steps: updates of base; the other rows keep their proportion to it. None for the
        updates of the scale.
      **settings: other settings to change.
    Raises: UserError for an unknown row, or an invalid value.
    """
    if name not in ROWS:
        raise UserError(f"Table 3 has no row {name!r}: give some of {','.join(ROWS)}")
    scaled = small if scale == "small" else full
    config = scaled(name)
    if train_steps:
        ratio = config.train.train_steps // scaled("base").train.train_steps
        settings["train_steps"] = ratio * train_steps
    config = config.replace(**settings)
    if scale == "small":
        config = config.replace(eval_steps=config.train.train_steps)
    return config


def describe_row(name: str, config: Config) -> list[str]:
    """Returns the cells of `COLUMNS`, as strings."""
    model = config.model
    train = config.train
    if model.positional_encoding == "learned":
        name += " (learned positions)"
    sizes = [
        model.num_layers,
        model.d_model,
        model.dff,
        model.num_heads,
        model.depth,
        model.value_depth,
        model.dropout_rate,
        train.label_smoothing,
    ]
    return [name, *map(str, sizes), f"{train.train_steps:,}"]


def describe_paper() -> str:
    """Returns the paper's table beside our parameters with 37,000 sub-words, as Markdown."""
    columns = ["PPL (paper)", "BLEU (paper)", "10^6 weights (paper)", "10^6 weights (ours)"]
    rows = []
    for name, paper in ROWS.items():
        config = full(name)
        cells = [
            f"{paper.perplexity:.2f}",
            f"{paper.bleu:.1f}",
            str(paper.millions or ""),
            f"{config.model.parameters() / 1e6:.1f}",
        ]
        rows.append([*describe_row(name, config), *cells])
    return _markdown([*COLUMNS, *columns], rows)


def describe_results(folder: str, names: Iterable[str] = ROWS) -> str:
    """Returns the trained rows beside the paper's figures, as Markdown.

    Two kinds of BLEU are shown: sacreBLEU, and from English to German the tokenised, compound-split
    BLEU, which is the kind of the paper. Figures of other text cannot be compared to the paper's.

    Args:
      folder: the folder of all rows, as for `run_rows`.
      names: rows to show.
    """
    columns = [
        "10^6 weights",
        "PPL",
        "sacreBLEU",
        "split BLEU",
        "PPL (paper)",
        "split BLEU (paper)",
    ]
    rows = []
    for name in names:
        result = _read_result(folder, name)
        if not result:
            continue
        cells = [
            f"{result.parameters / 1e6:.2f}",
            f"{result.perplexity:.2f}",
            f"{result.bleu:.1f}",
            "" if result.split_bleu is None else f"{result.split_bleu:.1f}",
            f"{ROWS[name].perplexity:.2f}",
            f"{ROWS[name].bleu:.1f}",
        ]
        rows.append([*describe_row(name, result.config), *cells])
    return _markdown([*COLUMNS, *columns], rows)


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    alignment = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, alignment, *rows])


def _result_path(folder: str, name: str) -> str:
    return os.path.join(folder, name, "result.json")


def _read_result(folder: str, name: str) -> Result | None:
    """Reads the `Result` of a row; None where there is none.

    Raises: UserError when it is damaged, or of another version.
    """
    path = _result_path(folder, name)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        return Result(**values | {"config": Config.from_dict(values["config"])})
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path}: not a result of this version ({error}): remove it to score the row again"
        ) from None


def _complete_result(name: str, config: Config, folder: str) -> Result | None:
    """Reads the `Result` of a row; None while the row needs more updates.

    Raises: UserError when it is the result of another run.
    """
    result = _read_result(folder, name)
    if not result:
        return None
    if (result.config.model, result.config.data) != (config.model, config.data):
        raise UserError(
            f"{folder} has a result of row {name} with other data ({result.config.data.data}) or "
            "another size: give another --model_dir"
        )
    complete = result.config.train.train_steps >= config.train.train_steps
    return result if complete else None


def run_row(name: str, config: Config, folder: str) -> bool:
    """Trains a row, or resumes it, and scores its last weights on the validation split.

    Args:
      name: a key of `ROWS`.
      config: a `Config`, of `row_config`.
      folder: the folder of all rows; the row's model folder is in it.
    Returns: True when the row is complete and its `Result` is in `result.json`; False when it was
      interrupted.
    Raises: UserError, as `Trainer` does, or for a result that cannot be read.
    """
    result = _complete_result(name, config, folder) or _train_and_score(name, config, folder)
    if result:
        logger.info(
            f"{name}: PPL {result.perplexity:.2f}, BLEU {result.bleu:.2f} ({result.signature}) "
            "on the validation split"
        )
    return bool(result)


def _train_and_score(name: str, config: Config, folder: str) -> Result | None:
    """Trains a row and writes its `Result`. Returns: the `Result`, or None when interrupted."""
    from tf_transformer.decoding.translator import Translator
    from tf_transformer.evaluation.bleu import compound_split_bleu, has_papers_bleu, score
    from tf_transformer.training.trainer import build_trainer
    from tf_transformer.visualization.history import read_history

    trainer = build_trainer(config, os.path.join(folder, name))
    if not trainer.run():
        return None
    # The "average" is of the one checkpoint that is kept.
    averages = read_history(trainer.directory.path)["average"]
    if not averages:  # the run was interrupted between the last update and the average
        return None
    pairs = list(trainer.corpus.read("validation"))
    translator = Translator(trainer.model, trainer.tokenizers, config.decode)
    translations = translator([source for source, _ in pairs])
    references = [target for _, target in pairs]
    scores = score(translations, references, config.data.target)
    split_bleu = None
    if has_papers_bleu(config.data):
        split_bleu, _ = compound_split_bleu(translations, references)
    result = Result(
        row=name,
        updates=trainer.step,
        parameters=trainer.model.count_params(),
        perplexity=averages[-1]["perplexity"],
        bleu=scores.bleu,
        signature=scores.bleu_signature,
        split_bleu=split_bleu,
        config=config,
    )
    with atomic_write(_result_path(folder, name)) as file:
        json.dump(dataclasses.asdict(result), file, indent=2)
    return result


def run_rows(configs: dict[str, Config], command: Callable[[str], list[str]], folder: str) -> bool:
    """Trains rows one after the other, each in its own process. Skips rows that have a result.

    Args:
      configs: a dict of row name -> `Config`.
      command: a function of a row's name that returns the command line, a list of strings, which
        trains the row as `run_row` does.
      folder: the folder of all rows.
    Returns: True when all rows have a result; False when interrupted. The interrupted row is saved,
      and the same call resumes it.
    Raises: UserError when a row fails.
    """
    for number, (name, config) in enumerate(configs.items(), start=1):
        if _complete_result(name, config, folder):
            logger.info(f"row {name}: complete already")
            continue
        logger.info(f"row {name}, {number} of {len(configs)}")
        with subprocess.Popen(command(name)) as process:
            try:
                process.wait()
            except KeyboardInterrupt:  # Ctrl-C or SIGTERM: the row saves and ends
                process.terminate()
                return False
        if not _complete_result(name, config, folder):
            raise UserError(
                f"the training of row {name} failed: see the messages above; the same command "
                "resumes it"
            )
    return True
