"""What a command declares beside its function; its flags and its help follow from that.

    @command("average", "average the checkpoints of a run", lambda: [
        Flag("model_dir", str, "model folder", required=True),
        Flag("last", int, "number of newest checkpoints to average"),
    ])
    def average(values): ...

The flags of settings take range, default and help from the dataclasses of `config.py`.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
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
GENERAL_GROUP = "Flags of all commands"
SETTINGS = {
    settings.ModelConfig: "Model",
    settings.DataConfig: "Data",
    settings.TrainConfig: "Training",
    settings.DecodeConfig: SEARCH_GROUP,
}
# Types of values -> what the help shows, and what an error asks for.
VALUES = {int: ("INTEGER", "a whole number"), float: ("NUMBER", "a number"), str: ("TEXT", "")}
RENAMED: dict[str, str] = {}  # old name of a flag -> its name; the old one works for one version


class Flag(NamedTuple):
    """A flag of a command."""

    name: str
    kind: Any  # str, int, float, bool, or a tuple of the possible values
    meaning: str  # its help, without the default
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    required: bool = False
    group: str = COMMAND_GROUP

    @property
    def value(self) -> str:
        """What a value looks like in the help."""
        return "|".join(self.kind) if isinstance(self.kind, tuple) else VALUES[self.kind][0]


class Command(NamedTuple):
    """A command."""

    meaning: str
    flags: Callable[[], Sequence[Flag]]  # called when they are needed
    function: Callable[[flags.FlagValues], int | None]  # returns the exit code; None for 0
    positional: str  # the flag that arguments without a name are for, or ""


COMMANDS: dict[str, Command] = {}
GENERAL = (
    Flag("verbose", bool, "show debug messages too", False, group=GENERAL_GROUP),
    Flag(
        "quiet", bool, "show warnings and errors only, and no progress bars", False,
        group=GENERAL_GROUP,
    ),
    Flag("debug", bool, "show the traceback of every error", False, group=GENERAL_GROUP),
    Flag("help", bool, "show this help", False, group=GENERAL_GROUP),
)  # fmt: skip


def command(
    name: str,
    meaning: str,
    flags_of_command: Callable[[], Sequence[Flag]] = tuple,
    positional: str = "",
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Makes a function of flag values a command; the arguments are those of `Command`."""

    def register(function: Callable[..., int | None]) -> Callable[..., int | None]:
        COMMANDS[name] = Command(meaning, flags_of_command, function, positional)
        return function

    return register


def settings_flags(
    part: type[settings.Settings], group: str, note: str = "", defaults: str = ""
) -> list[Flag]:
    """The flags of the fields of a dataclass; without a flag, the default of the class holds.

    Args:
      part: the dataclass.
      group: title in the help.
      note: put before each meaning.
      defaults: what the help says of the default values, where they are not those of the class.
    """
    made = []
    for field in dataclasses.fields(part):
        meaning = field.metadata["meaning"]
        if field.name == "data":
            meaning += f": {describe_data()}"
        default = defaults or _text(field.default)
        made.append(
            Flag(field.name, field.type, f"{note}{meaning} (default: {default})", group=group)
        )
    return made


def train_flags() -> Iterator[Flag]:
    """The flags of the settings of a run, with the value of each preset as the default."""
    for part, group in SETTINGS.items():
        (name,) = (each.name for each in dataclasses.fields(settings.Config) if each.type is part)
        for flag in settings_flags(part, group, defaults="\0"):
            if flag.name in ("input_vocab_size", "target_vocab_size"):  # the text has them
                continue
            presets: dict[str, list[str]] = {}  # value -> names of presets
            for preset, config in PRESETS.items():
                value = _text(getattr(getattr(config, name), flag.name))
                presets.setdefault(value, []).append(preset)
            default = "; ".join(f"{value} in {', '.join(of)}" for value, of in presets.items())
            if len(presets) == 1:
                default = next(iter(presets))
            yield flag._replace(meaning=flag.meaning.replace("\0", default))


def _text(value: Any) -> str:
    """The value of a setting for the help."""
    return str(value).lower() if isinstance(value, bool) else str(value) or "none"


def search_flags() -> list[Flag]:
    """The flags of the search with a trained model."""
    return settings_flags(settings.DecodeConfig, SEARCH_GROUP, defaults="that of the model")


