"""The page in a real browser: what it shows is what the server answers."""

import json
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("selenium")

from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import foretell

PATIENCE_S = 60


def seconds(text):
    """Read a time as the page writes it, such as ``1 min 5 s``."""
    units = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400}
    return sum(float(n) * units[unit] for n, unit in re.findall(r"([\d.]+) ([a-z]+)", text))


class Page:
    """The page, and what to do with it."""

    def __init__(self, browser, server):
        self.browser, self.server = browser, server
        browser.execute_cdp_cmd("Network.enable", {})
        browser.get_log("browser")  # what other pages said
        browser.get(server.url)

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def wait(self, condition):
        """Wait until something holds; return it."""
        waiting = WebDriverWait(
            self.browser,
            PATIENCE_S,
            poll_frequency=0.02,
            ignored_exceptions=[NoSuchElementException, StaleElementReferenceException],
        )  # the page draws anew as answers come
        return waiting.until(lambda _: condition())

    def choose(self, selector, value):
        Select(self.find(selector)).select_by_value(value)

    @property
    def value(self):
        """The prediction as it is shown, and as it came."""
        shown = self.find("#value")
        return shown.text, shown.get_attribute("data-value")

    def shows(self, row):
        """Wait until the prediction is the one that the server gives for a row."""
        body = {"rows": [row]}
        answer = self.server.client.post("/models/sort/predict", json=body).json()
        (expected,) = answer["predictions"]
        self.wait(lambda: self.value[1] and float(self.value[1]) == expected["value"])
        assert seconds(self.value[0]) == pytest.approx(expected["value"], rel=1e-3, abs=0.5)
        return expected

    def open_sort(self):
        self.wait(lambda: self.find("#model").text)
        self.choose("#model", "sort")
        self.wait(lambda: "32 runs" in self.find("#about").text)

    def chart(self, selector):
        """Return the parts of the picture that match."""
        return self.browser.find_elements(By.CSS_SELECTOR, f"#chart svg {selector}")

    def titles(self):
        """Return the titles of the axes."""
        return " | ".join(one.text for one in self.chart(".title"))

    def field(self, name):
        """Return the selector of the field of a column; fields are in the order of the model."""
        return f"#column-{sorted(START).index(name)}"

    def slider(self, name):
        return self.find(f"input[type=range][aria-label='{name}, slider']")


@pytest.fixture(scope="module")
def large(tmp_path_factory, server):
    """A server with a model of bytes, along bytes."""
    folder = tmp_path_factory.mktemp("large")
    rows = [(size * 10**9, nodes) for size in (1, 3, 10, 30, 100) for nodes in (1, 2, 4, 8)]
    runs = pd.DataFrame(rows, columns=["data_bytes", "nodes"])
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(runs))
    runs["peak_memory_bytes"] = (2e8 + 1.3 * runs["data_bytes"] / runs["nodes"]) * noise
    foretell.fit_model(runs, target="peak_memory_bytes", output=folder / "memory")
    started = type(server)(folder, "--read-only", "-j", "1")
    yield started
    started.close()


@pytest.fixture
def page(browser, server):
    opened = Page(browser, server)
    yield opened
    said = browser.get_log("browser")
    fetched = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    browser.get("about:blank")
    assert said == []
    assert fetched and all(url.startswith(server.url) for url in fetched)


START = {"size": 20, "nodes": 2, "machine": "c4", "is_big": False}


def test_a_slider_moved_by_keys_moves_the_prediction(page):
    page.open_sort()
    before = page.shows(START)
    page.slider("nodes").send_keys(Keys.ARROW_RIGHT)
    assert page.slider("nodes").get_attribute("aria-valuetext") == "3"
    after = page.shows({**START, "nodes": 3})
    assert after["value"] < before["value"]
    assert "Inside the data" in page.find("#trust").text
    page.slider("nodes").send_keys(Keys.END)
    far = page.shows({**START, "nodes": 16})
    assert far["outside"] in page.find("#outside").text
    assert page.find("#trust").get_attribute("data-trust") == far["trust"] != "inside"


def test_numbers_levels_and_flags_can_be_set(page):
    page.open_sort()
    field = page.find(page.field("size"))
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("33.5")
    page.choose(page.field("machine"), "m4")
    page.find(page.field("is_big")).click()
    found = page.shows({"size": 33.5, "nodes": 2, "machine": "m4", "is_big": True})
    page.choose("#share", "0.5")
    page.wait(lambda: page.find("#interval").text.startswith("50 %"))
    assert found["trust"] == "inside"


