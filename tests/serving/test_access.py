"""API keys, rate limits and CORS of a server."""

import time

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

from serving.fake_models import FakeModel, FakeSignature, add_versions, fake_source
from tf_transformer.errors import UserError
from tf_transformer.serving.access import Access, parse_origins
from tf_transformer.serving.model_source import one_model
from tf_transformer.serving.request_error import RequestError
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.server import Server

ALICE, BATCH = "a" * 16, "b" * 16
MODEL = "/v1/models/anna"
PREDICT = f"{MODEL}:predict"
ORIGIN = "https://a.example"


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"alice {ALICE}\nbatch {BATCH}\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def folder(tmp_path):
    """A folder of versions: no version is loaded before the server starts."""
    return str(tmp_path)


@pytest.fixture
def web(folder, key_file):
    """An HTTP client of a server that has not loaded its model."""
    settings = ServeConfig(api_key_file=key_file, rate_limit=0.1, rate_burst=2, cors_origins=ORIGIN)
    return TestClient(Server(one_model(folder, "anna"), settings).app)


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("c" * 16),
        bearer(""),
        {"Authorization": f"Basic {ALICE}"},
        {"Authorization": ALICE},
        {"X-API-Key": "c" * 16},
        {"Authorization": f"Bearer {'c' * 16}", "X-API-Key": ALICE},
    ],
)
@pytest.mark.parametrize("path", [PREDICT, "/V1/models/anna:predict", "/v1/models/none:predict"])
def test_requests_without_a_key(web, headers, path):
    response = web.post(path, json={"instances": ["a"]}, headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["x-request-id"]
    (error,) = response.json().values()
    given = headers.get("X-API-Key") or "c" in headers.get("Authorization", "")[7:]
    expected = "the API key is not valid" if given else "an API key is needed: send 'Authorization"
    assert error.startswith(expected)
    for action in ("", "/metadata", "/versions/1", "/versions/1/metadata"):
        assert web.get(MODEL + action, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "headers", [bearer(ALICE), {"Authorization": f"bEARER {ALICE}"}, {"X-API-Key": ALICE}]
)
def test_requests_with_a_key(web, headers):
    assert web.get(MODEL, headers=headers).status_code == 200


def test_paths_that_need_no_key(web):
    paths = ["/healthz/live", "/metrics", "/", "/page.js", "/model.json"]
    assert [web.get(path).status_code for path in paths] == [200] * len(paths)
    assert web.get("/healthz/ready").status_code == 503  # no model is loaded
    assert 'status="401"' not in web.get("/metrics").text
    web.get(MODEL)
    assert 'status="401"' in web.get("/metrics").text


def test_the_rate_of_a_key_is_limited(web):
    responses = [web.get(MODEL, headers=bearer(ALICE)) for _ in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 429]
    assert responses[2].headers["retry-after"] == "10"
    assert responses[2].json() == {"error": "too many requests of alice: try again in 10 s"}
    assert web.get(MODEL, headers={"X-API-Key": ALICE}).status_code == 429
    assert web.get(MODEL, headers=bearer(BATCH)).status_code == 200
    assert web.get(MODEL).status_code == 401


def test_the_sub_words_of_a_key_are_limited(key_file):
    access = Access(ServeConfig(api_key_file=key_file, rate_limit_tokens=100.0))
    headers = {"authorization": f"Bearer {ALICE}"}
    for _ in range(3):
        assert access.check(headers, "") == "alice"
        access.admit("alice", 400)
    message = "too many sub-words of alice: try again in 3 s"  # 1,200 of 1,000, and one more
    with pytest.raises(RequestError, match=message) as raised:
        access.check(headers, "")
    assert raised.value.headers == {"Retry-After": "3"}
    with pytest.raises(RequestError, match=message):  # of a request that was checked before
        access.admit("alice", 1)
    assert access.check({"x-api-key": BATCH}, "") == "batch"


class CountTokens(FakeSignature):
    """Each text has 30 sub-words."""

    def __call__(self, inputs, deadline=None):
        return {"tokens": np.full(len(inputs["text"]), 30)}


def test_the_server_counts_sub_words(tmp_path):
    def load(path, concurrency):
        model = FakeModel(path, concurrency)
        model.signatures["count_tokens"] = CountTokens(model)
        return model

    add_versions(tmp_path, 1)
    settings = ServeConfig(rate_limit_tokens=1.0, max_request_tokens=80)
    app = Server(one_model(str(tmp_path), "anna", load), settings).app
    with TestClient(app, client=("127.0.0.1", 5000)) as web:
        while web.get("/healthz/ready").status_code != 200:
            time.sleep(0.02)
        # Requests that are refused cost nothing.
        assert web.post(PREDICT, json={"instances": ["a"] * 999}).status_code == 413
        assert web.post(PREDICT, json={"instances": ["a"] * 3}).status_code == 413
        assert web.post(PREDICT, json={"instances": ["a", "b"]}).status_code == 200
        response = web.post(PREDICT, json={"instances": ["a"]})
    assert response.status_code == 429
    assert response.headers["retry-after"] in ("50", "51")  # 60 of 10, and one more
    assert response.json()["error"].startswith("too many sub-words of 127.0.0.1: try again in 5")


def test_without_keys_each_address_has_its_own_rate():
    access = Access(ServeConfig(rate_limit=1.0, rate_burst=1))
    networks = {
        "127.0.0.1": "127.0.0.1",
        "::ffff:192.0.2.7": "192.0.2.7",
        "2001:db8::7": "2001:db8::/64",
        "fe80::1%eth0": "fe80::/64",
        "": "",
        "testclient": "testclient",
    }
    for address, network in networks.items():
        assert access.check({}, address) == network
    for address in ("127.0.0.1", "192.0.2.7", "2001:db8::ffff:1"):
        with pytest.raises(
            RequestError, match="too many requests of .*: try again in 1 s"
        ) as raised:
            access.check({}, address)
        assert raised.value.status == 429
    assert access.check({}, "2001:db8:0:1::7") == "2001:db8:0:1::/64"
    assert Access(ServeConfig()).check({"authorization": "Bearer x"}, "::1") == "::/64"


def preflight(web, **headers):
    headers = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-api-key,x-request-id",
        **headers,
    }
    return web.options(PREDICT, headers=headers)


