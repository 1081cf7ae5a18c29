"""The attention viewer in headless Chromium, as a file and in a notebook's frame.

`make test-browser` runs these tests.
"""

import re

import numpy as np
import pytest
from browser import (  # noqa: F401, fixtures
    browser,
    choose,
    color_scheme,
    console_errors,
    expected,
    is_dark,
    overflow,
    percentages,
    requested_urls,
    texts,
    width,
)
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tf_transformer.visualization.attention_viewer import AttentionView

SOURCE = ["▁Anna", "▁sees", "[END]"]
TARGET = ["▁Anna", "<img src=x onerror=document.title='caught'>", "▁sieht", "[END]"]
NAMES = {
    "encoder self-attention": "encoder_layer{}",
    "decoder self-attention": "decoder_layer{}_block1",
    "encoder-decoder attention": "decoder_layer{}_block2",
}
LENGTHS = {"encoder_layer{}": (3, 3), "decoder_layer{}_block1": (4, 4)}  # queries, keys
LENGTHS["decoder_layer{}_block2"] = (4, 3)


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    return {
        name.format(i): rng.dirichlet(np.ones(keys), (2, queries))
        for i in (1, 2)
        for name, (queries, keys) in LENGTHS.items()
    }


# The padded example of the switches: layer 1 of two heads of depth 4.
PADDED_SOURCE = ["▁Anna", "▁sees", "[END]", "[PAD]", "[PAD]"]
PADDED_TARGET = ["▁Anna", "▁sieht", "Donaudampfschifffahrtsgesellschaft", "[END]", "[PAD]", "[PAD]"]


@pytest.fixture(scope="module")
def padded():
    """An example with queries and keys, and the weights with all masks."""
    rng = np.random.default_rng(3)
    lengths = {"encoder_layer1": (5, 5), "decoder_layer1_block1": (6, 6)}  # queries, keys
    lengths["decoder_layer1_block2"] = (6, 5)
    projections = {
        name: tuple(rng.normal(0, 2, (2, length, 4)) for length in pair)
        for name, pair in lengths.items()
    }
    weights = {name: attention(name, *pair) for name, pair in projections.items()}
    return PADDED_SOURCE, PADDED_TARGET, weights, projections


def attention(name, q, k, scale=True, padding_mask=True, look_ahead_mask=True):
    """The weights `[H, T, S]` of a sub-layer of the padded example."""
    keys = ["[START]", *PADDED_TARGET[:-1]] if name.endswith("block1") else PADDED_SOURCE
    scores = q @ k.transpose(0, 2, 1)
    if scale:
        scores = scores / np.sqrt(q.shape[-1])
    hidden = np.zeros(scores.shape[1:], bool)
    if padding_mask:
        hidden |= np.array([piece == "[PAD]" for piece in keys])
    if look_ahead_mask and name.endswith("block1"):
        hidden |= np.triu(np.ones(hidden.shape, bool), 1)
    scores = np.where(hidden, -np.inf, scores)
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.fixture
def padded_page(browser, padded, tmp_path):  # noqa: F811
    AttentionView([padded]).save(tmp_path / "padded.html")
    browser.get(f"file://{tmp_path}/padded.html")
    return browser


@pytest.fixture
def page(browser, weights, tmp_path):  # noqa: F811
    fewer = SOURCE[:1], TARGET[:2], {"encoder_layer1": np.ones((1, 1, 1))}
    AttentionView([(SOURCE, TARGET, weights), fewer]).save(str(tmp_path / "view.html"))
    browser.get(f"file://{tmp_path}/view.html")
    return browser


def labels(page, side):
    """The percentages beside the sub-words of a column, "" where there are none."""
    return [text.rstrip("%") for text in texts(page, f"#{side} li span.weight")]


def cells(page):
    """The numbers of the map, 0 where there is none."""
    numbers = [float(text or 0) for text in texts(page, "#map tbody td")]
    return np.reshape(numbers, (len(texts(page, "#map tbody tr")), -1))


def measures(page):
    """What the switches change, in percent: a dict of the shown names and numbers."""
    names, values = texts(page, "#measures dt"), texts(page, "#measures dd")
    return {name: float(value.rstrip("%")) for name, value in zip(names, values)}


def press_escape(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)


def press(page, *keys):
    page.switch_to.active_element.send_keys(*keys)


def focused(page):
    return page.switch_to.active_element.text


def point_at(page, element):
    ActionChains(page).move_to_element(element).perform()


def click(page, identifier):
    page.find_element(By.ID, identifier).click()


def opacities(page):
    lines = page.find_elements(By.CSS_SELECTOR, "#svg line")
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
                press_escape(page)
                visible = sorted(weight for weight in values.ravel() if weight >= 0.0005)
                assert sorted(opacities(page)) == pytest.approx(visible, abs=0.0002)
                page.find_element(By.CSS_SELECTOR, "#queries button").send_keys("")
                assert percentages(page, "keys") == expected(values[0])


