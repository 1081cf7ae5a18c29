"""The page of the server in headless Chromium.

`make test-browser` installs what is missing and runs it.
"""

import json
import os
import threading
import time

import pytest
from browser import (  # noqa: F401, fixtures
    browser,
    choose,
    color_scheme,
    colors,
    console_errors,
    expected,
    is_dark,
    overflow,
    percentages,
    requested_urls,
    texts,
    wait,
    width,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from serving.fake_server import DESCRIPTION, FakeServer, weights_of

LINES = ["Anna sleeps.", "The old man reads a book.", "We see the dog."]
RED = {"light": [179, 38, 30], "dark": [255, 138, 128]}


@pytest.fixture
def fake(tmp_path):
    """A fake server of a model with a description."""
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "assets.extra" / "model.json").write_text(json.dumps(DESCRIPTION))
    return FakeServer(tmp_path)


@pytest.fixture
def page(browser, fake, serve):  # noqa: F811
    """The browser with the page of the fake server."""
    open_page(browser, serve(fake.app))
    wait_for_version(browser, "version 7")
    return browser


def open_page(browser, address):  # noqa: F811
    host, port = address
    browser.get(f"http://{host}:{port}")


def wait_for_version(browser, version):  # noqa: F811
    wait(browser, lambda: texts(browser, "#version") == [version])


def translate(page, *lines):
    """Replaces the text of the page, and translates it with the keyboard."""
    box = page.find_element(By.ID, "text")
    page.execute_script("arguments[0].value = arguments[1]", box, "\n".join(lines))
    box.send_keys(Keys.CONTROL + Keys.ENTER)


def wait_for_message(page, text):
    wait(page, lambda: text in texts(page, "#message")[0])


def wait_for_subwords(page, *sources):
    """Waits until the page shows attention over these sub-words."""
    buttons = "#keys button, #map thead button"  # the other view is hidden
    wait(page, lambda: [text for text in texts(page, buttons) if text] == list(sources))


def sources_of(line):
    return [*(f"▁{word}" for word in line.split()), "[END]"]


def displayed(page, *ids):
    return [page.find_element(By.ID, name).is_displayed() for name in ids]


RESULTS = ("results", "hypotheses", "attention")


def test_a_new_version(page, fake):
    fake.states[1:] = [{"version": "8", "state": "AVAILABLE"}, {"version": "7", "state": "END"}]
    translate(page, LINES[0])
    wait_for_version(page, "version 8")
    assert "1 sentence in" in texts(page, "#message")[0]


def test_a_real_model_with_the_keyboard(browser, cold_export, serve, translator):  # noqa: F811

    from tf_transformer.config import ServeConfig
    from tf_transformer.serving.server import Server
    from tf_transformer.serving.tensorflow_model import TensorFlowModel

    server = Server("anna", os.path.dirname(cold_export), ServeConfig(), TensorFlowModel)
    requested_urls(browser), console_errors(browser)
    open_page(browser, serve(server.app))
    wait_for_version(browser, "version 1")
    assert texts(browser, "h1") == ["anna: English → German"]
    focused = browser.switch_to.active_element
    assert focused.get_attribute("id") == "text"
    focused.send_keys("Anna sleeps.", Keys.ENTER, LINES[1], Keys.CONTROL + Keys.ENTER)
    wait_for_message(browser, "2 sentences in")
    wait(browser, lambda: texts(browser, "#keys button"))
    (first, second) = translator.n_best(["Anna sleeps.", LINES[1]], 4)
    assert texts(browser, "#hypotheses-list .target") == [text for text, _ in first]
    scores = [float(text) for text in texts(browser, "#hypotheses-list .score")]
    assert scores == pytest.approx([score for _, score in first], abs=0.001)
    assert texts(browser, ".line .target") == [first[0][0], second[0][0]]
    source, _, _ = translator.attention("Anna sleeps.")
    assert texts(browser, "#keys button") == source
    assert texts(browser, "#layer option") == ["layer 1"]
    choose(browser, "head", "head 2")
    browser.find_element(By.CSS_SELECTOR, "#queries button").click()
    assert sum(percentages(browser, "keys")) == pytest.approx(100, abs=0.5)
    urls = requested_urls(browser)
    assert urls
    assert all(url.startswith(("http://127.0.0.1:", "data:")) for url in urls), urls
    assert console_errors(browser) == []


