"""The flags of each command, made from the settings of `config.py`: one default and one meaning for each."""

import dataclasses

from absl import flags

from tf_transformer import config as settings
from tf_transformer.errors import UserError
from tf_transformer.paper.table3 import ROWS, SCALES
from tf_transformer.presets import PRESETS, VARIATIONS

COMMANDS = {
    "train": "train a model on sentence pairs, or go on with a run",
    "translate": "translate lines of text with a trained model",
    "evaluate": "translate, or parse, a test set and score it with sacreBLEU, or as EVALB does",
    "parse": "parse lines of text with a model that was trained on trees",
    "evalb": "score a file of trees against the right ones, as the program EVALB does",
    "average": "average the last, or the best, checkpoints of a run",
    "export": "write a trained model in the form of another engine",
    "serve": "answer over HTTP with an exported model, as TensorFlow Serving does",
    "client": "translate lines by a server",
    "info": "describe a preset, sentence pairs, or a model folder and the history of its run",
    "plot": "draw loss, BLEU, learning rate and speed of a run",
    "table3": "print Table 3, the paper's figures beside ours, or train its rows",
}
SETTINGS = (settings.ModelConfig, settings.DataConfig, settings.TrainConfig, settings.DecodeConfig)


def usage():
    """The help of the program itself."""
    lines = [f"  {name:10s} {meaning}" for name, meaning in COMMANDS.items()]
    return "\n".join(
        [
            "usage: tf-transformer COMMAND [--flag=value ...]",
            "",
            *lines,
            "",
            "tf-transformer COMMAND --help lists the flags of a command.",
        ]
    )


def parse(command, words):
    """Reads the words after a command.

    Returns: the flag values, or None after printing the help. Raises: UserError, absl's flags.Error."""
    values = flags.FlagValues()
    flags.DEFINE_boolean("help", False, "show this help", short_name="h", flag_values=values)
    _FLAGS[command](values)
    left = values([command, *words])[1:]
    if values.help:
        print(f"usage: tf-transformer {command} [--flag=value ...]\n\n{COMMANDS[command]}\n")
        for name in sorted(flag for flag in values if len(flag) > 1):
            if values[name].default is not None:
                print(f"  --{name}={values[name].default}\n      {values[name].help}")
            else:
                print(f"  --{name}\n      {values[name].help}")
        return None
    if len(left) == 1 and command in ("info", "plot") and not values.model_dir:
        values.model_dir = left.pop()
    if left:
        raise UserError(f"unexpected {left[0]!r}: flags are written --name=value")
    return values


def _define(values, name, kind, meaning, default=None, **limits):
    define = {
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
        bool: flags.DEFINE_boolean,
    }
    define[kind](name, default, meaning, flag_values=values, **limits)


def _define_settings(values, parts, skip=()):
    """A flag for each setting of some parts of the configuration; not given, it has the preset's or the model's own value."""
    for part in parts:
        for field in dataclasses.fields(part):
            if field.name not in skip:
                found = {
                    name: getattr(getattr(one, _part_name(part)), field.name)
                    for name, one in PRESETS.items()
                }
                own = {str(value) for value in found.values()}
                each = (
                    own.pop()
                    if len(own) == 1
                    else ", ".join(f"{name} {value}" for name, value in found.items())
                )
                _define(
                    values, field.name, field.type, f"{field.metadata['meaning']} (default: {each})"
                )


def _part_name(part):
    return next(field.name for field in dataclasses.fields(settings.Config) if field.type is part)


def given(values, parts):
    """The settings that the user gave, by name."""
    names = [field.name for part in parts for field in dataclasses.fields(part)]
    return {
        name: values[name].value
        for name in names
        if name in values and values[name].value is not None
    }


def _train_flags(values):
    names = ", ".join(PRESETS) + ", or a row of Table 3: " + ", ".join(VARIATIONS)
    _define(values, "preset", str, f"the settings to begin with: {names}", "pocket")
    _define(
        values,
        "model_dir",
        str,
        "folder of the model; a run that is there goes on (default: models/PRESET-DATA-SOURCE-TARGET)",
    )
    _define(
        values,
        "dry_run",
        bool,
        "print the plan, make one update of the largest batch, and stop",
        False,
    )
    _define_settings(
        values, SETTINGS, skip=("input_vocab_size", "target_vocab_size")
    )  # those follow from the vocabularies


def _model_flags(values):
    _define(values, "model_dir", str, "folder of the model (required)")
    _define(
        values,
        "checkpoint",
        str,
        "averaged, best, latest, or a file (default: the first of these that is there)",
    )


def _translate_flags(values):
    _model_flags(values)
    _define(
        values, "input", str, "file of lines to translate, plain or .gz (default: standard input)"
    )
    _define(values, "output", str, "file for the translations (default: standard output)")
    _define(
        values,
        "n_best",
        int,
        "translations of each line, written as LINE NUMBER<tab>SCORE<tab>TRANSLATION where more than 1",
        1,
        lower_bound=1,
    )
    _define_settings(values, (settings.DecodeConfig,))


