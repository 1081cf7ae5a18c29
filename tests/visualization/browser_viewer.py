"""The attention viewer in headless Chromium, as a file and in a notebook's frame.

`make test-browser` runs these tests.
"""

import browser as chromium
import numpy as np
import pytest
from attention_examples import KINDS, SOURCE, TARGET, WEIGHTS, random_queries_and_keys
from browser import choose, click, expected, find, overflow, percentages, texts
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tf_transformer.visualization.attention_viewer import AttentionView

# The fixtures.
browser, color_scheme, width = chromium.browser, chromium.color_scheme, chromium.width

# The padded example of the switches, of one layer.
PADDED_SOURCE = ["▁Anna", "▁sees", "[END]", "[PAD]", "[PAD]"]
PADDED_TARGET = ["▁Anna", "▁sieht", "Donaudampfschifffahrtsgesellschaft", "[END]", "[PAD]", "[PAD]"]
QUERIES_AND_KEYS = random_queries_and_keys(PADDED_SOURCE, PADDED_TARGET, layers=1)


def attention(name, scale=True, padding_mask=True, look_ahead_mask=True):
    """The weights `[H, T, S]` of a sub-layer of the padded example."""
    q, k = QUERIES_AND_KEYS[name]
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


def rows(target):
    """The names of the decoder's rows: what each reads and predicts."""
    return [f"{read} → {predicted}" for read, predicted in zip(["[START]", *target], target)]


EXAMPLE = SOURCE, TARGET, WEIGHTS
PADDED_WEIGHTS = {name: attention(name) for name in QUERIES_AND_KEYS}
PADDED = PADDED_SOURCE, PADDED_TARGET, PADDED_WEIGHTS, QUERIES_AND_KEYS


@pytest.fixture
def open_view(browser, tmp_path):
    """A function that opens the page of examples."""

    def open_page(*examples):
        AttentionView(examples).save(str(tmp_path / "view.html"))
        browser.get(f"file://{tmp_path}/view.html")
        return browser

    return open_page


@pytest.fixture
def page(open_view):
    return open_view(EXAMPLE)


def labels(page, side):
    """The percentages beside the sub-words of a column, "" where there are none."""
    return set(texts(page, f"#{side} li span.weight"))


def cells(page):
    """The numbers of the map, 0 where there is none."""
    numbers = [float(text or 0) for text in texts(page, "#map tbody td")]
    return np.reshape(numbers, (len(texts(page, "#map tbody tr")), -1))


def status(page):
    return find(page, "status").text


def press_escape(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)


def press(page, *keys):
    """Presses keys. Returns: the text of the button that then has the focus."""
    page.switch_to.active_element.send_keys(*keys)
    return page.switch_to.active_element.text


def point_at(page, element):
    ActionChains(page).move_to_element(element).perform()


def buttons(page, side, view="lines"):
    return page.find_elements(By.CSS_SELECTOR, f"#{view} button[data-side={side}]")


def opacities(page):
    lines = page.find_elements(By.CSS_SELECTOR, "#svg line")
    return [float(line.value_of_css_property("opacity")) for line in lines]


def test_every_kind_layer_and_head_with_the_keyboard(page):
    assert texts(page, "#kind option") == list(KINDS)
    assert texts(page, "#layer option") == ["layer 1", "layer 2"]
    assert texts(page, "#head option") == ["mean of all", "head 1", "head 2"]
    for kind, name in KINDS.items():
        choose(page, "kind", kind)
        for layer in (1, 2):
            choose(page, "layer", f"layer {layer}")
            heads = WEIGHTS[name.format(layer)]
            shown = {"mean of all": heads.mean(0), "head 1": heads[0], "head 2": heads[1]}
            for head, values in shown.items():
                choose(page, "head", head)
                press_escape(page)
                visible = sorted(weight for weight in values.ravel() if weight >= 0.0005)
                assert sorted(opacities(page)) == pytest.approx(visible, abs=0.0002)
                buttons(page, "queries")[0].send_keys("")
                assert percentages(page, "keys") == expected(values[0])


def test_moving_with_the_arrow_keys(page):
    choose(page, "kind", "encoder-decoder attention")
    choose(page, "head", "head 2")
    find(page, "head").send_keys(Keys.TAB)
    assert press(page, Keys.TAB) == "[START] → ▁Anna"  # past the choice of the view
    assert page.switch_to.active_element.get_attribute("aria-label") == "[START] → Anna, 1 of 4"
    press(page, Keys.ARROW_DOWN, Keys.NULL)
    press(page, Keys.ARROW_DOWN)
    values = WEIGHTS["decoder_layer1_block2"][1]
    assert percentages(page, "keys") == expected(values[2])
    assert labels(page, "queries") == {""}
    largest = int(values[2].argmax())
    piece = SOURCE[largest].lstrip("▁")
    assert f" → sieht&amp; (3) attends to: {piece} ({largest + 1}) " in status(page)
    assert len(opacities(page)) <= 3
    press(page, Keys.ARROW_RIGHT)
    assert percentages(page, "queries") == expected(values[:, 2])
    assert "receives attention from" in status(page)
    press(page, Keys.ESCAPE)
    assert labels(page, "queries") | labels(page, "keys") == {""}
    assert len(opacities(page)) > 4
    assert press(page, Keys.HOME) == "▁Anna"
    in_tab_order = "#queries button[tabindex='0'], #keys button[tabindex='0']"
    assert len(page.find_elements(By.CSS_SELECTOR, in_tab_order)) == 2


