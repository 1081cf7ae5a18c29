"""The results of `check_invariants`, as a table for the terminal and for notebooks."""

import html
from typing import NamedTuple

MARKS = {True: "\u2713 holds", False: "\u2717 broken", None: "? not checked"}
COLOURS = {True: "#1a7f37", False: "#b3261e", None: "#5b6470"}
LEFT = "text-align: left"
NARROW = f"{LEFT}; white-space: nowrap"


class InvariantResult(NamedTuple):
    """The result of checking one invariant."""

    number: int
    name: str
    holds: bool | None  # None where it could not be checked
    measured: str


class InvariantResults(list[InvariantResult]):
    """A list of `InvariantResult`, which notebooks and `print` show as a table."""

    def __repr__(self) -> str:
        return "\n".join(
            f"{result.number}  {result.name:18s}  {MARKS[result.holds]:13s}  {result.measured}"
            for result in self
        )

    def _repr_html_(self) -> str:
        titles = ("", "invariant", "result", "measured")
        head = "".join(f'<th scope="col" style="{LEFT}">{title}</th>' for title in titles)
        rows = "".join(map(_html_row, self))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _html_row(result: InvariantResult) -> str:
    badge = f"background: {COLOURS[result.holds]}; color: #fff; {NARROW}"
    return (
        f"<tr><td>{result.number}</td>"
        f'<td style="{NARROW}">{result.name}</td>'
        f'<td style="{badge}">{MARKS[result.holds]}</td>'
        f'<td style="{LEFT}">{html.escape(result.measured)}</td></tr>'
    )
