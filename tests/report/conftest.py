"""Small fits to report on: an automatic one, a campaign with failures, and one of hostile names."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import foretell

HOSTILE_COLUMNS = [
    '<script>document.title="run"</script>',
    '</svg><img src=x onerror=document.title="run">',
    r"cost $\frac{1}{0}$ $x",
    "\"'> & ]]> --> {{7*7}} \u202e日本語",
    "n" * 300 + "_s",
    "a|b`c*_d_*[x](javascript:alert(1))",
]
HOSTILE_LEVELS = ["</title><script>alert(1)</script>", r"$\alpha$", "<b>x</b>"]
HOSTILE_TARGET = 't</text></style><script>document.title="run"</script>_s'


def table(n_repeats=2):
    frame = pd.DataFrame(
        [(n, s, m) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80) for m in ("c4", "m4")],
        columns=["nodes", "size_mib", "machine"],
    )
    frame = pd.concat([frame] * n_repeats, ignore_index=True)
    speed = frame["machine"].map({"c4": 1.0, "m4": 1.4})
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    return frame.assign(time_s=(5 + 3 * frame["size_mib"] / frame["nodes"]) * speed * noise)


CAMPAIGN = {
    "data": {"target": "time_s"},
    "features": {"inverse": ["nodes"], "product_max_degree": 2},
    "validation": {"method": "Extrapolation", "columns": {"size_mib": 40}},
    "search": {"splits": {"method": "KFold", "folds": 2}},
    # The second is more than p_to_remove, and fails.
    "techniques": {"LRRidge": {}, "DecisionTree": {}, "Stepwise": {"p_to_add": [0.05, 0.5]}},
}


@pytest.fixture(scope="session")
def automatic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("automatic")
    table().to_csv(folder / "runs.csv", index=False)
    foretell.fit_model(folder / "runs.csv", target="time_s", output=folder / "models")
    return folder / "models"


@pytest.fixture(scope="session")
def campaign(tmp_path_factory):
    output = tmp_path_factory.mktemp("campaign") / "models"
    foretell.fit_model(CAMPAIGN, table(), output=output)
    return output


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    random = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            HOSTILE_COLUMNS[0]: random.choice([1, 2, 4, 8], 40),
            HOSTILE_COLUMNS[1]: random.choice([1.5, 3, 10, 100], 40),
            HOSTILE_COLUMNS[2]: random.choice(HOSTILE_LEVELS, 40),
            HOSTILE_COLUMNS[3]: random.choice([True, False], 40),
            HOSTILE_COLUMNS[4]: random.uniform(1, 9, 40),
            HOSTILE_COLUMNS[5]: random.integers(0, 4, 40),
        }
    )
    frame[HOSTILE_TARGET] = 3 + frame[HOSTILE_COLUMNS[1]] / frame[HOSTILE_COLUMNS[0]]
    output = tmp_path_factory.mktemp("hostile") / "models"
    foretell.fit_model(frame, target=HOSTILE_TARGET, output=output)
    return output


@pytest.fixture(scope="session")
def hostile_names():
    return [*HOSTILE_COLUMNS, *HOSTILE_LEVELS, HOSTILE_TARGET]


@pytest.fixture(scope="session")
def runs():
    return table()


class Page(HTMLParser):
    """What a page is made of: elements with their attributes, and the text of each section."""

    def __init__(self, html):
        super().__init__()
        self.html, self.elements, self.texts, self._section = html, [], {"": ""}, ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "section":
            self._section = dict(attrs)["id"]
            self.texts[self._section] = ""

    def handle_data(self, data):
        self.texts[self._section] += f"{data} "

    def with_tag(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """Write a report and read it; the same one only once."""
    folder, known = tmp_path_factory.mktemp("pages"), {}

    def write(models, **options):
        key = str(models), str(options)
        if key not in known:
            report = foretell.write_report(models, folder / f"{len(known)}.html", **options)
            known[key] = Page(report.path.read_text(encoding="utf-8"))
            known[key].path = report.path
        return known[key]

    return write
