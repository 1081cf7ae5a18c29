"""The page of attention weights in headless Chromium, as a file and in the frame of a notebook. `make test-browser` runs it."""

import json

import numpy as np
import pytest
from browser_page import browser, texts  # noqa: F401, the fixture
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tf_transformer.visualization.attention_viewer import AttentionView

SOURCE, TARGET = (
    ["▁Anna", "▁sees", "[END]"],
    ["▁Anna", "<img src=x onerror=document.title='caught'>", "▁sieht", "[END]"],
)
SHAPES = {
    "encoder_layer{}": (3, 3),
    "decoder_layer{}_block1": (4, 4),
    "decoder_layer{}_block2": (4, 3),
}


@pytest.fixture(scope="module")
def weights():
    random = np.random.default_rng(0)
    return {
        name.format(i): random.dirichlet(np.ones(shape[1]), (2, shape[0]))
        for i in (1, 2)
        for name, shape in SHAPES.items()
    }


@pytest.fixture
def page(browser, weights, tmp_path):  # noqa: F811
    AttentionView(
        [
            (SOURCE, TARGET, weights),
            (SOURCE[:1], TARGET[:2], {"encoder_layer1": np.ones((1, 1, 1))}),
        ]
    ).save(str(tmp_path / "view.html"))
    browser.get(f"file://{tmp_path}/view.html")
    return browser


def choose(page, select, text):
    """Chooses an option with the keyboard."""
    page.find_element(By.ID, select).send_keys(text)


def shares(page, side):
    return [text.rstrip("%") for text in texts(page, f"#{side} li span")]


def expected(row):
    """What the page writes of weights: rounded to thousandths, then to tenths of a percent."""
    return [pytest.approx(100 * weight, abs=0.11) for weight in row]


def opacities(page):
    return [
        float(line.value_of_css_property("opacity"))
        for line in page.find_elements(By.CSS_SELECTOR, "#lines line")
    ]


def test_every_place_layer_and_head_by_the_keyboard(page, weights):
    assert texts(page, "#place option") == [
        "encoder, on itself",
        "decoder, on itself",
        "decoder, on the source",
    ]
    assert texts(page, "#layer option") == ["layer 1", "layer 2"] and texts(
        page, "#head option"
    ) == ["mean of all", "head 1", "head 2"]
    places = dict(zip(texts(page, "#place option"), SHAPES))
    for place, name in places.items():
        choose(page, "place", place)
        for layer in (1, 2):
            choose(page, "layer", f"layer {layer}")
            given = weights[name.format(layer)]
            for head, values in {
                "mean of all": given.mean(0),
                "head 1": given[0],
                "head 2": given[1],
            }.items():
                choose(page, "head", head)
                assert sorted(opacities(page)) == pytest.approx(
                    sorted(w for w in values.ravel() if w >= 0.0005), abs=0.0011
                )
                page.find_element(By.CSS_SELECTOR, "#from button").send_keys("")
                assert [float(share) for share in shares(page, "to")] == expected(values[0])


def test_walking_with_the_arrow_keys(page, weights):
    choose(page, "place", "decoder, on the source")
    choose(page, "head", "head 2")
    page.find_element(By.ID, "head").send_keys(Keys.TAB)
    focused = page.switch_to.active_element
    assert focused.text == "▁Anna" and focused.get_attribute("aria-label") == "Anna, 1 of 4"
    focused.send_keys(Keys.ARROW_DOWN, Keys.NULL)
    page.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    values = weights["decoder_layer1_block2"][1]
    assert [float(share) for share in shares(page, "to")] == expected(values[2]) and set(
        shares(page, "from")
    ) == {""}
    said = texts(page, "#said")[0]
    place = int(values[2].argmax())
    assert (
        said.startswith(f"sieht (3) looks at: {SOURCE[place].lstrip('▁')} ({place + 1}) ")
        and len(opacities(page)) <= 3
    )
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert [float(share) for share in shares(page, "from")] == expected(
        values[:, 2]
    ) and "is looked at by" in texts(page, "#said")[0]
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert set(shares(page, "from") + shares(page, "to")) == {""} and len(opacities(page)) > 4
    page.switch_to.active_element.send_keys(Keys.HOME)
    assert page.switch_to.active_element.text == "▁Anna"
    assert (
        len(
            page.find_elements(
                By.CSS_SELECTOR, "#from button[tabindex='0'], #to button[tabindex='0']"
            )
        )
        == 2
    )


def test_every_control_has_a_name(page):
    for select in page.find_elements(By.TAG_NAME, "select"):
        assert select.accessible_name.split()[0] in ("Sentence", "Attention", "Layer", "Head")
    for column, name in (
        ("from", "source sub-word that looks"),
        ("to", "source sub-word looked at"),
    ):
        assert page.find_element(By.ID, column).accessible_name == name


def test_the_decoder_looks_at_what_it_was_given(page):
    choose(page, "place", "decoder, on itself")
    assert (
        texts(page, "#to button") == ["[START]", *TARGET[:-1]]
        and texts(page, "#from button") == TARGET
    )


def test_pointing_shows_one_sub_word(page, weights):
    from selenium.webdriver import ActionChains

    choose(page, "head", "head 1")
    ActionChains(page).move_to_element(
        page.find_elements(By.CSS_SELECTOR, "#from button")[1]
    ).perform()
    assert [float(share) for share in shares(page, "to")] == expected(
        weights["encoder_layer1"][0, 1]
    )
    ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    assert set(shares(page, "to")) == {""}


def test_another_sentence_with_fewer_places_layers_and_heads(page):
    choose(page, "layer", "layer 2")
    choose(page, "head", "head 2")
    choose(page, "example", "2: Anna")
    assert texts(page, "#place option") == ["encoder, on itself"] and texts(
        page, "#layer option"
    ) == ["layer 1"]
    assert opacities(page) == [1.0]
    choose(page, "example", Keys.ARROW_UP)
    assert len(texts(page, "#from button")) == 3


def test_text_is_never_taken_for_html_and_nobody_is_asked(page, tmp_path):
    choose(page, "place", "decoder, on itself")
    page.find_elements(By.CSS_SELECTOR, "#from button")[1].send_keys("")
    assert (
        page.title == "Attention weights"
        and not page.find_elements(By.TAG_NAME, "img")
        and "<img" in texts(page, "#said")[0]
    )
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert asked and all(url.startswith((f"file://{tmp_path.parent}", "data:")) for url in asked), (
        asked
    )
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_in_the_frame_of_a_notebook(browser, weights, tmp_path):  # noqa: F811
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8>{AttentionView([(SOURCE, TARGET, weights)])._repr_html_()}"
    )
    browser.get(f"file://{tmp_path}/notebook.html")
    frame = browser.find_element(By.TAG_NAME, "iframe")
    assert frame.accessible_name == "Attention weights"
    browser.switch_to.frame(frame)
    choose(browser, "place", "decoder, on the source")
    assert texts(browser, "#from button") == TARGET and len(opacities(browser)) > 8
    height = browser.execute_script(
        "return document.documentElement.scrollHeight - document.documentElement.clientHeight"
    )
    assert height == 0, f"{height} pixels are below the frame's end"
    browser.switch_to.default_content()
