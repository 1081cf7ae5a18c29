"""What a command declares beside its function; its flags and its help follow from that.

    @command("average", lambda: [
        Flag("model_dir", str, "model folder", required=True),
        Flag("last", int, "number of newest checkpoints to average"),
    ])
    def average(values): ...  # the first line of its docstring is in the help

The flags of settings take range, default and help from the dataclasses of `config.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from absl import flags

from tf_transformer import config as settings
from tf_transformer.checkpoints.model_folder import DEFAULT_MODEL
from tf_transformer.data.readers import describe_data
from tf_transformer.errors import UserError
from tf_transformer.presets import PRESETS

logger = logging.getLogger(__name__)

COLUMNS = 100  # of the help
# The titles of the groups of flags in the help.
COMMAND_GROUP, SEARCH_GROUP = "Flags", "Translation and parsing"
OF_THE_MODEL = "the model's"  # the default of a setting of a trained model
SETTINGS = {
    settings.ModelConfig: "Model",
    settings.DataConfig: "Data",
    settings.TrainConfig: "Training",
    settings.DecodeConfig: SEARCH_GROUP,
}
# Types of values -> absl's flags, and what the help shows.
KINDS: dict[Any, tuple[Callable[..., Any], str]] = {
    int: (flags.DEFINE_integer, "INTEGER"),
    float: (flags.DEFINE_float, "NUMBER"),
    str: (flags.DEFINE_string, "TEXT"),
}

# Flags of versions before 0.3 that have gone, with the settings that have.
GONE_FLAGS = {
    *settings.GONE, "seeds", "parallel_seeds", "constraints", "diverse_groups",
    "diversity_strength", "server", "prm", "drain_seconds",
}  # fmt: skip


class Flag(NamedTuple):
    """A flag of a command."""

    name: str
    kind: Any  # str, int, float, bool, or a tuple of the possible values
    meaning: str  # its help, without the default
    default: Any = None
    minimum: int | None = None
    required: bool = False
    group: str = COMMAND_GROUP


class Command(NamedTuple):
    """A command."""

    meaning: str
    flags: Callable[[], Sequence[Flag]]  # called when they are needed
    function: Callable[[flags.FlagValues], int | None]  # returns the exit code; None for 0
    positional: str  # the flag that arguments without a name are for, or ""


COMMANDS: dict[str, Command] = {}
GENERAL = [
    Flag("verbose", bool, "show debug messages too", False),
    Flag("quiet", bool, "show warnings and errors only, and no progress bars", False),
    Flag("debug", bool, "show the traceback of every error", False),
    Flag("help", bool, "show this help", False),
]


def command(
    name: str, flags_of_command: Callable[[], Sequence[Flag]] = tuple, positional: str = ""
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Makes a function of flag values a command; its docstring is the help.

    The arguments are fields of `Command`.
    """

    def register(function: Callable[..., int | None]) -> Callable[..., int | None]:
        summary = (function.__doc__ or "").partition("\n\n")[0].removesuffix(".")
        meaning = summary[:1].lower() + summary[1:]
        COMMANDS[name] = Command(meaning, flags_of_command, function, positional)
        return function

    return register


def _setting_flag(
    field: dataclasses.Field, default: str, group: str = COMMAND_GROUP, note: str = ""
) -> Flag:
    """The flag of a setting; `default` is for its help, and `note` comes before its meaning."""
    meaning = note + field.metadata["meaning"]
    if field.name == "data":
        meaning += f": {describe_data()}"
    kind = field.metadata["choices"] or field.type
    return Flag(field.name, kind, f"{meaning} (default: {default})", group=group)


def settings_flags(
    part: type[settings.Settings], group: str = COMMAND_GROUP, note: str = ""
) -> list[Flag]:
    """The flags of a dataclass of settings; without a flag, the default of the class holds."""
    fields = dataclasses.fields(part)
    return [_setting_flag(field, _text(field.default), group, note) for field in fields]


