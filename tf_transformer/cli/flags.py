"""The flags of each command. Those of settings take default and help text from `config.py`."""

import dataclasses

from absl import flags

from tf_transformer import config as settings
from tf_transformer.errors import UserError
from tf_transformer.paper.table3 import ROWS, SCALES
from tf_transformer.presets import PRESETS, VARIATIONS

COMMANDS = {
    "train": "train a model on sentence pairs, or resume a run",
    "translate": "translate lines of text with a trained model",
    "evaluate": "translate or parse a test set, and score it with sacreBLEU or EVALB",
    "parse": "parse lines of text with a model that was trained on trees",
    "evalb": "score a file of trees against reference trees, as the program EVALB does",
    "average": "average the newest, or the best, checkpoints of a run",
    "export": "export a trained model for TensorFlow Serving, CTranslate2 or Keras",
    "serve": "serve an exported model over HTTP, with TensorFlow Serving's REST API",
    "client": "translate lines of text with a server",
    "info": "describe a preset, a model folder with the history of its run, or sentence pairs",
    "plot": "plot loss, BLEU, learning rate and speed of a run",
    "table3": "print Table 3 of the paper with our parameter counts, or train its rows",
}
SETTINGS = (settings.ModelConfig, settings.DataConfig, settings.TrainConfig, settings.DecodeConfig)
FROM_VOCABULARIES = ("input_vocab_size", "target_vocab_size")  # settings that are not flags


def usage():
    """Returns the help text of the program."""
    commands = [f"  {name:10s} {meaning}" for name, meaning in COMMANDS.items()]
    lines = [
        "usage: tf-transformer COMMAND [--flag=value ...]",
        "",
        *commands,
        "",
        "tf-transformer COMMAND --help lists the flags of a command.",
    ]
    return "\n".join(lines)


def parse(command, arguments):
    """Parses the arguments after a command.

    Args:
      command: a key of `COMMANDS`.
      arguments: a list of strings.
    Returns: the flag values, or None when --help was given and the help has been printed.
    Raises: UserError, or absl's `flags.Error`.
    """
    values = flags.FlagValues()
    flags.DEFINE_boolean("help", False, "show this help", short_name="h", flag_values=values)
    _FLAGS[command](values)
    remaining = values([command, *arguments])[1:]
    if values.help:
        _print_help(command, values)
        return None
    if len(remaining) == 1 and command in ("info", "plot") and not values.model_dir:
        values.model_dir = remaining.pop()
    if remaining:
        raise UserError(f"unexpected {remaining[0]!r}: write flags as --name=value")
    return values


def _print_help(command, values):
    print(f"usage: tf-transformer {command} [--flag=value ...]\n\n{COMMANDS[command]}\n")
    for name in sorted(name for name in values if len(name) > 1):
        default = values[name].default
        print(f"  --{name}" if default is None else f"  --{name}={default}")
        print(f"      {values[name].help}")


def given(values, parts):
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


def _define(values, name, kind, meaning, default=None, **limits):
    """Defines a flag; `kind` is the type of its value."""
    define = {
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
        bool: flags.DEFINE_boolean,
    }
    define[kind](name, default, meaning, flag_values=values, **limits)


def _define_choice(values, name, choices, meaning):
    """Defines a flag with a few possible values; the first one is the default."""
    flags.DEFINE_enum(name, choices[0], choices, meaning, flag_values=values)


def _define_settings(values, parts, skip=()):
    """Defines a flag for each setting; without it, the preset or the model decides."""
    for part in parts:
        for field in dataclasses.fields(part):
            if field.name not in skip:
                meaning = f"{field.metadata['meaning']} (default: {_defaults(part, field.name)})"
                _define(values, field.name, field.type, meaning)


def _defaults(part, name):
    """The value of a setting in each preset, as text; one value where all have the same."""
    (part_name,) = (
        field.name for field in dataclasses.fields(settings.Config) if field.type is part
    )
    defaults = {
        preset: str(getattr(getattr(config, part_name), name)) for preset, config in PRESETS.items()
    }
    if len(set(defaults.values())) == 1:
        return defaults["base"]
    return ", ".join(f"{preset} {value}" for preset, value in defaults.items())


def _define_model(values):
    _define(values, "model_dir", str, "model folder (required)")
    meaning = "averaged, best, latest, or a file (default: the first of these that exists)"
    _define(values, "checkpoint", str, meaning)


def _define_files(values, inputs, outputs):
    """Defines --input and --output; `inputs` and `outputs` name what the files hold."""
    meaning = f"file of {inputs}, plain or .gz (default: standard input)"
    _define(values, "input", str, meaning)
    _define(values, "output", str, f"file for the {outputs} (default: standard output)")


