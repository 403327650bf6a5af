"""Grouping for users: job files, limits, memory, and what is refused."""

from dataclasses import replace

import pytest

import foretell
from foretell.corun.group import group_jobs
from foretell.errors import NothingUsableError, UsageError

from .jobs import made_up, made_up_elsewhere, made_up_machine


def test_small_jobs_share_a_machine_and_large_ones_run_in_turn():
    jobs = {"a": made_up(cores=1.0), "b": made_up(cores=1.0), "c": made_up(cores=2.0)}
    found = group_jobs(jobs, machines=1, max_slowdown=1.1, machine=made_up_machine())
    assert {frozenset(g.jobs) for g in found.groups} == {frozenset("ab"), frozenset("c")}
    assert found.last_end_s == pytest.approx(20.0, rel=0.02)
    assert found.in_turn_s[0] == pytest.approx(30.0, rel=0.02)
    assert "machine" in str(found)
    assert found.to_json()["groups"][0]["machine"] == 1


def test_a_job_file_names_profiles_counts_and_jobs_to_keep_apart(tmp_path):
    for name in "ab":
        foretell.write_profile(made_up(name), tmp_path / f"{name}.profile")
    (tmp_path / "jobs.toml").write_text(
        'apart = [["a", "b"]]\n[job.a]\nprofile = "a.profile"\ncount = 2\n'
        '[job.b]\nprofile = "b.profile"\n'
    )
    found = group_jobs(tmp_path / "jobs.toml", machine=made_up_machine())
    assert sorted(sorted(g.jobs) for g in found.groups) == [["a", "a-2"], ["b"]]


def test_a_note_on_a_profile_is_told_once_for_all_copies(tmp_path):
    profile = replace(made_up("a"), disturbed=0.4)
    foretell.write_profile(profile, tmp_path / "a.profile")
    (tmp_path / "jobs.toml").write_text('[job.a]\nprofile = "a.profile"\ncount = 3\n')
    found = group_jobs(tmp_path / "jobs.toml", machine=made_up_machine())
    assert sum("0.40 cores" in note for note in found.notes) == 1


def test_jobs_that_do_not_fit_into_memory_are_kept_apart_or_refused():
    machine = made_up_machine()
    large = made_up(memory_bytes=1e10, cores=0.5)
    found = group_jobs({"a": large, "b": large}, machine=machine)
    assert all(len(g.jobs) == 1 for g in found.groups)
    with pytest.raises(NothingUsableError, match="does not fit into memory"):
        group_jobs({"a": made_up_elsewhere(memory_bytes=1e12)}, machine=machine)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[job.a]\nprofile = "a.profile"\n[jobs.b]\n', "jobs"),
        ('[job.a]\nprofil = "a.profile"\n', "profil"),
        ('apart = [["a", "z"]]\n[job.a]\nprofile = "a.profile"\n', "no job 'z'"),
        ('[job.a]\nprofile = "a.profile"\ncount = 0\n', "count"),
        ('[job.a]\nprofile = "a.profile"\ncount = 201\n', "count"),
        ("", "empty"),
    ],
)
def test_a_job_file_that_is_wrong_is_refused(text, reason, tmp_path):
    foretell.write_profile(made_up("a"), tmp_path / "a.profile")
    (tmp_path / "jobs.toml").write_text(text)
    with pytest.raises(UsageError, match=reason):
        group_jobs(tmp_path / "jobs.toml", machine=made_up_machine())


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"machines": 0}, "from 1"), ({"max_slowdown": 0.9}, "less than 1"),
     ({"max_slowdown": float("nan")}, "less than 1")],
)  # fmt: skip
def test_limits_that_cannot_be_are_refused(options, reason):
    with pytest.raises(UsageError, match=reason):
        group_jobs({"a": made_up()}, machine=made_up_machine(), **options)


def test_no_job_gets_lost_behind_a_number(tmp_path):
    foretell.write_profile(made_up("a"), tmp_path / "a.profile")
    jobs = {"a": {"profile": "a.profile", "count": 2}, "a-2": {"profile": "a.profile"}}
    given = {name: {**job, "profile": str(tmp_path / "a.profile")} for name, job in jobs.items()}
    with pytest.raises(UsageError, match="two jobs are called 'a-2'"):
        group_jobs({"job": given}, machine=made_up_machine())


def test_profiles_by_name_are_checked_as_those_of_files():
    with pytest.raises(UsageError, match="without end"):
        group_jobs({"a": made_up(is_endless=True)}, machine=made_up_machine())
    with pytest.raises(UsageError, match="201 jobs"):
        group_jobs({str(k): made_up() for k in range(201)}, machine=made_up_machine())


def test_a_job_without_end_cannot_be_grouped(tmp_path):
    foretell.write_profile(made_up("a", is_endless=True), tmp_path / "a.profile")
    with pytest.raises(UsageError, match="without end"):
        group_jobs({"job": {"a": {"profile": str(tmp_path / "a.profile")}}})