def test_the_languages_of_the_model(browser, fake, serve, tmp_path):  # noqa: F811
    address = serve(fake.app)
    fake.states.pop()
    open_page(browser, address)
    wait_for_version(browser, "The model is being loaded.")
    assert colors(browser.find_element(By.ID, "version"), "color") == RED["light"]
    assert texts(browser, "h1") == ["anna"]
    fake.states.append({"version": "7", "state": "AVAILABLE"})
    wait_for_version(browser, "version 7")
    assert colors(browser.find_element(By.ID, "version"), "color") != RED["light"]
    assert texts(browser, "h1") == ["anna: English → German"]
    assert browser.find_element(By.ID, "text").accessible_name == "Text (English)"
    assert browser.find_element(By.ID, "text").get_attribute("lang") == "en"
    translate(browser, LINES[0])
    wait_for_message(browser, "1 sentence in")
    target = browser.find_element(By.CSS_SELECTOR, ".line .target")
    assert target.get_attribute("lang") == "de"

    for names in (("words", "trees"), ("in", "out")):  # no names of languages today
        description = {**DESCRIPTION, "source": names[0], "target": names[1]}
        (tmp_path / "assets.extra" / "model.json").write_text(json.dumps(description))
        open_page(browser, address)
        wait_for_version(browser, "version 7")
        assert texts(browser, "h1") == [f"anna: {names[0]} → {names[1]}"]
        assert browser.find_element(By.ID, "text").get_attribute("lang") == ""

    (tmp_path / "assets.extra" / "model.json").unlink()
    open_page(browser, address)
    wait_for_version(browser, "version 7")
    assert texts(browser, "h1") == ["anna"]
    assert browser.find_element(By.ID, "text").accessible_name == "Text"


def test_each_line_has_its_translation(page, fake):
    translate(page, LINES[0], "   ", f"  {LINES[1]} ", LINES[2], "")
    wait_for_message(page, "3 sentences in")
    assert fake.requests[0] == ("nbest", LINES)
    assert texts(page, ".line .source") == LINES
    assert texts(page, ".line .target") == [line.replace("e", "E") for line in LINES]
    wait_for_subwords(page, *sources_of(LINES[0]))

    buttons = page.find_elements(By.CSS_SELECTOR, ".line input")
    assert buttons[1].accessible_name == f"{LINES[1]} {LINES[1].replace('e', 'E')}"
    buttons[0].send_keys(Keys.ARROW_DOWN)
    wait_for_subwords(page, *sources_of(LINES[1]))
    shown = [f"{LINES[1].replace('e', 'E')} -0.500", f"{LINES[1]} -1.250"]
    assert texts(page, "#hypotheses-list li") == shown

    page.switch_to.active_element.send_keys(Keys.ARROW_UP)  # its attention is known
    wait_for_subwords(page, *sources_of(LINES[0]))
    aligned = [lines for signature, lines in fake.requests if signature == "alignments"]
    assert aligned == [[LINES[0]], [LINES[1]]]


def test_lines_are_split_into_sentences(page, fake):
    text = "Mr. Smith came on 3. May.  He left! (Did he?)"
    translate(page, text, LINES[0])
    wait_for_message(page, "4 sentences in")
    sentences = ["Mr. Smith came on 3. May.", "He left!", "(Did he?)", LINES[0]]
    assert fake.requests[0] == ("nbest", sentences)
    assert texts(page, ".line .source") == sentences
    translate(page, "<2de>  One. Two.", "<0x41> Three. Four.")
    wait_for_message(page, "4 sentences in")
    sentences = ["<2de> One.", "<2de> Two.", "<0x41> Three.", "Four."]
    assert texts(page, ".line .source") == sentences
    page.find_element(By.ID, "split").click()
    translate(page, text, LINES[0])
    wait_for_message(page, "2 lines in")
    assert texts(page, ".line .source") == [text, LINES[0]]
    page.execute_script("Intl.Segmenter = undefined")  # an old browser
    page.find_element(By.ID, "split").click()
    translate(page, text)
    wait_for_message(page, "1 sentence in")
    assert texts(page, ".line .source") == [text]


def test_many_lines_are_translated_in_several_requests(page, fake):
    lines = [f"line {i}" for i in range(35)]
    translate(page, *lines)
    wait_for_message(page, "35 sentences in")
    requested = [lines for signature, lines in fake.requests if signature == "nbest"]
    assert [len(part) for part in requested] == [16, 16, 3]
    assert texts(page, ".line .source") == lines


