"""The page of the attention viewer, as text. `browser_viewer.py` tests it in a browser."""

import html
import json
import re

import numpy as np
import pytest
from attention_examples import KINDS, SOURCE, TARGET, WEIGHTS, random_queries_and_keys
from course.attention_example import attention_example

from tf_transformer.visualization.attention_viewer import PAD_PIECE, AttentionView

EXAMPLE = SOURCE, TARGET, WEIGHTS


def data(*example):
    """The data in the page of an example."""
    page = AttentionView([example]).page()
    pattern = r'<script type="application/json" id="examples">(.*?)</script>'
    (found,) = json.loads(re.search(pattern, page, re.S)[1])
    return found


def layers(kinds):
    """Yields the layers of a part of this data, each with the name of its weights."""
    for kind, name in KINDS.items():
        of_kind = kinds[re.sub(r"\W", "_", kind)]
        assert len(of_kind) == 2
        yield from ((name.format(i), layer) for i, layer in enumerate(of_kind, start=1))


def test_the_page_holds_all_weights_queries_and_keys():
    given = random_queries_and_keys()
    found = data(*EXAMPLE, given)
    assert (found["source"], found["target"], found["start"]) == (SOURCE, TARGET, "[START]")
    for name, weights in layers(found["weights"]):
        np.testing.assert_allclose(weights, WEIGHTS[name], atol=0.00005 + 1e-9)
    for name, layer in layers(found["queries_and_keys"]):
        for key, expected in zip("qk", given[name]):
            np.testing.assert_allclose(layer[key], expected, atol=0.0005 + 1e-9)
    assert "queries_and_keys" not in data(*EXAMPLE)


@pytest.fixture(scope="module")
def padded(translator):
    """An example with queries, keys and two padding positions on each side."""
    return attention_example(translator, "Anna sees the dog.", "Anna sieht den Hund.", padding=2)


def test_an_example_with_padding_has_the_weights_of_the_sentence(padded, translator):
    source, target, weights = translator.attention("Anna sees the dog.", "Anna sieht den Hund.")
    assert padded.source == [*source, PAD_PIECE, PAD_PIECE]
    assert padded.target == [*target, PAD_PIECE, PAD_PIECE]
    for name, weight in weights.items():
        rows, columns = weight.shape[1:]
        # Another length is another order of float32 sums.
        np.testing.assert_allclose(padded.weights[name][:, :rows, :columns], weight, atol=1e-5)
        assert not padded.weights[name][:, :rows, columns:].any(), "attention to padding"


def test_queries_and_keys_of_an_example_give_its_weights(padded):
    q, k = padded.queries_and_keys["decoder_layer1_block2"]
    exponentials = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]))
    exponentials[:, :, -2:] = 0  # padding
    expected = exponentials / exponentials.sum(-1, keepdims=True)
    np.testing.assert_allclose(padded.weights["decoder_layer1_block2"], expected, atol=1e-5)


def test_text_cannot_end_the_script_or_the_frame():
    view = AttentionView([EXAMPLE])
    assert view.page().count("</script>") == 2
    assert "<img" not in view.page()
    (srcdoc,) = re.findall(r'srcdoc="([^"]*)"', view._repr_html_())
    assert html.unescape(srcdoc) == view.page()
    assert 'sandbox="allow-scripts"' in view._repr_html_()


def test_the_page_makes_no_requests_and_obeys_a_content_security_policy(tmp_path):
    """Scripts and styles are elements, whose hash a policy can allow, and no attributes."""
    view = AttentionView([EXAMPLE])
    view.save(tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text("utf-8")
    assert page == view.page()
    # The only URL is the name of a namespace.
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    page = re.sub(r"<script type=.application/json.*?</script>", "", page, flags=re.S)
    assert not re.search(r"\b(src|href)=(?!\"data:)|\bimport\b|fetch\(|innerHTML", page)
    assert not re.search(r"\s(on\w+|style)=", page.partition("<script>")[0])


@pytest.mark.parametrize("examples, message", [
    ([], "no example"),
    ([(SOURCE, TARGET, {})], r"weights \(none\)"),
    ([(SOURCE[:2], TARGET, WEIGHTS)], r"layer1 has shape \(2, 3, 3\): .* \(heads, 2, 2\)"),
    ([(SOURCE, TARGET, {**WEIGHTS, "something": 1})], "something: .* with their names"),
    ([(SOURCE, TARGET, {"encoder_layer2": WEIGHTS["encoder_layer2"]})], "from layer 1"),
    ([([b"a", *SOURCE[1:]], TARGET, WEIGHTS)], r"sub-word b'a': give strings"),
    ([(SOURCE, TARGET, {x: y * np.nan for x, y in WEIGHTS.items()})], "not finite"),
])  # fmt: skip
def test_invalid_weights(examples, message):
    with pytest.raises(ValueError, match=message):
        AttentionView(examples)
