"""The flags of each command. Those of settings take default and help text from `config.py`."""

import dataclasses
import difflib
from collections.abc import Callable, Iterable
from typing import Any

from absl import flags

from tf_transformer import config as settings
from tf_transformer.checkpoints.pretrained import DEFAULT
from tf_transformer.cli.flag_parsers import BooleanParser, FloatParser, IntegerParser, TextParser
from tf_transformer.cli.help import describe_command, describe_program
from tf_transformer.errors import UserError
from tf_transformer.paper.table3 import ROWS, SCALES
from tf_transformer.presets import PRESETS, VARIATIONS
from tf_transformer.serving.serve_config import ServeConfig

COMMANDS = {
    "train": "train a model on sentence pairs, or resume a run",
    "translate": "translate lines of text with a trained model",
    "evaluate": "translate or parse a test set, and score it with sacreBLEU or EVALB",
    "parse": "parse lines of text with a model that was trained on trees",
    "score": "compute the log-probability that a model gives to translations",
    "evalb": "score a file of trees against reference trees, as the program EVALB does",
    "average": "average the newest, or the best, checkpoints of a run",
    "export": "export a trained model for TensorFlow Serving, CTranslate2 or Keras",
    "serve": "serve an exported model over HTTP, with TensorFlow Serving's REST API",
    "client": "translate lines of text with a server",
    "info": "describe a preset, a model folder with the history of its run, or sentence pairs",
    "plot": "plot loss, BLEU, learning rate and speed of a run",
    "table3": "print Table 3 of the paper with our parameter counts, or train its rows",
    "doctor": "describe the installation and the hardware, and check that training works here",
}
SETTINGS = (settings.ModelConfig, settings.DataConfig, settings.TrainConfig, settings.DecodeConfig)
FROM_VOCABULARIES = ("input_vocab_size", "target_vocab_size")  # settings that are not flags


# The titles of the groups of flags in --help.
COMMAND_GROUP, GENERAL_GROUP = "Flags", "Flags of all commands"
GROUPS = {
    settings.ModelConfig: "Model",
    settings.DataConfig: "Data",
    settings.TrainConfig: "Training",
    settings.DecodeConfig: "Translation and parsing",
    ServeConfig: "Server",
}


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
    _define(values, "verbose", bool, meaning, False, GENERAL_GROUP)
    meaning = "show warnings and errors only, and no progress bars"
    _define(values, "quiet", bool, meaning, False, GENERAL_GROUP)
    _define(values, "debug", bool, "show the traceback of every error", False, GENERAL_GROUP)
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


def _define(
    values: flags.FlagValues,
    name: str,
    kind: Any,
    meaning: str,
    default: Any = None,
    group: str = COMMAND_GROUP,
    **limits: float,
) -> None:
    """Defines a flag; `kind` is the type of its value, `group` its group in --help."""
    if kind is bool:
        flag: flags.Flag = flags.BooleanFlag(name, default, meaning)
        flag.parser = BooleanParser()
    else:
        parsers = {int: IntegerParser, float: FloatParser, str: TextParser}
        serializer: flags.ArgumentSerializer = flags.ArgumentSerializer()
        flag = flags.Flag(parsers[kind](**limits), serializer, name, default, meaning)
    flags.DEFINE_flag(flag, values, group)


def _define_choice(values: flags.FlagValues, name: str, choices: list[str], meaning: str) -> None:
    """Defines a flag with a few possible values; the first one is the default."""
    flags.DEFINE_enum(
        name, choices[0], choices, meaning, flag_values=values, module_name=COMMAND_GROUP
    )


def _define_settings(
    values: flags.FlagValues, parts: Iterable[type[settings.Settings]], skip: Iterable[str] = ()
) -> None:
    """Defines a flag for each setting; without it, the preset or else the model decides."""
    has_preset = "preset" in values
    for part in parts:
        for field in dataclasses.fields(part):
            if field.name not in skip:
                default = _defaults(part, field.name) if has_preset else "that of the model"
                meaning = f"{field.metadata['meaning']} (default: {default})"
                _define(values, field.name, field.type, meaning, group=GROUPS[part])


