"""The client that translates sentences."""

from tf_transformer.serving.client import translate_lines
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
