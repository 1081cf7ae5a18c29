"""The translation of many lines by a server that is busy or away.

`tests/cli/test_serving.py` has lines that are refused, wrong addresses, and foreign answers.
"""

import pytest

from serving.scripted_server import scripted_server, translated
from tf_transformer.errors import UserError
from tf_transformer.serving.client import RestClient, translate_lines

LINES = [f"line {number}" for number in range(20)]
TRANSLATIONS = [(line.upper(), -0.5) for line in LINES]


def translate(address, lines=LINES, attempts=3, **options):
    return translate_lines(RestClient(address, "anna", attempts), lines, **options)


def test_lines_stay_in_order_and_are_read_lazily():
    read = []

    def lines():
        for line in LINES:
            read.append(line)
            yield line

    with scripted_server(translated) as address:
        results = translate(address.removeprefix("http://"), lines(), batch_size=2, concurrency=3)
        assert next(results) == TRANSLATIONS[0]
        assert len(read) <= 6
        assert [TRANSLATIONS[0], *results] == TRANSLATIONS
        assert list(translate(address, [])) == []


@pytest.mark.parametrize("status", [429, 502, 503, None])
def test_requests_to_a_busy_server_are_sent_again(status):
    """None is a connection that breaks; the body may be that of a proxy."""
    answers = [(status, b"<html>") if status else None] * 3
    with scripted_server(lambda texts: answers.pop() if answers else translated(texts)) as address:
        with pytest.raises(UserError, match=f"status {status}|no answer from .*anna:predict"):
            list(translate(address, attempts=1))
        assert list(translate(address)) == TRANSLATIONS


def test_a_key_is_not_in_messages():
    with pytest.raises(UserError, match="no answer from http://127.0.0.1:1/v1") as error:
        list(translate("http://anna:secret@127.0.0.1:1", attempts=0))
    assert "secret" not in str(error.value)
