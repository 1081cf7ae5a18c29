"""The attention viewer in headless Chromium, as a file and in a notebook's frame.

`make test-browser` runs these tests.
"""

import json

import numpy as np
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from serving.browser_page import browser, texts  # noqa: F401, a fixture

from tf_transformer.visualization.attention_viewer import AttentionView

SOURCE = ["▁Anna", "▁sees", "[END]"]
TARGET = ["▁Anna", "<img src=x onerror=document.title='caught'>", "▁sieht", "[END]"]
NAMES = {
    "encoder self-attention": "encoder_layer{}",
    "decoder self-attention": "decoder_layer{}_block1",
    "encoder-decoder attention": "decoder_layer{}_block2",
}
SHAPES = {
    "encoder_layer{}": (3, 3),
    "decoder_layer{}_block1": (4, 4),
    "decoder_layer{}_block2": (4, 3),
}


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    return {
        name.format(i): rng.dirichlet(np.ones(keys), (2, queries))
        for i in (1, 2)
        for name, (queries, keys) in SHAPES.items()
    }


@pytest.fixture
def page(browser, weights, tmp_path):  # noqa: F811
    examples = [
        (SOURCE, TARGET, weights),
        (SOURCE[:1], TARGET[:2], {"encoder_layer1": np.ones((1, 1, 1))}),
    ]
    AttentionView(examples).save(str(tmp_path / "view.html"))
    browser.get(f"file://{tmp_path}/view.html")
    return browser


def choose(page, select, text):
    """Chooses an option with the keyboard."""
    page.find_element(By.ID, select).send_keys(text)


def labels(page, side):
    """The percentages beside the sub-words of a column, "" where there are none."""
    return [text.rstrip("%") for text in texts(page, f"#{side} li span")]


def percentages(page, side):
    return [float(text) for text in labels(page, side)]


def expected(row):
    """Weights as percentages, rounded to thousandths and then to tenths of a percent."""
    return [pytest.approx(100 * weight, abs=0.11) for weight in row]


def opacities(page):
    lines = page.find_elements(By.CSS_SELECTOR, "#lines line")
    return [float(line.value_of_css_property("opacity")) for line in lines]


def test_every_kind_layer_and_head_with_the_keyboard(page, weights):
    assert texts(page, "#kind option") == list(NAMES)
    assert texts(page, "#layer option") == ["layer 1", "layer 2"]
    assert texts(page, "#head option") == ["mean of all", "head 1", "head 2"]
    for kind, name in NAMES.items():
        choose(page, "kind", kind)
        for layer in (1, 2):
            choose(page, "layer", f"layer {layer}")
            heads = weights[name.format(layer)]
            shown = {"mean of all": heads.mean(0), "head 1": heads[0], "head 2": heads[1]}
            for head, values in shown.items():
                choose(page, "head", head)
                visible = sorted(weight for weight in values.ravel() if weight >= 0.0005)
                assert sorted(opacities(page)) == pytest.approx(visible, abs=0.0011)
                page.find_element(By.CSS_SELECTOR, "#queries button").send_keys("")
                assert percentages(page, "keys") == expected(values[0])


def test_moving_with_the_arrow_keys(page, weights):
    choose(page, "kind", "encoder-decoder attention")
    choose(page, "head", "head 2")
    page.find_element(By.ID, "head").send_keys(Keys.TAB)
    focused = page.switch_to.active_element
    assert focused.text == "▁Anna"
    assert focused.get_attribute("aria-label") == "Anna, 1 of 4"

    focused.send_keys(Keys.ARROW_DOWN, Keys.NULL)
    page.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    values = weights["decoder_layer1_block2"][1]
    assert percentages(page, "keys") == expected(values[2])
    assert set(labels(page, "queries")) == {""}
    largest = int(values[2].argmax())
    piece = SOURCE[largest].lstrip("▁")
    (status,) = texts(page, "#status")
    assert status.startswith(f"sieht (3) attends to: {piece} ({largest + 1}) ")
    assert len(opacities(page)) <= 3

    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert percentages(page, "queries") == expected(values[:, 2])
    assert "receives attention from" in texts(page, "#status")[0]

    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert set(labels(page, "queries") + labels(page, "keys")) == {""}
    assert len(opacities(page)) > 4

    page.switch_to.active_element.send_keys(Keys.HOME)
    assert page.switch_to.active_element.text == "▁Anna"
    in_tab_order = "#queries button[tabindex='0'], #keys button[tabindex='0']"
    assert len(page.find_elements(By.CSS_SELECTOR, in_tab_order)) == 2


def test_every_control_has_a_name(page):
    for select in page.find_elements(By.TAG_NAME, "select"):
        assert select.accessible_name.split()[0] in ("Sentence", "Attention", "Layer", "Head")
    queries = page.find_element(By.ID, "queries")
    keys = page.find_element(By.ID, "keys")
    assert queries.accessible_name == "Queries: source sub-words"
    assert keys.accessible_name == "Keys: source sub-words"


def test_the_keys_of_the_decoder_are_its_inputs(page):
    choose(page, "kind", "decoder self-attention")
    assert texts(page, "#keys button") == ["[START]", *TARGET[:-1]]
    assert texts(page, "#queries button") == TARGET


def test_pointing_shows_one_sub_word(page, weights):
    choose(page, "head", "head 1")
    second = page.find_elements(By.CSS_SELECTOR, "#queries button")[1]
    ActionChains(page).move_to_element(second).perform()
    assert percentages(page, "keys") == expected(weights["encoder_layer1"][0, 1])
    ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    assert set(labels(page, "keys")) == {""}


def test_an_example_with_fewer_kinds_layers_and_heads(page):
    choose(page, "layer", "layer 2")
    choose(page, "head", "head 2")
    choose(page, "example", "2: Anna")
    assert texts(page, "#kind option") == ["encoder self-attention"]
    assert texts(page, "#layer option") == ["layer 1"]
    assert opacities(page) == [1.0]
    choose(page, "example", Keys.ARROW_UP)
    assert len(texts(page, "#queries button")) == 3


def test_text_is_not_interpreted_as_html_and_nothing_is_requested(page, tmp_path):
    choose(page, "kind", "decoder self-attention")
    page.find_elements(By.CSS_SELECTOR, "#queries button")[1].send_keys("")
    assert page.title == "Attention weights"
    assert not page.find_elements(By.TAG_NAME, "img")
    assert "<img" in texts(page, "#status")[0]
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requested = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    allowed = (f"file://{tmp_path.parent}", "data:")
    assert requested
    assert [url for url in requested if not url.startswith(allowed)] == []
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_in_the_frame_of_a_notebook(browser, weights, tmp_path):  # noqa: F811
    view = AttentionView([(SOURCE, TARGET, weights)])
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8>{view._repr_html_()}"
    )
    browser.get(f"file://{tmp_path}/notebook.html")
    frame = browser.find_element(By.TAG_NAME, "iframe")
    assert frame.accessible_name == "Attention weights"
    browser.switch_to.frame(frame)
    choose(browser, "kind", "encoder-decoder attention")
    assert texts(browser, "#queries button") == TARGET
    assert len(opacities(browser)) > 8
    overflow = browser.execute_script(
        "return document.documentElement.scrollHeight - document.documentElement.clientHeight"
    )
    assert overflow == 0, f"the page is {overflow} pixels higher than the frame"
    browser.switch_to.default_content()
