"""The committed page `notebooks/transformer.html`: its generator writes it, notebooks link it."""

import json
import re
from urllib.parse import parse_qsl

import pytest
from course import playable_page
from page_links import page_links

ATTENTION = "project scores scaled masked weights heads output".split()


def steps(config):
    """The names and kinds of the page's steps, as `record` gets them."""
    for side, blocks in (("encoder", ["mha"]), ("decoder", ["mha1", "mha2"])):
        yield from (f"{side}.ids", f"{side}/embedding.embedding", f"{side}/positions.positions")
        for i in range(1, config[f"num_{side}_layers"] + 1):
            for number, block in enumerate([*blocks, "ffn"], start=1):
                yield f"{side}/layer{i}/layernorm{number}.norm"
                for kind in ["inner", "outer"] if block == "ffn" else ATTENTION:
                    yield f"{side}/layer{i}/{block}.{kind}"
                yield f"{side}/layer{i}/{block}/add.add"
        yield f"{side}/layernorm.norm"
    yield from (f"decoder/{kind}.{kind}" for kind in ("logits", "probabilities", "next"))


@pytest.fixture(scope="module")
def page():
    return playable_page.PAGE.read_text("utf-8")


def keys_of(page, name):
    """The keys of an object of the page's script, one a line."""
    (body,) = re.findall(rf"^ *const {name} = {{\n(.*?)^ *}};", page, re.M | re.S)
    return re.findall(r"(?:^|, ) *(\w+): ", body, re.M)


@pytest.mark.parametrize(("notebook", "state"), page_links())
def test_links_of_notebooks_name_what_the_page_has(page, notebook, state):
    data, _ = playable_page.read(page)
    known = {
        "tour": keys_of(page, "TOURS"),
        "view": re.findall(r'<section class="panel" id="(\w+)"', page),
        "step": list(steps(data["config"])),
        "off": keys_of(page, "SWITCHES"),
    }
    given = parse_qsl(state, keep_blank_values=True, strict_parsing=True)
    for key, value in given:
        assert key in ["tour", *keys_of(page, "values")]
        assert value in known.get(key, [value])


def test_the_committed_page_is_up_to_date(page):
    data, packed = playable_page.read(page)
    assert page == playable_page.render(data, packed), "run `make page`"
    expected, arrays = playable_page.compute()
    assert data == json.loads(json.dumps(expected))
    # Not the text: another version of zlib may compress in another way.
    assert playable_page.unpack(packed) == playable_page.unpack(playable_page.pack(arrays))
    assert len(page) < 12e6
