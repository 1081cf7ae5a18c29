"""The playable page of the course in headless Chromium, from its file.

`make test-browser` runs these tests.
"""

import browser as chromium
import numpy as np
import pytest
import tensorflow as tf
from browser import console_errors, find, overflow, texts, wait
from course import playable_page
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tf_transformer import Translator

# The fixtures.
browser, color_scheme, width = chromium.browser, chromium.color_scheme, chromium.width

NOTHING_HIDDEN = tf.constant(0.0)


@pytest.fixture
def page(browser):
    """The browser with the page. It loads nothing else, and no error is in its console."""
    chromium.requested_urls(browser), console_errors(browser)
    browser.get(playable_page.PAGE.as_uri())
    body = browser.find_element(By.TAG_NAME, "body")
    wait(browser, lambda: body.get_attribute("data-ready") == "true")
    yield browser
    urls = chromium.requested_urls(browser)
    assert all(url.startswith(("file:", "data:", "blob:")) for url in urls)
    assert console_errors(browser) == []


@pytest.fixture
def model():
    return Translator.load(playable_page.MODEL).model


def logits_of_page(page, change="", sentence=0):
    """The logits `[T, V]` of a sentence after a change of the switches `on`.

    Returns: them, and the ids `[1, S]` and `[1, T]`.
    """
    numbers, inp, tar = page.execute_script(
        f"chooseSentence({sentence}); const on = everything(); {change};"
        "return [[...transformer(inp, tar, on).logits.data], inp, tar]"
    )
    return np.reshape(numbers, (len(tar), -1)), tf.constant([inp]), tf.constant([tar])


def without_look_ahead_mask(model, inp, tar):
    return model(inp, tar, look_ahead_mask=NOTHING_HIDDEN)[0]


def without_padding_mask(model, inp, tar):
    return model(inp, tar, enc_padding_mask=NOTHING_HIDDEN, dec_padding_mask=NOTHING_HIDDEN)[0]


def without_positions(model, inp, tar):
    for stack in (model.encoder, model.decoder):
        layer = stack.pos_encoding
        layer.pos_encoding = tf.zeros_like(layer.pos_encoding)
    return model(inp, tar)[0]


def without_head(model, inp, tar):
    """Head 3 of the encoder-decoder attention in layer 2."""
    block = model.decoder.dec_layers[1].mha2
    rows = np.arange(model.d_model) // block.value_depth == 2
    kernel = block.dense.weights[0]
    kernel.assign(tf.where(rows[:, np.newaxis], 0.0, kernel))
    return model(inp, tar)[0]


SWITCHED_OFF = {
    "on.lookAhead = false": without_look_ahead_mask,
    "on.padding = false": without_padding_mask,
    "on.positions = false": without_positions,
    "on.heads['decoder/layer2/mha2'][2] = false": without_head,
}


def test_logits_are_those_of_the_package(page, model):
    for sentence in range(len(playable_page.SENTENCES)):
        logits, inp, tar = logits_of_page(page, sentence=sentence)
        np.testing.assert_allclose(logits, model(inp, tar)[0][0], atol=1e-3)


@pytest.mark.parametrize("change, computed", SWITCHED_OFF.items())
def test_logits_with_a_part_switched_off(page, model, change, computed):
    logits, inp, tar = logits_of_page(page, change)
    everything = model(inp, tar)[0][0]
    assert np.abs(logits - everything).max() > 0.1
    np.testing.assert_allclose(logits, computed(model, inp, tar)[0], atol=1e-3)


def title(page):
    return find(page, "title").text


def written(page):
    return texts(page, "#result .result")


def test_the_steps_with_the_keyboard(page):
    slider = find(page, "step")
    assert title(page) == "Decoder layer 2 of 2 · encoder-decoder attention · Attention weights"
    assert texts(page, "#view output")[0].startswith("_Auto takes ")
    slider.send_keys(Keys.HOME)
    assert title(page) == "Inputs · Sub-words and ids"
    slider.send_keys(Keys.ARROW_RIGHT)
    assert title(page) == "Encoder · Embedding"
    assert "Embedding" in slider.get_attribute("aria-valuetext")
    strip = page.find_element(By.CSS_SELECTOR, ".strip")
    strip.send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    assert strip.get_attribute("aria-valuetext").startswith("column 1: ")
    slider.send_keys(Keys.END)
    assert title(page) == "Decoder · The next sub-word"
    predicted = page.execute_script("return DATA.sentences[0].tar.map(piece)")
    assert texts(page, "#view td:nth-child(2)") == predicted

    box = page.find_element(By.CSS_SELECTOR, "[data-box=dec_attention1]")
    box.send_keys(Keys.ENTER)
    find(page, "next").send_keys(Keys.ENTER * 4)
    assert title(page) == "Decoder layer 1 of 2 · masked self-attention · Attention weights"
    grid = page.find_element(By.CSS_SELECTOR, "[role=grid]")
    assert grid.accessible_name == "Attention weights, head 1"
    grid.send_keys(*[Keys.ARROW_UP] * 9, *[Keys.ARROW_LEFT] * 9)
    assert texts(page, "#view output")[0].startswith("[START] takes 100.0%")  # it sees only itself
    assert page.switch_to.active_element.get_attribute("role") == "grid"
    controls = page.find_elements(By.CSS_SELECTOR, "button, input, select, [tabindex='0']")
    assert all(control.accessible_name for control in controls if control.is_displayed())


def test_parts_are_switched_off_and_on(page):
    assert written(page) == [playable_page.SENTENCES[0][1]]
    page.find_element(By.CSS_SELECTOR, "[data-switch=residual]").click()
    assert written(page) != [playable_page.SENTENCES[0][1]]
    find(page, "reset").click()
    assert written(page) == [playable_page.SENTENCES[0][1]]
    find(page, "heads").find_element(By.TAG_NAME, "summary").click()
    page.find_element(By.CSS_SELECTOR, "[data-name='encoder/layer2/mha']").click()
    page.find_element(By.CSS_SELECTOR, "[data-box=enc_attention]").click()
    assert texts(page, ".heads button")[:2] == ["head 1 (off)", "head 2"]
    find(page, "rank").click()
    wait(page, lambda: "changes the loss most" in find(page, "ranking").text)
    # The first proposal switches the scale off, and shows a row that it makes sharper.
    page.find_element(By.CSS_SELECTOR, "#tries button").click()
    assert not page.find_element(By.CSS_SELECTOR, "[data-switch=scale]").is_selected()
    assert title(page).endswith("Attention weights")
    promised = texts(page, "#tries li")[0].partition(" to ")[2].partition(".\n")[0]
    assert f"takes {promised.split('%')[0]}%" in texts(page, "#view output")[0]


def test_each_sentence(page):
    sentences = find(page, "sentence").find_elements(By.TAG_NAME, "option")
    assert [option.text for option in sentences] == [pair[0] for pair in playable_page.SENTENCES]
    for option, (_, reference) in zip(sentences[:-1], playable_page.SENTENCES):
        option.click()
        assert written(page) == [reference]
        assert texts(page, "#ended tbody th")[0] == reference
    sentences[-1].click()  # the model makes a mistake; the update makes it smaller
    assert written(page) == texts(page, "#ended tbody th")[:1] != [playable_page.SENTENCES[-1][1]]
    before, after = map(float, texts(page, "#update p b"))
    assert after < before


def test_small_screens_and_both_color_schemes(page, width, color_scheme):
    assert chromium.is_dark(page) == (color_scheme == "dark")
    for step in range(0, 69, 3):
        page.execute_script(f"go({step})")
        assert overflow(page) <= 0, f"step {step} scrolls sideways"
