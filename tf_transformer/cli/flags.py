"""The flags of each command. Those of settings take default and help text from `config.py`."""

import dataclasses
import difflib
from collections.abc import Callable, Iterable
from typing import Any

from absl import flags

from tf_transformer import config as settings
from tf_transformer.checkpoints.model_folder import DEFAULT_MODEL
from tf_transformer.cli.define_flags import (
    GENERAL_GROUP,
    GROUPS,
    define,
    define_back_translation,
    define_choice,
    define_cleaning,
    define_comparison,
    define_controls,
    define_engine,
    define_files,
    define_import,
    define_mbr,
    define_model,
    define_sampling,
    define_settings,
    define_split_sentences,
    define_tag,
)
from tf_transformer.cli.define_scoring import define_rescoring, define_score
from tf_transformer.cli.help import describe_command, describe_program
from tf_transformer.errors import UserError
from tf_transformer.export.formats import EXPORT_FORMATS, EXPORT_OPTIONS
from tf_transformer.paper.table3 import ROWS, SCALES
from tf_transformer.presets import PRESETS, VARIATIONS
from tf_transformer.serving.serve_config import ServeConfig

COMMANDS = {
    "train": "train a model on sentence pairs, or resume a run",
    "translate": "translate lines of text with a trained model",
    "back-translate": "make training pairs of text in the target language, with a reverse model",
    "evaluate": "translate or parse a test set, and score it with sacreBLEU or EVALB",
    "parse": "parse lines of text with a model that was trained on trees",
    "score": "compute the log-probability that a model gives to translations",
    "rescore": "choose among the translations of n-best lists with the scores of several models",
    "evalb": "score a file of trees against reference trees, as the program EVALB does",
    "average": "average the newest, or the best, checkpoints of a run",
    "export": "export a trained model for another program, such as TensorFlow Serving",
    "import": "make a model folder of a Hugging Face model, such as an OPUS-MT model",
    "serve": "serve an exported model over HTTP, with TensorFlow Serving's REST API",
    "client": "translate lines of text with a server",
    "info": "describe a preset, a model folder with the history of its run, or sentence pairs",
    "plot": "plot loss, BLEU, learning rate and speed of a run",
    "clean": "write the sentence pairs of a corpus that are not noise, and count the others",
    "compare": "compare runs: settings, losses, scores, and the mean over random seeds",
    "table3": "print Table 3 of the paper with our parameter counts, or train its rows",
    "doctor": "describe the installation and the hardware, and check that training works here",
}
SETTINGS = (settings.ModelConfig, settings.DataConfig, settings.TrainConfig, settings.DecodeConfig)
FROM_VOCABULARIES = ("input_vocab_size", "target_vocab_size")  # settings that are not flags


