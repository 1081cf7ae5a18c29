"""The page on which a browser translates text, and that of the interface."""

import html
import pathlib
import string
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from tf_transformer.export.versions import read_description

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


def add_pages(api: Starlette, name: str, version_folder: Callable[[], str]) -> None:
    """Adds the page on which a browser translates text, and that of the interface.

    Args:
      api: an application.
      name: of the model.
      version_folder: returns the folder of the version that is served; "" without one.
    """
    page = string.Template((PAGE / "index.html").read_text("utf-8")).substitute(
        name=html.escape(name),
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

    async def get_description(request: Request) -> Response:
        folder = version_folder()
        return JSONResponse(read_description(folder) if folder else {}, headers=HEADERS)

    for path in files:
        api.add_route(path, get_file, include_in_schema=False)
    api.add_route("/model.json", get_description, include_in_schema=False)
    api.mount("/swagger-ui", StaticFiles(packages=[("fastapi_offline", "static")]))