def _train_flags(values):
    presets = f"{', '.join(PRESETS)}, or a row of Table 3: {', '.join(VARIATIONS)}"
    _define(values, "preset", str, f"the settings to start from: {presets}", "pocket")
    meaning = "model folder; a run in it is resumed (default: models/PRESET-DATA-SOURCE-TARGET)"
    _define(values, "model_dir", str, meaning)
    meaning = "print the plan, make two updates of the largest batch without saving, and stop"
    _define(values, "dry_run", bool, meaning, False)
    _define_settings(values, SETTINGS, skip=FROM_VOCABULARIES)


def _translate_flags(values):
    _define_model(values)
    _define_files(values, "lines to translate", "translations")
    meaning = (
        "translations of each line; with more than 1, each is written as "
        "LINE NUMBER<tab>SCORE<tab>TRANSLATION"
    )
    _define(values, "n_best", int, meaning, 1, lower_bound=1)
    _define_settings(values, (settings.DecodeConfig,))


def _evaluate_flags(values):
    _define_model(values)
    meaning = "sentence pairs, as for train (default: those that the model was trained on)"
    _define(values, "data", str, meaning)
    meaning = (
        "test, validation or another split; all for two files or a TSV file (default: test, or all)"
    )
    _define(values, "split", str, meaning)
    meaning = "file for the translations (default: MODEL_DIR/evaluation/SPLIT.TARGET)"
    _define(values, "output", str, meaning)
    meaning = "maximum number of pairs to score, from the start; 0 means all"
    _define(values, "max_pairs", int, meaning, 0, lower_bound=0)
    _define_settings(values, (settings.DecodeConfig,))


def _parse_flags(values):
    _define_model(values)
    _define_files(values, "sentences, their words separated by spaces", "trees, one per line")
    _define_settings(values, (settings.DecodeConfig,))


def _evalb_flags(values):
    _define(values, "gold", str, "file of the reference trees, one per line (required)")
    _define(values, "test", str, "file of the trees to score, one per line (required)")
    meaning = "EVALB's parameter file (default: the conventions of COLLINS.prm)"
    _define(values, "prm", str, meaning)


def _average_flags(values):
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


def _export_flags(values):
    _define_model(values)
    meaning = (
        "saved_model: for TensorFlow Serving; ctranslate2: for ctranslate2.Translator; "
        "keras: for keras.models.load_model"
    )
    _define_choice(values, "format", ["saved_model", "ctranslate2", "keras"], meaning)
    meaning = (
        "saved_model: the folder of all versions; other formats: the folder or file to write "
        "(default: MODEL_DIR/export/FORMAT)"
    )
    _define(values, "output", str, meaning)
    _define(values, "name", str, "saved_model: the model's name on the server", "transformer")
    _define_choice(values, "quantization", ["float32", "int8"], "ctranslate2: type of the weights")
    _define_settings(values, (settings.DecodeConfig,))


def _serve_flags(values):
    _define(values, "model_dir", str, "model folder, whose export is served")
    meaning = "folder of the exported versions (default: MODEL_DIR/export/saved_model)"
    _define(values, "export_dir", str, meaning)
    _define(values, "name", str, "the model's name in URLs", "transformer")
    for field in dataclasses.fields(settings.ServeConfig):
        _define(values, field.name, field.type, field.metadata["meaning"], field.default)


def _client_flags(values):
    _define(values, "server", str, "URL of the server", "http://127.0.0.1:8501")
    meaning = "host:port, such as 127.0.0.1:8500, of TensorFlow Serving, to use gRPC instead"
    _define(values, "grpc", str, meaning)
    _define(values, "name", str, "the model's name", "transformer")
    _define_files(values, "lines to translate", "translations")
    _define(values, "batch_size", int, "lines per request", 32, lower_bound=1)
    _define(values, "concurrency", int, "number of concurrent requests", 4, lower_bound=1)
    meaning = "how many times a request is repeated when the server is busy"
    _define(values, "retries", int, meaning, 5, lower_bound=0)
    _define(values, "timeout", float, "seconds to wait for a response", 60.0, lower_bound=0.1)


def _info_flags(values):
    presets = ", ".join([*PRESETS, *VARIATIONS])
    _define(values, "preset", str, f"the preset to describe: {presets}", "pocket")
    meaning = "model folder to describe instead of a preset; `info FOLDER` does the same"
    _define(values, "model_dir", str, meaning)
    _define(values, "data", str, "sentence pairs to describe, as for train")
    _define(values, "source", str, "language code of the source (default: the model's, or en)")
    _define(values, "target", str, "language code of the target (default: the model's, or de)")


def _plot_flags(values):
    _define(values, "model_dir", str, "model folder (required); `plot FOLDER` does the same")
    _define(values, "output", str, "PNG file to write (default: MODEL_DIR/history.png)")


def _table3_flags(values):
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


_FLAGS = {
    "train": _train_flags,
    "translate": _translate_flags,
    "evaluate": _evaluate_flags,
    "parse": _parse_flags,
    "evalb": _evalb_flags,
    "average": _average_flags,
    "export": _export_flags,
    "serve": _serve_flags,
    "client": _client_flags,
    "info": _info_flags,
    "plot": _plot_flags,
    "table3": _table3_flags,
}