def test_web_pages_of_other_origins(web):
    response = preflight(web)
    assert response.status_code == 200  # without a key: browsers send none
    assert response.headers["access-control-allow-origin"] == ORIGIN
    assert response.headers["access-control-allow-methods"] == "GET, POST"
    assert "access-control-allow-credentials" not in response.headers
    for headers in ({}, bearer(ALICE)):
        response = web.get(MODEL, headers={"Origin": ORIGIN, **headers})
        assert response.status_code == (200 if headers else 401)
        assert response.headers["access-control-allow-origin"] == ORIGIN
        assert response.headers["access-control-expose-headers"] == "X-Request-Id, Retry-After"
        assert response.headers["vary"] == "Origin"

    assert preflight(web, Origin="https://b.example").status_code == 400
    assert preflight(web, **{"Access-Control-Request-Method": "DELETE"}).status_code == 400
    response = web.get(MODEL, headers={"Origin": "https://b.example", **bearer(ALICE)})
    assert "access-control-allow-origin" not in response.headers
    for path in ("/", "/metrics", "/healthz/live"):
        response = web.get(path, headers={"Origin": ORIGIN})
        assert "access-control-allow-origin" not in response.headers


def test_all_origins_and_none(folder):
    settings = ServeConfig(cors_origins="*")
    web = TestClient(Server(one_model(folder, "anna"), settings).app)
    assert preflight(web).headers["access-control-allow-origin"] == "*"
    response = web.get(MODEL, headers={"Origin": "https://b.example"})
    assert response.headers["access-control-allow-origin"] == "*"
    web = TestClient(Server(one_model(folder, "anna"), ServeConfig()).app)
    response = preflight(web)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json() == {"error": "method OPTIONS is not allowed"}
    assert "access-control-allow-origin" not in web.get(MODEL, headers={"Origin": ORIGIN}).headers


def test_origins():
    valid = ["https://a.example", "http://localhost:3000", "http://[::1]:8080", "*"]
    assert parse_origins(f" {', '.join(valid)},") == valid
    invalid = [
        "https://a.example/",
        "https://a.example/path",
        "https://A.example",
        "https://a.example:443",
        "https://a.example:port",
        "https://user@a.example",
        "https://*.example",
        "a.example",
        "null",
        "ftp://a.example",
        "https://",
        "https://ä.example",
        "http://[::1",
    ]
    for origin in invalid:
        with pytest.raises(UserError, match="^--cors_origins has "):
            parse_origins(f"https://a.example,{origin}")


def test_settings_are_checked_before_the_server_starts(tmp_path, key_file):
    assert Access(ServeConfig(api_key_file=key_file, cors_origins="*")).origins == ["*"]
    for settings, message in [
        (ServeConfig(api_key_file=str(tmp_path / "missing")), "cannot read the API keys in"),
        (ServeConfig(cors_origins="a"), "--cors_origins has 'a'"),
        (ServeConfig(tls_key="key.pem"), "--tls_key needs --tls_certificate"),
    ]:
        with pytest.raises(UserError, match=message):
            Access(settings)


def test_the_address_of_a_client_behind_a_proxy(serve, tmp_path, monkeypatch):
    """The server believes X-Forwarded-For only where FORWARDED_ALLOW_IPS names the proxy."""
    add_versions(tmp_path, 1)

    def statuses():
        settings = ServeConfig(port=0, rate_limit=0.01, rate_burst=1)
        host, port = serve(Server([fake_source(tmp_path)], settings))
        url = f"http://{host}:{port}/v1/models/anna"
        clients = ("203.0.113.7", "203.0.113.8", "203.0.113.7")
        return [httpx2.get(url, headers={"X-Forwarded-For": ip}).status_code for ip in clients]

    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    assert statuses() == [200, 429, 429]
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    assert statuses() == [200, 429, 429]
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")
    assert statuses() == [200, 200, 429]