def test_an_answer_that_arrives_late_is_not_shown(page, fake):
    """The attention of the line that was chosen before."""
    release = fake.releases["alignments", LINES[0]] = threading.Event()
    translate(page, *LINES)
    wait_for_message(page, "3 sentences in")
    assert texts(page, "#attention-message") == ["Loading…"]
    page.find_elements(By.CSS_SELECTOR, ".line input")[2].click()
    wait_for_subwords(page, *sources_of(LINES[2]))
    release.set()
    answers = (
        "return performance.getEntriesByType('resource')"
        ".filter((entry) => entry.name.endsWith(':predict')).length"
    )
    wait(page, lambda: page.execute_script(answers) == 3)
    assert texts(page, "#keys button") == sources_of(LINES[2])


def test_layers_heads_lines_and_map(page):
    translate(page, LINES[1])
    wait_for_subwords(page, *sources_of(LINES[1]))
    weights = weights_of(LINES[1])
    assert texts(page, "#layer option") == ["layer 1", "layer 2"]
    assert texts(page, "#head option") == ["mean of all", "head 1", "head 2", "head 3"]
    page.find_element(By.CSS_SELECTOR, "#queries button").click()
    assert percentages(page, "keys") == expected(weights[0].mean(0)[0])
    choose(page, "layer", "layer 2")
    choose(page, "head", "head 3")
    assert percentages(page, "keys") == expected(weights[1, 2, 0])
    page.find_element(By.ID, "map-view").click()
    cells = [float(text or 0) for text in texts(page, "#map tbody td")]
    assert cells == pytest.approx(100 * weights[1, 2].ravel(), abs=0.51)

    translate(page, LINES[0])  # the choices stay
    wait_for_subwords(page, *sources_of(LINES[0]))
    cells = [float(text or 0) for text in texts(page, "#map tbody td")]
    assert cells == pytest.approx(100 * weights_of(LINES[0])[1, 2].ravel(), abs=0.51)


def test_results_of_another_text_go_when_the_server_answers_an_error(page, fake, color_scheme):  # noqa: F811
    translate(page, LINES[0])
    wait_for_subwords(page, *sources_of(LINES[0]))
    assert displayed(page, *RESULTS) == [True] * 3
    message = page.find_element(By.ID, "message")
    assert colors(message, "color") != RED[color_scheme]
    fake.errors["nbest"] = 503, {"error": "100 requests are waiting: try again later"}
    translate(page, LINES[1])
    wait_for_message(page, "100 requests are waiting: try again later")
    assert colors(message, "color") == RED[color_scheme]
    assert displayed(page, *RESULTS) == [False] * 3

    del fake.errors["nbest"]
    translate(page, LINES[1])
    wait_for_message(page, "1 sentence in")
    assert colors(message, "color") != RED[color_scheme]
    translate(page, " ")
    wait_for_message(page, "Enter a sentence first.")
    assert colors(message, "color") == RED[color_scheme]
    assert displayed(page, *RESULTS) == [False] * 3


def test_results_of_another_text_go_when_the_server_has_died(page, fake):
    translate(page, LINES[0])
    wait_for_subwords(page, *sources_of(LINES[0]))
    page.set_network_conditions(offline=True, latency=0, throughput=-1)
    try:
        translate(page, LINES[1])
        wait_for_message(page, "The server does not answer")
    finally:
        page.delete_network_conditions()
    assert displayed(page, *RESULTS) == [False] * 3
    translate(page, LINES[1])
    wait_for_subwords(page, *sources_of(LINES[1]))


@pytest.mark.parametrize(
    "status, content, message",
    [
        (500, {"error": "no memory"}, "no memory"),
        (502, ["Bad Gateway"], "The server answered with status 502."),
        (200, {"predictions": []}, "The server's answer is incomplete."),
        (200, None, "The server answered with status 200."),
    ],
)
def test_answers_that_are_no_predictions(page, fake, status, content, message):
    fake.errors["nbest"] = status, content
    translate(page, LINES[0])
    wait_for_message(page, message)


