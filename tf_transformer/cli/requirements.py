"""The packages that this one requires, and which of them are installed in which version.

The requirements are those of the installed metadata, which pip wrote.
"""

from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

PACKAGE = "tf_transformer"
EXTRAS_OF_DEVELOPERS = ("dev", "docs")


class Requirement(NamedTuple):
    """A required package."""

    name: str
    specifier: str  # such as "==2.21.*"
    installed: str  # its version; "" where it is not installed
    satisfied: bool


def installed_version(name: str) -> str:
    """The installed version of a package; "" where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def required() -> list[Requirement]:
    """The packages that are always required; none where that cannot be known."""
    return list(_requirements(PACKAGE, ""))


def extras() -> list[str]:
    """The names of the extras for users."""
    try:
        names = metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return []
    return [name for name in names if name not in EXTRAS_OF_DEVELOPERS]


def missing(extra: str) -> list[str]:
    """The names of the packages of an extra that are not installed."""
    found = _requirements(PACKAGE, extra)
    return [requirement.name for requirement in found if not requirement.satisfied]


def _requirements(package: str, extra: str) -> Iterator[Requirement]:
    """The requirements of a package: of one extra, or with "" those without an extra.

    A requirement of an extra may itself be given with extras; their requirements are included.
    """
    try:
        from packaging.requirements import Requirement as Parser

        lines = metadata.requires(package) or []
    except (ImportError, metadata.PackageNotFoundError):  # the latter: in the path, not installed
        return
    for line in lines:
        parsed = Parser(line)
        marker = parsed.marker
        if bool(extra) != ("extra ==" in line) or (
            marker and not marker.evaluate({"extra": extra})
        ):
            continue
        version = installed_version(parsed.name)
        satisfied = bool(version) and parsed.specifier.contains(version, prereleases=True)
        yield Requirement(parsed.name, str(parsed.specifier), version, satisfied)
        for inner in parsed.extras:
            yield from _requirements(parsed.name, inner)
