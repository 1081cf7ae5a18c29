"""The reader of the small text files that configure the server."""

from tf_transformer.errors import UserError

MAX_BYTES = 2**20


def read_small_file(path: str, meaning: str) -> str:
    """Returns the text of a file in UTF-8.

    Args:
      path: of the file.
      meaning: what it has, for the messages, such as "API keys".
    Raises: UserError when it cannot be read, has more than 1 MiB, or is not UTF-8 text.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read the {meaning} in {path}: {error.strerror or error}") from None
    except ValueError:  # a null byte in the path
        raise UserError(f"cannot read the {meaning} in {path!r}: not a path") from None
    if len(content) > MAX_BYTES:
        raise UserError(f"{path} is not a file of {meaning}: it has more than 1 MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a file of {meaning}: it is not UTF-8 text") from None
