"""The page of attention weights, as text; `browser_viewer.py` tries it in a browser."""

import html
import json
import re

import numpy as np
import pytest

from tf_transformer.visualization.attention_viewer import AttentionView

SOURCE, TARGET = ["▁Anna", "▁sees", "[END]"], ["▁Anna", "</script><b>", "&amp;", "[END]"]


def weights(layers=2, heads=2, seed=0):
    random = np.random.default_rng(seed)
    shapes = {
        "encoder_layer{}": (3, 3),
        "decoder_layer{}_block1": (4, 4),
        "decoder_layer{}_block2": (4, 3),
    }
    return {
        name.format(i + 1): random.dirichlet(np.ones(shape[1]), (heads, shape[0]))
        for i in range(layers)
        for name, shape in shapes.items()
    }


def data(page):
    return json.loads(
        re.search(r'<script type="application/json" id="examples">(.*?)</script>', page, re.S)[1]
    )


def test_the_page_holds_all_weights_in_thousandths():
    given = weights()
    (example,) = data(AttentionView([(SOURCE, TARGET, given)]).page())
    assert (example["source"], example["target"], example["start"]) == (SOURCE, TARGET, "[START]")
    for place, name in (
        ("encoder", "encoder_layer{}"),
        ("decoder", "decoder_layer{}_block1"),
        ("source", "decoder_layer{}_block2"),
    ):
        assert len(example["weights"][place]) == 2
        for layer, found in enumerate(example["weights"][place], start=1):
            np.testing.assert_allclose(
                np.array(found) / 1000, given[name.format(layer)], atol=0.0005 + 1e-9
            )


def test_a_model_can_be_shown(translator):
    examples = [
        translator.attention("Anna sees the dog.", "Anna sieht den Hund."),
        translator.attention("We sleep."),
    ]
    found = data(AttentionView(examples).page())
    assert [example["source"] for example in found] == [source for source, _, _ in examples]
    assert np.array(found[0]["weights"]["encoder"]).shape == (
        1,
        2,
        len(found[0]["source"]),
        len(found[0]["source"]),
    )


def test_text_cannot_end_the_script_or_the_frame():
    view = AttentionView([(SOURCE, TARGET, weights())])
    assert view.page().count("</script>") == 2 and "<b>" not in view.page()
    (srcdoc,) = re.findall(r'srcdoc="([^"]*)"', view._repr_html_())
    assert html.unescape(srcdoc) == view.page()
    assert 'sandbox="allow-scripts"' in view._repr_html_()


def test_the_page_asks_nobody(tmp_path):
    AttentionView([(SOURCE, TARGET, weights())]).save(tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text("utf-8")
    assert page == AttentionView([(SOURCE, TARGET, weights())]).page()
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, not an address
    assert (
        not re.search(r"\b(src|href)=(?!\"data:)", page)
        and "import" not in page
        and "fetch(" not in page
    )


def test_errors():
    with pytest.raises(ValueError, match="no example"):
        AttentionView([])
    with pytest.raises(
        ValueError,
        match=r"encoder_layer1 has shape \(2, 3, 3\): the sub-words want \(heads, 2, 2\)",
    ):
        AttentionView([(SOURCE[:2], TARGET, weights())])
    with pytest.raises(ValueError, match="weights of nothing"):
        AttentionView([(SOURCE, TARGET, {})])
    with pytest.raises(ValueError, match="by its names"):
        AttentionView([(SOURCE, TARGET, {**weights(), "something": np.ones((1, 3, 3))})])
    with pytest.raises(ValueError, match="from layer 1 on"):
        AttentionView(
            [
                (
                    SOURCE,
                    TARGET,
                    {name: w for name, w in weights().items() if name != "encoder_layer1"},
                )
            ]
        )
    with pytest.raises(ValueError, match="decoder_layer2_block2 has weights that are no numbers"):
        AttentionView(
            [(SOURCE, TARGET, {**weights(), "decoder_layer2_block2": np.full((2, 4, 3), np.nan)})]
        )