def control_flags() -> list[Flag]:
    """The flags of controls of the search."""
    return settings_flags(settings.ControlConfig, SEARCH_GROUP)


def sampling_flags(note: str, default: bool = False) -> list[Flag]:
    """--sampling, with a note in its help, and its settings."""
    meaning = "draw the translations from the model's distribution, instead of searching the best"
    seed = "--sampling: seed of the random numbers (default: 0)"
    return [
        Flag("sampling", bool, meaning + note, default),
        *settings_flags(settings.SamplingConfig, COMMAND_GROUP, "--sampling: "),
        Flag("seed", int, seed, minimum=0, maximum=settings.MAX_INTEGER),
    ]


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
        Flag("input", str, f"file of {inputs}, plain or .gz (default: standard input)"),
        Flag("output", str, f"file for the {outputs} (default: standard output)"),
    ]


def language_flags(default: str | None = None) -> list[Flag]:
    """--source and --target, with those of `DataConfig` or with another default in the help."""
    return [
        Flag(
            side,
            str,
            f"language code of the {side}" + (f" (default: {default})" if default else ""),
            None if default else getattr(settings.DataConfig, side),
        )
        for side in ("source", "target")
    ]


def tag_flag(default: str = "the lines have their tags") -> Flag:
    """--tag, of a model whose sources have tags."""
    meaning = f"tag of the model to put before each source, such as <2de> (default: {default})"
    return Flag("tag", str, meaning)


def length_penalty_flag() -> Flag:
    """--length_penalty, for scores of given translations."""
    return next(flag for flag in search_flags() if flag.name == "length_penalty")._replace(
        group=COMMAND_GROUP
    )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns a question with the nearest of the known names, or "" where none is near."""
    near = difflib.get_close_matches(name, names, cutoff=0.55)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def given(values: flags.FlagValues, parts: Iterable[type[settings.Settings]]) -> dict[str, Any]:
    """Returns the settings that the user gave, as a dict.

    Args:
      values: of `parse`.
      parts: dataclasses of settings.
    """
    names = [field.name for part in parts for field in dataclasses.fields(part)]
    return {name: values[name].value for name in names if name in values and values[name].present}


def one_of(values: flags.FlagValues, name: str, *others: str) -> None:
    """Raises: UserError for a flag that is given together with another one."""
    for other in others:
        if _is_used(values, name) and _is_used(values, other):
            raise UserError(f"--{name} and --{other}: give one of them")


def is_for(values: flags.FlagValues, needed: str, *names: str) -> None:
    """Raises: UserError for flags that have an effect only with another one, which is not given."""
    for name in names:
        if values[name].present and not values[needed].value:
            raise UserError(f"--{name} is for --{needed}")


def _is_used(values: flags.FlagValues, name: str) -> bool:
    return bool(values[name].present and values[name].value is not False)


def parse(name: str, arguments: list[str]) -> flags.FlagValues | None:
    """Parses the arguments after a command. The last value of a flag counts.

    Args:
      name: a key of `COMMANDS`.
      arguments: a list of strings.
    Returns: the flag values, or None when --help was given and the help has been printed.
    Raises: UserError, or absl's `flags.Error`.
    """
    declared = [*COMMANDS[name].flags(), *GENERAL]
    values = _define(declared)
    try:
        remaining = values([name, *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        raise UserError(_unknown_flag(name, error.flagname, values)) from None
    except UnicodeDecodeError as error:
        raise UserError(f"the --flagfile is not UTF-8 text: {error}") from None
    except ValueError as error:  # --noflag=value
        raise UserError(str(error)) from None
    if values.help:
        print(_help(name, declared))
        return None
    for old, new in RENAMED.items():
        if old in values and values[old].present:
            logger.warning("--%s is now called --%s", old, new)
    positional = COMMANDS[name].positional
    if remaining and positional and not values[positional].present:
        values[positional].parse(",".join(remaining))
        remaining = []
    if remaining:
        raise UserError(f"unexpected {remaining[0]!r}: write flags as --name=value")
    one_of(values, "verbose", "quiet")
    for flag in declared:
        if flag.required and not values[flag.name].value:
            raise UserError(f"--{flag.name} is missing")
    return values


class _Parser(flags.ArgumentParser):
    """Converts the text of a flag, with plainer messages than absl's."""

    def __init__(self, flag: Flag) -> None:
        self._flag = flag
        self.syntactic_help = ""

    def parse(self, argument: Any) -> Any:
        """Returns the value. Raises: ValueError when it is not valid."""
        _, kind, _, _, minimum, maximum, *_ = self._flag
        if kind is bool:
            try:
                return flags.BooleanParser().parse(argument)
            except (TypeError, ValueError):
                raise ValueError("give true or false") from None
        if kind is str and not argument:
            raise ValueError("give a value, or leave the flag out")
        try:
            value = kind(argument)
        except (TypeError, ValueError):
            raise ValueError(f"give {VALUES[kind][1]}") from None
        if kind is float and not math.isfinite(value):
            raise ValueError("give a finite number")
        if minimum is not None and value < minimum:
            raise ValueError(f"give at least {minimum:,}")
        if maximum is not None and value > maximum:
            raise ValueError(f"give at most {maximum:,}")
        return value


