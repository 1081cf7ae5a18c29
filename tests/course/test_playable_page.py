"""The committed page `notebooks/transformer.html` is what its generator writes."""

import json

import pytest
import tensorflow as tf
from course import playable_page

from tf_transformer import Translator


def test_the_committed_page_is_up_to_date():
    committed = playable_page.PAGE.read_text("utf-8")
    data, weights = playable_page.read(committed)
    assert committed == playable_page.render(data, weights), "run `make page`"

    translator = Translator.load(playable_page.MODEL)
    # Not the text: another version of zlib may compress in another way.
    packed = playable_page.pack(playable_page.weights_of(translator.model))
    assert playable_page.unpack(weights) == playable_page.unpack(packed)
    pairs = [(sentence["source"], sentence["reference"]) for sentence in data["sentences"]]
    assert pairs == playable_page.SENTENCES
    # The last sentence: all take too long for this test.
    expected = json.loads(json.dumps(playable_page.compute(translator, pairs[-1:])))
    leaves = [
        tf.nest.flatten(page) for page in (data | {"sentences": data["sentences"][-1:]}, expected)
    ]
    texts, numbers = (
        [[leaf for leaf in page if isinstance(leaf, kind)] for page in leaves]
        for kind in (str, (int, float))
    )
    assert texts[0] == texts[1]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-3)
