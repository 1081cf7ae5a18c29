"""Table 3, variations on the Transformer: the paper's figures beside ours, and runs of all its rows, at full or at a reduced size."""

import dataclasses
import json
import logging
import os
import signal
import subprocess
from typing import NamedTuple

from tf_transformer.atomic_io import atomic_write
from tf_transformer.config import Config
from tf_transformer.errors import UserError
from tf_transformer.presets import VARIATIONS, preset

logger = logging.getLogger(__name__)


class Printed(NamedTuple):
    """What the paper prints in a row: on newstest2013, beam search, no average of checkpoints (Sec. 6.2)."""

    perplexity: float  # of a sub-word
    bleu: float
    millions: int | None = (
        None  # of parameters; None where the paper leaves the column empty, which means base's
    )


@dataclasses.dataclass(frozen=True)
class Result:
    """What a row's run came to: its `result.json`."""

    row: str
    updates: int
    parameters: int
    perplexity: float  # of a sub-word, without label smoothing
    bleu: float  # sacreBLEU of the beam search
    signature: str  # of it
    split_bleu: (
        float | None
    )  # tokenised and compound-split, as the paper's; None but from English to German
    config: Config


ROWS = {
    "base": Printed(4.92, 25.8, 65),
    "A1": Printed(5.29, 24.9), "A2": Printed(5.00, 25.5), "A3": Printed(4.91, 25.8), "A4": Printed(5.01, 25.4),
    "B1": Printed(5.16, 25.1, 58), "B2": Printed(5.01, 25.4, 60),
    "C1": Printed(6.11, 23.7, 36), "C2": Printed(5.19, 25.3, 50), "C3": Printed(4.88, 25.5, 80), "C4": Printed(5.75, 24.5, 28),
    "C5": Printed(4.66, 26.0, 168), "C6": Printed(5.12, 25.4, 53), "C7": Printed(4.75, 26.2, 90),
    "D1": Printed(5.77, 24.6), "D2": Printed(4.95, 25.5), "D3": Printed(4.67, 25.3), "D4": Printed(5.47, 25.7),
    "E": Printed(4.92, 25.7),
    "big": Printed(4.33, 26.4, 213),
}  # fmt: skip
assert set(ROWS) == {"base", *VARIATIONS, "big"}
SCALES = ("small", "full")
COLUMNS = ["row", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "e_ls", "updates"]


def full(name):
    """The `Config` of a row at the paper's size. Nothing is averaged, as in the paper's table, so one checkpoint is kept."""
    return preset(name).replace(max_checkpoints=1)


def small(name):
    """The `Config` of a row for two processor cores: half the layers, a quarter of the widths, fewer updates.

    N / 2, d_model / 4, d_ff / 4, d_k / 4 where the row sets it; 4,000 sub-words, 1,024 tokens in an update, updates / 200. h, P_drop,
    the label smoothing and the kind of positions are the row's own. Eq. 3 gets a scale for the small batches and a shorter warm-up.
    """
    config = full(name)
    model, train_steps = config.model, config.train.train_steps // 200
    return config.replace(
        num_layers=model.num_layers // 2, d_model=model.d_model // 4, dff=model.dff // 4, key_dim=model.key_dim // 4,
        vocab_size=4000, max_length=128, batch_tokens=1024, train_steps=train_steps, warmup_steps=250, learning_rate_scale=0.6,
        save_steps=100, eval_steps=train_steps, bleu_sentences=0,
    )  # fmt: skip


def row_config(name, scale, train_steps=None, **settings):
    """The `Config` of a row.

    Args:
      name: of `ROWS`.
      scale: of `SCALES`.
      train_steps: updates of base; other rows keep their proportion to it. None for those of the scale.
      **settings: others to change.
    Raises: UserError for an unknown row, or a value that is refused.
    """
    if name not in ROWS:
        raise UserError(f"Table 3 has no row {name!r}: give some of {','.join(ROWS)}")
    config, base = ((small if scale == "small" else full)(row) for row in (name, "base"))
    if train_steps:
        settings |= {
            "train_steps": config.train.train_steps // base.train.train_steps * train_steps
        }
    config = config.replace(**settings)
    return config.replace(eval_steps=config.train.train_steps) if scale == "small" else config


def describe_row(name, config):
    """The cells of `COLUMNS`, strings."""
    m, t = config.model, config.train
    depths = [m.depth, m.value_depth]
    positions = " (learned positions)" if m.positional_encoding == "learned" else ""
    sizes = [
        m.num_layers,
        m.d_model,
        m.dff,
        m.num_heads,
        *depths,
        m.dropout_rate,
        t.label_smoothing,
    ]
    return [name + positions, *map(str, sizes), f"{t.train_steps:,}"]


def describe_paper():
    """The paper's table beside our parameters, those of models that are built for it with 37,000 sub-words; Markdown."""
    rows = []
    for name, printed in ROWS.items():
        config = full(name)
        millions = config.model.parameters() / 1e6
        paper = [f"{printed.perplexity:.2f}", f"{printed.bleu:.1f}", str(printed.millions or "")]
        rows.append([*describe_row(name, config), *paper, f"{millions:.1f}"])
    return _markdown(
        [*COLUMNS, "PPL (paper)", "BLEU (paper)", "10^6 weights (paper)", "10^6 weights (ours)"],
        rows,
    )


