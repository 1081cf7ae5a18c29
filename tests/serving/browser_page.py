"""The page of the server in headless Chromium.

`make test-browser` installs what is missing and runs it.
"""

import os
import threading

import browser as chromium
import pytest
from browser import (
    choose,
    click,
    colors,
    console_errors,
    expected,
    find,
    overflow,
    percentages,
    texts,
    wait,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from serving.fake_models import listening, running
from serving.fake_server import FakeServer, translated, weights_of
from tf_transformer.serving.tensorflow_model import TensorFlowModel

# The fixtures.
browser, color_scheme, width = chromium.browser, chromium.color_scheme, chromium.width

LINES = ["Anna sleeps.", "The old man reads a book.", "We see the dog."]
RED = [179, 38, 30]
RESULTS = ("results", "hypotheses", "attention")


@pytest.fixture
def fake():
    """A fake server."""
    return FakeServer()


@pytest.fixture
def page(browser, fake):
    """The browser with the page of the fake server."""
    with listening(fake.app) as (_, url):
        browser.get(url)
        yield wait_for(browser, "#version", "version 7")


def open_again(page, version="version 7"):
    page.refresh()
    return wait_for(page, "#version", version)


def wait_for(page, selector, *expected):
    """Waits until the elements have these texts. Returns: the page."""
    wait(page, lambda: texts(page, selector) == list(expected))
    return page


def is_busy(page):
    """Whether a translation is running, or its last request, which is for the version."""
    return find(page, "go").get_attribute("aria-disabled")


def translate(page, *lines):
    """Replaces the text of the page, and translates it with the keyboard."""
    wait(page, lambda: not is_busy(page))
    box = find(page, "text")
    page.execute_script("arguments[0].value = arguments[1]", box, "\n".join(lines))
    box.send_keys(Keys.CONTROL + Keys.ENTER)


def wait_for_message(page, text):
    """Waits until a translation has ended, with this message."""
    wait(page, lambda: text in find(page, "message").text and not is_busy(page))


def wait_for_attention(page, line):
    """Waits until the page shows the attention over the sub-words of a line."""
    sources = [*(f"▁{word}" for word in line.split()), "[END]"]
    buttons = "#keys button, #map thead button"  # the other view is hidden
    wait(page, lambda: [text for text in texts(page, buttons) if text] == sources)


def choose_line(page, index):
    page.find_elements(By.CSS_SELECTOR, ".line input")[index].click()


def displayed(page, *ids):
    return [find(page, name).is_displayed() for name in ids]


def is_red(page, name):
    return colors(find(page, name), "color") == RED


def language(element):
    return element.get_attribute("lang")


@pytest.fixture
def real_page(browser, cold_export):
    """The browser with the page of a real server. It loads nothing from elsewhere."""
    chromium.requested_urls(browser), console_errors(browser)
    with running(os.path.dirname(cold_export), TensorFlowModel) as web:
        browser.get(str(web.base_url))
        yield wait_for(browser, "#version", "version 1")
        urls = chromium.requested_urls(browser)
        assert all(url.startswith(("http://127.0.0.1:", "data:")) for url in urls)
        assert console_errors(browser) == []


def test_a_real_model_with_the_keyboard(real_page, translator):
    page = real_page
    assert texts(page, "h1") == ["anna: English → German"]
    wait(page, lambda: page.switch_to.active_element.get_attribute("id") == "text")
    page.switch_to.active_element.send_keys(
        LINES[0], Keys.ENTER, LINES[1], Keys.CONTROL + Keys.ENTER
    )
    wait_for_message(page, "2 sentences in")
    wait(page, lambda: texts(page, "#keys button"))
    first, second = translator.n_best(LINES[:2], 4)
    assert texts(page, "#hypotheses-list .target") == [text for text, _ in first]
    scores = [float(text) for text in texts(page, "#hypotheses-list .score")]
    assert scores == pytest.approx([score for _, score in first], abs=0.001)
    assert texts(page, ".line .target") == [first[0][0], second[0][0]]
    assert texts(page, "#keys button") == translator.attention(LINES[0])[0]
    assert texts(page, "#layer option") == ["layer 1"]
    choose(page, "head", "head 2")
    page.find_element(By.CSS_SELECTOR, "#queries button").click()
    assert sum(percentages(page, "keys")) == pytest.approx(100, abs=0.5)


def test_the_version_and_the_languages_of_the_model(page, fake):
    fake.states.pop()
    open_again(page, "The model is being loaded.")
    assert is_red(page, "version")
    assert texts(page, "h1") == ["anna"]
    fake.states.append({"version": "7", "state": "AVAILABLE"})
    wait_for(page, "#version", "version 7")
    assert not is_red(page, "version")
    assert texts(page, "h1") == ["anna: English → German"]
    assert find(page, "text").accessible_name == "Text (English)"
    assert language(find(page, "text")) == "en"
    fake.states[1:] = [{"version": "8", "state": "AVAILABLE"}, {"version": "7", "state": "END"}]
    translate(page, LINES[0])
    wait_for(page, "#version", "version 8")
    assert "1 sentence in" in find(page, "message").text
    assert language(page.find_element(By.CSS_SELECTOR, ".line .target")) == "de"


def test_each_line_has_its_translation_and_its_attention(page, fake):
    def check_map(line):
        wait_for_attention(page, line)
        cells = [float(text or 0) for text in texts(page, "#map tbody td")]
        assert cells == pytest.approx(100 * weights_of(line)[1, 2].ravel(), abs=0.51)

    translate(page, LINES[0], "   ", f"  {LINES[1]} ", LINES[2], "")
    wait_for_message(page, "3 sentences in")
    assert fake.requests[0] == ("nbest", LINES)
    assert texts(page, ".line .source") == LINES
    assert texts(page, ".line .target") == [translated(line) for line in LINES]
    wait_for_attention(page, LINES[0])
    page.find_element(By.CSS_SELECTOR, "#queries button").click()
    assert percentages(page, "keys") == expected(weights_of(LINES[0])[0].mean(0)[0])
    assert texts(page, "#layer option") == ["layer 1", "layer 2"]
    choose(page, "layer", "layer 2")
    choose(page, "head", "head 3")
    click(page, "map-view")
    check_map(LINES[0])

    buttons = page.find_elements(By.CSS_SELECTOR, ".line input")
    assert buttons[1].accessible_name == f"{LINES[1]} {translated(LINES[1])}"
    buttons[0].send_keys(Keys.ARROW_DOWN)
    check_map(LINES[1])  # the choices stay
    shown = [f"{translated(LINES[1])} -0.500", f"{LINES[1]} -1.250"]
    assert texts(page, "#hypotheses-list li") == shown

    page.switch_to.active_element.send_keys(Keys.ARROW_UP)  # its attention is known
    check_map(LINES[0])
    aligned = [lines for signature, lines in fake.requests if signature == "alignments"]
    assert aligned == [[LINES[0]], [LINES[1]]]


def test_lines_are_split_into_sentences(page):
    def check(unit, lines, expected):
        translate(page, *lines)
        wait_for_message(page, f"{len(expected)} {unit}")
        assert texts(page, ".line .source") == expected

    text = "Mr. Smith came on 3. May.  He left! (Did he?)"
    sentences = ["Mr. Smith came on 3. May.", "He left!", "(Did he?)", LINES[0]]
    check("sentences", [text, LINES[0]], sentences)
    tagged = ["<2de> One.", "<2de> Two.", "<0x41> Three.", "Four.", "Five."]
    check("sentences", ["<2de>  One. Two.", "<0x41> Three. Four. Five."], tagged)
    click(page, "split")
    check("lines", [text, LINES[0]], [text, LINES[0]])


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
    choose_line(page, 2)
    wait_for_attention(page, LINES[2])
    release.set()
    answers = (
        "return performance.getEntriesByType('resource')"
        ".filter((entry) => entry.name.endsWith(':predict')).length"
    )
    wait(page, lambda: page.execute_script(answers) == 3)
    wait_for_attention(page, LINES[2])


@pytest.mark.parametrize(
    "answer, message",
    [
        (None, "The server does not answer"),
        ((503, {"error": "100 requests are waiting"}), "100 requests are waiting"),
        ((502, ["Bad Gateway"]), "The server answered with status 502."),
        ((200, {"predictions": []}), "The server's answer is incomplete."),
    ],
)
def test_results_of_another_text_go_when_the_server_fails(page, fake, answer, message):
    def check(text, message, is_error):
        translate(page, text)
        wait_for_message(page, message)
        assert is_red(page, "message") == is_error
        wait(page, lambda: displayed(page, *RESULTS) == [not is_error] * 3)

    check(LINES[0], "1 sentence in", False)
    if answer:
        fake.errors["nbest"] = answer
    else:
        page.set_network_conditions(offline=True, latency=0, throughput=-1)
    try:
        check(LINES[1], message, True)
    finally:
        fake.errors.clear()
        page.delete_network_conditions()
    check(LINES[1], "1 sentence in", False)
    check(" ", "Enter a sentence first.", True)


def test_a_translation_without_its_attention(page, fake):
    """The server fails, or has an export for CTranslate2."""
    fake.errors["alignments"] = 504, {"error": "no answer within 60 s"}
    translate(page, LINES[1])
    wait_for(page, "#attention-message", "no answer within 60 s")
    assert is_red(page, "attention-message")
    assert displayed(page, "hypotheses", "attention-view") == [True, False]
    fake.requests.clear()
    fake.description["max_aligned_subwords"] = 0
    translate(open_again(page), LINES[0])
    wait_for_message(page, "1 sentence in")
    assert displayed(page, *RESULTS, "completion") == [True, True, False, False]
    assert {signature for signature, _ in fake.requests} == {"nbest"}


def test_a_model_card_is_shown_and_its_examples_are_translated(page, fake):
    assert displayed(page, "examples") == [False]
    fake.description |= {"about": "Knows <b>two</b> sentences.", "examples": LINES[:2]}
    open_again(page)
    assert texts(page, "#about") == ["Knows <b>two</b> sentences."]
    assert texts(page, "#examples button") == LINES[:2]
    page.find_elements(By.CSS_SELECTOR, "#examples button")[1].click()
    wait_for(page, ".target", translated(LINES[1]), translated(LINES[1]), LINES[1])
    assert find(page, "text").get_attribute("value") == LINES[1]
    assert overflow(page) <= 0


def test_several_models(browser, width):
    berta = FakeServer()
    berta.signatures += ["translate_with_options", "alternatives"]
    berta.description |= {"source": "de", "target": "en", "about": "B", "examples": [LINES[1]]}
    anna = FakeServer(berta=berta)
    anna.description |= {"about": "A", "examples": [LINES[0]]}
    with listening(anna.app) as (_, url):
        browser.get(url)
        wait_for(browser, "#models label", "English → German", "German → English")
        assert texts(browser, "#about") == ["A"]
        translate(browser, LINES[2])
        wait_for_message(browser, "1 sentence in")
        wait_for_attention(browser, LINES[2])  # then nothing on the page moves
        switch = browser.switch_to.active_element
        find(browser, "models").find_element(By.TAG_NAME, "input").send_keys(Keys.ARROW_RIGHT)
        assert texts(browser, "h1") == ["berta: German → English"]
        assert texts(browser, "#about") == ["B"]
        assert texts(browser, "#message") == [""]
        assert displayed(browser, *RESULTS) == [False] * 3
        assert language(switch) == "de"  # the text
        browser.find_element(By.CSS_SELECTOR, "#examples button").click()
        wait_for_message(browser, "1 sentence in")
        wait_for(browser, "#completed", translated(LINES[1]))
        assert overflow(browser) <= 0
        asked = [rows for name, rows in anna.requests if name == "nbest"]
        assert asked == [[LINES[2]]]
        assert [rows for name, rows in berta.requests if name == "nbest"] == [[LINES[1]]]


@pytest.fixture
def completing(page, fake):
    """The browser with the page of a model that completes beginnings, with a translation."""
    fake.signatures += ["translate_with_options", "alternatives"]
    console_errors(page)
    translate(open_again(page), *LINES)
    return wait_for(page, "#alternatives button", "75.0%\nAnna sleeps.", "12.5%\n<i>x</i> y")


def questions(fake, signature):
    """The beginnings of the translation that the server was asked for."""
    return [rows[0]["target_prefix"] for name, rows in fake.requests if name == signature]


def test_the_beginning_of_a_translation_with_the_keyboard(completing, fake, width):
    page = completing
    assert texts(page, "#alternatives b") == ["Anna", "<i>x</i>"]
    assert texts(page, "#completed") == ["Anna slEEps."]
    prefix = find(page, "prefix")
    assert prefix.accessible_name == "Beginning, which the model completes"
    assert language(prefix) == "de"
    assert find(page, "completion").accessible_name == "Begin the translation"
    assert find(page, "alternatives").accessible_name

    prefix.send_keys("Anne ")
    wait_for(page, "#completed[aria-busy=false] mark", "Anne")
    assert texts(page, "#completed") == ["Anne slEEps."]
    assert questions(fake, "alternatives")[-1] == "Anne "
    prefix.send_keys(Keys.TAB)
    page.switch_to.active_element.send_keys(Keys.ENTER)  # the first alternative
    wait(page, lambda: questions(fake, "translate_with_options")[-1] == "Anne sleeps.")
    assert page.switch_to.active_element == prefix
    assert prefix.get_attribute("value") == "Anne sleeps."
    assert overflow(page) <= 0, "the page scrolls sideways"

    choose_line(page, 1)  # another line starts again
    wait_for(page, "#completed", translated(LINES[1]))
    assert prefix.get_attribute("value") == ""
    assert console_errors(page) == []


def test_beginnings_that_the_model_refuses(completing, fake):
    page, prefix = completing, find(completing, "prefix")

    release = fake.releases["alternatives", "A"] = threading.Event()
    prefix.send_keys("A")
    wait(page, lambda: "A" in questions(fake, "alternatives"))
    fake.errors["translate_with_options"] = 400, {"error": "target_prefix is too long"}
    prefix.send_keys("B")
    wait_for(page, "#completed", "target_prefix is too long")
    release.set()  # the answer to the question before is not shown
    assert is_red(page, "completed")
    assert texts(page, "#alternatives button") == []
    fake.errors.clear()
    prefix.send_keys(Keys.BACKSPACE, Keys.BACKSPACE)
    wait_for(page, "#completed", "Anna slEEps.")
    assert not is_red(page, "completed")
    page.execute_script("arguments[0].value = arguments[1]", prefix, "word " * 300)
    prefix.send_keys(" ")
    wait_for(page, "#completed", "(the beginning is too long for the model)")
    assert texts(page, "#alternatives button") == []
    assert texts(page, ".line .target")[0] == "Anna slEEps."


def test_the_next_word_without_spaces(completing, fake):
    page, words = completing, "今日 は 天気".split()
    fake.description["target"] = "ja"
    translate(open_again(page), "".join(words))
    for word in words:
        wait(page, lambda word=word: texts(page, "#alternatives b")[:1] == [word])
        page.find_element(By.CSS_SELECTOR, "#alternatives button").click()
    prefix = find(page, "prefix")
    assert prefix.get_attribute("value") == "".join(words)


def test_lines_that_are_too_long(page):
    translate(page, "word " * 200, "word " * 2000, LINES[0])
    wait_for_message(page, "3 sentences in")
    reason = "No attention weights: the text has more than 128 sub-words."
    wait_for(page, "#attention-message", reason)
    assert displayed(page, "hypotheses", "attention-view") == [True, False]
    assert texts(page, ".line .target")[1] == "(too long: more than 1,024 sub-words)"
    choose_line(page, 1)
    assert displayed(page, "hypotheses", "attention") == [False, False]
    choose_line(page, 2)
    wait_for_attention(page, LINES[0])
    assert texts(page, "#attention-message") == [""]


def test_controls_have_names_and_the_focus_stays(page):
    translate(page, *LINES)
    wait_for_attention(page, LINES[0])
    assert page.switch_to.active_element.get_attribute("id") == "text"
    controls = page.find_elements(By.CSS_SELECTOR, "textarea, select, input, main button")
    assert all(control.accessible_name for control in controls if control.is_displayed())
    for name in (*RESULTS, "results-list", "queries", "keys"):
        assert find(page, name).accessible_name, name
    button = find(page, "go")
    button.send_keys(Keys.ENTER)
    wait_for_message(page, "3 sentences in")
    assert page.switch_to.active_element == button


def test_small_screens_and_both_color_schemes(page, width, color_scheme):
    long_word = "Donaudampfschifffahrtsgesellschaft" * 3
    translate(page, *LINES, long_word + " " + "words " * 60)
    wait_for_attention(page, LINES[0])
    for index in (0, 3):
        choose_line(page, index)
        wait(page, lambda: displayed(page, "attention-view") == [True])
        for view in ("lines", "map"):
            click(page, f"{view}-view")
            before = find(page, view).rect["y"]
            page.find_elements(By.CSS_SELECTOR, f"#{view} button[data-side=queries]")[1].click()
            assert texts(page, "#status") != [""]
            assert find(page, view).rect["y"] == before, "the view moves"
            page.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
            assert overflow(page) <= 0, "the page scrolls sideways"
        title = find(page, "map-title")
        assert title.rect["x"] + title.rect["width"] <= width, "the title of the map is cut"
    assert chromium.is_dark(page) == (color_scheme == "dark")
