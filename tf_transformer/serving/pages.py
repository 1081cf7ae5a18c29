"""The page on which a browser translates text, and that of the interface."""

import html
import pathlib
import string
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

PAGE = pathlib.Path(__file__).parent / "page_files"
# The attention viewer has them too.
DISPLAY = pathlib.Path(__file__).parents[1] / "visualization" / "attention_display"
TYPES = {".css": "text/css", ".js": "text/javascript"}  # of the files that the pages load
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def add_pages(api: Starlette, models: Mapping[str, Callable[[], dict[str, Any]]]) -> None:
    """Adds the page on which a browser translates text, and that of the interface.

    Args:
      api: an application.
      models: name -> a function that returns what the model says of itself, as a dict.
    """
    page = string.Template((PAGE / "index.html").read_text("utf-8")).substitute(
        names=html.escape(" ".join(models)),
        controls=(DISPLAY / "controls.html").read_text("utf-8"),
        attention=(DISPLAY / "attention.html").read_text("utf-8"),
    )
    files = {
        f"/{path.name}": (path.read_text("utf-8"), TYPES[path.suffix])
        for path in (*PAGE.iterdir(), *DISPLAY.iterdir())
        if path.suffix in TYPES
    }
    files["/"] = page, "text/html"
    files["/docs"] = (PAGE / "docs.html").read_text("utf-8"), "text/html"

    async def get_file(request: Request) -> Response:
        content, kind = files[request.url.path]
        return Response(content, media_type=kind, headers=HEADERS)

    async def get_descriptions(request: Request) -> Response:
        return JSONResponse({name: read() for name, read in models.items()}, headers=HEADERS)

    for path in files:
        api.add_route(path, get_file, include_in_schema=False)
    api.add_route("/models.json", get_descriptions, include_in_schema=False)
    api.mount("/swagger-ui", StaticFiles(packages=[("fastapi_offline", "static")]))
