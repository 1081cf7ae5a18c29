"""The text of `--help`."""

import textwrap

from absl import flags

COLUMNS = 100
REQUIRED = "(required)"  # at the end of the meaning of a flag
VALUES = {"int": "INTEGER", "float": "NUMBER"}  # by absl's names of types; others are TEXT


def describe_program(commands: dict[str, str]) -> str:
    """Returns the help text of the program.

    Args:
      commands: the meaning of each command.
    """
    lines = ["usage: tf-transformer COMMAND [--flag=value ...]", "", "Commands:"]
    for name, meaning in commands.items():
        lines.append(_indent(f"{name:10s} {meaning}", 2, 13))
    lines += [
        "",
        "tf-transformer COMMAND --help lists the flags of a command. --flag value is the same as",
        "--flag=value; of a flag that is given twice, the last value counts. Every command has the",
        "flags --verbose, --quiet and --debug.",
    ]
    return "\n".join(lines)


def describe_command(command: str, meaning: str, values: flags.FlagValues) -> str:
    """Returns the help text of a command: its flags by groups, the required ones first.

    Args:
      command: its name.
      meaning: what it does.
      values: its flags. The "module" of a flag is its group.
    """
    groups = values.flags_by_module_dict()
    required = [flag for group in groups.values() for flag in group if _is_required(flag)]
    usage = "".join(f" --{flag.name}={_value(flag)}" for flag in required)
    lines = [f"usage: tf-transformer {command}{usage} [--flag=value ...]", "", meaning]
    for title, group in groups.items():
        lines += ["", f"{title}:"]
        for flag in sorted(group, key=_is_required, reverse=True):
            lines += [_name(flag), _indent(_meaning(flag), 6, 6)]
    return "\n".join(lines)


def _is_required(flag: flags.Flag) -> bool:
    return (flag.help or "").endswith(REQUIRED)


def _name(flag: flags.Flag) -> str:
    if not flag.boolean:
        return f"  --{flag.name}={_value(flag)}"
    if flag.short_name:
        return f"  --{flag.name}, -{flag.short_name}"
    # A flag without a default is a setting of the preset or the model.
    return f"  --{flag.name}, --no{flag.name}" if flag.default is None else f"  --{flag.name}"


def _value(flag: flags.Flag) -> str:
    """What a value of the flag looks like."""
    if isinstance(flag, flags.EnumFlag):
        return "|".join(flag.parser.enum_values)
    return VALUES.get(flag.flag_type(), "TEXT")


def _meaning(flag: flags.Flag) -> str:
    """The meaning, with the default value where there is one."""
    meaning = (flag.help or "").removeprefix(f"<{_value(flag)}>: ")  # absl's, of a choice
    if flag.default is None or flag.default is False:
        return meaning
    return f"{meaning} (default: {flag.default})"


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
