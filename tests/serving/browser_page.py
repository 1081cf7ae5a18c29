"""The page of the server in headless Chromium.

`make test-browser` installs what is missing and runs it.
"""

import json
import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tf_transformer.config import ServeConfig
from tf_transformer.serving.server import Server

BROWSER_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--window-size=1000,1100",
    "--force-device-scale-factor=1",
)
WEIGHT_CELLS = "#weights td i"


@pytest.fixture
def address(exported, serve):
    folder = os.path.dirname(exported)
    host, port = serve(Server(folder, "anna", ServeConfig(port=0)))
    return f"http://{host}:{port}"


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    for flag in BROWSER_FLAGS:
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    with webdriver.Chrome(options=options, service=service) as driver:
        yield driver


def texts(browser, selector):
    return [element.text for element in browser.find_elements(By.CSS_SELECTOR, selector)]


def wait(browser, condition):
    return WebDriverWait(browser, 60).until(lambda driver: condition())


def wait_for_weights(browser):
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, WEIGHT_CELLS))


def test_translation_with_the_keyboard(browser, address, translator, tmp_path):
    browser.get(address)
    wait(browser, lambda: texts(browser, "#version") == ["version 1"])
    focused = browser.switch_to.active_element
    assert focused.get_attribute("id") == "text"
    focused.send_keys("Anna sleeps.", Keys.CONTROL + Keys.ENTER)
    wait_for_weights(browser)
    expected = translator.n_best(["Anna sleeps."], 4)[0]
    assert texts(browser, "#list li") == [f"{text} {score:.3f}" for text, score in expected]
    sources = texts(browser, "#weights thead th")
    targets = texts(browser, "#weights tbody th")
    assert "".join(sources).startswith("Annasleeps.")
    assert len(texts(browser, WEIGHT_CELLS)) == len(sources) * len(targets)
    assert texts(browser, "#layer option") == ["mean of all", "layer 1"]
    assert len(texts(browser, "#head option")) == 3
    browser.find_element(By.ID, "head").send_keys("head 2", Keys.ENTER)
    opacities = [
        float(cell.get_attribute("style").split()[1].rstrip(";"))
        for cell in browser.find_elements(By.CSS_SELECTOR, WEIGHT_CELLS)
    ]
    assert sum(opacities[: len(sources)]) == pytest.approx(1.0, abs=0.01)
    browser.save_screenshot(str(tmp_path / "page.png"))


def test_the_page_shows_errors(browser, address):
    browser.get(address)
    box = browser.find_element(By.ID, "text")
    box.send_keys("   ", Keys.CONTROL + Keys.ENTER)
    assert texts(browser, "#status") == ["Enter a sentence first."]
    browser.execute_script("arguments[0].value = 'long words '.repeat(200)", box)
    box.send_keys(Keys.CONTROL + Keys.ENTER)
    wait(browser, lambda: texts(browser, "#list li") == ["(empty) too long"])
    browser.execute_script("arguments[0].value = 'a'.repeat(2e6)", box)
    box.send_keys(Keys.CONTROL + Keys.ENTER)
    wait(browser, lambda: "bytes" in texts(browser, "#status")[0])


def test_text_is_not_parsed_as_html(browser, address):
    browser.get(address)
    text = "<img src=x onerror=document.title='caught'>"
    browser.find_element(By.ID, "text").send_keys(text, Keys.CONTROL + Keys.ENTER)
    wait_for_weights(browser)
    assert browser.title == "anna"
    assert not browser.find_elements(By.CSS_SELECTOR, "#weights img, #list img")


def test_the_page_requests_nothing_from_other_hosts(browser, address):
    browser.get(address)
    browser.find_element(By.ID, "text").send_keys("a", Keys.CONTROL + Keys.ENTER)
    wait_for_weights(browser)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert urls
    assert all(url.startswith(("http://127.0.0.1:", "data:")) for url in urls), urls
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [entry for entry in errors if "413" not in entry["message"]] == []
