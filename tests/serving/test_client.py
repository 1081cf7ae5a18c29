"""The REST client, and the translation of many lines while a server is away or refuses some."""

import concurrent.futures
import itertools
import logging
import threading
import time

import pytest

from serving.scripted_server import scripted_server, translated
from tf_transformer.errors import UserError
from tf_transformer.serving import client as client_module
from tf_transformer.serving.client import RestClient, translate_lines

LINES = [f"line {number}" for number in range(20)]
TRANSLATIONS = [(line.upper(), -0.5) for line in LINES]


@pytest.fixture
def pauses(monkeypatch):
    """Replaces the pauses between attempts by a list of their lengths; the clock follows them."""
    pauses = []

    class Clock:
        def monotonic(self):
            return sum(pauses)

    class Event:
        def wait(self, seconds):
            pauses.append(seconds)
            return False

        def set(self):
            pass

    class Threading:
        Lock = threading.Lock

    Threading.Event = Event
    monkeypatch.setattr(client_module, "time", Clock())
    monkeypatch.setattr(client_module, "threading", Threading)
    return pauses


def translate(address, lines=LINES, **options):
    return list(translate_lines(RestClient(address, "anna"), lines, **options))


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504, None])
def test_requests_to_a_busy_server_are_sent_again(status, pauses):
    """None is a connection that breaks; the body may be that of a proxy."""
    busy = [(status, b"<html>") if status else None] * 4

    with scripted_server(lambda texts: busy.pop() if busy else translated(texts)) as address:
        assert translate(address, ["a"]) == [("A", -0.5)]
        assert len(pauses) == 4
        busy.append((status, b"<html>") if status else None)
        message = f"returned status {status}: [A-Z]" if status else "no answer from .*anna:predict"
        with pytest.raises(UserError, match=message):
            translate(address, ["a"], max_wait=0)
        assert len(pauses) == 4


def test_a_server_that_stops_and_starts_again(caplog):
    """All translations arrive, in order; the outage is logged once, and so is its end."""
    caplog.set_level(logging.INFO, "tf_transformer")
    with scripted_server(translated) as address:
        port = int(address.rpartition(":")[2])
        results = translate_lines(RestClient(address, "anna"), LINES, batch_size=2)
        first = next(results)
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        rest = executor.submit(list, results)
        time.sleep(1.5)
        assert not rest.done()
        with scripted_server(translated, port):
            assert [first, *rest.result()] == TRANSLATIONS
    stopped, back = [record.getMessage() for record in caplog.records]
    assert stopped.startswith(f"no answer from {address}/v1/models/anna:predict: ")
    assert stopped.endswith("Connection refused; trying again for up to 300 s")
    assert back.startswith("the server answers again, after ")


def test_pauses_grow_up_to_a_limit_with_jitter(pauses):
    def client(texts):
        raise client_module.UnavailableError("busy")

    with pytest.raises(UserError, match="busy .tried again for 60 s"):
        list(translate_lines(client, ["a"], max_wait=60))
    assert sum(pauses) == pytest.approx(60)
    limits = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4] + [10] * 20
    for pause, limit in zip(pauses[:-1], limits):
        assert limit / 2 <= pause <= limit
    assert len({pause / limit for pause, limit in zip(pauses[:-1], limits)}) > 1


@pytest.mark.parametrize("value, expected", [("7", 7), ("soon", 0.2), ("-1", 0.2)])
def test_retry_after_is_respected(value, expected, pauses):
    busy = [(503, {"error": "busy"}, {"Retry-After": value})]

    with scripted_server(lambda texts: busy.pop() if busy else translated(texts)) as address:
        assert translate(address, ["a"]) == [("A", -0.5)]
    (pause,) = pauses
    assert expected / 2 <= pause <= expected
    assert expected < 1 or pause == expected


def test_a_rate_limit_is_no_outage(pauses, caplog):
    """The client waits as long as the server says, and logs that once."""
    caplog.set_level(logging.INFO, "tf_transformer")
    answers = itertools.cycle([translated, *[None] * 2])

    def answer(texts):
        translate = next(answers)
        limited = 429, {"error": "too many requests"}, {"Retry-After": "3"}
        return translate(texts) if translate else limited

    with scripted_server(answer) as address:
        assert translate(address, batch_size=1, concurrency=1) == TRANSLATIONS
    assert pauses == [3.0] * 38
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.endswith(
        "status 429: too many requests; requests are sent as its rate limit allows"
    )


def test_a_success_begins_the_time_of_waiting_anew(pauses):
    """An outage ends with a response: only one of more than `max_wait` seconds is an error."""
    calls = itertools.count()

    def client(texts):
        if next(calls) % 10:
            raise client_module.UnavailableError("busy")
        return [("", 0.0)]

    number = len(list(translate_lines(client, LINES, 1, concurrency=1, max_wait=60)))
    assert number == len(LINES)
    assert sum(pauses) > 120


