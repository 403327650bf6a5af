"""The impact of settings in reports: of fits, and on its own."""

import pytest

import foretell
from foretell import UsageError
from foretell.report.impact import write_impact_report

from ..impact.tables import half_drawn_table, table


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    place = tmp_path_factory.mktemp("fit") / "models"
    foretell.fit_model(table().drop(columns="accuracy"), target="time_s", output=place)
    return place


def test_the_report_of_a_fit_has_a_heat_map_of_the_category_that_matters_most(models, tmp_path):
    report = foretell.write_report(models, tmp_path / "report.md")
    assert "Impact of settings" in report.sections
    text = (tmp_path / "report.md").read_text()
    part = text.partition("## Impact of settings")[2].partition("\n## ")[0]
    assert "| setting | large | small |" in part
    assert "within noise" in part
    assert (tmp_path / "report-pictures" / "impact-1.svg").exists()


def test_workloads_of_the_heat_map_can_be_chosen(models, tmp_path):
    foretell.write_report(models, tmp_path / "report.md", by=["zip"])
    assert "| setting | off | on |" in (tmp_path / "report.md").read_text()
    with pytest.raises(UsageError, match="Did you mean 'zip'"):
        foretell.write_report(models, tmp_path / "other.md", by=["zipp"])


def test_a_model_file_alone_has_modelled_impacts(models, tmp_path):
    report = foretell.write_report(models / "best.foretell", tmp_path / "report.html")
    assert "Impact of settings" in report.sections
    assert "~" in (tmp_path / "report.html").read_text()


def test_a_report_with_measured_and_modelled_tunings_says_which_are_which(tmp_path):
    found = foretell.analyze_impact(
        half_drawn_table(), "time_s", by="workload", system="cores", hyper="depth"
    )
    write_impact_report(found, tmp_path / "impact.md")
    text = (tmp_path / "impact.md").read_text()
    assert "are modelled, the others measured" in text.partition("## What tuning reaches")[2]
    assert "All figures are" not in text
    assert "is better (impact high from 20 % on" in text
    assert "~" in (tmp_path / "impact-pictures" / "impact-1.svg").read_text()