def _defaults(part: type[settings.Settings], name: str) -> str:
    """The value of a setting in each preset, as text; one value where all have the same."""
    (part_name,) = (
        field.name for field in dataclasses.fields(settings.Config) if field.type is part
    )
    presets: dict[str, list[str]] = {}  # value -> names of presets
    for preset, config in PRESETS.items():
        value = str(getattr(getattr(config, part_name), name))
        presets.setdefault(value.lower() if value in ("True", "False") else value, []).append(
            preset
        )
    if len(presets) == 1:
        return next(iter(presets))
    return "; ".join(f"{value} in {', '.join(names)}" for value, names in presets.items())


def _define_model(values: flags.FlagValues, optional: bool = False) -> None:
    """Defines --model_dir and --checkpoint."""
    default = f"default: {DEFAULT}" if optional else "required"
    meaning = f"model folder, or the name of a built-in model, such as {DEFAULT} ({default})"
    _define(values, "model_dir", str, meaning)
    meaning = "averaged, best, latest, or a file (default: the first of these that exists)"
    _define(values, "checkpoint", str, meaning)


def _define_files(values: flags.FlagValues, inputs: str, outputs: str) -> None:
    """Defines --input and --output; `inputs` and `outputs` name what the files hold."""
    meaning = f"file of {inputs}, plain or .gz (default: standard input)"
    _define(values, "input", str, meaning)
    _define(values, "output", str, f"file for the {outputs} (default: standard output)")


def _define_split_sentences(values: flags.FlagValues) -> None:
    meaning = (
        "split each line into sentences, translate each of them, and join the translations to a "
        "line again"
    )
    _define(values, "split_sentences", bool, meaning, False)


def _train_flags(values: flags.FlagValues) -> None:
    presets = f"{', '.join(PRESETS)}, or a row of Table 3: {', '.join(VARIATIONS)}"
    _define(values, "preset", str, f"the settings to start from: {presets}", "pocket")
    meaning = "model folder; a run in it is resumed (default: models/PRESET-DATA-SOURCE-TARGET)"
    _define(values, "model_dir", str, meaning)
    meaning = "print the plan, make two updates of the largest batch without saving, and stop"
    _define(values, "dry_run", bool, meaning, False)
    meaning = "remove the run or the model that is in the model folder, and start a new run"
    _define(values, "overwrite", bool, meaning, False)
    _define_settings(values, SETTINGS, skip=FROM_VOCABULARIES)


def _define_engine(values: flags.FlagValues) -> None:
    """Defines --engine and --compute_type."""
    meaning = "ctranslate2: a faster engine for CPUs; the model is exported for it first"
    _define_choice(values, "engine", ["tensorflow", "ctranslate2"], meaning)
    meaning = "ctranslate2: type of the weights in memory; default: that of the export, float32"
    _define_choice(values, "compute_type", ["default", "float32", "int8"], meaning)


def _translate_flags(values: flags.FlagValues) -> None:
    _define_model(values, optional=True)
    _define_engine(values)
    _define_files(values, "lines to translate", "translations")
    meaning = (
        "translations of each line; with more than 1, each is written as "
        "LINE NUMBER<tab>SCORE<tab>TRANSLATION"
    )
    _define(values, "n_best", int, meaning, 1, lower_bound=1)
    _define_split_sentences(values)
    meaning = (
        "write an empty line and a warning for a line with more sub-words than the model has "
        "positions, instead of stopping there"
    )
    _define(values, "skip_long_lines", bool, meaning, False)
    _define_settings(values, (settings.DecodeConfig,))


def _evaluate_flags(values: flags.FlagValues) -> None:
    _define_model(values)
    meaning = "sentence pairs, as for train (default: those that the model was trained on)"
    _define(values, "data", str, meaning)
    meaning = (
        "test, validation or another split; all for two files or a TSV file (default: test, or all)"
    )
    _define(values, "split", str, meaning)
    meaning = (
        "file for the translations (default: MODEL_DIR/evaluation/SPLIT.TARGET, or "
        "DATA.SPLIT.TARGET with --data)"
    )
    _define(values, "output", str, meaning)
    meaning = "maximum number of pairs to score, from the start; 0 means all"
    _define(values, "max_pairs", int, meaning, 0, lower_bound=0)
    meaning = (
        "file of references, or several files separated by commas, instead of the targets of the "
        "pairs; line by line for the sources"
    )
    _define(values, "references", str, meaning)
    meaning = "some of bleu, chrf, chrf++ and ter (slow for long sentences), separated by commas"
    _define(values, "metrics", str, meaning, "bleu,chrf,chrf++")
    meaning = (
        "another system to compare with, by a paired bootstrap test: a file of its translations, "
        "or its model folder"
    )
    _define(values, "baseline", str, meaning)
    _define_settings(values, (settings.DecodeConfig,))


