"""The address of the server, and the bounds of its connections."""

import contextlib
import socket
import time
from unittest import mock

import pytest

from serving.fake_models import add_versions, fake_source
from serving.raw_http import (
    HEALTH_CHECK,
    POST_PREDICT,
    begin_request,
    exchange,
    is_closed,
    send,
    wait_until,
)
from tf_transformer.errors import UserError
from tf_transformer.serving import connections
from tf_transformer.serving.connections import HttpProtocol, bind_address, numeric_address
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.server import Server


@pytest.fixture
def start(serve, tmp_path):
    """A function that runs a server with these settings, and returns its host and port."""
    add_versions(tmp_path, 1)
    return lambda **settings: serve(
        Server([fake_source(tmp_path)], ServeConfig(port=0, **settings))
    )


def test_an_idle_connection_is_closed(start):
    address = start(timeout=0.5)
    incomplete_requests = [
        b"",
        b"GET / HT",
        POST_PREDICT + b"Host: x\r\nContent-Length: 99\r\n\r\n{",
    ]
    for content in incomplete_requests:
        begin = time.monotonic()
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(content)
            response = connection.recv(9999)
            assert time.monotonic() - begin > 0.4
            assert response == b"" or response.startswith(b"HTTP/1.1 408")
    with socket.create_connection(address, timeout=10) as connection:
        assert send(connection, HEALTH_CHECK)[0] == 200
        connection.sendall(b"G")
        assert is_closed(connection)


def test_connections_without_a_request_give_way(start, monkeypatch):
    monkeypatch.setattr(connections, "RESERVED_CONNECTIONS", 2)
    address = start(max_connections=1)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(address))
        for _ in range(3):
            assert exchange(address, HEALTH_CHECK)[0] == 200


def test_the_connection_that_is_idle_for_the_longest_time_gives_way(start, monkeypatch):
    monkeypatch.setattr(connections, "RESERVED_CONNECTIONS", 0)
    address = start(max_connections=3)
    with contextlib.ExitStack() as stack:
        first, second, third = (
            stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(3)
        )
        for connection in (first, second, third, first):
            assert send(connection, HEALTH_CHECK)[0] == 200
        assert exchange(address, HEALTH_CHECK)[0] == 200
        assert is_closed(second)
        for connection in (first, third):
            assert send(connection, HEALTH_CHECK)[0] == 200


def test_connections_far_beyond_the_limit_are_refused(start, monkeypatch):
    monkeypatch.setattr(connections, "RESERVED_CONNECTIONS", 0)
    address = start(max_connections=3)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(socket.create_connection(address, timeout=10))
            begin_request(connection)
        for _ in range(3):
            status, _, answer = exchange(address, HEALTH_CHECK)
            assert (status, answer) == (503, {"error": "too many connections"})
    wait_until(lambda: exchange(address, HEALTH_CHECK)[0] == 200)


@pytest.fixture
def protocol():
    """The protocol of a connection that does not exist."""
    protocol = HttpProtocol.__new__(HttpProtocol)
    protocol.flow, protocol.loop, protocol.transport = mock.Mock(), mock.Mock(), mock.Mock()
    protocol.cycle = None
    protocol.transport.is_closing.return_value = False
    protocol.transport.get_write_buffer_size.return_value = 0
    return protocol


def test_a_client_that_does_not_read_is_disconnected(protocol):
    later = protocol.loop.call_later
    protocol.transport.get_write_buffer_size.return_value = 100
    protocol.pause_writing()
    later.assert_called_once_with(60.0, protocol._close_if_unread, 100)
    protocol.transport.get_write_buffer_size.return_value = 99  # it reads slowly
    protocol._close_if_unread(100)
    protocol.transport.abort.assert_not_called()
    later.assert_called_with(60.0, protocol._close_if_unread, 99)
    protocol._close_if_unread(99)
    protocol.transport.abort.assert_called_once_with()
    protocol.resume_writing()
    later.return_value.cancel.assert_called_once_with()


def test_a_response_that_is_not_sent_is_not_cut(protocol):
    assert protocol.is_idle
    protocol.transport.get_write_buffer_size.return_value = 1
    assert not protocol.is_idle


def test_the_end_of_a_response_that_nobody_reads_does_not_keep_a_connection(protocol):
    protocol._close_if_idle(None, 0)
    protocol.transport.close.assert_called_once_with()
    protocol.transport.get_write_buffer_size.return_value = 1
    protocol._close_if_idle(None, 2)  # it reads slowly
    protocol.loop.call_later.assert_called_with(60.0, protocol._close_if_idle, None, 1)
    protocol.transport.abort.assert_not_called()
    # After close(), asyncio would wait for the client.
    protocol.transport.is_closing.return_value = True
    protocol.transport.get_write_buffer_size.return_value = 1
    protocol._close_if_idle(None, 1)
    protocol.transport.abort.assert_called_once_with()


def test_the_address_in_numbers():
    assert numeric_address("127.0.0.1") == "127.0.0.1"
    assert numeric_address("localhost") == "127.0.0.1"  # as bind_address: IPv4
    assert numeric_address("::1") == "::1"
    with bind_address(ServeConfig(host="localhost", port=0)) as bound:
        assert bound.getsockname()[0] == numeric_address("localhost")


def test_the_ipv6_wildcard_accepts_both_kinds_of_addresses():
    try:
        bound = bind_address(ServeConfig(host="::", port=0))
    except UserError:
        pytest.skip("the host has no IPv6")
    with bound:
        bound.listen()
        for host in ("::1", "127.0.0.1"):
            with socket.create_connection((host, bound.getsockname()[1]), timeout=5) as client:
                assert client.getpeername()[0] == host


def test_a_port_that_is_in_use():
    with bind_address(ServeConfig(port=0)) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} .*give another --host or --port"):
            bind_address(ServeConfig(port=port))
