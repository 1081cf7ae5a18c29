"""The error message for a package of the extra "serving" that is not installed."""

import contextlib
from collections.abc import Iterator

from tf_transformer.errors import UserError

SERVING_API = "tensorflow-serving-api"  # for pip; its module is tensorflow_serving


@contextlib.contextmanager
def explain_missing_package(name: str = "") -> Iterator[None]:
    """Turns the error of an import into a `UserError` that tells how to install the package.

    Args:
      name: of the package for pip; "" for that of the module which was not found.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tf_transformer"):
            raise  # a bug
        raise UserError(
            f"the package {name or error.name} is missing: pip install 'tf_transformer[serving]'"
        ) from None
