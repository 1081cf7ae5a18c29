"""How a flag is defined: its parser, its group in --help, and its default."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from absl import flags

from tf_transformer import config as settings
from tf_transformer.checkpoints.model_folder import DEFAULT_MODEL
from tf_transformer.cli.flag_parsers import BooleanParser, FloatParser, IntegerParser, TextParser
from tf_transformer.config import MAX_INTEGER, FilterConfig
from tf_transformer.data.readers import describe_data
from tf_transformer.export.formats import IMPORT_FORMATS
from tf_transformer.presets import PRESETS
from tf_transformer.serving.serve_config import ServeConfig

# The titles of the groups of flags in --help.
COMMAND_GROUP, GENERAL_GROUP = "Flags", "Flags of all commands"
GROUPS = {
    settings.ModelConfig: "Model",
    settings.DataConfig: "Data",
    settings.TrainConfig: "Training",
    settings.DecodeConfig: "Translation and parsing",
    ServeConfig: "Server",
    FilterConfig: "Filters",
}


def define(
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


def define_choice(values: flags.FlagValues, name: str, choices: list[str], meaning: str) -> None:
    """Defines a flag with a few possible values; the first one is the default."""
    flags.DEFINE_enum(
        name, choices[0], choices, meaning, flag_values=values, module_name=COMMAND_GROUP
    )


def define_settings(
    values: flags.FlagValues, parts: Iterable[type[settings.Settings]], skip: Iterable[str] = ()
) -> None:
    """Defines a flag for each setting; without it, the preset or else the model decides."""
    has_preset = "preset" in values
    for part in parts:
        for field in dataclasses.fields(part):
            if field.name not in skip:
                default = _defaults(part, field.name) if has_preset else "that of the model"
                meaning = field.metadata["meaning"]
                if field.name == "data":
                    meaning += f": {describe_data()}"
                meaning += f" (default: {default})"
                define(values, field.name, field.type, meaning, group=GROUPS[part])


def _defaults(part: type[settings.Settings], name: str) -> str:
    """The value of a setting in each preset, as text; one value where all have the same."""
    (part_name,) = (
        field.name for field in dataclasses.fields(settings.Config) if field.type is part
    )
    presets: dict[str, list[str]] = {}  # value -> names of presets
    for preset, config in PRESETS.items():
        value = str(getattr(getattr(config, part_name), name)) or "none"
        presets.setdefault(value.lower() if value in ("True", "False") else value, []).append(
            preset
        )
    if len(presets) == 1:
        return next(iter(presets))
    return "; ".join(f"{value} in {', '.join(names)}" for value, names in presets.items())


def define_model(values: flags.FlagValues, optional: bool = False, ensemble: bool = False) -> None:
    """Defines --model_dir and --checkpoint; `ensemble` says that several can be given."""
    default = f"default: {DEFAULT_MODEL}" if optional else "required"
    several = "; several, separated by commas, are an ensemble" if ensemble else ""
    meaning = f"model folder, or the name of a built-in model, such as {DEFAULT_MODEL}"
    define(values, "model_dir", str, f"{meaning}{several} ({default})")
    meaning = f"averaged, best, latest, or a file{several}"
    define(values, "checkpoint", str, f"{meaning} (default: the first of these that exists)")


def define_files(values: flags.FlagValues, inputs: str, outputs: str) -> None:
    """Defines --input and --output; `inputs` and `outputs` name what the files hold."""
    meaning = f"file of {inputs}, plain or .gz (default: standard input)"
    define(values, "input", str, meaning)
    define(values, "output", str, f"file for the {outputs} (default: standard output)")


def define_import(values: flags.FlagValues) -> None:
    """Defines the flags of the command import."""
    formats = [f"{name}: {each.meaning}" for name, each in IMPORT_FORMATS.items()]
    define_choice(values, "format", list(IMPORT_FORMATS), "; ".join(formats))
    meaning = (
        "folder with config.json, model.safetensors, source.spm, target.spm and vocab.json "
        "(required)"
    )
    define(values, "input", str, meaning)
    define(values, "output", str, "model folder to write (required)")
    for side in ("source", "target"):
        meaning = f"language code of the {side} (default: that of the model, or en and de)"
        define(values, side, str, meaning)


def define_tag(values: flags.FlagValues, default: str) -> None:
    """Defines --tag of a model whose sources have tags."""
    meaning = f"tag of the model to put before each source, such as <2de> ({default})"
    define(values, "tag", str, meaning)


def define_split_sentences(values: flags.FlagValues) -> None:
    """Defines --split_sentences."""
    meaning = (
        "split each line into sentences, translate each of them, and join the translations to a "
        "line again"
    )
    define(values, "split_sentences", bool, meaning, False)


def define_sampling(values: flags.FlagValues, note: str = "", default: bool = False) -> None:
    """Defines --sampling, with a note in its help, and its settings."""
    meaning = (
        "draw the translations from the model's distribution, instead of searching the best ones"
    )
    define(values, "sampling", bool, f"{meaning}{note}", default)
    for field in dataclasses.fields(settings.SamplingConfig):
        meaning = f"--sampling: {field.metadata['meaning']} (default: {field.default})"
        define(values, field.name, field.type, meaning)
    meaning = "--sampling: seed of the random numbers (default: 0)"
    define(values, "seed", int, meaning, lower_bound=0, upper_bound=MAX_INTEGER)


def define_back_translation(values: flags.FlagValues) -> None:
    """Defines the flags of back-translate."""
    define_model(values, ensemble=True)
    define_files(values, "text of its source language", "pairs, TSV: translation, line")
    define_tag(values, "default: the lines have their tags")
    define_sampling(values, "; false: beam search", default=True)
    define_settings(values, (settings.DecodeConfig,))


def define_controls(values: flags.FlagValues) -> None:
    """Defines the flags of `ControlConfig`."""
    for field in dataclasses.fields(settings.ControlConfig):
        meaning = f"{field.metadata['meaning']} (default: {field.default:g})"
        define(values, field.name, field.type, meaning, group=GROUPS[settings.DecodeConfig])


def define_mbr(values: flags.FlagValues) -> None:
    """Defines --mbr and --mbr_samples."""
    from tf_transformer.evaluation.metrics import METRICS

    meaning = (
        "minimum Bayes risk decoding: write the candidate with the highest mean sentence score "
        "against the others; the candidates are those of the beam, or --sampling"
    )
    names = [key for key, metric in METRICS.items() if metric.sentence]
    flags.DEFINE_enum("mbr", None, names, meaning, flag_values=values, module_name=COMMAND_GROUP)
    meaning = "--mbr --sampling: candidates of each line (default: 32); the time grows with N^2"
    define(values, "mbr_samples", int, meaning, lower_bound=2)


def define_engine(values: flags.FlagValues) -> None:
    """Defines --engine and --compute_type."""
    meaning = "ctranslate2: a faster engine for CPUs; the model is exported for it first"
    define_choice(values, "engine", ["tensorflow", "ctranslate2"], meaning)
    meaning = "ctranslate2: type of the weights in memory; default: that of the export, float32"
    define_choice(values, "compute_type", ["default", "float32", "int8"], meaning)


def define_cleaning(values: flags.FlagValues) -> None:
    """Defines the flags of clean."""
    meaning = "sentence pairs, as for train (default: TSV on standard input)"
    define(values, "data", str, meaning)
    define(values, "source", str, "language code of the source", settings.DataConfig.source)
    define(values, "target", str, "language code of the target", settings.DataConfig.target)
    meaning = "split to clean (default: train, with the pairs that train holds out for validation)"
    define(values, "split", str, meaning)
    meaning = (
        "file for the clean pairs: TSV, or two files SOURCE_FILE,TARGET_FILE; compressed if the "
        "name ends in .gz (default: TSV on standard output)"
    )
    define(values, "output", str, meaning)
    meaning = (
        "file for the other pairs, TSV: reason, source, target, and weight where there are some"
    )
    define(values, "rejected", str, meaning)
    define(values, "overwrite", bool, "replace files that exist", False)
    for field in dataclasses.fields(FilterConfig):
        meaning, group = field.metadata["meaning"], GROUPS[FilterConfig]
        define(values, field.name, field.type, meaning, field.default, group)


def define_comparison(values: flags.FlagValues) -> None:
    """Defines the flags of compare."""
    from tf_transformer.evaluation.metrics import metrics_help

    meaning = (
        "model folders, or folders that contain some, separated by commas; `compare FOLDER FOLDER` "
        "does the same (required)"
    )
    define(values, "runs", str, meaning)
    define(values, "plot", str, "PNG file for the losses and BLEU of the runs over the updates")
    meaning = (
        "compare the translations that evaluate wrote for this split, by a paired bootstrap test "
        "against the first run"
    )
    define(values, "split", str, meaning)
    meaning = "--split: sentence pairs, as for evaluate (default: those of the first run)"
    define(values, "data", str, meaning)
    meaning = "--split: maximum number of pairs to compare, from the start; 0 means all"
    define(values, "max_pairs", int, meaning, 0, lower_bound=0)
    define(values, "metrics", str, f"--split: {metrics_help()}", "bleu,chrf")
