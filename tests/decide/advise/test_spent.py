"""What runs have cost, and what is within a budget."""

from __future__ import annotations

import pandas as pd
import pytest

from foretell.decide.advise.spent import Account
from foretell.decide.question.objective import PlanRequest
from foretell.errors import UsageError

JOB = {"size": 40}
RUNS = [{"size": 10, "workers": 1}, {"size": 40, "workers": 1}]


def account(budget="1m", n_warm_up=0, **request):
    asked = PlanRequest.model_validate({"fix": JOB, **request})
    return Account.open(budget, ["train_s"], asked, RUNS, n_warm_up)


def made(*times_s, **columns):
    frame = pd.DataFrame({"size": 10, "workers": 1, "status": "ok", "train_s": list(times_s)})
    return frame.assign(wall_time_s=frame["train_s"] + 1, n_attempts=1, **columns)


def test_nothing_is_spent_and_everything_affordable_before_the_first_run():
    assert account().spent(pd.DataFrame()) == 0
    assert account().affords(pd.DataFrame(), RUNS)


def test_a_run_that_went_wrong_counts_with_its_wall_time():
    frame = made(3.0, 4.0)
    frame.loc[1, ["train_s", "status"]] = [None, "failed"]
    assert account().spent(frame) == 3.0 + 5.0


def test_runs_that_all_went_wrong_have_no_column_of_the_target():
    frame = made(3.0).drop(columns="train_s").assign(status="failed")
    assert account().spent(frame) == 4.0


def test_warming_up_and_further_attempts_are_paid_for():
    assert account(n_warm_up=1).spent(made(3.0)) == 6.0
    assert account(n_warm_up=1).spent(made(3.0).assign(n_attempts=2)) == 9.0


def test_a_larger_job_is_taken_to_cost_in_proportion():
    frame = made(3.0, 100.0)
    assert account().guess(frame, [RUNS[1]]) == 12.0  # by the first run alone
    assert account().guess(frame, RUNS) == 15.0
    assert account(n_warm_up=1).guess(frame, [RUNS[1]]) == 24.0


def test_a_run_is_affordable_up_to_what_is_left():
    frame = made(3.0)
    assert account("15s").affords(frame, [RUNS[1]])
    assert not account("14s").affords(frame, [RUNS[1]])
    assert account("3.1s").affords(frame)
    assert not account("3s").affords(frame)


def test_money_is_by_the_price_of_each_run():
    prices = {"price_per_hour": 3600, "nodes": "workers"}
    paid = account("20", prices=prices)
    assert paid.spent(made(3.0).assign(workers=2)) == pytest.approx(6.0)
    assert paid.guess(made(3.0), [{"size": 10, "workers": 4}]) == pytest.approx(12.0)
    assert paid.written(6.0) == "6.00 $"


def test_prices_may_speak_of_what_is_given_and_no_column_of_runs():
    prices = {"by": "machine", "machines": {"m4": {"price_per_hour": 3600}}}
    paid = account("20", fix={**JOB, "machine": "m4"}, prices={**prices, "nodes": 1})
    assert paid.spent(made(3.0)) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("budget", "words"),
    [("1x", "must be a time"), ("20", "needs prices"), ("5kJ", "no model predicts the energy")],
)
def test_budgets_that_cannot_be_used_are_refused(budget, words):
    with pytest.raises(UsageError, match=words):
        account(budget)
