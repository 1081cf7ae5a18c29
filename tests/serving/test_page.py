"""The files of the page. `browser_page.py` tests the page in a browser."""

import json
import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from serving.fake_server import DESCRIPTION
from tf_transformer.export.versions import read_description
from tf_transformer.serving.page import page_routes


@pytest.fixture
def folder(tmp_path):
    """A version with a description."""
    (tmp_path / "assets.extra").mkdir()
    write(tmp_path, json.dumps(DESCRIPTION))
    return tmp_path


def write(folder, text):
    (folder / "assets.extra" / "model.json").write_text(text, "utf-8")


@pytest.fixture
def web(folder):
    return TestClient(Starlette(routes=page_routes(["anna"], lambda name: str(folder))))


def test_the_page_loads_only_the_files_of_the_routes(web):
    page = web.get("/").text
    names = re.findall(r'(?:src|href)="(.*?)"', page)
    assert '<a href="docs">' in page  # a route of the server
    names.remove("docs")
    scripts = ["attention.js", "completion.js", "page.js"]
    assert sorted(names) == sorted(["attention.css", "data:,", "page.css", *scripts])
    types = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
    for name in names:
        if name != "data:,":
            response = web.get(f"/{name}")
            assert response.status_code == 200
            assert response.headers["content-type"] == types[name.partition(".")[2]]
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", response.text)


@pytest.mark.parametrize("path", ["/", "/model.json", "/page.js", "/attention.css"])
def test_headers(web, path):
    headers = web.get(path).headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "data:",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-cache"


def test_scripts_and_styles_are_in_files_of_their_own(web):
    page = web.get("/").text
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.S) == ["", "", ""]
    assert "<style" not in page
    assert not re.search(r"\s(on\w+|style)=", page)
    for name in ("/page.js", "/completion.js", "/attention.js"):
        script = web.get(name).text
        assert not re.search(r"\b(eval|Function|innerHTML|insertAdjacentHTML)\b", script)
        assert 'setAttribute("style"' not in script


def test_the_description_is_that_of_the_version_that_is_served(folder):
    served = [""]
    web = TestClient(Starlette(routes=page_routes(["anna"], lambda name: served[0])))
    assert web.get("/model.json").json() == {}
    served[0] = str(folder)
    assert web.get("/model.json").json() == DESCRIPTION
    newer = {**DESCRIPTION, "target": "fr"}
    write(folder, json.dumps(newer))
    assert web.get("/model.json").json() == newer
    (folder / "assets.extra" / "model.json").unlink()
    assert web.get("/model.json").json() == {}


def test_the_name_is_text(folder):
    page = (
        TestClient(Starlette(routes=page_routes(['"><b>$name'], lambda name: str(folder))))
        .get("/")
        .text
    )
    assert 'data-name="&quot;&gt;&lt;b&gt;$name"' in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"source": "en"}', json.dumps({**DESCRIPTION, "target": 7}), "\0", "[" * 100_000],
)
def test_a_damaged_description_is_none(folder, text):
    write(folder, text)
    assert read_description(str(folder)) == {}
    assert read_description(str(folder / "missing")) == {}
    (folder / "assets.extra" / "model.json").write_bytes(b"\xff\xfe")
    assert read_description(str(folder)) == {}


def test_each_model_has_a_page(tmp_path):
    folders = {}
    for name, target in (("anna", "de"), ("berta", "fr"), ("carla", "")):
        if target:
            (tmp_path / name / "assets.extra").mkdir(parents=True)
            write(tmp_path / name, json.dumps({**DESCRIPTION, "target": target}))
        folders[name] = str(tmp_path / name) if target else ""
    web = TestClient(Starlette(routes=page_routes(list(folders), folders.__getitem__)))
    assert web.get("/").text == web.get("/?model=anna").text
    page = web.get("/?model=berta").text
    assert 'data-name="berta"' in page
    links = re.findall(r'<a href="(\?.*?)"(.*?)>(.*?)</a>', page)
    assert links == [
        ("?model=anna", "", "anna"),
        ("?model=berta", ' aria-current="page"', "berta"),
        ("?model=carla", "", "carla"),
    ]
    assert web.get("/?model=none").status_code == 404
    descriptions = [web.get(f"/model.json?model={name}").json() for name in [*folders, "none"]]
    assert [description.get("target") for description in descriptions] == ["de", "fr", None, None]


def test_one_model_has_no_links(web):
    assert "<nav" not in web.get("/").text
