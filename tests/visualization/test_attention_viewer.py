"""The page of the attention viewer, as text. `browser_viewer.py` tests it in a browser."""

import base64
import html
import json
import re

import numpy as np
import pytest
from course.attention_example import attention_example

from tf_transformer.visualization.attention_viewer import PAD_PIECE, START_PIECE, AttentionView

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


def random_weights(layers=2, heads=2, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name.format(i + 1): rng.dirichlet(np.ones(keys), (heads, queries))
        for i in range(layers)
        for name, (queries, keys) in SHAPES.items()
    }


def data(page):
    pattern = r'<script type="application/json" id="examples">(.*?)</script>'
    return json.loads(re.search(pattern, page, re.S)[1])


def random_queries_and_keys(weights, depth=4, seed=1):
    rng = np.random.default_rng(seed)
    queries_and_keys = {}
    for name, weight in weights.items():
        heads, queries, keys = weight.shape
        q = rng.normal(0, 2, (heads, queries, depth))
        k = rng.normal(0, 2, (heads, keys, depth))
        queries_and_keys[name] = (q, k)
    return queries_and_keys


def decoded(projections, key, heads):
    """The queries, "q", or keys, "k", of a layer: `[heads, sub-words, depth]`."""
    integers = np.frombuffer(base64.b64decode(projections[key]), "<i2")
    return projections[f"{key}_step"] * integers.reshape(heads, -1, projections["depth"])


def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


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


def test_the_attention_of_a_model(translator):
    examples = [
        translator.attention("Anna sees the dog.", "Anna sieht den Hund."),
        translator.attention("We sleep."),
    ]
    shown = data(AttentionView(examples).page())
    assert [example["source"] for example in shown] == [source for source, _, _ in examples]
    length = len(shown[0]["source"])
    weights = np.array(shown[0]["weights"]["encoder_self_attention"])
    assert weights.shape == (1, 2, length, length)


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


def test_queries_and_keys_in_the_page_give_the_weights_of_the_model(padded):
    """Computes what the script of the page computes with all switches on."""
    (example,) = data(AttentionView([padded]).page())
    pieces = {"source": padded.source, "decoder": [START_PIECE, *padded.target[:-1]]}
    for kind, name in NAMES.items():
        keys = pieces["decoder" if kind == "decoder_self_attention" else "source"]
        mask = np.array([piece == example["pad"] for piece in keys], float)  # (S,)
        if kind == "decoder_self_attention":
            mask = np.maximum(mask, np.triu(np.ones((len(keys), len(keys))), 1))  # (T, T)
        for layer, projections in enumerate(example["queries_and_keys"][kind], start=1):
            heads = len(example["weights"][kind][layer - 1])
            q = decoded(projections, "q", heads)
            k = decoded(projections, "k", heads)
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
            expected = padded.weights[name.format(layer)]
            assert len(example["queries_and_keys"][kind]) == len(example["weights"][kind])
            # The page shows tenths of a percent.
            np.testing.assert_allclose(softmax(scores - 1e9 * mask), expected, atol=0.0005)


def test_the_numbers_of_the_page_are_short(padded):
    (example,) = data(AttentionView([padded]).page())
    projections = example["queries_and_keys"]["encoder_self_attention"][0]
    expected, _ = padded.queries_and_keys["encoder_layer1"]
    error = np.abs(decoded(projections, "q", len(expected)) - expected).max()
    assert error < 0.0001 * np.abs(expected).max()
    values = sum(q.size + k.size for q, k in padded.queries_and_keys.values())
    assert len(json.dumps(example["queries_and_keys"])) < 4 * values


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


def test_the_page_makes_no_requests(tmp_path):
    AttentionView([(SOURCE, TARGET, random_weights())]).save(tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text("utf-8")
    assert page == AttentionView([(SOURCE, TARGET, random_weights())]).page()
    # The only URL is the name of a namespace.
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href)=(?!\"data:)", page)
    assert not re.search(r"\bimport\b", page)
    assert "fetch(" not in page


def test_the_page_obeys_a_content_security_policy():
    """Scripts and styles are elements, whose hash a policy can allow, and no attributes."""
    page = AttentionView([(SOURCE, TARGET, random_weights())]).page()
    without_data = re.sub(r"<script type=.application/json.*?</script>", "", page, flags=re.S)
    assert not re.search(r"\s(on\w+|style)=", re.sub(r"<script>.*", "", without_data, flags=re.S))
    assert 'setAttribute("style"' not in page
    assert not re.search(r"\b(eval|Function|innerHTML|insertAdjacentHTML)\b", page)


@pytest.mark.parametrize(
    "source, changes, message",
    [
        (
            SOURCE[:2],
            {},
            r"encoder_layer1 has shape \(2, 3, 3\): the sub-words need \(heads, 2, 2\)",
        ),
        (SOURCE, {"something": np.ones((1, 3, 3))}, "something: .* with their names"),
        (SOURCE, {"encoder_layer1": None}, "from layer 1"),
    ],
)
def test_invalid_weights(source, changes, message):
    weights = {**random_weights(), **changes}
    weights = {name: weight for name, weight in weights.items() if weight is not None}
    with pytest.raises(ValueError, match=message):
        AttentionView([(source, TARGET, weights)])


def test_missing_weights():
    with pytest.raises(ValueError, match="no example"):
        AttentionView([])
    with pytest.raises(ValueError, match=r"weights \(none\)"):
        AttentionView([(SOURCE, TARGET, {})])


@pytest.mark.parametrize(
    "name, change, message",
    [
        (
            "encoder_layer1",
            lambda q, k: (q, k[..., :-1]),
            r"encoder_layer1 have shapes \(2, 3, 4\) and \(2, 3, 3\): they need \(2, 3, depth\)",
        ),
        (
            "decoder_layer1_block2",
            lambda q, k: (k, q),
            r"they need \(2, 4, depth\) and \(2, 3, ",
        ),
        ("decoder_layer2_block1", lambda q, k: (q[:1], k[:1]), r"shapes \(1, 4, 4\)"),
    ],
)
def test_invalid_queries_and_keys(name, change, message):
    weights = random_weights()
    queries_and_keys = random_queries_and_keys(weights)
    queries_and_keys[name] = change(*queries_and_keys[name])
    with pytest.raises(ValueError, match=message):
        AttentionView([(SOURCE, TARGET, weights, queries_and_keys)])