def _evaluate_flags(values):
    _model_flags(values)
    _define(
        values,
        "data",
        str,
        "sentence pairs, as for train (default: those that the model was trained on)",
    )
    _define(
        values,
        "split",
        str,
        "test, validation or another split; all for two files or a TSV file (default: test, or all)",
    )
    _define(
        values,
        "output",
        str,
        "file for the translations (default: MODEL_DIR/evaluation/SPLIT.TARGET)",
    )
    _define(
        values,
        "max_pairs",
        int,
        "score so many pairs at most, from the beginning; 0 means all",
        0,
        lower_bound=0,
    )
    _define_settings(values, (settings.DecodeConfig,))


def _parse_flags(values):
    _model_flags(values)
    _define(
        values,
        "input",
        str,
        "file of sentences, whose words have blanks between them, plain or .gz (default: standard input)",
    )
    _define(values, "output", str, "file for the trees, one a line (default: standard output)")
    _define_settings(values, (settings.DecodeConfig,))


def _evalb_flags(values):
    _define(values, "gold", str, "file of the right trees, one a line (required)")
    _define(values, "test", str, "file of the trees to score, one a line (required)")
    _define(values, "prm", str, "EVALB's parameter file (default: the conventions of COLLINS.prm)")


def _average_flags(values):
    _define(values, "model_dir", str, "folder of the model (required)")
    _define(values, "last", int, "newest checkpoints to average (default: all that are kept)")
    _define(
        values,
        "best",
        int,
        "checkpoints with the best validation scores to average, of those that are kept",
    )
    _define(
        values, "output", str, "file for the averaged weights (default: MODEL_DIR/averaged.npz)"
    )


def _export_flags(values):
    _model_flags(values)
    meanings = "saved_model: for TensorFlow Serving; ctranslate2: for ctranslate2.Translator; keras: for keras.models.load_model"
    flags.DEFINE_enum(
        "format",
        "saved_model",
        ["saved_model", "ctranslate2", "keras"],
        meanings,
        flag_values=values,
    )
    _define(
        values,
        "output",
        str,
        "saved_model: the folder of all versions; else what to write (default: MODEL_DIR/export/FORMAT)",
    )
    _define(values, "name", str, "saved_model: the model's name for the server", "transformer")
    flags.DEFINE_enum(
        "quantization",
        "float32",
        ["float32", "int8"],
        "ctranslate2: numbers of the matrices",
        flag_values=values,
    )
    _define_settings(values, (settings.DecodeConfig,))


def _serve_flags(values):
    _define(values, "model_dir", str, "folder of the model, whose export is served")
    _define(
        values, "export_dir", str, "folder of the versions (default: MODEL_DIR/export/saved_model)"
    )
    _define(values, "name", str, "the model's name in addresses", "transformer")
    for field in dataclasses.fields(settings.ServeConfig):
        _define(values, field.name, field.type, field.metadata["meaning"], field.default)


def _client_flags(values):
    _define(values, "server", str, "address of the server", "http://127.0.0.1:8501")
    _define(
        values,
        "grpc",
        str,
        "address such as 127.0.0.1:8500 of a TensorFlow Serving to ask over gRPC instead",
    )
    _define(values, "name", str, "the model's name", "transformer")
    _define(
        values, "input", str, "file of lines to translate, plain or .gz (default: standard input)"
    )
    _define(values, "output", str, "file for the translations (default: standard output)")
    _define(values, "batch_size", int, "lines in a request", 32, lower_bound=1)
    _define(values, "concurrency", int, "requests under way at a time", 4, lower_bound=1)
    _define(
        values,
        "retries",
        int,
        "how often a request is sent again when the server is busy",
        5,
        lower_bound=0,
    )
    _define(values, "timeout", float, "seconds to wait for an answer", 60.0, lower_bound=0.1)


def _info_flags(values):
    _define(
        values,
        "preset",
        str,
        f"the preset to describe: {', '.join([*PRESETS, *VARIATIONS])}",
        "pocket",
    )
    _define(
        values,
        "model_dir",
        str,
        "folder of a model to describe instead of the preset; `info FOLDER` does too",
    )
    _define(values, "data", str, "sentence pairs to describe, as for train")
    _define(values, "source", str, "language code of the source (default: the model's, or en)")
    _define(values, "target", str, "language code of the target (default: the model's, or de)")


def _plot_flags(values):
    _define(values, "model_dir", str, "folder of the model; `plot FOLDER` does too (required)")
    _define(values, "output", str, "file for the picture, PNG (default: MODEL_DIR/history.png)")


def _table3_flags(values):
    _define(
        values,
        "run",
        bool,
        "train the rows one after the other; those that are done are passed over",
        False,
    )
    flags.DEFINE_enum(
        "scale",
        "small",
        list(SCALES),
        "small: for two processor cores; full: the paper's sizes",
        flag_values=values,
    )
    _define(values, "rows", str, "rows to train", ",".join(ROWS))
    _define(values, "data", str, "sentence pairs, as for train", settings.DataConfig.data)
    _define(values, "source", str, "language code of the source", settings.DataConfig.source)
    _define(values, "target", str, "language code of the target", settings.DataConfig.target)
    _define(
        values,
        "train_steps",
        int,
        "updates of base; the other rows have as many, but big three times",
        lower_bound=1,
    )
    _define(
        values,
        "model_dir",
        str,
        "folder of all rows and of results.md (default: models/table3-SCALE-DATA-SOURCE-TARGET)",
    )


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