def train_flags() -> list[Flag]:
    """The flags of the settings of a run, with the value of each preset as the default."""
    presets = {name: config.values() for name, config in PRESETS.items()}
    known_from_the_text = "input_vocab_size", "target_vocab_size"
    made = []
    for part, group in SETTINGS.items():
        for field in dataclasses.fields(part):
            if field.name in known_from_the_text:
                continue
            names: dict[str, list[str]] = {}  # of the presets, by their value
            for name, values in presets.items():
                names.setdefault(_text(values[field.name]), []).append(name)
            default = "; ".join(f"{value} in {', '.join(of)}" for value, of in names.items())
            if len(names) == 1:
                (default,) = names
            made.append(_setting_flag(field, default, group))
    return made


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "none"


def search_flags(*others: type[settings.Settings]) -> list[Flag]:
    """The flags of the search with a trained model, and of other dataclasses for it."""
    fields = dataclasses.fields(settings.DecodeConfig)
    made = [_setting_flag(field, OF_THE_MODEL, SEARCH_GROUP) for field in fields]
    return [*made, *(flag for part in others for flag in settings_flags(part, SEARCH_GROUP))]


def setting_flag(name: str, note: str = "") -> Flag:
    """The flag of one setting of a trained model; `note` comes before its meaning."""
    fields = {field.name: field for part in SETTINGS for field in dataclasses.fields(part)}
    return _setting_flag(fields[name], OF_THE_MODEL, note=note)


def model_flags(optional: bool = False) -> list[Flag]:
    """--model_dir and --checkpoint, of one model or of an ensemble."""
    several = "; several, separated by commas, are an ensemble"
    meaning = f"model folder, or the name of a built-in model, such as {DEFAULT_MODEL}{several}"
    if optional:
        meaning += f" (default: {DEFAULT_MODEL})"
    checkpoint = f"averaged, best, latest, or a file{several} (default: the first that exists)"
    return [
        Flag("model_dir", str, meaning, required=not optional),
        Flag("checkpoint", str, checkpoint),
    ]


def file_flags(inputs: str, outputs: str) -> list[Flag]:
    """--input and --output; the arguments name what the files hold."""
    return [
        Flag("input", str, f"{inputs} (default: standard input)"),
        Flag("output", str, f"file for the {outputs} (default: standard output)"),
    ]


def language_flags(note: str = "") -> list[Flag]:
    """--source and --target; where a note says what holds without them, they have no default."""
    languages = {"source": settings.DataConfig.source, "target": settings.DataConfig.target}
    return [
        Flag(side, str, f"language code of the {side}{note}", None if note else default)
        for side, default in languages.items()
    ]


def tag_flag(default: str = "the lines have their tags") -> Flag:
    """--tag, of a model whose sources have tags."""
    meaning = f"tag of the model to put before each source, such as <2de> (default: {default})"
    return Flag("tag", str, meaning)


def given(values: flags.FlagValues, parts: Iterable[type[settings.Settings]]) -> dict[str, Any]:
    """Returns the settings of some dataclasses that the user gave."""
    names = [field.name for part in parts for field in dataclasses.fields(part)]
    return {name: values[name].value for name in names if name in values and values[name].present}


def one_of(values: flags.FlagValues, *names: str) -> None:
    """Raises: UserError for the first of some flags when it is given with another one of them."""
    used = [name for name in names if values[name].present and values[name].value is not False]
    if names[0] in used and len(used) > 1:
        raise UserError(f"--{used[0]} and --{used[1]}: give one of them")


def is_for(values: flags.FlagValues, needed: str, *names: str) -> None:
    """Raises: UserError for flags that have an effect only with another one, which is not given."""
    for name in names:
        if values[name].present and not values[needed].value:
            raise UserError(f"--{name} is for --{needed}")