def test_a_number_that_is_none_is_not_asked_for(page):
    page.open_sort()
    page.shows(START)
    field = page.find(page.field("size"))
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(Keys.DELETE)
    page.choose(page.field("machine"), "m4")
    assert page.find("#problem").text == ""
    field.send_keys("40")
    page.shows({**START, "size": 40, "machine": "m4"})


def test_the_curve_is_drawn_with_its_band_what_lies_beyond_and_a_table(page):
    page.open_sort()
    page.wait(lambda: page.browser.find_elements(By.CSS_SELECTOR, "#chart svg .band"))
    page.choose("#along", "nodes")
    page.wait(lambda: "along nodes" in page.find("#chart svg").get_attribute("aria-label"))
    assert page.find("#chart svg .beyond")
    assert page.find("#chart svg .line")
    page.find("summary").click()
    body = {"row": START, "column": "nodes"}
    curve = page.server.client.post("/models/sort/curve", json=body).json()
    expected = [f"{p['x']:g}" for p in curve["points"]]

    def first_cells():
        rows = page.browser.find_elements(By.CSS_SELECTOR, "#points tbody tr")
        return [row.text.split()[0] for row in rows if row.text]

    page.wait(lambda: first_cells() == expected)


def test_measured_runs_are_shown_where_the_other_columns_are_as_chosen(page, fitted):
    page.open_sort()
    page.shows(START)
    page.choose("#along", "nodes")
    runs = pd.read_csv(fitted / "sort" / "runs.csv")
    others = (runs["size"] == 20) & (runs["machine"] == "c4") & ~runs["is_big"]
    page.wait(lambda: page.titles().startswith("nodes"))
    assert len(page.chart(".run")) == others.sum() == 4
    assert "4 measured runs" in page.find("#legend").text
    page.slider("size").send_keys(Keys.ARROW_RIGHT)
    page.wait(lambda: not page.chart(".run"))
    assert "No measured run" in page.find("#legend").text


def test_each_axis_can_be_logarithmic_or_not(page):
    page.open_sort()
    page.choose("#along", "nodes")
    page.wait(lambda: page.titles().startswith("nodes (log scale) | time_s in"))
    first = page.titles()
    before = page.chart(".line")[0].get_attribute("points")
    page.find("#log-y").click()
    page.wait(lambda: page.titles() == f"{first} (log scale)")
    page.find("#log-x").click()
    page.wait(lambda: page.titles().startswith("nodes | "))
    assert page.chart(".line")[0].get_attribute("points") != before
    # On a plain axis, equal steps are equally far apart.
    x = [
        float(pair.split(",")[0]) for pair in page.chart(".line")[0].get_attribute("points").split()
    ]
    body = {"row": START, "column": "nodes"}
    curve = page.server.client.post("/models/sort/curve", json=body).json()
    at = [p["x"] for p in curve["points"]]
    expected = np.interp(at, [at[0], at[-1]], [x[0], x[-1]])
    assert x == pytest.approx(expected.tolist(), abs=0.11)


def test_two_models_are_compared(page):
    page.open_sort()
    page.shows(START)
    assert [o.get_attribute("value") for o in Select(page.find("#second")).options] == ["", "plain"]
    page.choose("#second", "plain")
    answer = page.server.client.post("/models/plain/predict", json={"rows": [START]}).json()
    expected = answer["predictions"][0]["value"]
    second = page.find("#second-value")
    page.wait(lambda: second.get_attribute("data-value"))
    assert float(second.get_attribute("data-value")) == expected
    name, shown = second.text.split(":")
    assert name == "plain"
    assert seconds(shown.partition("(")[0]) == pytest.approx(expected, rel=1e-3, abs=0.5)
    page.wait(lambda: page.chart(".line.second"))
    assert "Dashed: plain." in page.find("#legend").text
    page.choose("#second", "")
    page.wait(lambda: not page.chart(".line.second") and not second.is_displayed())


@pytest.mark.parametrize("width", [360, 1200])
def test_bytes_are_shown_in_larger_units_and_no_labels_overlap(browser, large, width):
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        page = Page(browser, large)
        page.wait(lambda: page.chart(".line") and page.value[1])
        shown, exact = page.value
        number, unit = shown.split()
        assert unit in ("MiB", "GiB")
        factor = {"MiB": 2**20, "GiB": 2**30}[unit]
        assert float(number.replace(",", "")) * factor == pytest.approx(float(exact), rel=1e-3)
        assert re.fullmatch(
            r"90 % of such runs: [\d.]+ to [\d.]+ [MG]iB", page.find("#interval").text
        )
        for is_log in (True, False):
            if page.find("#log-x").is_selected() != is_log:
                page.find("#log-x").click()
            page.wait(lambda wanted=is_log: ("(log" in page.chart(".title")[0].text) == wanted)
            assert "data_bytes in GiB" in page.titles() and "peak_memory_bytes in" in page.titles()
            boxes = browser.execute_script(
                """return [...document.querySelectorAll('#chart .tick text, #chart .title')]
                .map((e) => e.getBoundingClientRect())
                .map((r) => [r.left, r.right, r.top, r.bottom])"""
            )
            assert len(boxes) > 6
            for i, a in enumerate(boxes):
                for b in boxes[:i]:
                    assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2], (a, b)
        assert browser.get_log("browser") == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.get("about:blank")


