"""The playable page of the course in headless Chromium, from its file.

`make test-browser` runs these tests.
"""

import itertools
import random
from urllib.parse import parse_qsl

import browser as chromium
import numpy as np
import pytest
import tensorflow as tf
from browser import console_errors, find, overflow, texts, wait
from course import playable_page
from page_links import page_links
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tf_transformer import Translator
from tf_transformer.data.pocket import read_pairs

# The fixtures.
browser, color_scheme = chromium.browser, chromium.color_scheme

LINKS = sorted({state for _, state in page_links()})
NOTHING_HIDDEN = tf.constant(0.0)
FIRST = playable_page.EXAMPLES[0]
CHARACTERS = (  # some of which the rules of normalization change
    "abcdefghijklmnop 0123456789 éèñüßÀÇ½²№…“”’—ﬁⅧ￥ｶﾅ日本語한국어العربية😀👍🏽👨‍👩‍👧"
    "e\u0301n\u0303\u1112\u1161\u11ab\u00a0\u3000\u200b\u2581\u00ad\ufeff\t\n\a <0x41> [END]"
)
SENTENCES = """
I am hungry.
Where do you live?
She is reading a book.
It was raining all day.
My father works in a bank.
Do you want to dance with me?
I forgot to lock the door.
He speaks three languages.
We will meet in front of the theatre.
They have two cats and a dog.
Please close the window.
I have no idea what you mean.
How much does this cost?
Tom has never heard Mary sing.
Perhaps she will come tomorrow.
I love to write.
Two cups of coffee, please.
What time does the train leave?
You should see a doctor.
He lost his keys yesterday.
The children are playing in the garden.
I do not like this music.
If I had money, I would buy a car.
Who told you that?
Let me help you.
She has been learning French for two years.
There is nothing in the fridge.
The weather is better today than yesterday.
I am afraid of spiders.
This is the house where I was born.
Could you speak more slowly?
He asked me to wait.
Nobody knows the answer.
I would rather stay at home.
Mary is taller than her brother.
They got married last summer.
Is there a pharmacy near here?
I can't find my glasses.
Priyanka met Dr. Oyelaran in Gelsenkirchen.
The invoice amounts to 3,471.60 euros.
Her train arrives at 11:05.
CAFÉ  crème, s'il vous plaît…
""".strip().split("\n")


@pytest.fixture
def page(browser):
    """The browser with the page. It loads nothing else, and no error is in its console."""
    chromium.requested_urls(browser), console_errors(browser)
    reduced = [{"name": "prefers-reduced-motion", "value": "reduce"}]  # it does not play by itself
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": reduced})
    show(browser)
    yield browser
    urls = chromium.requested_urls(browser)
    assert all(url.startswith(("file:", "data:", "blob:")) for url in urls)
    assert console_errors(browser) == []


@pytest.fixture(params=[320, 390, 1280])
def width(browser, request):
    with chromium.page_size(browser, request.param, 900):
        yield request.param


@pytest.fixture(scope="module")
def translator():
    return Translator.load(playable_page.MODEL_NAME)


def show(browser, link=""):
    """Opens the page in the state of a link."""
    browser.get("about:blank")
    browser.get(f"{playable_page.PAGE.as_uri()}#{link}")
    settle(browser)


def settle(browser):
    """Waits for the computation. Returns the output of the page."""
    body = browser.find_element(By.TAG_NAME, "body")
    wait(browser, lambda: body.get_attribute("data-ready") == "true")
    wait(browser, lambda: body.get_attribute("data-busy") == "false")
    return find(browser, "written").text


def link(browser):
    return browser.execute_script("return location.hash.slice(1)")


def click(browser, selector):
    """Clicks. Returns the output of the page."""
    browser.find_element(By.CSS_SELECTOR, selector).click()
    return settle(browser)


def ask(browser, text):
    """Types a sentence, with the keyboard alone."""
    browser.execute_script("setInterval = () => 1")  # it plays until the key is pressed
    field = find(browser, "text")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(text, Keys.ENTER)
    wait(browser, lambda: browser.execute_script("return state.text") == text)
    settle(browser)
    play = find(browser, "play")
    wait(browser, lambda: play.get_attribute("aria-pressed") == "true")
    play.send_keys(Keys.ENTER)  # all at once
    return find(browser, "written").text


def test_ids_are_those_of_the_tokenizer(page, translator):
    rng = random.Random(1)
    sentences = [pair[0] for pair in itertools.islice(read_pairs(), 500)]
    sentences += ["".join(rng.choices(CHARACTERS, k=rng.randint(0, 40))) for _ in range(500)]
    for side, tokenizer in (("SOURCE", translator.source), ("TARGET", translator.target)):
        ids = page.execute_script(
            f"return arguments[0].map((text) => {side}.encode(text))", sentences
        )
        assert ids == tokenizer.encode_lists(sentences)
        decoded = page.execute_script(f"return arguments[0].map((x) => {side}.decode(x))", ids)
        assert decoded == [tokenizer.normalize(sentence) for sentence in sentences]