def parse(name: str, arguments: list[str]) -> flags.FlagValues | None:
    """Parses the arguments after the name of a command. The last value of a flag counts.

    Returns: the flag values, or None when --help was given and the help has been printed.
    Raises: UserError, or absl's `flags.Error`.
    """
    general = (flag._replace(group="Flags of all commands") for flag in GENERAL)
    declared = [*COMMANDS[name].flags(), *general]
    values = _define(declared)
    try:
        remaining = values([name, *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        if error.flagname.removeprefix("no") in GONE_FLAGS:
            raise UserError(f"--{error.flagname} {settings.GONE_SINCE}") from None
        flags_of = {other: [flag.name for flag in each.flags()] for other, each in COMMANDS.items()}
        problem = f"{error}; `tf-transformer {name} --help` lists the flags"
        if owners := [other for other, names in flags_of.items() if error.flagname in names]:
            problem = f"{name} has no flag --{error.flagname}: it is for {', '.join(owners)}"
        raise UserError(problem) from None
    except ValueError as error:  # --noflag=value, or a --flagfile that is not UTF-8
        raise UserError(f"the flags cannot be read: {error}") from None
    if values.help:
        print(_help(name, declared))
        return None
    positional = COMMANDS[name].positional
    if remaining and positional and not values[positional].present:
        values[positional].parse(",".join(remaining))
        remaining = []
    if remaining:
        raise UserError(f"unexpected {remaining[0]!r}: write flags as --name=value")
    one_of(values, "verbose", "quiet")
    for flag in declared:
        if values[flag.name].value == "":  # such as an unset variable of the shell
            raise UserError(f"--{flag.name}=: give a value, or leave the flag out")
        if flag.required and values[flag.name].value is None:
            raise UserError(f"--{flag.name} is missing")
    return values


def warn_of_repeated(values: flags.FlagValues) -> None:
    """Warns of flags that were given several times."""
    repeated = {f"--{name}={flag.value}" for name in values if (flag := values[name]).present > 1}
    if repeated:
        logger.warning(f"given several times, the last value counts: {', '.join(sorted(repeated))}")


def _define(declared: Iterable[Flag]) -> flags.FlagValues:
    values = flags.FlagValues()
    for name, kind, meaning, default, minimum, *_ in declared:
        if isinstance(kind, tuple):
            flags.DEFINE_enum(name, default, kind, meaning, values)
        elif kind is bool:
            short = "h" if name == "help" else None
            flags.DEFINE_boolean(name, default, meaning, values, short_name=short)
        elif minimum is not None:
            flags.DEFINE_integer(name, default, meaning, minimum, settings.MAX_INTEGER, values)
        else:
            KINDS[kind][0](name, default, meaning, flag_values=values)
    return values


def usage() -> str:
    """Returns the help text of the program."""
    commands = (_wrapped(f"  {name:10s} {each.meaning}", 13) for name, each in COMMANDS.items())
    notes = (
        "tf-transformer COMMAND --help lists the flags of a command. --flag value is the same as "
        "--flag=value; of a flag that is given twice, the last value counts. Every command has the "
        "flags --verbose, --quiet and --debug."
    )
    lines = ["usage: tf-transformer COMMAND [--flag=value ...]", "", "Commands:", *commands, ""]
    return "\n".join([*lines, _wrapped(notes, 0)])


def _help(name: str, declared: list[Flag]) -> str:
    """The help text of a command: its flags by groups, the required ones first."""
    declared = sorted(declared, key=lambda flag: not flag.required)
    required = [_with_value(flag) for flag in declared if flag.required]
    words = ["usage: tf-transformer", name, *required, "[--flag=value ...]"]
    lines = [" ".join(words), "", COMMANDS[name].meaning]
    for group in dict.fromkeys(flag.group for flag in declared):
        lines += ["", f"{group}:"]
        for flag in declared:
            if flag.group == group:
                meaning = flag.meaning
                if flag.required:
                    meaning += " (required)"
                elif flag.default not in (None, False):
                    meaning += f" (default: {flag.default})"
                lines += [f"  {_with_value(flag)}", _wrapped(f"      {meaning}", 6)]
    return "\n".join(lines)


def _with_value(flag: Flag) -> str:
    """A flag for the help, such as "--beam_size=INTEGER"."""
    if flag.name == "help":
        return "--help, -h"
    if flag.kind is bool:  # a setting may be true without the flag
        return f"--{flag.name}" if flag.default is False else f"--{flag.name}, --no{flag.name}"
    value = "|".join(flag.kind) if isinstance(flag.kind, tuple) else KINDS[flag.kind][1]
    return f"--{flag.name}={value}"


def _wrapped(text: str, indent: int) -> str:
    """Wraps a paragraph; the lines after the first one are indented by spaces."""
    wrapper = textwrap.TextWrapper(COLUMNS, break_long_words=False, break_on_hyphens=False)
    wrapper.subsequent_indent = " " * indent
    return wrapper.fill(text)
