"""The page: every question answered, nothing from elsewhere, whatever names there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import foretell

SECTIONS = [
    "data", "leaderboard", "curves", "predicted", "errors", "explanation", "impact", "failures",
    "again",
]  # fmt: skip


def test_automatic_page_answers_every_question(automatic, page):
    found = page(automatic)
    assert list(found.texts)[1:] == SECTIONS
    first, texts = found.texts[""], found.texts
    assert "Predicts time_s from machine, nodes, size_mib" in first
    assert "off at known values" in first
    assert "Outside the data: nodes up to" in first
    assert "64 runs of 32 configurations" in texts["data"]
    assert "10, 20, 40, 80" in texts["data"]
    assert "MiB" in texts["data"]
    assert "Ensemble" in texts["leaderboard"]
    assert {"time_s against nodes", "time_s against size_mib", "time_s by machine"} <= set(
        re.findall(r"time_s (?:against|by) \w+", texts["curves"])
    )
    assert "above" in texts["errors"]
    assert "time_s ≈" in texts["explanation"]
    assert "Every technique gave a model" in texts["failures"]
    assert "--target time_s" in texts["again"]
    assert "scikit-learn" in texts["again"]


def test_campaign_page_shows_validation_failed_trials_and_the_campaign(campaign, page):
    found = page(campaign)
    assert list(found.texts)[1:] == SECTIONS
    assert "off on validation rows" in found.texts[""]
    assert "2× beyond along size_mib" in found.texts[""]
    assert "90 % interval" in found.texts["curves"]
    assert "p_to_add=0.5" in found.texts["failures"]
    assert "ValueError" in found.texts["failures"]
    assert "[techniques.Stepwise]" in found.texts["again"]
    assert "The model as a formula" in found.texts["explanation"]


def test_figures_of_the_first_screen_are_those_of_the_fit(automatic, page):
    from foretell.wording import percent

    errors = foretell.load_model(automatic).scores["rehearsed"]
    facts = re.findall(r'<dd class="figure">([^<]+)<', page(automatic).html)
    assert facts[:2] == [percent(errors["inside"]), percent(errors["between"])]


def test_curve_shows_what_the_model_predicts(automatic, page):
    model = foretell.load_model(automatic)
    html = page(automatic, at={"nodes": 4, "machine": "m4"}).html
    of_size = html[html.index("time_s against size_mib") :]
    row = re.search(r'<th scope="row">40</th><td class=number>([^<]+)</td>', of_size)
    asked = pd.DataFrame({"nodes": [4], "size_mib": [40], "machine": ["m4"]})
    assert float(row[1]) == pytest.approx(model.predict(asked)[0], rel=1e-3)


def test_every_picture_has_a_title_and_its_numbers(automatic, page):
    found = page(automatic)
    pictures = found.with_tag("svg")
    assert len(pictures) >= 6
    titles = {a["id"] for a in found.with_tag("title") if "id" in a}
    assert {a["aria-labelledby"] for a in pictures} == titles
    assert len(found.with_tag("details")) == len(pictures)


@pytest.mark.parametrize("kind", ["automatic", "campaign", "hostile"])
def test_page_is_small_and_needs_nothing_from_elsewhere(kind, page, request):
    found = page(request.getfixturevalue(kind))
    assert len(found.html.encode()) < 2_000_000
    assert not {"script", "link", "img", "iframe", "object", "base"} & {
        t for t, _ in found.elements
    }
    for _, attributes in found.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in {"href", "src", "xlink:href"}:
                assert value.startswith("#")
    assert not re.search(r"@import|url\((?!#)", found.html)
    ids = [a["id"] for _, a in found.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for _, a in found.elements if "href" in a} <= set(ids)


def test_same_results_give_the_same_bytes(automatic, tmp_path):
    foretell.write_report(automatic, tmp_path / "here.html")
    words = [sys.executable, "-m", "foretell", "report", str(automatic), "-o", "there.html"]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C"}
    subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "here.html").read_bytes() == (tmp_path / "there.html").read_bytes()


def test_drawing_leaves_the_settings_of_matplotlib_alone(automatic, tmp_path):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    foretell.write_report(automatic, tmp_path / "report.html")
    assert dict(mpl.rcParams) == before


# Colors


def palettes(html):
    """Return the variables of the light page, the dark one and paper, in this order."""
    found = re.findall(r":root\{((?:--\w+:#\w{6};)+)\}", html)
    return [dict(re.findall(r"--(\w+):(#\w{6})", text)) for text in found]


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(a, b):
    light, dark = sorted([luminance(a), luminance(b)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_and_lines_stand_out_in_light_in_dark_and_on_paper(automatic, page):
    light, dark, paper = palettes(page(automatic).html)
    assert paper == light
    assert luminance(dark["paper"]) < 0.05 < luminance(light["paper"])
    for colors in (light, dark):
        for ground in (colors["paper"], colors["beyond"]):
            assert contrast(colors["ink"], ground) >= 7
            assert contrast(colors["quiet"], ground) >= 4.5
            for name in ("first", "second", "third", "fourth", "fifth", "sixth"):
                assert contrast(colors[name], ground) >= 4.5, name


def test_pictures_have_no_color_that_the_page_does_not_choose(automatic, page):
    html = page(automatic).html
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert not re.search(r"#[0-9a-f]{6}\b(?!-)", re.sub(r'href="[^"]*"|url\([^)]*\)', "", pictures))
    assert set(re.findall(r"var\(--(\w+)\)", pictures)) <= set(palettes(html)[0])


# In a browser


@pytest.fixture
def shown(browser):
    """Open a page in a browser of some width, light or dark."""

    def show(path, *, width=1100, scheme="light", media=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": features, "media": media}
        )
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(path.as_uri())
        return browser

    yield show
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [], "media": ""})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get("about:blank")


def test_hostile_names_are_shown_and_never_run(hostile, hostile_names, page, shown):
    open_page = shown(page(hostile).path)
    assert open_page.title.startswith("A model of t</text></style><script>")
    assert open_page.get_log("browser") == []
    outside = "script, img, b, iframe, [onerror]"
    assert open_page.execute_script(f"return document.querySelectorAll('{outside}').length") == 0
    text = open_page.execute_script("return document.body.textContent")
    for name in hostile_names:
        assert name.replace("\u202e", "\ufffd") in text


def test_page_follows_the_reader_and_is_light_on_paper(automatic, page, shown):
    ground = "return getComputedStyle(document.body).backgroundColor"
    line = "return getComputedStyle(document.querySelector('svg path[style*=--first]')).stroke"
    found = {}
    for name, options in {
        "light": {}, "dark": {"scheme": "dark"}, "paper": {"scheme": "dark", "media": "print"},
    }.items():  # fmt: skip
        open_page = shown(page(automatic).path, **options)
        found[name] = [open_page.execute_script(script) for script in (ground, line)]
    assert found["paper"] == found["light"]
    assert not set(found["dark"]) & set(found["light"])


CLIPPED = """
return [...document.querySelectorAll('svg')].flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 2 || own.right > box.right + 2
        || own.top < box.top - 2 || own.bottom > box.bottom + 2;
  }).map(text => svg.querySelector('title').textContent + ': ' + text.textContent);
});
"""
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("kind", ["automatic", "campaign", "hostile"])
def test_nothing_is_clipped_and_the_page_never_scrolls_sideways(kind, request, page, shown):
    path = page(request.getfixturevalue(kind)).path
    for width in (1100, 420):
        open_page = shown(path, width=width)
        assert open_page.execute_script(WIDER) <= 0
        assert open_page.execute_script(CLIPPED) == []


def test_wide_tables_are_reported_in_bounds(tmp_path, shown):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.uniform(1, 9, (40, 60)), columns=[f"x{i}" for i in range(60)])
    frame["time_s"] = 2 + frame["x0"] * frame["x1"]
    campaign = {
        "data": {"target": "time_s"},
        "techniques": {"DecisionTree": {}},
        "search": {"splits": {"method": "KFold", "folds": 2}},
    }
    foretell.fit_model(campaign, frame, output=tmp_path / "models")
    report = foretell.write_report(tmp_path / "models", tmp_path / "report.html")
    assert report.n_bytes < 1_000_000
    open_page = shown(report.path)
    assert open_page.execute_script(WIDER) <= 0
    assert "Columns that matter less are not drawn" in open_page.page_source


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": [1.0, 2, 3], "time_s": [3.0, 5, 7]}),
        pd.DataFrame({"n": [2.0] * 4, "time_s": [3.0, 3.1, 3, 3.2]}),
        pd.DataFrame({"zone": list("aabb"), "time_s": [3.0, 3.1, 5, 5.2]}),
        pd.DataFrame({"n": [-3, -1, 0, 2, 5] * 2, "time_s": [3.0, 4, 5, 6, 7] * 2}),
    ],
    ids=["three rows", "constant", "one category", "below zero"],
)
def test_least_tables_have_a_report(frame, tmp_path):
    foretell.fit_model(frame, target="time_s", output=tmp_path / "models")
    for name in ("report.html", "report.md", "report.pdf"):
        assert foretell.write_report(tmp_path / "models", tmp_path / name).n_bytes > 3_000