def test_an_error_of_the_attention_keeps_the_translation(page, fake, color_scheme):  # noqa: F811
    translate(page, LINES[0])
    wait_for_subwords(page, *sources_of(LINES[0]))
    fake.errors["alignments"] = 504, {"error": "no answer within 60 s"}
    translate(page, LINES[1])
    wait(page, lambda: texts(page, "#attention-message") == ["no answer within 60 s"])
    message = page.find_element(By.ID, "attention-message")
    assert colors(message, "color") == RED[color_scheme]
    assert displayed(page, "hypotheses", "attention-view") == [True, False]


def test_a_model_without_attention_weights(browser, fake, serve, tmp_path):  # noqa: F811
    """An export for CTranslate2."""
    description = {**DESCRIPTION, "max_aligned_subwords": 0}
    (tmp_path / "assets.extra" / "model.json").write_text(json.dumps(description))
    open_page(browser, serve(fake.app))
    wait_for_version(browser, "version 7")
    translate(browser, LINES[0])
    wait_for_message(browser, "1 sentence in")
    assert displayed(browser, *RESULTS, "completion") == [True, True, False, False]
    assert {signature for signature, _ in fake.requests} == {"nbest"}


@pytest.fixture
def completing(browser, fake, serve):  # noqa: F811
    """The browser with the page of a model that completes beginnings."""
    fake.signatures += ["translate_with_options", "alternatives"]
    open_page(browser, serve(fake.app))
    wait_for_version(browser, "version 7")
    console_errors(browser)
    return browser


def questions(fake, signature):
    """The beginnings of the translation that the server was asked for."""
    return [rows[0]["target_prefix"] for name, rows in fake.requests if name == signature]


def test_the_beginning_of_a_translation_with_the_keyboard(completing, fake, width):  # noqa: F811
    page = completing
    translate(page, *LINES)
    shown = ["75.0%\nAnna sleeps.", "12.5%\n<i>x</i> y"]
    wait(page, lambda: texts(page, "#alternatives button") == shown)
    assert texts(page, "#alternatives b") == ["Anna", "<i>x</i>"]
    assert texts(page, "#completed") == ["Anna slEEps."]
    prefix = page.find_element(By.ID, "prefix")
    assert prefix.accessible_name == "Beginning, which the model completes"
    assert prefix.get_attribute("lang") == "de"
    assert page.find_element(By.ID, "completion").accessible_name == "Begin the translation"
    assert page.find_element(By.ID, "alternatives").accessible_name

    prefix.send_keys("Anne ")
    wait(page, lambda: texts(page, "#completed mark") == ["Anne"])
    assert texts(page, "#completed") == ["Anne slEEps."]
    assert questions(fake, "alternatives") == ["", "Anne "]  # and not one for each key
    prefix.send_keys(Keys.TAB)
    page.switch_to.active_element.send_keys(Keys.ENTER)  # the first alternative
    wait(page, lambda: questions(fake, "translate_with_options")[-1] == "Anne sleeps.")
    assert page.switch_to.active_element == prefix
    assert prefix.get_attribute("value") == "Anne sleeps."
    assert overflow(page) <= 0, "the page scrolls sideways"

    page.find_elements(By.CSS_SELECTOR, ".line input")[1].click()  # another line starts again
    wait(page, lambda: texts(page, "#completed") == [LINES[1].replace("e", "E")])
    assert prefix.get_attribute("value") == ""
    assert console_errors(page) == []


def test_a_beginning_that_the_model_refuses(completing, fake, color_scheme):  # noqa: F811
    page = completing
    translate(page, LINES[0])
    wait(page, lambda: texts(page, "#alternatives button"))
    release = fake.releases["alternatives", "A"] = threading.Event()
    prefix = page.find_element(By.ID, "prefix")
    prefix.send_keys("A")
    wait(page, lambda: "A" in questions(fake, "alternatives"))
    fake.errors["translate_with_options"] = 400, {"error": "target_prefix is too long"}
    prefix.send_keys("B")
    wait(page, lambda: texts(page, "#completed") == ["target_prefix is too long"])
    release.set()  # the answer to the question before is not shown
    completed = page.find_element(By.ID, "completed")
    assert colors(completed, "color") == RED[color_scheme]
    assert texts(page, "#alternatives button") == []
    del fake.errors["translate_with_options"]
    prefix.send_keys(Keys.BACKSPACE, Keys.BACKSPACE)
    wait(page, lambda: texts(page, "#completed") == ["Anna slEEps."])
    assert colors(completed, "color") != RED[color_scheme]


