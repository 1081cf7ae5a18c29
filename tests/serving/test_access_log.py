"""The access log of the server."""

import asyncio
import contextlib
import datetime
import json
import logging
import os
import queue
import select
import subprocess
import sys
import time

import pytest

from tf_transformer.errors import UserError
from tf_transformer.serving import access_log
from tf_transformer.serving.access_log import AccessLog, LoggedApp
from tf_transformer.serving.request_record import RequestRecord

MORNING = datetime.datetime(2026, 5, 4, 7, 8, 9, 12345, datetime.timezone.utc)


def a_record(**fields):
    return RequestRecord("id", "1.2.3.4", "GET", "/", wall_time=MORNING, **fields)


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_fields_of_a_line(tmp_path):
    path = tmp_path / "access.log"
    log = AccessLog(str(path))
    write(log, a_record(status=200, seconds=0.12345678, bytes_out=7))
    prediction = a_record(
        status=504, api="predict", model="a", version=3, signature="nbest", rows=2, client="team"
    )
    prediction.error = "no answer within 60 s"
    write(log, prediction)
    request, answer = lines_of(path)
    assert list(request.items()) == [
        ("time", "2026-05-04T07:08:09.012Z"),
        ("request_id", "id"),
        ("remote", "1.2.3.4"),
        ("entrypoint", "REST"),
        ("api", "other"),
        ("method", "GET"),
        ("path", "/"),
        ("status", 200),
        ("seconds", 0.123457),
        ("bytes_in", 0),
        ("bytes_out", 7),
    ]
    others = {name: value for name, value in answer.items() if name not in request}
    assert others == {
        "client": "team",
        "model": "a",
        "version": 3,
        "signature": "nbest",
        "rows": 2,
        "source_tokens": 0,
        "queue_seconds": 0,
        "compute_seconds": 0,
        "batch_rows": 0,
        "error": "no answer within 60 s",
    }


def write(log, record):
    """Writes a line, and waits until it is in the file."""
    log.write(record)
    log._lines.join()


def test_a_client_cannot_forge_or_flood_lines(tmp_path):
    path = tmp_path / "access.log"
    log = AccessLog(str(path))
    record = a_record()
    record.path = '/\n\x1b[31m"' + "\\x" * 5000
    record.method = "M" * 5000
    record.error = "ü\u2028" * 5000
    write(log, record)
    assert path.read_bytes().count(b"\n") == 1
    assert path.read_bytes().isascii()
    assert b"\x1b" not in path.read_bytes()
    assert path.stat().st_size < 5000
    (line,) = lines_of(path)
    assert line["path"].startswith('/\n\x1b[31m"\\x')
    assert line["method"] == "M" * access_log.MAX_CHARACTERS + "..."


def test_a_rotated_file_is_created_again(tmp_path):
    path = tmp_path / "access.log"
    path.write_text('{"status": 0}\n')
    log = AccessLog(str(path))
    write(log, a_record(status=1))
    path.rename(tmp_path / "access.log.1")
    write(log, a_record(status=2))
    write(log, a_record(status=3))
    assert [line["status"] for line in lines_of(tmp_path / "access.log.1")] == [0, 1]
    assert [line["status"] for line in lines_of(path)] == [2, 3]
    log.close()


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "access.log"):
        with pytest.raises(UserError, match="cannot write the access log .*: give another"):
            AccessLog(str(path))


def test_standard_output(capfd):
    log = AccessLog("-")
    write(log, a_record(status=200))
    log.close()
    print("standard output is still open")
    first, second = capfd.readouterr().out.splitlines()
    assert json.loads(first)["status"] == 200
    assert second == "standard output is still open"


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def pipe(tmp_path):
    """The path of a pipe, and its end for reading."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, read_end
    os.close(read_end)


def test_a_pipe_that_nobody_reads_does_not_stop_the_server(pipe, monkeypatch, caplog):
    path, read_end = pipe
    monkeypatch.setattr(access_log, "MAX_WAITING_LINES", 100)
    log = AccessLog(str(path))

    def flood():
        for _ in range(2000):
            log.write(a_record())

    lost = "the access log loses lines: what it writes to is too slow"
    flood()
    assert select.select([read_end], [], [], 10)[0]
    os.read(read_end, 30_000)  # some lines can be written again
    flood()
    assert warnings(caplog) == [lost]
    monkeypatch.setattr(log, "_next_warning", time.monotonic())  # as after a minute
    flood()
    assert warnings(caplog) == [lost] * 2
    start = time.monotonic()
    log.close()
    assert time.monotonic() - start < 5
    end = time.monotonic() + 10
    while log._thread.is_alive() and time.monotonic() < end:  # the thread ends after the test
        with contextlib.suppress(BlockingIOError):
            os.read(read_end, 2**20)
        with contextlib.suppress(queue.Full):
            log._lines.put_nowait(None)


PROCESS = """
import sys
from tf_transformer.serving.access_log import AccessLog
from tf_transformer.serving.request_record import RequestRecord

