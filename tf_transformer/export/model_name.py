"""The name of a served model, which is part of its URL."""

import re

from tf_transformer.errors import UserError


def check_model_name(name: str, place: str = "--name") -> None:
    """Raises: UserError for a name that cannot be part of a URL; `place` is where it is given."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise UserError(
            f"{place} is {name!r}: give a name of letters, digits, '_', '.' and '-' only"
        )
