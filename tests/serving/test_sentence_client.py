"""The client that translates sentences."""

import pytest

from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.serving.client import (
    NotInTimeError,
    RequestTooLargeError,
    UnavailableError,
    translate_lines,
)
from tf_transformer.serving.sentence_client import SentenceClient


def test_requests_have_sentences_and_results_lines():
    requests = []

    def client(texts):
        requests.append(texts)
        return [(text.upper(), -1.0) for text in texts]

    sentence_client = SentenceClient(client, "en", "de", batch_size=2)
    assert sentence_client(["One. Two.  Three.", "", "Four."]) == [
        ("ONE. TWO.  THREE.", -1.0),
        ("", 0.0),
        ("FOUR.", -1.0),
    ]
    assert requests == [["One.", "Two."], ["Three.", "Four."]]
    assert sentence_client([""]) == [("", 0.0)]
    assert len(requests) == 2
    results = translate_lines(sentence_client, ["One. Two.", "Three."], batch_size=1)
    assert [text for text, _ in results] == ["ONE. TWO.", "THREE."]


def test_sentences_that_were_answered_are_not_sent_again():
    """A server that refuses every second request still gets all of them."""
    requests = []

    def client(texts):
        requests.append(texts)
        if len(requests) % 2 == 0:
            raise UnavailableError("busy", retry_after=0.01)
        return [(text.upper(), -1.0) for text in texts]

    sentence_client = SentenceClient(client, "en", "de", batch_size=1)
    lines = ["One. Two. Three. Four.", "Five. Six."]
    results = list(translate_lines(sentence_client, lines, batch_size=1, concurrency=1))
    assert [text for text, _ in results] == [line.upper() for line in lines]
    answered = requests[::2]
    assert answered == [["One."], ["Two."], ["Three."], ["Four."], ["Five."], ["Six."]]


@pytest.mark.parametrize("error", [RequestTooLargeError, NotInTimeError])
def test_requests_inside_a_line_are_sent_in_halves(error):
    """A sentence that is too large alone makes its line one without a translation."""
    sizes = []

    def client(texts):
        sizes.append(len(texts))
        if len(texts) > 3 or "Too large." in texts:
            raise error("no")
        return [(text.upper(), -1.0) for text in texts]

    sentence_client = SentenceClient(client, "en", "de", batch_size=10)
    line = " ".join(f"The cat sleeps {i} times." for i in range(10))
    results = list(translate_lines(sentence_client, [line], max_wait=0))
    assert results == [(line.upper(), -1.0)]
    assert sizes == [10, 5, 2, 2, 2, 2, 2]
    assert not sentence_client._unfinished
    # Several lines are sent in halves first, so that no answered sentence is sent again.
    sizes.clear()
    lines = ["One. Two.", "Three. Four."]
    assert [text for text, _ in translate_lines(sentence_client, lines)] == [
        "ONE. TWO.",
        "THREE. FOUR.",
    ]
    assert sizes == [4, 2, 2]
    if error is RequestTooLargeError:
        results = list(translate_lines(sentence_client, ["One. Too large. Two.", "Three."]))
        assert results == [("", NEGATIVE_INFINITY), ("THREE.", -1.0)]
    else:
        with pytest.raises(NotInTimeError, match="line 1: .*split the line"):
            list(translate_lines(sentence_client, ["One. Too large.", "Three."], max_wait=0))