def test_moving_with_the_arrow_keys(page, weights):
    choose(page, "kind", "encoder-decoder attention")
    choose(page, "head", "head 2")
    page.find_element(By.ID, "head").send_keys(Keys.TAB)
    press(page, Keys.TAB)  # past the choice of the view
    assert focused(page) == "▁Anna"
    assert page.switch_to.active_element.get_attribute("aria-label") == "Anna, 1 of 4"
    press(page, Keys.ARROW_DOWN, Keys.NULL)
    press(page, Keys.ARROW_DOWN)
    values = weights["decoder_layer1_block2"][1]
    assert percentages(page, "keys") == expected(values[2])
    assert set(labels(page, "queries")) == {""}
    largest = int(values[2].argmax())
    piece = SOURCE[largest].lstrip("▁")
    (status,) = texts(page, "#status")
    assert status.startswith(f"sieht (3) attends to: {piece} ({largest + 1}) ")
    assert len(opacities(page)) <= 3
    press(page, Keys.ARROW_RIGHT)
    assert percentages(page, "queries") == expected(values[:, 2])
    assert "receives attention from" in texts(page, "#status")[0]
    press(page, Keys.ESCAPE)
    assert set(labels(page, "queries") + labels(page, "keys")) == {""}
    assert len(opacities(page)) > 4
    press(page, Keys.HOME)
    assert focused(page) == "▁Anna"
    in_tab_order = "#queries button[tabindex='0'], #keys button[tabindex='0']"
    assert len(page.find_elements(By.CSS_SELECTOR, in_tab_order)) == 2


def test_names_of_the_controls_and_sides(page):
    for select in page.find_elements(By.TAG_NAME, "select"):
        assert select.accessible_name.split()[0] in ("Sentence", "Attention", "Layer", "Head")
    for side in ("queries", "keys"):
        name = page.find_element(By.ID, side).accessible_name
        assert name == f"{side.title()}: source sub-words"
    choose(page, "kind", "decoder self-attention")  # whose keys are the inputs of the decoder
    assert texts(page, "#keys button") == ["[START]", *TARGET[:-1]]
    assert texts(page, "#queries button") == TARGET


def test_an_example_with_fewer_kinds_layers_and_heads(page):
    choose(page, "layer", "layer 2")
    choose(page, "head", "head 2")
    choose(page, "example", "2: Anna")
    assert texts(page, "#kind option") == ["encoder self-attention"]
    assert texts(page, "#layer option") == ["layer 1"]
    assert opacities(page) == [1.0]
    assert not page.find_element(By.ID, "switches").is_displayed()
    choose(page, "example", Keys.ARROW_UP)
    assert len(texts(page, "#queries button")) == 3


def test_pointing_shows_one_sub_word_and_a_click_keeps_it(page, weights):
    choose(page, "head", "head 1")
    second = page.find_elements(By.CSS_SELECTOR, "#queries button")[1]
    elsewhere = page.find_element(By.TAG_NAME, "h1")
    point_at(page, second)
    assert percentages(page, "keys") == expected(weights["encoder_layer1"][0, 1])
    point_at(page, elsewhere)
    assert set(labels(page, "keys")) == {""}
    second.click()
    point_at(page, elsewhere)
    choose(page, "layer", "layer 2")
    assert percentages(page, "keys") == expected(weights["encoder_layer2"][0, 1])
    choose(page, "head", "head 2")
    assert percentages(page, "keys") == expected(weights["encoder_layer2"][1, 1])
    second.click()  # a second click shows all lines again
    point_at(page, elsewhere)
    assert set(labels(page, "keys")) == {""}


def test_the_map(page, weights):
    choose(page, "kind", "encoder-decoder attention")
    choose(page, "head", "head 2")
    click(page, "map-view")
    assert not page.find_element(By.ID, "lines").is_displayed()
    values = 100 * weights["decoder_layer1_block2"][1]
    np.testing.assert_allclose(cells(page), values, atol=0.51)
    assert texts(page, "#map thead th") == SOURCE
    assert texts(page, "#map tbody th") == TARGET

    page.find_element(By.CSS_SELECTOR, "#map tbody button").send_keys(Keys.ARROW_DOWN)
    press(page, Keys.ARROW_RIGHT)
    assert focused(page) == "▁sees"
    assert texts(page, "#status")[0].startswith("sees (2) receives attention from: ")
    assert len(page.find_elements(By.CSS_SELECTOR, "#map td.selected")) == 4
    press_escape(page)
    assert not page.find_elements(By.CSS_SELECTOR, "#map td.selected")
    point_at(page, page.find_elements(By.CSS_SELECTOR, "#map tbody td")[4])
    assert "(2) attends to: " in texts(page, "#status")[0]


