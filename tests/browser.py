"""Headless Chromium for tests: fixtures, and functions that read a page."""

import contextlib
import json
import shutil

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from serving.fake_models import SECONDS


@pytest.fixture(scope="module")
def browser(free_port):
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1000,1100"):
        options.add_argument(f"--{flag}")
    options.add_argument("--force-device-scale-factor=1")
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"), free_port())
    with webdriver.Chrome(options=options, service=service) as driver:
        driver.set_script_timeout(SECONDS)
        yield driver


@contextlib.contextmanager
def page_size(browser, width, height):
    """The size of the page in CSS pixels."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture(params=[400, 900])
def width(browser, request):
    with page_size(browser, request.param, 1000):
        yield request.param


@pytest.fixture(params=["light", "dark"])
def color_scheme(browser, request):
    feature = {"name": "prefers-color-scheme", "value": request.param}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    yield request.param
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def find(browser, name):
    """The element with an id."""
    return browser.find_element(By.ID, name)


def click(browser, name):
    find(browser, name).click()


def texts(browser, selector):
    return [element.text for element in browser.find_elements(By.CSS_SELECTOR, selector)]


def wait(browser, condition):
    # The page can replace an element while a condition reads it.
    waiting = WebDriverWait(browser, SECONDS, ignored_exceptions=[StaleElementReferenceException])
    return waiting.until(lambda driver: condition())


def choose(browser, select, text):
    """Chooses an option with the keyboard."""
    find(browser, select).send_keys(text)


def percentages(browser, side):
    """The weights beside the sub-words of a column, in percent."""
    return [float(text.rstrip("%")) for text in texts(browser, f"#{side} li span.weight") if text]


def expected(row):
    """Weights as percentages, rounded to tenths of a percent."""
    return [pytest.approx(100 * weight, abs=0.06) for weight in row]


def colors(element, name):
    """Red, green and blue of a CSS property of an element, 0 to 255."""
    numbers = element.value_of_css_property(name).partition("(")[2].rstrip(")").split(",")
    return [float(number) for number in numbers[:3]]


def is_dark(browser):
    """Whether the background of the page is dark."""
    return sum(colors(browser.find_element(By.TAG_NAME, "body"), "background-color")) < 200


def overflow(browser, size="Width"):
    """Pixels by which the page is wider, or higher, than the window."""
    page = "document.documentElement"
    return browser.execute_script(f"return {page}.scroll{size} - {page}.client{size}")


def requested_urls(browser):
    """The URLs that were requested since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }


def console_errors(browser):
    """The errors in the browser's console since the last call."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
