"""Where campaigns come from, and where their tables are looked for."""

import os
from pathlib import Path

import pandas as pd
import pytest

from foretell.errors import DatasetError, UsageError
from foretell.model.campaigns.schema import read_campaign
from foretell.model.campaigns.sources import load_campaign, resolve_data_path

INI = """\
[General]
techniques = LRRidge
y = time_s
hp_selection = All
validation = All
{more}
[DataPreparation]
input_path = runs.csv
"""
TOML = """\
search.splits.method = "All"
validation.method = "All"
data.target = "time_s"
data.path = "runs.csv"
techniques.LRRidge = {}
"""
SECTIONS = {
    "General": {
        "techniques": ["LRRidge"],
        "y": "time_s",
        "hp_selection": "All",
        "validation": "All",
    },
    "DataPreparation": {"input_path": "runs.csv"},
}
PLAIN = {
    "search": {"splits": {"method": "All"}},
    "validation": {"method": "All"},
    "data": {"target": "time_s", "path": "runs.csv"},
    "techniques": {"LRRidge": {}},
}
CAMPAIGN = read_campaign(PLAIN)


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refusal(source):
    with pytest.raises(UsageError) as caught:
        load_campaign(source)
    return str(caught.value)


@pytest.mark.parametrize(
    "name, text",
    [
        ("c.toml", TOML),
        ("C.TOML", TOML),
        ("c.ini", INI.format(more="")),
        ("c.cfg", INI.format(more="")),
        ("c.conf", INI.format(more="")),
        ("c.txt", INI.format(more="")),
        ("campaign", INI.format(more="")),
    ],
)
def test_the_name_of_a_file_says_how_to_read_it(name, text):
    Path(name).write_text(text)
    assert load_campaign(name) == (CAMPAIGN, None, [])
    assert load_campaign(Path(name)) == (CAMPAIGN, None, [])


@pytest.mark.parametrize("source", [CAMPAIGN, PLAIN, SECTIONS])
def test_dicts_of_both_shapes_and_campaigns_are_taken(source):
    assert load_campaign(source) == (CAMPAIGN, None, [])


def test_warnings_of_a_file_are_passed_on():
    Path("c.ini").write_text(INI.format(more="sed = 1"))
    assert load_campaign("c.ini")[2] == [
        "c.ini, [General] sed: not an option of this section and ignored; did you mean 'seed'?"
    ]


@pytest.mark.parametrize(
    "source, section, option",
    [(SECTIONS, "DataPreparation", "input_path"), (PLAIN, "data", "path")],
)
def test_frame_in_a_dict_is_given_beside_the_campaign(source, section, option):
    frame = pd.DataFrame({"x": [1, 2], "time_s": [3, 4]})
    source = {**source, section: {**source[section], option: frame}}
    campaign, taken, _ = load_campaign(source)
    assert taken is frame
    assert campaign.data.path is None
    assert source[section][option] is frame


@pytest.mark.parametrize(
    "source, part",
    [
        ({"General": {}}, "campaign, [General] y: is required and missing"),
        ({"DataPreparation": {}}, "campaign, [General] y: is required and missing"),
        ({}, "campaign, data: is required and missing"),
        ({**PLAIN, "sed": 1}, "campaign, sed: unknown option 'sed'. Did you mean 'seed'?"),
        (3, "a campaign is a file, a dict or a Campaign, not 3"),
        ("absent.ini", "there is no campaign file 'absent.ini'"),
        ("no/where.ini", "there is no campaign file 'no/where.ini': there is no directory 'no'"),
    ],
)
def test_what_is_no_campaign_is_refused(source, part):
    assert refusal(source).startswith(part)


def test_missing_file_suggests_a_near_one():
    Path("campaign.ini").write_text(INI)
    assert refusal("campain.ini").endswith(". Did you mean 'campaign.ini'?")


def test_directory_is_refused_and_a_campaign_in_it_suggested():
    Path("runs").mkdir()
    assert refusal("runs") == "runs is a directory, and a campaign is a file"
    Path("runs/c.ini").write_text(INI)
    assert refusal("runs").endswith(f", such as {Path('runs/c.ini')}")


@pytest.mark.parametrize("name", ["c.ini", "c.toml"])
@pytest.mark.parametrize(
    "content, part",
    [
        (b"", " is empty"),
        (b" \n\n", " is empty"),
        (b"[data]\n\0\0", " is not a text file"),
        (b"[data]\ntarget = '\xe8'\n", ", line 2: not UTF-8 text"),
        (b"\xff\xfe[\0d\0", ", line 1: not UTF-8 text"),
    ],
)
def test_file_that_is_no_text_is_refused(name, content, part):
    Path(name).write_bytes(content)
    assert refusal(name).startswith(f"{name}{part}")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads every file")
def test_unreadable_file_is_refused():
    Path("c.ini").write_text(INI)
    Path("c.ini").chmod(0)
    assert refusal("c.ini") == "c.ini cannot be read: Permission denied"


def test_too_long_a_name_is_refused():
    assert "cannot be read: File name too long" in refusal("a" * 5000 + ".ini")


def test_table_given_as_campaign_is_refused_with_its_first_line():
    Path("runs.csv").write_text("nodes,time_s\n1,2\n")
    assert refusal("runs.csv").startswith("runs.csv, line 1: a section such as [General] must")


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("c.toml", "campaigns/runs.csv", "runs.csv"), ("c.ini", "runs.csv", "campaigns/runs.csv")],
)
def test_table_lies_beside_the_campaign_or_here_and_each_kind_of_file_prefers_one(
    name, first, second
):
    Path("campaigns").mkdir()
    Path(second).write_text("a")
    assert resolve_data_path(CAMPAIGN, Path("campaigns") / name) == Path(second)
    Path(first).write_text("a")
    assert resolve_data_path(CAMPAIGN, Path("campaigns") / name) == Path(first)


def test_missing_table_is_reported_with_the_places_looked_at(tmp_path):
    Path("campaigns").mkdir()
    Path("campaigns/run.csv").write_text("a")
    with pytest.raises(DatasetError) as caught:
        resolve_data_path(CAMPAIGN, Path("campaigns/c.ini"))
    assert str(caught.value) == (
        f"data.path: there is no table runs.csv; looked at '{tmp_path / 'runs.csv'}' and "
        f"'{tmp_path / 'campaigns' / 'runs.csv'}'. Did you mean "
        f"'{Path('campaigns/run.csv')}'?"
    )


def with_path(path):
    return read_campaign({**PLAIN, "data": {"target": "time_s", "path": path}})


def test_absolute_path_is_looked_for_in_one_place_only(tmp_path):
    with pytest.raises(DatasetError) as caught:
        resolve_data_path(with_path(str(tmp_path / "z.csv")), Path("campaigns/c.ini"))
    assert str(caught.value).count("z.csv") == 2


def test_home_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("runs.csv").write_text("a")
    assert resolve_data_path(with_path("~/runs.csv"), None) == tmp_path / "runs.csv"


def test_campaign_without_a_path_asks_for_one():
    with pytest.raises(UsageError, match="the campaign names no table of runs"):
        resolve_data_path(with_path(None), None)


def test_a_sweep_given_as_campaign_is_told_as_such():
    Path("sweep.toml").write_text('[workload]\nuse = "command"\n')
    assert refusal("sweep.toml") == (
        "sweep.toml is a sweep, not a campaign; run it with: foretell measure sweep.toml"
    )
