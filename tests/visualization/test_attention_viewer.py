"""The page of the attention viewer, as text. `browser_viewer.py` tests it in a browser."""

import base64
import html
import json
import re

import numpy as np
import pytest
from course.attention_example import attention_example

from tf_transformer.visualization.attention_viewer import PAD_PIECE, AttentionView

SOURCE = ["▁Anna", "▁sees", "[END]"]
TARGET = ["▁Anna", "</script><b>", "&amp;", "[END]"]
NAMES = {
    "encoder_self_attention": "encoder_layer{}",
    "decoder_self_attention": "decoder_layer{}_block1",
    "encoder_decoder_attention": "decoder_layer{}_block2",
}
SHAPES = {
    "encoder_layer{}": (3, 3),
    "decoder_layer{}_block1": (4, 4),
    "decoder_layer{}_block2": (4, 3),
}


def random_weights():
    """Of two layers and two heads."""
    rng = np.random.default_rng(0)
    return {
        name.format(i): rng.dirichlet(np.ones(keys), (2, queries))
        for i in (1, 2)
        for name, (queries, keys) in SHAPES.items()
    }


def data(page):
    pattern = r'<script type="application/json" id="examples">(.*?)</script>'
    return json.loads(re.search(pattern, page, re.S)[1])


def random_queries_and_keys(weights):
    rng = np.random.default_rng(1)
    return {
        name: tuple(rng.normal(0, 2, (2, length, 4)) for length in weight.shape[1:])
        for name, weight in weights.items()
    }


def decoded(projections, key, heads):
    """The queries, "q", or keys, "k", of a layer: `[heads, sub-words, depth]`."""
    integers = np.frombuffer(base64.b64decode(projections[key]), "<i2")
    return projections[f"{key}_step"] * integers.reshape(heads, -1, projections["depth"])


def test_the_page_holds_all_weights():
    weights = random_weights()
    (example,) = data(AttentionView([(SOURCE, TARGET, weights)]).page())
    assert example["source"] == SOURCE
    assert example["target"] == TARGET
    assert example["start"] == "[START]"
    for kind, name in NAMES.items():
        layers = example["weights"][kind]
        assert len(layers) == 2
        for layer, integers in enumerate(layers, start=1):
            expected = weights[name.format(layer)]
            shown = np.array(integers) * example["weight_step"]
            np.testing.assert_allclose(shown, expected, atol=0.00005 + 1e-9)
    assert "queries_and_keys" not in example


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
    (example,) = data(AttentionView([(source, target, weights)]).page())
    shown = np.array(example["weights"]["encoder_self_attention"])
    assert shown.shape == (1, 2, len(source), len(source))


def test_queries_and_keys_of_an_example_give_its_weights(padded):
    q, k = padded.queries_and_keys["decoder_layer1_block2"]
    exponentials = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]))
    exponentials[:, :, -2:] = 0  # padding
    expected = exponentials / exponentials.sum(-1, keepdims=True)
    np.testing.assert_allclose(padded.weights["decoder_layer1_block2"], expected, atol=1e-5)


def test_the_page_holds_all_queries_and_keys():
    weights = random_weights()
    given = random_queries_and_keys(weights)
    (example,) = data(AttentionView([(SOURCE, TARGET, weights, given)]).page())
    for kind, name in NAMES.items():
        for layer, projections in enumerate(example["queries_and_keys"][kind], start=1):
            for key, expected in zip("qk", given[name.format(layer)]):
                rounding = 0.0001 * np.abs(expected).max()
                np.testing.assert_allclose(decoded(projections, key, 2), expected, atol=rounding)


def test_queries_and_keys_of_zeros():
    weights = random_weights()
    zeros = {name: (0 * q, 0 * k) for name, (q, k) in random_queries_and_keys(weights).items()}
    (example,) = data(AttentionView([(SOURCE, TARGET, weights, zeros)]).page())
    assert not decoded(example["queries_and_keys"]["decoder_self_attention"][1], "k", 2).any()


def test_text_cannot_end_the_script_or_the_frame():
    view = AttentionView([(SOURCE, TARGET, random_weights())])
    assert view.page().count("</script>") == 2
    assert "<b>" not in view.page()
    (srcdoc,) = re.findall(r'srcdoc="([^"]*)"', view._repr_html_())
    assert html.unescape(srcdoc) == view.page()
    assert 'sandbox="allow-scripts"' in view._repr_html_()


def test_the_page_makes_no_requests_and_obeys_a_content_security_policy(tmp_path):
    """Scripts and styles are elements, whose hash a policy can allow, and no attributes."""
    view = AttentionView([(SOURCE, TARGET, random_weights())])
    view.save(tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text("utf-8")
    assert page == view.page()
    # The only URL is the name of a namespace.
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href)=(?!\"data:)|\bimport\b|fetch\(", page)
    without_data = re.sub(r"<script type=.application/json.*?</script>", "", page, flags=re.S)
    assert not re.search(r"\s(on\w+|style)=", re.sub(r"<script>.*", "", without_data, flags=re.S))
    assert not re.search(r"setAttribute\(\"style\"", page)
    assert not re.search(r"\b(eval|Function|innerHTML|insertAdjacentHTML)\b", page)


@pytest.mark.parametrize(
    "source, changes, message",
    [
        (SOURCE[:2], {}, r"encoder_layer1 has shape \(2, 3, 3\): .* need \(heads, 2, 2\)"),
        (SOURCE, {"something": np.ones((1, 3, 3))}, "something: .* with their names"),
        (SOURCE, {"encoder_layer1": None}, "from layer 1"),
    ],
)
def test_invalid_weights(source, changes, message):
    weights = {**random_weights(), **changes}
    weights = {name: weight for name, weight in weights.items() if weight is not None}
    with pytest.raises(ValueError, match=message):
        AttentionView([(source, TARGET, weights)])
    with pytest.raises(ValueError, match="no example"):
        AttentionView([])
    with pytest.raises(ValueError, match=r"weights \(none\)"):
        AttentionView([(SOURCE, TARGET, {})])


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("encoder_layer1", lambda q, k: (q, k[..., :-1]), r"need \(2, 3, depth\)"),
        ("decoder_layer1_block2", lambda q, k: (k, q), r"need \(2, 4, depth\) and \(2, 3, "),
        ("decoder_layer2_block1", lambda q, k: (q[:1], k[:1]), r"shapes \(1, 4, 4\)"),
    ],
)
def test_invalid_queries_and_keys(name, change, message):
    weights = random_weights()
    queries_and_keys = random_queries_and_keys(weights)
    queries_and_keys[name] = change(*queries_and_keys[name])
    with pytest.raises(ValueError, match=f"{name} have .*{message}"):
        AttentionView([(SOURCE, TARGET, weights, queries_and_keys)])