def test_the_plan_keeps_the_budget(page):
    page.open_sort()
    page.find("#prices input").send_keys("36")  # an hour of one machine: 1 cent a second
    page.wait(lambda: "$" in page.find("#certainties").text)
    asked = {
        "vary": {"nodes": {"from": 1, "to": 8, "step": 1}},
        "fix": {"size": 20, "machine": "c4", "is_big": False},
        "prices": {"nodes": "nodes", "price_per_hour": 36},
    }
    free = page.server.client.post("/models/sort/plan", json=asked).json()
    cost = free["chosen"]["estimates"]["cost"]["value"]
    page.find("#budget").send_keys(f"{cost * 2:.3f}")
    plan = page.server.client.post(
        "/models/sort/plan", json={**asked, "budget": float(f"{cost * 2:.3f}")}
    ).json()
    more = "".join(plan["text"].splitlines()[1].split())
    page.wait(lambda: more in "".join(page.find("#plan-more").text.split()))
    page.find("#budget").send_keys(Keys.CONTROL, "a")
    page.find("#budget").send_keys(f"{cost / 100:.5f}")
    page.wait(lambda: page.find("#plan-first").text.startswith("No configuration"))


def test_the_plan_follows_the_deadline_and_the_prices(page):
    page.open_sort()
    page.wait(lambda: "nodes=8" in page.find("#plan-first").text)
    page.find("#deadline").send_keys("2s")
    page.wait(lambda: page.find("#plan-first").text.startswith("No configuration"))
    page.find("#deadline").send_keys(Keys.CONTROL, "a")
    page.find("#deadline").send_keys("80s")
    page.find("#prices input").send_keys("2")
    page.wait(lambda: "$" in page.find("#certainties").text)
    asked = {
        "vary": {"nodes": {"from": 1, "to": 8, "step": 1}},
        "fix": {"size": 20, "machine": "c4", "is_big": False},
        "deadline": "80s",
        "prices": {"nodes": "nodes", "price_per_hour": 2},
    }
    plan = page.server.client.post("/models/sort/plan", json=asked).json()
    page.wait(lambda: page.find("#plan-first").text == plan["text"].splitlines()[0])
    page.find("#deadline").send_keys("x")
    page.wait(lambda: "80sx" in page.find("#plan-first").text)
    # The refusal of that deadline is the one thing that the console is to tell.
    (said,) = page.browser.get_log("browser")
    assert "422" in said["message"]


def test_all_controls_have_names_and_what_changes_is_announced(page):
    page.open_sort()
    page.shows(START)
    unnamed = page.browser.execute_script(
        """return [...document.querySelectorAll('input, select')]
        .filter((e) => !e.closest('[hidden]') && !(e.labels?.length || e.ariaLabel))
        .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    live = page.browser.find_elements(By.CSS_SELECTOR, "[aria-live=polite]")
    assert any("s" in one.text and "of such runs" in one.text for one in live)
    assert page.find("html").get_attribute("lang") == "en"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_shows_everything_without_scrolling_sideways(page, scheme):
    screen = {"width": 360, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        page.open_sort()
        page.shows(START)
        width = page.browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= 360
        colors = page.browser.execute_script(
            "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
        )
        light = [sum(json.loads(f"[{c[c.index('(') + 1 : -1]}]")[:3]) for c in colors]
        assert (light[0] < light[1]) == (scheme == "light")
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_token_is_asked_for_and_used(browser, strict):
    page = Page(browser, strict)
    page.wait(lambda: "token" in page.find("#problem").text)
    assert not page.find("#main").is_displayed()
    page.find("#token").send_keys("a token that nobody guesses", Keys.ENTER)
    page.wait(lambda: page.find("#main").is_displayed())
    page.open_sort()
    page.shows(START)
    assert browser.get_log("browser") == []
    browser.get("about:blank")


def test_the_description_is_shown_without_anything_from_elsewhere(page):
    page.browser.get(f"{page.server.url}/docs")
    page.wait(lambda: page.browser.find_elements(By.CSS_SELECTOR, "main section"))
    assert "/models/{name}/predict" in page.find("main").text
