"""The page on which a browser translates text with the served model."""

import html
import json
import pathlib
import string
import urllib.parse
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tf_transformer.export.versions import read_description

PAGE = pathlib.Path(__file__).parent / "page_files"
# The attention viewer has it too.
DISPLAY = pathlib.Path(__file__).parents[1] / "visualization" / "attention_display"
# The files that the page loads, with their types.
FILES = {
    PAGE / "page.css": "text/css",
    PAGE / "page.js": "text/javascript",
    PAGE / "completion.js": "text/javascript",
    DISPLAY / "attention.css": "text/css",
    DISPLAY / "attention.js": "text/javascript",
}
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def page_routes(names: list[str], newest_folder: Callable[[str], str]) -> list[Route]:
    """Returns the routes of the page, `GET /?model=NAME`, and of the files that it loads.

    One of them is `GET /model.json?model=NAME`, the `assets.extra/model.json` of the newest version
    that is served. Without a name, both are for the first model.

    Args:
      names: of the models.
      newest_folder: name of a model -> the folder of the newest version that is served; "" before
        the first version is loaded.
    """
    template = string.Template((PAGE / "index.html").read_text("utf-8"))
    pages = {
        name: template.substitute(
            name=html.escape(name),
            models=_links(names, name),
            controls=(DISPLAY / "controls.html").read_text("utf-8"),
            attention=(DISPLAY / "attention.html").read_text("utf-8"),
        )
        for name in names
    }

    def get_page(request: Request) -> Response:
        name = request.query_params.get("model", names[0])
        if name not in pages:
            return _response("no such model", "text/plain", 404)
        return _response(pages[name], "text/html")

    def get_model(request: Request) -> Response:
        name = request.query_params.get("model", names[0])
        folder = newest_folder(name) if name in pages else ""
        description = read_description(folder) if folder else {}
        return _response(json.dumps(description), "application/json")

    files = [_file_route(path, media_type) for path, media_type in FILES.items()]
    return [Route("/", get_page), Route("/model.json", get_model), *files]


def _links(names: list[str], current: str) -> str:
    """Links to the pages of the models, in HTML; "" for one model."""
    if len(names) == 1:
        return ""
    links = []
    for name in names:
        mark = ' aria-current="page"' if name == current else ""
        address = html.escape(urllib.parse.quote(name, safe=""))
        links.append(f'<a href="?model={address}"{mark}>{html.escape(name)}</a>')
    return f'<nav aria-label="Models">{" ".join(links)}</nav>'


def _file_route(path: pathlib.Path, media_type: str) -> Route:
    content = path.read_text("utf-8")

    def get_file(request: Request) -> Response:
        return _response(content, media_type)

    return Route(f"/{path.name}", get_file)


def _response(content: str, media_type: str, status: int = 200) -> Response:
    return Response(content, status, media_type=media_type, headers=HEADERS)