def _parse_flags(values: flags.FlagValues) -> None:
    _define_model(values)
    _define_files(values, "sentences, their words separated by spaces", "trees, one per line")
    _define_settings(values, (settings.DecodeConfig,))


def _score_flags(values: flags.FlagValues) -> None:
    _define_model(values)
    meaning = (
        "sentence pairs: a TSV file, or two files SOURCE_FILE,TARGET_FILE (default: TSV on "
        "standard input)"
    )
    _define(values, "input", str, meaning)
    _define(values, "output", str, "file for the scores (default: standard output)")
    meaning = "write two more columns: the sub-words, and their log-probabilities"
    _define(values, "tokens", bool, meaning, False)
    meaning = "divide by the length penalty, as the scores of translate --n_best"
    _define(values, "normalize", bool, meaning, False)
    meaning = (
        "write -inf and a warning for a pair with more sub-words than the model has positions, "
        "instead of stopping there"
    )
    _define(values, "skip_long_lines", bool, meaning, False)
    meaning = "alpha of the length penalty ((5 + L) / 6) ^ alpha (default: that of the model)"
    _define(values, "length_penalty", float, meaning)


def _evalb_flags(values: flags.FlagValues) -> None:
    _define(values, "gold", str, "file of the reference trees, one per line (required)")
    _define(values, "test", str, "file of the trees to score, one per line (required)")
    meaning = "EVALB's parameter file (default: the conventions of COLLINS.prm)"
    _define(values, "prm", str, meaning)


def _average_flags(values: flags.FlagValues) -> None:
    _define(values, "model_dir", str, "model folder (required)")
    meaning = "number of newest checkpoints to average (default: all that are kept)"
    _define(values, "last", int, meaning)
    meaning = (
        "number of checkpoints to average, those with the best validation scores of all that are "
        "kept"
    )
    _define(values, "best", int, meaning)
    meaning = "file for the averaged weights (default: MODEL_DIR/averaged.npz)"
    _define(values, "output", str, meaning)


def _export_flags(values: flags.FlagValues) -> None:
    _define_model(values)
    meaning = (
        "saved_model: for TensorFlow Serving; ctranslate2: for ctranslate2.Translator; "
        "keras: for keras.models.load_model"
    )
    _define_choice(values, "format", ["saved_model", "ctranslate2", "keras"], meaning)
    meaning = (
        "saved_model: the folder of all versions; other formats: the folder or file to write "
        "(default: MODEL_DIR/export/FORMAT; for a built-in model in models/NAME)"
    )
    _define(values, "output", str, meaning)
    _define(values, "name", str, "saved_model: the model's name on the server", "transformer")
    meaning = (
        "saved_model: number of newest versions to keep; older ones are removed (default: all)"
    )
    _define(values, "keep_versions", int, meaning, lower_bound=1)
    _define_choice(values, "quantization", ["float32", "int8"], "ctranslate2: type of the weights")
    _define_settings(values, (settings.DecodeConfig,))


def _serve_flags(values: flags.FlagValues) -> None:
    meaning = (
        f"model folder, whose export is served (default: the built-in model {DEFAULT}, which is "
        "exported first)"
    )
    _define(values, "model_dir", str, meaning)
    meaning = (
        "folder of the exported versions (default: MODEL_DIR/export/saved_model; for ctranslate2, "
        "an export in the cache)"
    )
    _define(values, "export_dir", str, meaning)
    _define(values, "name", str, "the model's name in URLs", "transformer")
    meaning = (
        "several models: a file with TensorFlow Serving's model_config_list, instead of "
        "--model_dir, --export_dir and --name"
    )
    _define(values, "model_config_file", str, meaning)
    _define_engine(values)
    for field in dataclasses.fields(ServeConfig):
        meaning, group = field.metadata["meaning"], GROUPS[ServeConfig]
        default = None if field.default == "" else field.default  # a flag has no empty text
        _define(values, field.name, field.type, meaning, default, group)


