"""Jobs that arrive: rates and bursts of made-up ones, and recorded ones that are checked."""

import numpy as np
import pandas as pd
import pytest

from foretell.errors import DatasetError
from foretell.simulate.job_arrivals import MarkedArrivals, PoissonArrivals, read_jobs

BURSTS = MarkedArrivals(
    (
        np.array([[-1.1, 0.1], [0.05, -0.25]]),
        np.array([[0.8, 0.0], [0.0, 0.1]]),
        np.array([[0.0, 0.2], [0.1, 0.0]]),
    )
)


def test_poisson_jobs_have_the_rates_of_their_classes():
    jobs = PoissonArrivals((0.3, 0.1)).draw(np.random.default_rng(0), 40_000)
    per_s = np.bincount(jobs.class_of) / jobs.at_s[-1]
    assert per_s == pytest.approx([0.3, 0.1], rel=0.03)
    gaps = np.diff(jobs.at_s)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.03)


def test_marked_jobs_have_the_rates_of_the_long_run():
    jobs = BURSTS.draw(np.random.default_rng(1), 60_000)
    per_s = np.bincount(jobs.class_of) / jobs.at_s[-1]
    # Leaving the first state at 0.3 per s and the second at 0.15: a third of the time in the first.
    assert BURSTS.rates_per_s == pytest.approx([0.8 / 3 + 0.2 / 3, 0.2 / 3 + 0.2 / 3])
    assert per_s == pytest.approx(BURSTS.rates_per_s, rel=0.05)


def test_gaps_of_a_marked_process_have_the_moments_of_its_phases():
    gaps = np.diff(BURSTS.draw(np.random.default_rng(2), 100_000).at_s)
    d0, marked = BURSTS.matrices[0], BURSTS.matrices[1] + BURSTS.matrices[2]
    inverse = np.linalg.inv(-d0)
    step = inverse @ marked
    values, vectors = np.linalg.eig(step.T)
    start = np.real(vectors[:, np.argmax(np.real(values))])
    start = start / start.sum()
    assert gaps.mean() == pytest.approx((start @ inverse).sum(), rel=0.04)
    assert (gaps**2).mean() == pytest.approx(2 * (start @ inverse @ inverse).sum(), rel=0.1)


def test_one_state_is_a_poisson_process():
    process = MarkedArrivals((np.array([[-0.4]]), np.array([[0.3]]), np.array([[0.1]])))
    jobs = process.draw(np.random.default_rng(3), 40_000)
    assert np.bincount(jobs.class_of) / jobs.at_s[-1] == pytest.approx([0.3, 0.1], rel=0.03)


def test_recorded_jobs_are_sorted_by_arrival_and_keep_their_sizes(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("class,arrival_s,service_s\nhigh,5,2.5\nlow,1,7\n")
    jobs = read_jobs(path, ["low", "high"])
    assert jobs.at_s.tolist() == [1.0, 5.0]
    assert jobs.class_of.tolist() == [0, 1]
    assert jobs.service_s.tolist() == [7.0, 2.5]


def test_recorded_jobs_may_have_no_sizes():
    frame = pd.DataFrame({"class": ["a"], "arrival_s": [0.5]})
    assert read_jobs(frame, ["a"]).service_s is None


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("hihg,1,2", "Did you mean 'high'"),
        ("high,-1,2", "arrival_s"),
        ("high,1,soon", "service_s"),
        ("high,,2", "arrival_s"),
    ],
)
def test_what_is_no_job_is_refused_with_its_place(tmp_path, rows, expected):
    path = tmp_path / "jobs.csv"
    path.write_text(f"class,arrival_s,service_s\nhigh,0,1\n{rows}\n")
    with pytest.raises(DatasetError, match=expected) as raised:
        read_jobs(path, ["low", "high"])
    assert "row 2" in str(raised.value)