def _define(declared: Iterable[Flag]) -> flags.FlagValues:
    """Makes absl's flags of the declared ones."""
    values = flags.FlagValues()
    for each in declared:
        if isinstance(each.kind, tuple):
            flag: flags.Flag = flags.EnumFlag(each.name, each.default, each.meaning, each.kind)
        elif each.kind is bool:
            short = "h" if each.name == "help" else None
            flag = flags.BooleanFlag(each.name, each.default, each.meaning, short_name=short)
            flag.parser = _Parser(each)
        else:
            serializer: flags.ArgumentSerializer = flags.ArgumentSerializer()
            flag = flags.Flag(_Parser(each), serializer, each.name, each.default, each.meaning)
        flags.DEFINE_flag(flag, values)
    for old, new in RENAMED.items():
        if new in values:
            flags.DEFINE_alias(old, new, values)
    return values


def _unknown_flag(name: str, flag: str, values: flags.FlagValues) -> str:
    """The message for a flag that the command does not have."""
    owners = [
        other for other, each in COMMANDS.items() if flag in {one.name for one in each.flags()}
    ]
    if owners:
        return f"{name} has no flag --{flag}; it is a flag of {', '.join(owners)}"
    return (
        f"unknown flag --{flag}{did_you_mean(f'--{flag}', [f'--{known}' for known in values])}: "
        f"`tf-transformer {name} --help` lists the flags"
    )


def usage() -> str:
    """Returns the help text of the program."""
    lines = ["usage: tf-transformer COMMAND [--flag=value ...]", "", "Commands:"]
    for name, each in COMMANDS.items():
        lines.append(_indent(f"{name:10s} {each.meaning}", 2, 13))
    lines += [
        "",
        "tf-transformer COMMAND --help lists the flags of a command. --flag value is the same as",
        "--flag=value; of a flag that is given twice, the last value counts. Every command has the",
        "flags --verbose, --quiet and --debug.",
    ]
    return "\n".join(lines)


def _help(name: str, declared: list[Flag]) -> str:
    """The help text of a command: its flags by groups, the required ones first."""
    required = "".join(f" --{flag.name}={flag.value}" for flag in declared if flag.required)
    usage_line = f"usage: tf-transformer {name}{required} [--flag=value ...]"
    lines = [usage_line, "", COMMANDS[name].meaning]
    for group in dict.fromkeys(flag.group for flag in declared):
        lines += ["", f"{group}:"]
        members = [flag for flag in declared if flag.group == group]
        for flag in sorted(members, key=lambda flag: not flag.required):
            lines += _flag_help(flag)
    return "\n".join(lines)


def _flag_help(flag: Flag) -> list[str]:
    """The lines of the help on a flag."""
    name = f"  --{flag.name}"
    if flag.kind is not bool:
        name = f"  --{flag.name}={flag.value}"
    elif flag.name == "help":
        name += ", -h"
    elif flag.default is not False:  # a setting, which may be true without the flag
        name += f", --no{flag.name}"
    meaning = flag.meaning
    if flag.required:
        meaning += " (required)"
    elif flag.default not in (None, False):
        meaning += f" (default: {flag.default})"
    return [name, _indent(meaning, 6, 6)]


def _indent(text: str, first: int, rest: int) -> str:
    """Wraps a paragraph; the first line and the other ones are indented by spaces."""
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=" " * first,
        subsequent_indent=" " * rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