def describe_results(folder, names=ROWS):
    """The rows that have been trained, with the paper's figures beside them; Markdown.

    sacreBLEU, and from English to German the tokenised, compound-split BLEU, which is of the paper's kind; other text has other figures.

    Args:
      folder: of all rows, as for `run_rows`.
      names: rows to show.
    """
    rows = []
    for name in names:
        if result := _read_result(folder, name):
            split = "" if result.split_bleu is None else f"{result.split_bleu:.1f}"
            scores = [
                f"{result.parameters / 1e6:.2f}",
                f"{result.perplexity:.2f}",
                f"{result.bleu:.1f}",
                split,
            ]
            printed = [f"{ROWS[name].perplexity:.2f}", f"{ROWS[name].bleu:.1f}"]
            rows.append([*describe_row(name, result.config), *scores, *printed])
    return _markdown(
        [
            *COLUMNS,
            "10^6 weights",
            "PPL",
            "sacreBLEU",
            "split BLEU",
            "PPL (paper)",
            "split BLEU (paper)",
        ],
        rows,
    )


def _markdown(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _result_path(folder, name):
    return os.path.join(folder, name, "result.json")


def _read_result(folder, name):
    """The `Result` that `run_row` wrote, or None. Raises: UserError when it is damaged or of another version."""
    path = _result_path(folder, name)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        return Result(**result | {"config": Config.from_dict(result["config"])})
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path}: not a result of this version ({error}): remove it, and the row is scored anew"
        ) from None


def _done(name, config, folder):
    """The `Result` of a row, or None while it wants updates. Raises: UserError when it is of another run."""
    result = _read_result(folder, name)
    if not result:
        return None
    found = result.config
    if (found.model, found.data) != (config.model, config.data):
        raise UserError(
            f"{folder} holds row {name} of other data or another size ({found.data.data}): give another --model_dir"
        )
    return result if found.train.train_steps >= config.train.train_steps else None


def run_row(name, config, folder):
    """Trains a row, or goes on with it, and scores its last weights on the validation split.

    Args:
      name: of `ROWS`.
      config: a `Config`, of `row_config`.
      folder: of all rows; the row's model folder is in it.
    Returns: whether it came to its end, and its `Result` is in `result.json`; False when interrupted.
    Raises: UserError, as `Trainer` does, or for a result that cannot be read.
    """
    result = _done(name, config, folder) or _train_and_score(name, config, folder)
    if result:
        logger.info(
            f"{name}: PPL {result.perplexity:.2f}, BLEU {result.bleu:.2f} ({result.signature}) on the validation split"
        )
    return bool(result)


def _train_and_score(name, config, folder):
    """Returns the `Result`, or None when interrupted."""
    from tf_transformer.decoding.translator import Translator
    from tf_transformer.evaluation.bleu import compound_split_bleu, has_papers_bleu, score
    from tf_transformer.training.build import build_trainer
    from tf_transformer.visualization.history import read_history

    trainer = build_trainer(config, os.path.join(folder, name))
    if not trainer.run():
        return None
    validated = read_history(trainer.directory.path)[
        "average"
    ]  # of the one checkpoint that is kept
    if not validated:  # interrupted in that moment
        return None
    pairs = list(trainer.corpus.read("validation"))
    translations = Translator(trainer.model, trainer.tokenizers, config.decode)(
        [source for source, _ in pairs]
    )
    references = [target for _, target in pairs]
    scores = score(translations, references)
    split = (
        compound_split_bleu(translations, references)[0] if has_papers_bleu(config.data) else None
    )
    result = Result(
        name,
        trainer.step,
        trainer.model.count_params(),
        validated[-1]["perplexity"],
        scores.bleu,
        scores.bleu_signature,
        split,
        config,
    )
    with atomic_write(_result_path(folder, name)) as file:
        json.dump(dataclasses.asdict(result), file, indent=2)
    return result


def run_rows(configs, command, folder):
    """Trains rows one after the other, each in a process of its own; those that have a result are passed over.

    Args:
      configs: the `Config` of each row, by its name.
      command: a function of a row's name that returns the words of a command, which trains it as `run_row` does.
      folder: of all rows.
    Returns: True when all have a result, False when interrupted: the row at work was saved, and the same call goes on from there.
    Raises: UserError when a row fails.
    """
    for number, (name, config) in enumerate(configs.items(), start=1):
        if _done(name, config, folder):
            logger.info(f"row {name}: done before")
            continue
        logger.info(f"row {name}, {number} of {len(configs)}")
        if _stopped(command(name)):
            return False
        if not _done(name, config, folder):
            raise UserError(
                f"row {name} was not trained to its end: see above; the same command goes on"
            )
    return True


def _stopped(words):
    """Runs a command to its end. Returns: whether it was asked to stop. Ctrl-C reaches it by the terminal, SIGTERM through here."""
    child, asked = subprocess.Popen(words), []

    def ask(number, frame):
        asked.append(number)
        if number == signal.SIGTERM:
            child.terminate()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return bool(asked)