def test_a_request_that_is_too_large_is_sent_in_halves():
    """A single line that is refused has an empty translation, and those around it have theirs."""
    sizes = []

    def answer(texts):
        sizes.append(len(texts))
        too_large = len(texts) > 3 or "line 9" in texts
        return (413, {"error": "too large"}) if too_large else translated(texts)

    with scripted_server(answer) as address:
        results = translate(address, batch_size=10, concurrency=1)
    assert results[9] == ("", -1e9)
    assert [*results[:9], *results[10:]] == [*TRANSLATIONS[:9], *TRANSLATIONS[10:]]
    assert sizes == [10, 5, 2, 3, 5, 2, 3, 1, 2, 1, 1, 10, 5, 2, 3, 5, 2, 3]


def test_a_batch_that_is_not_computed_in_time_is_sent_in_halves(pauses):
    def answer(texts):
        return (504, {"error": "no answer within 60 s"}) if len(texts) > 4 else translated(texts)

    with scripted_server(answer) as address:
        assert translate(address) == TRANSLATIONS
    assert pauses == []


def test_a_line_that_is_never_computed_in_time(pauses):
    def answer(texts):
        slow = "line 17" in texts
        return (504, {"error": "no answer within 60 s"}) if slow else translated(texts)

    done = []
    with scripted_server(answer) as address:
        results = translate_lines(RestClient(address, "anna"), LINES, batch_size=4, concurrency=1)
        with pytest.raises(UserError) as raised:
            done.extend(results)
    assert done == TRANSLATIONS[:16]
    assert str(raised.value) == (
        f"line 18: {address}/v1/models/anna:predict returned status 504: no answer within 60 s: "
        "split the line, or give the server and the client a longer --timeout "
        "(tried again for 300 s)"
    )
    assert sum(pauses) == pytest.approx(300)


def test_a_response_that_is_late_for_the_client():
    release = threading.Event()

    def answer(texts):
        if len(texts) > 1:
            release.wait(10)
        return translated(texts)

    with scripted_server(answer) as address:
        client = RestClient(address, "anna", timeout=0.2)
        try:
            assert list(translate_lines(client, ["a", "b"])) == [("A", -0.5), ("B", -0.5)]
            with pytest.raises(UserError, match="no answer from .* within 0.2 s"):
                client(["a", "b"])
        finally:
            release.set()


def test_the_lines_of_an_invalid_request_are_named():
    def answer(texts):
        return (400, {"error": "bad"}) if "line 9" in texts else translated(texts)

    with scripted_server(answer) as address:
        message = r"returned status 400: bad \(in the request of lines 105 to 110\)$"
        with pytest.raises(UserError, match=message):
            translate(address, batch_size=6, first_line=99)
        with pytest.raises(UserError, match=r"bad \(in the request of line 10\)$"):
            translate(address, batch_size=1)


@pytest.mark.parametrize("max_wait", [0, 300])
def test_errors_that_waiting_does_not_mend_are_immediate(max_wait, pauses):
    with scripted_server(lambda texts: (404, {"error": "not found"})) as address:
        with pytest.raises(UserError, match="returned status 404: not found"):
            translate(address, max_wait=max_wait)
        secure = address.replace("http:", "https:")  # this server does not speak TLS
        with pytest.raises(UserError, match="no answer from https.*SSL"):
            translate(secure, max_wait=max_wait)
    assert pauses == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_missing_key_is_an_error_at_once(status, pauses):
    """The body may be that of a proxy."""
    for body in ({"error": "no"}, b"<html>"):
        with scripted_server(lambda texts, body=body: (status, body)) as address:
            advice = "in --api_key_file, or in the environment variable TF_TRANSFORMER_API_KEY$"
            with pytest.raises(UserError, match=f"returned status {status}: .*{advice}"):
                translate(address)
    assert pauses == []


def test_the_scheme_of_an_address_may_be_left_out():
    with scripted_server(translated) as address:
        assert translate(address.removeprefix("http://")) == TRANSLATIONS
        assert translate(f"{address}/") == TRANSLATIONS


@pytest.mark.parametrize("address", ["ftp://localhost", "http://", "host:port", ":8501", "a b"])
def test_an_address_that_is_not_one(address):
    with pytest.raises(UserError, match=f"^server '{address}' is not a URL: give one such as http"):
        RestClient(address, "anna")


def test_an_interrupt_does_not_wait_for_answers():
    """Neither for those that come late, nor for a server that is away."""
    answered = []
    attempts = []
    gate = threading.Event()

    def client(texts):
        gate.wait(10)
        answered.append(texts)
        return [("", 0.0)]

    def busy(texts):
        attempts.append(texts)
        raise client_module.UnavailableError("busy", retry_after=0.1)

    def lines():
        yield "Anna sleeps."
        raise KeyboardInterrupt

    for function in (client, busy):
        with pytest.raises(KeyboardInterrupt):
            next(translate_lines(function, lines(), batch_size=1))
    assert answered == []
    gate.set()
    number = len(attempts)
    time.sleep(0.3)
    assert len(attempts) <= number + 1