def test_translations_are_those_of_translate(page, translator):
    sentences = [
        *playable_page.EXAMPLES,
        *SENTENCES,
        *(x for x, _ in itertools.islice(read_pairs(), 4)),
    ]
    assert len(sentences) == 50
    script = "const [text, done] = arguments; translate(text).then(done)"
    translations = [page.execute_async_script(script, sentence) for sentence in sentences]
    assert translations == translator(sentences)


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


@pytest.mark.parametrize(
    "change, computed",
    {
        "": lambda model, inp, tar: model(inp, tar)[0],
        "on.lookAhead = false": without_look_ahead_mask,
        "on.padding = false": without_padding_mask,
        "on.positions = false": without_positions,
        "on.heads['decoder/layer2/mha2'][2] = false": without_head,
    }.items(),
)
def test_logits_are_those_of_the_package(page, change, computed):
    numbers, inp, tar = page.execute_script(
        f"const on = everything(); {change};"
        "return [[...transformer(inp, tar, on).logits.data], inp, tar]"
    )
    logits = np.reshape(numbers, (len(tar), -1))
    model = Translator.load(playable_page.MODEL_NAME).model  # which `computed` can change
    inp, tar = tf.constant([inp]), tf.constant([tar])
    assert bool(change) == (np.abs(logits - model(inp, tar)[0][0]).max() > 0.1)
    np.testing.assert_allclose(logits, computed(model, inp, tar)[0], atol=2e-3)


def test_a_weight_of_the_reader_replaces_one_of_a_row(page):
    edits = "[{ name: 'decoder/layer1/mha2', head: 1, row: 2, key: 0, weight: 0.75 }]"
    rows = page.execute_script(
        f"return [[], {edits}].map((edits) => transformer(inp, tar, {{ ...everything(), edits }})"
        ".steps.find((s) => s.name === 'decoder/layer1/mha2' && s.kind === 'weights')"
        ".a.weights[1]).map((weights) => [...rowOf(weights, 2)])"
    )
    before, after = np.array(rows)
    assert after[0] == 0.75
    np.testing.assert_allclose(after[1:], before[1:] / before[1:].sum() * 0.25, atol=1e-6)


def test_a_sentence_is_typed_and_its_output_changed_with_the_keyboard(page, translator, width):
    assert page.switch_to.active_element.tag_name == "body"
    assert find(page, "written").text == translator(FIRST)
    sentence = "I have never seen such a beautiful house."
    translation = translator(sentence)
    assert ask(page, sentence) == translation
    assert texts(page, "#ended tbody th")[0] == translation
    pieces = page.execute_script("return out.map(label)")
    assert texts(page, "#picture li button") == pieces
    # The second most probable first sub-word; then the model chooses again.
    page.find_element(By.CSS_SELECTOR, "[data-focus=out0]").send_keys(Keys.ENTER)
    other = page.find_elements(By.CSS_SELECTOR, ".candidate")[1]
    begin = other.text.split("\n")[0]
    other.send_keys(Keys.ENTER)
    changed = settle(page)
    assert changed.startswith(begin) and changed != translation
    word = find(page, "word")
    word.send_keys("Tom", Keys.ENTER)
    assert settle(page).startswith("Tom")
    page.find_element(By.CSS_SELECTOR, "[data-focus=free]").send_keys(Keys.ENTER)
    assert settle(page) == translation
    find(page, "beam-size").send_keys("1")
    assert settle(page) == Translator.load(playable_page.MODEL_NAME, beam_size=1)(sentence)
    controls = page.find_elements(By.CSS_SELECTOR, "button, input, select, [tabindex='0']")
    assert all(control.accessible_name for control in controls if control.is_displayed())


def test_the_page_plays_one_sub_word_after_the_other(page):
    page.execute_script(
        "outputs = [], new MutationObserver(() => outputs.push(byId('written').innerText))"
        ".observe(byId('written'), { childList: true, characterData: true, subtree: true })"
    )
    click(page, "#play")
    wait(page, lambda: find(page, "play").get_attribute("aria-pressed") == "false")
    outputs = page.execute_script("return outputs")
    assert len(set(outputs)) > 2
    assert all(outputs[-1].startswith(output) for output in outputs)