def usage() -> str:
    """Returns the help text of the program."""
    return describe_program(COMMANDS)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns a question with the nearest of the known names, or "" where none is near."""
    near = difflib.get_close_matches(name, names, cutoff=0.55)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def parse(command: str, arguments: list[str]) -> flags.FlagValues | None:
    """Parses the arguments after a command. The last value of a flag counts.

    Args:
      command: a key of `COMMANDS`.
      arguments: a list of strings.
    Returns: the flag values, or None when --help was given and the help has been printed.
    Raises: UserError, or absl's `flags.Error`.
    """
    values = _flags_of(command)
    try:
        remaining = values([command, *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        raise UserError(_unknown_flag(command, error.flagname, values)) from None
    except UnicodeDecodeError as error:
        raise UserError(f"the --flagfile is not UTF-8 text: {error}") from None
    except ValueError as error:  # --noflag=value
        raise UserError(str(error)) from None
    if values.help:
        print(describe_command(command, COMMANDS[command], values))
        return None
    if len(remaining) == 1 and command in ("info", "plot") and not values.model_dir:
        values["model_dir"].value = remaining.pop()
    if command == "compare" and not values.runs:
        values["runs"].value = ",".join(remaining)
        remaining = []
    if remaining:
        raise UserError(f"unexpected {remaining[0]!r}: write flags as --name=value")
    if values.verbose and values.quiet:
        raise UserError("--verbose and --quiet: give one of them")
    return values


def _flags_of(command: str) -> flags.FlagValues:
    """Defines the flags of a command."""
    values = flags.FlagValues()
    _FLAGS[command](values)
    meaning = "show debug messages too"
    define(values, "verbose", bool, meaning, False, GENERAL_GROUP)
    meaning = "show warnings and errors only, and no progress bars"
    define(values, "quiet", bool, meaning, False, GENERAL_GROUP)
    define(values, "debug", bool, "show the traceback of every error", False, GENERAL_GROUP)
    meaning = "show this help"
    flags.DEFINE_boolean(
        "help", False, meaning, flag_values=values, module_name=GENERAL_GROUP, short_name="h"
    )
    return values


def _unknown_flag(command: str, name: str, values: flags.FlagValues) -> str:
    """The message for a flag that the command does not have."""
    owners = [other for other in COMMANDS if name in _flags_of(other)]
    if owners:
        return f"{command} has no flag --{name}; it is a flag of {', '.join(owners)}"
    return (
        f"unknown flag --{name}{did_you_mean(f'--{name}', [f'--{flag}' for flag in values])}: "
        f"`tf-transformer {command} --help` lists the flags"
    )


def given(values: flags.FlagValues, parts: Iterable[type[settings.Settings]]) -> dict[str, Any]:
    """Returns the settings that the user gave, as a dict.

    Args:
      values: of `parse`.
      parts: dataclasses of `config.py`.
    """
    names = [field.name for part in parts for field in dataclasses.fields(part)]
    return {
        name: values[name].value
        for name in names
        if name in values and values[name].value is not None
    }


def _train_flags(values: flags.FlagValues) -> None:
    presets = f"{', '.join(PRESETS)}, or a row of Table 3: {', '.join(VARIATIONS)}"
    define(values, "preset", str, f"the settings to start from: {presets}", "pocket")
    meaning = "model folder; a run in it is resumed (default: models/PRESET-DATA-SOURCE-TARGET)"
    define(values, "model_dir", str, meaning)
    meaning = "print the plan, make two updates of the largest batch without saving, and stop"
    define(values, "dry_run", bool, meaning, False)
    meaning = (
        "train once with each of these seeds, such as 1,2,3, in MODEL_DIR/seed-1 and so on, and "
        "print the mean and the standard deviation"
    )
    define(values, "seeds", str, meaning)
    meaning = "seeds that train at the same time, on CPUs, each on its share of the cores"
    define(values, "parallel_seeds", int, meaning, 1)
    meaning = "remove the run or the model that is in the model folder, and start a new run"
    define(values, "overwrite", bool, meaning, False)
    define_settings(values, SETTINGS, skip=FROM_VOCABULARIES)


def _translate_flags(values: flags.FlagValues) -> None:
    define_model(values, optional=True, ensemble=True)
    define_engine(values)
    define_files(values, "lines to translate", "translations")
    define_tag(values, "default: the lines have their tags")
    meaning = (
        "translations of each line; with more than 1, each is written as "
        "LINE NUMBER<tab>SCORE<tab>TRANSLATION"
    )
    define(values, "n_best", int, meaning, 1, lower_bound=1)
    define_split_sentences(values)
    meaning = (
        "file with the beginning of the translation of each line, complete words; an empty line "
        "where the translation is free"
    )
    define(values, "target_prefix", str, meaning)
    meaning = (
        "file with the phrases that the translation of each line must contain, separated by tabs; "
        "an empty line where there are none"
    )
    define(values, "constraints", str, meaning)
    define_sampling(values, "; --n_best is their number")
    define_mbr(values)
    meaning = (
        "write an empty line and a warning for a line with more sub-words than the model has "
        "positions, instead of stopping there"
    )
    define(values, "skip_long_lines", bool, meaning, False)
    define_settings(values, (settings.DecodeConfig,))
    define_controls(values)


def _evaluate_flags(values: flags.FlagValues) -> None:
    from tf_transformer.evaluation.metrics import metrics_help

    define_model(values, ensemble=True)
    meaning = "sentence pairs, as for train (default: those that the model was trained on)"
    define(values, "data", str, meaning)
    define_tag(values, "default: that of its first corpus with these languages")
    meaning = "test, validation or another split; all for one or two files (default: test, or all)"
    define(values, "split", str, meaning)
    meaning = (
        "file for the translations (default: MODEL_DIR/evaluation/SPLIT.TARGET, or "
        "PATH.SPLIT.TARGET for other text)"
    )
    define(values, "output", str, meaning)
    meaning = (
        "file of translations to score instead of translating, such as the output of rescore, line "
        "by line for the sources; the model gives only the data and the languages"
    )
    define(values, "translations", str, meaning)
    meaning = "maximum number of pairs to score, from the start; 0 means all"
    define(values, "max_pairs", int, meaning, 0, lower_bound=0)
    meaning = (
        "file of references, or several files separated by commas, instead of the targets of the "
        "pairs; line by line for the sources"
    )
    define(values, "references", str, meaning)
    define(values, "metrics", str, metrics_help(), "bleu,chrf,chrf++")
    meaning = (
        "another system to compare with, by a paired bootstrap test: a file of its translations, "
        "or its model folder"
    )
    define(values, "baseline", str, meaning)
    define_settings(values, (settings.DecodeConfig,))
    define_controls(values)


def _parse_flags(values: flags.FlagValues) -> None:
    define_model(values, ensemble=True)
    define_files(values, "sentences, their words separated by spaces", "trees, one per line")
    define_settings(values, (settings.DecodeConfig,))


def _evalb_flags(values: flags.FlagValues) -> None:
    define(values, "gold", str, "file of the reference trees, one per line (required)")
    define(values, "test", str, "file of the trees to score, one per line (required)")
    meaning = "EVALB's parameter file (default: the conventions of COLLINS.prm)"
    define(values, "prm", str, meaning)


def _average_flags(values: flags.FlagValues) -> None:
    define(values, "model_dir", str, "model folder (required)")
    meaning = (
        "number of newest checkpoints to average (default: those of the last eighth of the updates)"
    )
    define(values, "last", int, meaning)
    meaning = (
        "number of checkpoints to average, those with the best validation scores of all that are "
        "kept"
    )
    define(values, "best", int, meaning)
    meaning = "file for the averaged weights (default: MODEL_DIR/averaged.npz)"
    define(values, "output", str, meaning)


def _export_flags(values: flags.FlagValues) -> None:
    define_model(values, ensemble=True)
    formats = [f"{name}: {each.meaning}" for name, each in EXPORT_FORMATS.items()]
    define_choice(values, "format", list(EXPORT_FORMATS), "; ".join(formats))
    meaning = (
        "saved_model: the folder of all versions; other formats: the folder or file to write "
        "(default: MODEL_DIR/export/FORMAT; for a built-in model in models/NAME)"
    )
    define(values, "output", str, meaning)
    for name, (kind, meaning) in EXPORT_OPTIONS.items():
        users = [other for other, each in EXPORT_FORMATS.items() if name in each.options]
        meaning = f"{', '.join(users)}: {meaning}"
        if isinstance(kind, list):
            define_choice(values, name, kind, meaning)
        else:
            limits: dict[str, Any] = {"lower_bound": 1} if kind is int else {}
            define(values, name, kind, meaning, **limits)
    define_settings(values, (settings.DecodeConfig,))


def _serve_flags(values: flags.FlagValues) -> None:
    meaning = (
        f"model folder, whose export is served (default: the built-in model {DEFAULT_MODEL}, which "
        "is exported first)"
    )
    define(values, "model_dir", str, meaning)
    meaning = (
        "folder of the exported versions (default: MODEL_DIR/export/saved_model; for ctranslate2, "
        "an export in the cache)"
    )
    define(values, "export_dir", str, meaning)
    define(values, "name", str, "the model's name in URLs", "transformer")
    define_engine(values)
    for field in dataclasses.fields(ServeConfig):
        meaning, group = field.metadata["meaning"], GROUPS[ServeConfig]
        define(values, field.name, field.type, meaning, field.default, group)


def _client_flags(values: flags.FlagValues) -> None:
    define(values, "server", str, "URL of the server", "http://127.0.0.1:8501")
    define(values, "name", str, "the model's name", "transformer")
    define_files(values, "lines to translate", "translations")


def _info_flags(values: flags.FlagValues) -> None:
    presets = ", ".join([*PRESETS, *VARIATIONS])
    define(values, "preset", str, f"the preset to describe: {presets}", "pocket")
    meaning = "model folder to describe instead of a preset; `info FOLDER` does the same"
    define(values, "model_dir", str, meaning)
    define(values, "data", str, "sentence pairs to describe, as for train")
    define(values, "source", str, "language code of the source (default: the model's, or en)")
    define(values, "target", str, "language code of the target (default: the model's, or de)")


def _plot_flags(values: flags.FlagValues) -> None:
    define(values, "model_dir", str, "model folder; `plot FOLDER` does the same (required)")
    define(values, "output", str, "PNG file to write (default: MODEL_DIR/history.png)")


def _table3_flags(values: flags.FlagValues) -> None:
    meaning = "train the rows one after the other; rows that have a result are skipped"
    define(values, "run", bool, meaning, False)
    meaning = "small: for a CPU with two cores; full: the paper's sizes"
    define_choice(values, "scale", list(SCALES), meaning)
    define(values, "rows", str, "rows to train", ",".join(ROWS))
    define(values, "data", str, "sentence pairs, as for train", settings.DataConfig.data)
    define(values, "source", str, "language code of the source", settings.DataConfig.source)
    define(values, "target", str, "language code of the target", settings.DataConfig.target)
    meaning = "updates of base and of the other rows, except big, which has three times as many"
    define(values, "train_steps", int, meaning, lower_bound=1)
    meaning = (
        "folder of all rows and of results.md (default: models/table3-SCALE-DATA-SOURCE-TARGET)"
    )
    define(values, "model_dir", str, meaning)


_FLAGS: dict[str, Callable[[flags.FlagValues], None]] = {
    "train": _train_flags,
    "translate": _translate_flags,
    "back-translate": define_back_translation,
    "evaluate": _evaluate_flags,
    "parse": _parse_flags,
    "score": define_score,
    "rescore": define_rescoring,
    "evalb": _evalb_flags,
    "average": _average_flags,
    "export": _export_flags,
    "import": define_import,
    "serve": _serve_flags,
    "client": _client_flags,
    "info": _info_flags,
    "plot": _plot_flags,
    "clean": define_cleaning,
    "compare": define_comparison,
    "table3": _table3_flags,
    "doctor": lambda values: None,  # no flags
}
