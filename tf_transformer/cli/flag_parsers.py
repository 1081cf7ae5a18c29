"""Parsers of flag values, with plainer messages than absl's."""

import math
from typing import Any

from absl import flags


class IntegerParser(flags.IntegerParser):
    """Whole numbers in a range. Raises: ValueError for anything else."""

    def convert(self, argument: Any) -> int:
        """Converts the text of a flag."""
        try:
            return super().convert(argument)
        except (TypeError, ValueError):
            raise ValueError("give a whole number") from None


class FloatParser(flags.FloatParser):
    """Finite numbers in a range. Raises: ValueError for anything else."""

    def convert(self, argument: Any) -> float:
        """Converts the text of a flag."""
        try:
            value = super().convert(argument)
        except (TypeError, ValueError):
            raise ValueError("give a number") from None
        if not math.isfinite(value):
            raise ValueError("give a finite number")
        return value


class TextParser(flags.ArgumentParser):
    """Text with at least one character. Raises: ValueError for the empty text."""

    def parse(self, argument: Any) -> str:
        """Returns the text of a flag."""
        if not argument:
            raise ValueError("give a value, or leave the flag out")
        return argument


class BooleanParser(flags.BooleanParser):
    """Truth values. Raises: ValueError for anything else."""

    def parse(self, argument: Any) -> bool:
        """Converts the text of a flag."""
        try:
            return super().parse(argument)
        except (TypeError, ValueError):
            raise ValueError("give true or false") from None