def _client_flags(values: flags.FlagValues) -> None:
    _define(values, "server", str, "URL of the server", "http://127.0.0.1:8501")
    meaning = "host:port, such as 127.0.0.1:8500, of TensorFlow Serving, to use gRPC instead"
    _define(values, "grpc", str, meaning)
    _define(values, "name", str, "the model's name", "transformer")
    _define_files(values, "lines to translate", "translations")
    _define_split_sentences(values)
    meaning = "language code of the lines, for --split_sentences"
    _define(values, "source", str, meaning, settings.DataConfig.source)
    meaning = "language code of the translations, for --split_sentences"
    _define(values, "target", str, meaning, settings.DataConfig.target)
    _define(values, "batch_size", int, "lines per request", 32, lower_bound=1)
    _define(values, "concurrency", int, "number of concurrent requests", 4, lower_bound=1)
    meaning = "seconds to wait while the server does not answer (default: 300, or 10 at a terminal)"
    _define(values, "max_wait", float, meaning, lower_bound=0)
    _define(values, "timeout", float, "seconds to wait for a response", 60.0, lower_bound=0.1)
    meaning = (
        "file with the API key of the server (default: the environment variable "
        "TF_TRANSFORMER_API_KEY)"
    )
    _define(values, "api_key_file", str, meaning)
    meaning = (
        "PEM file of the CA of an https:// server (default: the CAs of the system), or of a --grpc "
        "server with TLS"
    )
    _define(values, "tls_ca", str, meaning)


def _info_flags(values: flags.FlagValues) -> None:
    presets = ", ".join([*PRESETS, *VARIATIONS])
    _define(values, "preset", str, f"the preset to describe: {presets}", "pocket")
    meaning = "model folder to describe instead of a preset; `info FOLDER` does the same"
    _define(values, "model_dir", str, meaning)
    _define(values, "data", str, "sentence pairs to describe, as for train")
    _define(values, "source", str, "language code of the source (default: the model's, or en)")
    _define(values, "target", str, "language code of the target (default: the model's, or de)")


def _plot_flags(values: flags.FlagValues) -> None:
    _define(values, "model_dir", str, "model folder; `plot FOLDER` does the same (required)")
    _define(values, "output", str, "PNG file to write (default: MODEL_DIR/history.png)")


def _table3_flags(values: flags.FlagValues) -> None:
    meaning = "train the rows one after the other; rows that have a result are skipped"
    _define(values, "run", bool, meaning, False)
    meaning = "small: for a CPU with two cores; full: the paper's sizes"
    _define_choice(values, "scale", list(SCALES), meaning)
    _define(values, "rows", str, "rows to train", ",".join(ROWS))
    _define(values, "data", str, "sentence pairs, as for train", settings.DataConfig.data)
    _define(values, "source", str, "language code of the source", settings.DataConfig.source)
    _define(values, "target", str, "language code of the target", settings.DataConfig.target)
    meaning = "updates of base and of the other rows, except big, which has three times as many"
    _define(values, "train_steps", int, meaning, lower_bound=1)
    meaning = (
        "folder of all rows and of results.md (default: models/table3-SCALE-DATA-SOURCE-TARGET)"
    )
    _define(values, "model_dir", str, meaning)


_FLAGS: dict[str, Callable[[flags.FlagValues], None]] = {
    "train": _train_flags,
    "translate": _translate_flags,
    "evaluate": _evaluate_flags,
    "parse": _parse_flags,
    "score": _score_flags,
    "evalb": _evalb_flags,
    "average": _average_flags,
    "export": _export_flags,
    "serve": _serve_flags,
    "client": _client_flags,
    "info": _info_flags,
    "plot": _plot_flags,
    "table3": _table3_flags,
    "doctor": lambda values: None,  # no flags
}