def test_names_of_the_sides(page):
    for side in ("queries", "keys"):
        assert find(page, side).accessible_name == f"{side.title()}: source sub-words"
    choose(page, "kind", "decoder self-attention")  # whose keys are the inputs of the decoder
    assert texts(page, "#keys button") == ["[START]", *TARGET[:-1]]
    assert texts(page, "#queries button") == rows(TARGET)


def test_pointing_shows_one_sub_word_and_a_click_keeps_it(page):
    choose(page, "head", "head 1")
    second = buttons(page, "queries")[1]
    elsewhere = page.find_element(By.TAG_NAME, "h1")
    point_at(page, second)
    assert percentages(page, "keys") == expected(WEIGHTS["encoder_layer1"][0, 1])
    point_at(page, elsewhere)
    assert labels(page, "keys") == {""}
    second.click()
    point_at(page, elsewhere)
    choose(page, "layer", "layer 2")
    choose(page, "head", "head 2")
    assert percentages(page, "keys") == expected(WEIGHTS["encoder_layer2"][1, 1])
    second.click()  # a second click shows all lines again
    point_at(page, elsewhere)
    assert labels(page, "keys") == {""}


def test_the_map(page):
    choose(page, "kind", "encoder-decoder attention")
    choose(page, "head", "head 2")
    click(page, "map-view")
    assert not find(page, "lines").is_displayed()
    values = 100 * WEIGHTS["decoder_layer1_block2"][1]
    np.testing.assert_allclose(cells(page), values, atol=0.51)
    assert texts(page, "#map thead th") == SOURCE
    assert texts(page, "#map tbody th") == rows(TARGET)

    buttons(page, "queries", "map")[0].send_keys(Keys.ARROW_DOWN)
    assert press(page, Keys.ARROW_RIGHT) == "▁sees"
    assert status(page).startswith("sees (2) receives attention from: ")
    assert len(page.find_elements(By.CSS_SELECTOR, "#map td.selected")) == 4
    press_escape(page)
    assert not page.find_elements(By.CSS_SELECTOR, "#map td.selected")
    point_at(page, page.find_elements(By.CSS_SELECTOR, "#map tbody td")[4])
    assert "(2) attends to: " in status(page)


@pytest.mark.parametrize("kind", KINDS)
def test_the_switches_compute_the_weights(open_view, kind):
    page = open_view(PADDED)
    click(page, "map-view")
    choose(page, "kind", kind)
    name = KINDS[kind].format(1)
    is_masked = kind == "decoder self-attention"
    switches = ["scale", "padding-mask", "look-ahead-mask"][: 2 + is_masked]
    shown = page.find_elements(By.CSS_SELECTOR, "#switches input")
    assert [box.get_attribute("id") for box in shown if box.is_displayed()] == switches
    for head, select in {"mean of all": lambda w: w.mean(0), "head 2": lambda w: w[1]}.items():
        choose(page, "head", head)
        of_model = select(attention(name))
        for off in ([], *([switch] for switch in switches), switches):
            for switch in off:
                find(page, switch).send_keys(Keys.SPACE)
            options = {switch.replace("-", "_"): False for switch in off}
            values = select(attention(name, **options))
            np.testing.assert_allclose(cells(page), 100 * values, atol=0.51)
            real = [not row.endswith("[PAD]") for row in texts(page, "#map tbody th")]
            keys = [piece == "[PAD]" for piece in texts(page, "#map thead th")]
            numbers = {
                "largest weight of a row, mean": values[real].max(-1).mean(),
                "on padding, mean": values[real][:, keys].sum(-1).mean(),
                "largest change from the model's weights": abs(values - of_model)[real].max(),
            }
            if is_masked:
                numbers["on later positions, mean"] = np.triu(values, 1)[real].sum(-1).mean()
            percents = [float(text.rstrip("%")) for text in texts(page, "#measures dd")]
            measures = dict(zip(texts(page, "#measures dt"), percents, strict=True))
            percent = {measure: 100 * number for measure, number in numbers.items()}
            assert measures == pytest.approx(percent, abs=0.11)
            for switch in off:
                find(page, switch).send_keys(Keys.SPACE)


def test_no_sub_word_is_cut(open_view, width, color_scheme):
    page = open_view(PADDED)
    choose(page, "kind", "encoder-decoder attention")
    for view in ("lines", "map"):
        click(page, f"{view}-view")
        buttons(page, "queries", view)[2].click()
        cut = page.execute_script(
            "return [...document.querySelectorAll(`#${arguments[0]} button`)]"
            ".filter((button) => button.scrollWidth > button.clientWidth)"
            ".map((button) => button.textContent)",
            view,
        )
        assert cut == []
        assert overflow(page) <= 0, "the page scrolls sideways"
    assert chromium.is_dark(page) == (color_scheme == "dark")


@pytest.mark.parametrize("example", [EXAMPLE, PADDED], ids=["weights", "with switches"])
def test_in_the_frame_of_a_notebook(browser, tmp_path, example):
    frame = AttentionView([example])._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{frame}")
    browser.get(f"file://{tmp_path}/notebook.html")
    frame = browser.find_element(By.TAG_NAME, "iframe")
    assert frame.accessible_name == "Attention weights"
    browser.switch_to.frame(frame)
    choose(browser, "kind", "encoder-decoder attention")
    assert texts(browser, "#queries button") == rows(example[1])
    assert len(opacities(browser)) > 8
    for name in ("lines", "map"):
        click(browser, f"{name}-view")
        assert overflow(browser, "Height") == 0, "the page is higher than the frame"
    browser.switch_to.default_content()
