"""A setting: a field of a dataclass with a meaning and a range, which is checked."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tf_transformer.errors import UserError

MAX_INTEGER = 2**31 - 1  # TensorFlow computes steps, lengths and ids in int32

# The type of a setting -> the types of its values, and their description.
_VALUES: dict[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    float: ((float, int), "a number"),
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
}


def setting(
    default: Any,
    meaning: str,
    minimum: float | None = None,
    below: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """Defines a field of a `Settings` class; the command line has a flag for each.

    Args:
      default: its default value.
      meaning: the help text of the flag, including the unit.
      minimum: the smallest valid value, or None.
      below: a number that is larger than all valid values, or None.
      maximum: the largest valid value; None for `MAX_INTEGER`, or for any finite number.
      choices: a tuple of the valid values, or None.
    """
    metadata = {
        "meaning": meaning,
        "minimum": minimum,
        "below": below,
        "maximum": maximum,
        "choices": choices,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The base class of the settings: checks the type and the range of each value.

    Raises: UserError for a value of another type or out of range.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))


def _check(field: dataclasses.Field, value: Any) -> None:
    """Raises: UserError when the value of a setting is not valid."""
    minimum, below, maximum, choices = (
        field.metadata[name] for name in ("minimum", "below", "maximum", "choices")
    )
    types, description = _VALUES[field.type]
    is_flag = isinstance(value, bool)  # which is an int for Python
    if not isinstance(value, types) or (is_flag and field.type is not bool):
        raise UserError(f"{field.name} is {value!r}: give {description}")
    if field.type is int and maximum is None:
        maximum = MAX_INTEGER
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{field.name} is {value}: give a finite number")
    if minimum is not None and value < minimum:
        raise UserError(f"{field.name} is {value}: give at least {minimum}")
    if below is not None and value >= below:
        raise UserError(f"{field.name} is {value}: give less than {below}")
    if maximum is not None and value > maximum:
        raise UserError(f"{field.name} is {value}: give at most {maximum:,}")
    if choices is not None and value not in choices:
        raise UserError(f"{field.name} is {value!r}: give {listed(choices)}")


def listed(choices: Sequence[str]) -> str:
    """Returns "a, b or c" for the choices a, b and c."""
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