print("before")
for path in ("-", "/dev/stdout"):
    log = AccessLog(path)
    for _ in range(1000):
        log.write(RequestRecord("id", "1.2.3.4", "GET", "/"))
    log.close()
sys.stderr.write("closed")
"""


def test_a_process_ends_while_nobody_reads_its_standard_output():
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", PROCESS]
    with subprocess.Popen(command, stdout=write_end, stderr=subprocess.PIPE) as process:
        os.close(write_end)
        try:
            assert process.wait(30) == 0
        finally:
            os.close(read_end)  # otherwise the process would not end
            process.kill()
        assert process.stderr.read() == b"closed"


def test_a_line_that_is_cut_does_not_damage_the_next_one(tmp_path, monkeypatch):
    path = tmp_path / "access.log"
    log = AccessLog(str(path))
    write_bytes = os.write
    space = [10, 0, 10_000, 10_000, 10_000]

    def write_until_full(descriptor, content):
        free = space.pop(0)
        if not free:
            raise OSError(28, "No space left on device")
        return write_bytes(descriptor, content[:free])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_until_full)
        for status in (1, 2, 3):
            write(log, a_record(status=status))
    log.close()
    cut, *others = path.read_text().splitlines()
    assert len(cut) == 10
    assert [json.loads(line)["status"] for line in others] == [2, 3]


def test_a_full_disk_gives_one_warning(full, caplog):
    log = AccessLog(full)
    for _ in range(3):
        write(log, a_record())
    assert warnings(caplog) == ["cannot write the access log: [Errno 28] No space left on device"]
    log.close()


def fail(*arguments):
    raise BrokenPipeError("nobody reads")


def test_each_failure_after_a_success_gives_a_warning(tmp_path, monkeypatch, caplog):
    write_bytes = os.write
    log = AccessLog(str(tmp_path / "access.log"))
    for is_broken in (True, True, False, True):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail if is_broken else write_bytes)
            write(log, a_record())
    assert warnings(caplog) == ["cannot write the access log: nobody reads"] * 2
    caplog.clear()
    # A file whose folder is gone, so that it cannot be created again.
    folder = tmp_path / "logs"
    folder.mkdir()
    log = AccessLog(str(folder / "access.log"))
    os.rename(folder, tmp_path / "moved")
    for _ in range(2):
        write(log, a_record())
    (message,) = warnings(caplog)
    assert "No such file or directory" in message
    folder.mkdir()
    write(log, a_record(status=5))
    assert [line["status"] for line in lines_of(folder / "access.log")] == [5]


def call(app, scope, *received):
    """Calls an ASGI application. Returns: what it sends."""
    messages = list(received)
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent


@pytest.mark.parametrize("method, bytes_out", [("POST", 5), ("HEAD", 0)])
def test_an_application_with_a_log(tmp_path, method, bytes_out):
    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 201})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"de"})

    scope = {"type": "http", "method": method, "raw_path": b"/x", "headers": []}
    request = [
        {"type": "http.request", "body": b"1234", "more_body": True},
        {"type": "http.request", "body": b"567"},
    ]
    path = tmp_path / "access.log"
    log = AccessLog(str(path))
    assert len(call(LoggedApp(app, log), scope, *request)) == 3
    log.close()
    (line,) = lines_of(path)
    assert (line["status"], line["bytes_in"], line["bytes_out"]) == (201, 7, bytes_out)


def test_an_application_that_fails(tmp_path):
    async def app(scope, receive, send):
        raise RuntimeError("a bug")

    path = tmp_path / "access.log"
    log = AccessLog(str(path))
    logged = LoggedApp(app, log)
    with pytest.raises(RuntimeError):
        call(logged, {"type": "lifespan"})
    with pytest.raises(RuntimeError):
        call(logged, {"type": "http", "method": "GET", "raw_path": b"/x", "headers": []})
    log.close()
    assert [line["status"] for line in lines_of(path)] == [500]
