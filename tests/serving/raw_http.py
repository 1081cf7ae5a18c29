"""Requests in bytes, for tests of the server."""

import json
import socket
import time

HEALTH_CHECK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
PREDICT = "/v1/models/anna:predict"
POST_PREDICT = b"POST " + PREDICT.encode() + b" HTTP/1.1\r\n"


def exchange(address, content):
    """Sends bytes. Returns: the status, the headers and the JSON of the response."""
    with socket.create_connection(address, timeout=10) as connection:
        return send(connection, content)


def send(connection, content):
    """Sends bytes on a connection that stays open. Returns: as `exchange`."""
    connection.sendall(content)
    response = b""
    while b"\r\n\r\n" not in response or not response.endswith(b"}"):
        part = connection.recv(9999)
        assert part, response
        response += part
    head, body = response.split(b"\r\n\r\n", 1)
    status, *headers = head.decode().lower().split("\r\n")
    return int(status.split()[1]), dict(line.split(": ") for line in headers), json.loads(body)


def is_closed(connection):
    """Whether the server closes a connection; waits for 10 s at most."""
    connection.settimeout(10)
    try:
        return connection.recv(9999) == b""
    except ConnectionResetError:
        return True


def begin_request(connection):
    """Sends the head of a predict request, and waits until the server asks for the body."""
    head = b"Host: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    connection.sendall(POST_PREDICT + head)
    assert connection.recv(9999).startswith(b"HTTP/1.1 100")


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
