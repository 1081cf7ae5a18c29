"""The page of the attention viewer, as text. `browser_viewer.py` tests it in a browser."""

import html
import json
import re

import numpy as np
import pytest

from tf_transformer.visualization.attention_viewer import AttentionView

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


def test_the_page_holds_all_weights_in_thousandths():
    weights = random_weights()
    (example,) = data(AttentionView([(SOURCE, TARGET, weights)]).page())
    assert example["source"] == SOURCE
    assert example["target"] == TARGET
    assert example["start"] == "[START]"
    for kind, name in NAMES.items():
        layers = example["weights"][kind]
        assert len(layers) == 2
        for layer, thousandths in enumerate(layers, start=1):
            expected = weights[name.format(layer)]
            np.testing.assert_allclose(np.array(thousandths) / 1000, expected, atol=0.0005 + 1e-9)


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
    assert "import" not in page
    assert "fetch(" not in page


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
        (
            SOURCE,
            {"decoder_layer2_block2": np.full((2, 4, 3), np.nan)},
            "decoder_layer2_block2 has weights that are not finite",
        ),
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
