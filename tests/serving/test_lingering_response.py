"""Responses to clients that may still be sending."""

import asyncio
import time

import pytest

from tf_transformer.serving import lingering_response
from tf_transformer.serving.lingering_response import LingeringResponse


def respond(monkeypatch, receive, seconds=0.2, max_bytes=1000):
    """Sends a response. Returns: the messages to the HTTP server, with the time of each."""
    monkeypatch.setattr(lingering_response, "LINGER_SECONDS", seconds)
    monkeypatch.setattr(lingering_response, "LINGER_BYTES", max_bytes)
    start = time.monotonic()
    sent = []

    async def send(message):
        sent.append((message, time.monotonic() - start))

    response = LingeringResponse(b"{}", 413)
    asyncio.run(response({"type": "http"}, receive, send))
    (head, _), (body, body_seconds), (end, end_seconds) = sent
    assert head["status"] == 413
    assert (b"content-length", b"2") in head["headers"]
    assert body == {"type": "http.response.body", "body": b"{}", "more_body": True}
    assert body_seconds < 0.15  # the client does not wait
    assert not end.get("more_body")
    return end_seconds


@pytest.mark.parametrize(
    "last", [{"type": "http.request", "body": b"a"}, {"type": "http.disconnect"}]
)
def test_the_rest_of_the_request_is_dropped(monkeypatch, last):
    messages = [{"type": "http.request", "body": b"a" * 100, "more_body": True}] * 5 + [last]

    async def receive():
        return messages.pop(0)

    assert respond(monkeypatch, receive, seconds=20) < 10
    assert not messages


def test_the_time_and_the_bytes_are_bounded(monkeypatch):
    calls = 0

    async def receive_slowly():
        await asyncio.sleep(20)

    async def receive_without_end():
        nonlocal calls
        calls += 1
        return {"type": "http.request", "body": b"a" * 100, "more_body": True}

    assert 0.2 <= respond(monkeypatch, receive_slowly) < 10
    assert respond(monkeypatch, receive_without_end, seconds=20) < 10
    assert calls == 10
