"""The record of a request."""

import re

from tf_transformer.serving.request_record import request_record


def scope_of(headers=(), path=b"/", **other):
    return {"type": "http", "method": "GET", "raw_path": path, "headers": list(headers), **other}


def test_a_request_has_one_record():
    scope = scope_of([(b"x-request-id", b"a.b:c/1")], b"/v1/a%0ab?key=secret", client=("::1", 7))
    record = request_record(scope)
    assert request_record(scope) is record
    assert record.request_id == "a.b:c/1"
    assert (record.method, record.path, record.remote) == ("GET", "/v1/a%0ab", "::1")
    record.end(404)
    assert record.status == 404
    assert 0 <= record.seconds < 10


def test_an_id_that_could_confuse_a_reader_of_the_log_is_replaced():
    for value in (b"", b"a b", b"a\n", b"\xff", b"a" * 129):
        record = request_record(scope_of([(b"x-request-id", value)]))
        assert re.fullmatch("[0-9a-f]{32}", record.request_id), value
    assert request_record(scope_of()).request_id != request_record(scope_of()).request_id


def test_bytes_of_a_path_that_are_not_ascii():
    assert request_record(scope_of(path=b"/\xff\n")).path == "/\\xff\n"


def test_the_address_of_a_client():
    for address in ("192.0.2.7", "::1", "fe80::1%eth0"):
        assert request_record(scope_of(client=(address, 7))).remote == address
    assert request_record(scope_of(client=("::ffff:192.0.2.7", 7))).remote == "192.0.2.7"
    # A Unix socket, and what a proxy may write into X-Forwarded-For.
    for client in (None, ("", 0), ("unknown", 0), ("_hidden", 0), ('"[::1]:7"', 0)):
        assert request_record(scope_of(client=client)).remote == ""
    assert request_record(scope_of()).remote == ""