def test_a_beginning_that_is_too_long(completing):
    """The text of the line is short."""
    page = completing
    translate(page, LINES[0])
    wait(page, lambda: texts(page, "#alternatives button"))
    type_beginning = (
        "const prefix = document.getElementById('prefix'); prefix.value = arguments[0];"
        "prefix.dispatchEvent(new Event('input'))"
    )
    page.execute_script(type_beginning, "word " * 300)
    message = "(the beginning is too long for the model)"
    wait(page, lambda: texts(page, "#completed") == [message])
    assert texts(page, "#alternatives button") == []
    assert texts(page, ".line .target") == ["Anna slEEps."]


@pytest.mark.parametrize(
    "language, words",
    [
        ("ja", ["今日", "は", "天気"]),
        ("zh", ["我们", "学习", "语言"]),
        ("th", ["แมว", "กิน", "ปลา"]),
        ("de", ["今日", "は"]),  # a model that does not say what it writes
    ],
)
def test_the_next_word_without_spaces(browser, fake, serve, tmp_path, language, words):  # noqa: F811
    fake.signatures += ["translate_with_options", "alternatives"]
    description = json.dumps({**DESCRIPTION, "target": language})
    (tmp_path / "assets.extra" / "model.json").write_text(description)
    open_page(browser, serve(fake.app))
    wait_for_version(browser, "version 7")
    translate(browser, "".join(words))
    for word in words:
        wait(browser, lambda word=word: texts(browser, "#alternatives b")[:1] == [word])
        browser.find_element(By.CSS_SELECTOR, "#alternatives button").click()
    prefix = browser.find_element(By.ID, "prefix")
    assert prefix.get_attribute("value") == "".join(words)
    browser.execute_script("Intl.Segmenter = undefined")  # an old browser
    prefix.clear()
    prefix.send_keys(words[0])
    wait(browser, lambda: texts(browser, "#completed mark") == [words[0]])
    assert texts(browser, "#alternatives b")[0] == "".join(words[1:])


def test_a_space_after_the_beginning_ends_a_word(completing):
    page = completing
    translate(page, LINES[0])
    wait(page, lambda: texts(page, "#alternatives button"))
    prefix = page.find_element(By.ID, "prefix")
    prefix.send_keys("An")
    wait(page, lambda: texts(page, "#completed") == ["Anna slEEps."])
    prefix.send_keys(" ")
    wait(page, lambda: texts(page, "#completed") == ["An <i>x</i> y"])
    assert texts(page, "#alternatives button") == ["12.5%\nAn <i>x</i> y"]


def test_an_input_method_composes_the_beginning(completing, fake):
    page = completing
    translate(page, LINES[0])
    wait(page, lambda: texts(page, "#alternatives button"))
    page.find_element(By.ID, "prefix").click()
    composing = {"text": "に", "selectionStart": 1, "selectionEnd": 1}
    page.execute_cdp_cmd("Input.imeSetComposition", composing)
    time.sleep(0.6)  # longer than the pause after which the server is asked
    assert questions(fake, "alternatives") == [""]
    page.execute_cdp_cmd("Input.insertText", {"text": "日本"})
    wait(page, lambda: texts(page, "#completed mark") == ["日本"])
    assert questions(fake, "alternatives") == ["", "日本"]


def test_alternatives_of_an_earlier_beginning_cannot_be_chosen(completing, fake):
    page = completing
    translate(page, LINES[0])
    wait(page, lambda: texts(page, "#alternatives button"))
    release = fake.releases["alternatives", "A"] = threading.Event()
    page.find_element(By.ID, "prefix").send_keys("A")
    is_inert = "return document.getElementById('alternatives').inert"
    assert page.execute_script(is_inert)
    assert page.find_element(By.ID, "completed").get_attribute("aria-busy") == "true"
    wait(page, lambda: "A" in questions(fake, "alternatives"))
    assert page.execute_script(is_inert)
    release.set()
    wait(page, lambda: texts(page, "#completed mark") == ["A"])
    assert not page.execute_script(is_inert)
    assert page.find_element(By.ID, "completed").get_attribute("aria-busy") == "false"