def test_parts_are_switched_off_and_on(page):
    whole = find(page, "written").text
    assert click(page, "[data-switch=residual]") != whole
    assert whole in find(page, "changed").text
    assert click(page, "#reset") == whole
    click(page, "[data-tour=positions]")
    assert not page.find_element(By.CSS_SELECTOR, "[data-switch=positions]").is_selected()
    click(page, "[data-name='decoder/layer1/mha2'][data-head='1']")
    assert "heads=decoder/layer1/mha2:2" in link(page)


def title(page):
    return find(page, "title").text


def test_the_steps_with_the_keyboard(page):
    slider = find(page, "step")
    assert title(page).endswith("encoder-decoder attention · Attention weights")
    slider.send_keys(Keys.HOME)
    assert title(page) == "Encoder · Sub-words and ids"
    slider.send_keys(Keys.ARROW_RIGHT)
    assert title(page) == "Encoder · Embedding"
    assert "Embedding" in slider.get_attribute("aria-valuetext")
    strip = page.find_element(By.CSS_SELECTOR, ".strip")
    strip.send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    assert strip.get_attribute("aria-valuetext").startswith("column 1: ")
    slider.send_keys(Keys.END)
    assert texts(page, "#view td:nth-child(4)") == page.execute_script("return out.map(label)")

    page.find_element(By.CSS_SELECTOR, "[data-box='decoder/mha1']").send_keys(Keys.ENTER)
    find(page, "next").send_keys(Keys.ENTER * 4)
    assert title(page).endswith("self-attention · Attention weights")
    grid = page.find_element(By.CSS_SELECTOR, "[role=grid]")
    assert grid.accessible_name == "Attention weights, head 1"
    grid.send_keys(*[Keys.ARROW_UP] * 9, *[Keys.ARROW_LEFT] * 9)
    assert texts(page, "#view output")[0].startswith("[START] takes 100.0%")  # it sees only itself
    assert page.switch_to.active_element.get_attribute("role") == "grid"
    assert len(page.find_elements(By.CSS_SELECTOR, ".map td.hidden")) > 0
    # An own weight, which a link has too.
    find(page, "weight").send_keys(Keys.HOME)
    settle(page)
    assert "mha1:1:0:0:0" in link(page)


@pytest.mark.parametrize(
    "tour",
    ["word", "it", "scale", "lookAhead", "padding", "weight", "positions", "residual", "head"],
)
def test_each_tour_says_what_happened(page, tour):
    show(page, f"tour={tour}")
    told = [text for text in texts(page, ".told") if text]
    assert len(told) == 1 and (told[0].endswith(".") or "The model writes: " in told[0])
    assert "tour" not in link(page)


def test_a_link_opens_the_state(page):
    state = (
        "beam=2&penalty=1.2&off=scale&heads=decoder/layer2/mha2:1&step=encoder/layer1/mha.masked"
    )
    show(page, f"text=Good+morning.&{state}&head=2&rows=1,0&view=inside")
    before = find(page, "written").text
    assert title(page) == "Encoder layer 1 of {} · self-attention · Mask".format(
        page.execute_script("return CONFIG.num_encoder_layers")
    )
    assert find(page, "beam-size").get_attribute("value") == "2"
    assert not page.find_element(By.CSS_SELECTOR, "[data-switch=scale]").is_selected()
    assert page.execute_script("return window.scrollY") > 0
    shared = link(page)
    assert set(shared.split("&")) >= set(state.split("&"))
    show(page, shared)
    assert (find(page, "written").text, link(page)) == (before, shared)
    show(page, "beam=99&off=x&heads=y:1&weights=z&step=q&head=-3&rows=a,b&key=1e9&begin=%00")
    assert link(page).startswith("beam=6")
    show(page, "text=+&heads=encoder/layer1/mha:99&begin=[PAD]+[START]")
    assert link(page) == ""


@pytest.mark.parametrize("state", LINKS)
def test_the_page_takes_each_link_of_a_notebook(page, state):
    show(page, state)
    given = dict(parse_qsl(state))
    step = given.pop("step", None)  # not in the page's link where it opens with this step
    assert step in [None, page.execute_script("return stepKey(now.steps[indexOfStep()])")]
    if given.pop("tour", None):
        assert any(texts(page, ".told"))
    assert given.items() <= dict(parse_qsl(link(page))).items()


def test_no_width_scrolls_sideways(page, width, color_scheme):
    assert chromium.is_dark(page) == (color_scheme == "dark")
    ask(page, "If I had known that you would come, I would have baked you a cake.")
    cut = "return [...document.querySelectorAll('.map, #tree svg, #picture')].filter((x) =>"
    cut += " x.getBoundingClientRect().right > x.closest('.panel').getBoundingClientRect().right)"
    for step in range(0, page.execute_script("return now.steps.length"), 4):
        page.execute_script(f"goTo({step})")
        assert overflow(page) <= 0, f"step {step} scrolls sideways"
        assert page.execute_script(cut) == []
