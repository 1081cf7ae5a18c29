"""SHA256SUMS, the checksums of the files of a folder; `sha256sum --check` reads it too."""

import hashlib
import os
import pathlib

from tf_transformer.atomic_io import atomic_write

NAME = "SHA256SUMS"


def write_checksums(folder: str) -> None:
    """Writes SHA256SUMS of all files in a folder and below it, except hidden ones."""
    lines = [f"{checksum}  {name}\n" for name, checksum in _checksums(folder).items()]
    with atomic_write(os.path.join(folder, NAME)) as file:
        file.writelines(lines)


def is_intact(folder: str) -> bool:
    """Whether the files of a folder are those of its SHA256SUMS, with the same content.

    Hidden files are ignored, since some systems add them, such as .DS_Store.
    """
    try:
        text = pathlib.Path(folder, NAME).read_text("utf-8")
        lines = [line.split("  ", 1) for line in text.splitlines()]
        return {name: checksum for checksum, name in lines} == _checksums(folder)
    except (OSError, ValueError):  # a missing file, or another text than `write_checksums` writes
        return False


def _checksums(folder: str) -> dict[str, str]:
    """The SHA-256 of each file but SHA256SUMS and hidden ones, by its path, sorted by path."""
    checksums = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        parts = path.relative_to(folder).parts
        is_hidden = any(part.startswith(".") for part in parts)
        if path.is_file() and not is_hidden and parts != (NAME,):
            checksums["/".join(parts)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return checksums
