"""Earlier runs, as advice sees them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from foretell.decide.advise.past_runs import PastRuns
from foretell.errors import DatasetError
from foretell.statuses import Status

from ..conftest import Law

LAW = Law(ranges={"workers": (1.0, 8.0)}, categories={"kind": ("x", "y")})


def table(*rows):
    columns = ["workers", "kind", "time_s", "status", "wall_time_s"]
    return pd.DataFrame(rows, columns=columns)


def test_runs_are_sorted_by_how_they_ended():
    past = PastRuns.of(
        table(
            (1, "x", 5.0, Status.OK, 6.0),
            (1, "x", 5.5, Status.OK, 6.5),
            (2, "x", 3.0, Status.OK, 4.0),
            (2, "x", np.nan, Status.FAILED, 1.0),  # it went well once
            (4, "x", np.nan, Status.OUT_OF_MEMORY, 1.0),
            (8, "y", 60.0, Status.TIMED_OUT, 61.0),
            (8, "x", np.nan, Status.LOST, np.nan),
        ),
        [LAW],
    )
    assert past.measured.to_dict("records") == [
        {"workers": 1, "kind": "x"}, {"workers": 2, "kind": "x"}
    ]  # fmt: skip
    assert past.n_runs.tolist() == [2, 1]
    assert past.broken["workers"].tolist() == [4, 8]
    assert past.too_long.to_dict("records") == [{"workers": 8, "kind": "y"}]
    assert past.at_least["time_s"].tolist() == [60.0]
    assert past.limit_s.tolist() == [61.0]


def test_a_run_without_a_result_failed_and_one_too_short_to_be_measured_did_not():
    rows = pd.DataFrame({"workers": [1, 2, 4], "kind": "x", "time_s": [5.0, np.nan, 0.0]})
    assert PastRuns.of(rows, [LAW]).broken["workers"].tolist() == [2]
    assert PastRuns.of(rows.assign(status="ok"), [LAW]).broken.empty  # it was not measured


def test_without_a_wall_time_the_limit_is_what_a_stopped_run_took():
    rows = pd.DataFrame({"workers": [1, 2], "kind": "x", "time_s": [5.0, 60.0]})
    rows["status"] = ["ok", "timed out"]
    assert PastRuns.of(rows, [LAW]).limit_s.tolist() == [60.0]


def test_a_status_in_other_words_does_not_say_how_runs_ended():
    rows = pd.DataFrame({"workers": [1, 2], "kind": "x", "time_s": [5.0, 3.0], "status": "done"})
    past = PastRuns.of(rows, [LAW])
    assert past.n_runs.tolist() == [1, 1]
    assert past.broken.empty


def test_noise_is_the_spread_of_repeats_in_logs():
    rows = [(1, "x", 5.0 * math.exp(d), "ok", 1.0) for d in (-0.2, 0.0, 0.2)]
    rows += [(2, "x", 70.0, "ok", 1.0)]
    past = PastRuns.of(table(*rows), [LAW])
    assert past.has_repeats
    assert past.noise["time_s"] == pytest.approx(0.2)  # two free differences


def test_without_repeats_the_noise_is_assumed_and_without_a_table_nothing_is_known():
    single = PastRuns.of(table((1, "x", 5.0, "ok", 1.0)), [LAW])
    assert not single.has_repeats
    nothing = PastRuns.of(None, [LAW])
    assert nothing.noise == single.noise
    assert [len(f) for f in (nothing.measured, nothing.too_long, nothing.broken)] == [0, 0, 0]


def test_a_table_in_which_nothing_went_well_is_refused():
    with pytest.raises(DatasetError, match="no run that went well"):
        PastRuns.of(table((1, "x", 5.0, "failed", 1.0)), [LAW])


def test_a_target_that_is_not_a_number_is_refused_with_its_row():
    rows = [(1, "x", "5.0", "ok", 1.0), (2, "x", "broke", "ok", 1.0)]
    with pytest.raises(DatasetError, match=r"'time_s'.*row 2"):
        PastRuns.of(table(*rows), [LAW])


def test_text_in_the_target_of_a_run_that_failed_does_not_matter():
    rows = [(1, "x", "5.0", "ok", 1.0), (2, "x", "broke", "failed", 1.0)]
    rows += [(4, "x", "", "ok", 1.0), (8, "x", "broke", Status.TIMED_OUT, 9.0)]
    past = PastRuns.of(table(*rows), [LAW])
    assert past.measured["workers"].tolist() == [1]
    assert np.isnan(past.at_least["time_s"]).all()


@pytest.mark.parametrize("cell", [np.nan, "", "many", math.inf])
def test_a_setting_that_is_not_a_number_is_refused_with_its_row(cell):
    rows = [(1, "x", 5.0, "ok", 1.0), (cell, "x", 4.0, "ok", 1.0), (2, "x", 3.0, "ok", 1.0)]
    with pytest.raises(DatasetError, match=r"'workers'.*row 2"):
        PastRuns.of(table(*rows), [LAW])


def test_settings_of_runs_that_failed_need_not_be_numbers():
    rows = [(1, "x", 5.0, "ok", 1.0), (np.nan, "x", np.nan, "failed", 1.0)]
    assert PastRuns.of(table(*rows), [LAW]).measured["workers"].tolist() == [1]
