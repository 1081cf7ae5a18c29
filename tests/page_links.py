"""The links of the course to states of its playable page."""

import re

from course import ROOT


def page_links():
    """The sorted pairs of a notebook or page of the course and a state that it links."""
    folder = ROOT / "notebooks"
    return sorted(
        {
            (path.name, state)
            for path in (*folder.glob("*.ipynb"), *folder.glob("*.md"))
            for state in re.findall(r"\(transformer\.html#([^)]+)\)", path.read_text("utf-8"))
        }
    )