def test_lines_that_are_too_long(page):
    translate(page, "word " * 200, "word " * 2000, LINES[0])
    wait_for_message(page, "3 sentences in")
    reason = "No attention weights: the text has more than 128 sub-words."
    wait(page, lambda: texts(page, "#attention-message") == [reason])
    assert displayed(page, "hypotheses", "attention-view") == [True, False]
    assert texts(page, ".line .target")[1] == "(too long: more than 1,024 sub-words)"
    buttons = page.find_elements(By.CSS_SELECTOR, ".line input")
    buttons[1].click()
    assert displayed(page, "hypotheses", "attention") == [False, False]
    buttons[2].click()
    wait_for_subwords(page, *sources_of(LINES[0]))
    assert texts(page, "#attention-message") == [""]


def test_text_is_not_parsed_as_html(page):
    text = "<img src=x onerror=document.title='caught'>"
    translate(page, text)
    wait_for_subwords(page, *sources_of(text))
    assert page.title == "anna"
    assert texts(page, ".line .source") == [text]
    assert not page.find_elements(By.TAG_NAME, "img")


def test_controls_have_names_and_the_focus_stays(page):
    translate(page, *LINES)
    wait_for_subwords(page, *sources_of(LINES[0]))
    assert page.switch_to.active_element.get_attribute("id") == "text"
    controls = page.find_elements(By.CSS_SELECTOR, "textarea, select, input, main button")
    names = [control.accessible_name for control in controls if control.is_displayed()]
    assert all(names)
    assert page.find_element(By.ID, "results-list").accessible_name == "Translations"
    for name in (*RESULTS, "queries", "keys"):
        assert page.find_element(By.ID, name).accessible_name, name
    button = page.find_element(By.ID, "go")
    button.send_keys(Keys.ENTER)
    wait_for_message(page, "3 sentences in")
    assert page.switch_to.active_element == button


def test_small_screens_and_both_color_schemes(page, width, color_scheme):  # noqa: F811
    long_word = "Donaudampfschifffahrtsgesellschaft" * 3
    translate(page, *LINES, long_word + " " + "words " * 60)
    wait_for_subwords(page, *sources_of(LINES[0]))
    for index in (0, 3):
        page.find_elements(By.CSS_SELECTOR, ".line input")[index].click()
        wait(page, lambda: displayed(page, "attention-view") == [True])
        for view in ("lines", "map"):
            page.find_element(By.ID, f"{view}-view").click()
            before = page.find_element(By.ID, view).rect["y"]
            page.find_elements(By.CSS_SELECTOR, f"#{view} button[data-side=queries]")[1].click()
            assert texts(page, "#status") != [""]
            assert page.find_element(By.ID, view).rect["y"] == before, "the view moves"
            page.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
            assert overflow(page) <= 0, "the page scrolls sideways"
        title = page.find_element(By.ID, "map-title")
        assert title.rect["x"] + title.rect["width"] <= width, "the title of the map is cut"
    assert is_dark(page) == (color_scheme == "dark")


def test_the_description_of_the_interface(browser, serve, cold_export):  # noqa: F811
    from tf_transformer.config import ServeConfig
    from tf_transformer.serving.server import Server
    from tf_transformer.serving.tensorflow_model import TensorFlowModel

    server = Server("anna", os.path.dirname(cold_export), ServeConfig(), TensorFlowModel)
    open_page(browser, serve(server.app))
    requested_urls(browser), console_errors(browser)
    browser.find_element(By.LINK_TEXT, "API").click()
    wait(browser, lambda: "/v1/models/anna:predict" in texts(browser, ".opblock-summary-path"))
    for button in (".opblock-summary-control", ".try-out__btn", ".execute"):
        wait(browser, lambda button=button: texts(browser, f".opblock-post {button}"))
        browser.find_element(By.CSS_SELECTOR, f".opblock-post {button}").click()
    status = ".live-responses-table .response-col_status"
    wait(browser, lambda: any(text.startswith("200") for text in texts(browser, status)))
    assert all(url.startswith(("http://127.0.0.1:", "data:")) for url in requested_urls(browser))
    assert console_errors(browser) == []


def test_the_page_obeys_its_content_security_policy(page):
    console_errors(page)
    page.refresh()
    wait_for_version(page, "version 7")
    translate(page, LINES[0])
    wait_for_subwords(page, *sources_of(LINES[0]))
    page.find_element(By.ID, "map-view").click()
    assert console_errors(page) == []
    caught = page.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'window.caught = true';"
        "document.body.append(script); return window.caught === true"
    )
    assert not caught
    assert any("Content Security Policy" in error for error in console_errors(page))