@pytest.mark.parametrize("kind", NAMES)
def test_the_switches_compute_the_weights(padded_page, padded, kind):
    page = padded_page
    click(page, "map-view")
    choose(page, "kind", kind)
    name = NAMES[kind].format(1)
    q, k = padded[3][name]
    switches = ["scale", "padding-mask"]
    if kind == "decoder self-attention":
        switches.append("look-ahead-mask")
    shown = page.find_elements(By.CSS_SELECTOR, "#switches input")
    assert [box.get_attribute("id") for box in shown if box.is_displayed()] == switches
    for head, select in {"mean of all": lambda w: w.mean(0), "head 2": lambda w: w[1]}.items():
        choose(page, "head", head)
        of_model = select(attention(name, q, k))
        assert measures(page)["largest change from the model's weights"] == 0.0
        for off in (*([switch] for switch in switches), switches):
            for switch in off:
                page.find_element(By.ID, switch).send_keys(Keys.SPACE)
            options = {switch.replace("-", "_"): False for switch in off}
            values = select(attention(name, q, k, **options))
            np.testing.assert_allclose(cells(page), 100 * values, atol=0.51)
            real = [piece != "[PAD]" for piece in texts(page, "#map tbody th")]
            keys = [piece == "[PAD]" for piece in texts(page, "#map thead th")]
            numbers = {
                "largest weight of a row, mean": values[real].max(-1).mean(),
                "on padding, mean": values[real][:, keys].sum(-1).mean(),
                "largest change from the model's weights": abs(values - of_model)[real].max(),
            }
            if kind == "decoder self-attention":
                numbers["on later positions, mean"] = np.triu(values, 1)[real].sum(-1).mean()
            percent = {measure: 100 * number for measure, number in numbers.items()}
            assert measures(page) == pytest.approx(percent, abs=0.11)
            for switch in off:
                page.find_element(By.ID, switch).send_keys(Keys.SPACE)


def test_percentages_scores_and_masked_cells_with_a_switch_off(padded_page, padded):
    page = padded_page
    choose(page, "kind", "decoder self-attention")
    choose(page, "head", "head 2")
    page.find_elements(By.CSS_SELECTOR, "#queries button")[1].click()
    name = "decoder_layer1_block1"
    q, k = (x[1:] for x in padded[3][name])
    assert percentages(page, "keys") == expected(attention(name, q, k)[0, 1])
    click(page, "look-ahead-mask")
    after = attention(name, q, k, look_ahead_mask=False)[0, 1]
    assert percentages(page, "keys") == expected(after)
    largest = int(after.argmax())
    (status,) = texts(page, "#status")
    shown = re.search(r"attends to: \S+ \((\d)\) (\S+)% \(score (\S+)\)", status)
    assert int(shown[1]) == largest + 1
    assert float(shown[2]) == pytest.approx(100 * after[largest], abs=0.06)
    assert float(shown[3]) == pytest.approx(q[0, 1] @ k[0, largest] / 2, abs=0.006)

    click(page, "map-view")
    masked = [len(page.find_elements(By.CSS_SELECTOR, "#map td.masked"))]
    for switch in ("padding-mask", "look-ahead-mask"):
        click(page, switch)
        masked.append(len(page.find_elements(By.CSS_SELECTOR, "#map td.masked")))
    assert masked == [6, 0, 15]  # padding, nothing, later positions


def test_no_sub_word_is_cut(padded_page, width, color_scheme):  # noqa: F811
    page = padded_page
    choose(page, "kind", "encoder-decoder attention")
    for view in ("lines", "map"):
        click(page, f"{view}-view")
        page.find_elements(By.CSS_SELECTOR, f"#{view} button[data-side=queries]")[2].click()
        cut = page.execute_script(
            "return [...document.querySelectorAll(`#${arguments[0]} button`)]"
            ".filter((button) => button.scrollWidth > button.clientWidth)"
            ".map((button) => button.textContent)",
            view,
        )
        assert cut == []
        assert overflow(page) <= 0, "the page scrolls sideways"
    assert is_dark(page) == (color_scheme == "dark")


def test_text_is_not_interpreted_as_html_and_nothing_is_requested(page, tmp_path):
    choose(page, "kind", "decoder self-attention")
    page.find_elements(By.CSS_SELECTOR, "#queries button")[1].send_keys("")
    assert page.title == "Attention weights"
    assert not page.find_elements(By.TAG_NAME, "img")
    assert "<img" in texts(page, "#status")[0]
    requested = requested_urls(page)
    allowed = (f"file://{tmp_path.parent}", "data:")
    assert requested
    assert [url for url in requested if not url.startswith(allowed)] == []
    assert console_errors(page) == []


@pytest.mark.parametrize("with_switches", [False, True])
def test_in_the_frame_of_a_notebook(browser, weights, padded, tmp_path, with_switches):  # noqa: F811
    view = AttentionView([padded if with_switches else (SOURCE, TARGET, weights)])
    target = PADDED_TARGET if with_switches else TARGET
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8>{view._repr_html_()}"
    )
    browser.get(f"file://{tmp_path}/notebook.html")
    frame = browser.find_element(By.TAG_NAME, "iframe")
    assert frame.accessible_name == "Attention weights"
    browser.switch_to.frame(frame)
    choose(browser, "kind", "encoder-decoder attention")
    assert texts(browser, "#queries button") == target
    assert len(opacities(browser)) > 8
    for name in ("lines", "map"):
        click(browser, f"{name}-view")
        higher = browser.execute_script(
            "return document.documentElement.scrollHeight - document.documentElement.clientHeight"
        )
        assert higher == 0, f"the page is {higher} pixels higher than the frame"
    browser.switch_to.default_content()
