"""Maintenance from completed tasks to promoted models, on simulated tasks."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli
from foretell.cluster.maintenance import maintain, promote
from foretell.cluster.maintenance.completed import Ending, completed_task
from foretell.cluster.maintenance.maintain import maintain_models
from foretell.cluster.maintenance.outcome import ModelOutcome
from foretell.cluster.maintenance.places import last_round_s, open_completed
from foretell.cluster.models import open_estimates
from foretell.cluster.simulate import simulate_cluster
from foretell.decide.placement.cluster import read_cluster
from foretell.errors import StorageError, UsageError
from foretell.simulate.arrivals import made_up

from ..conftest import RATES

START_S = 1_700_000_000.0
NOW_S = START_S + 86_400


@pytest.fixture
def cluster_file(models, tmp_path):
    """Write a cluster whose fast nodes have become half as fast since their models were fitted."""
    shutil.copytree(models, tmp_path / "models")
    return write_cluster(tmp_path, slower=2.0)


def write_cluster(folder, slower, more=""):
    path = folder / "cluster.toml"
    factors = {"fast": slower, "slow": 1.0}
    path.write_text(
        f'[maintenance]\nrecords = "records"\n{more}\n'
        "[policy]\nH = 0.5\n"
        '[trace]\ntasks = 200\narrivals = "poisson"\nrate_per_s = 0.1\ncpu = 1\nnoise = 0.02\n'
        "features = { iterations = { from = 100, to = 1000 } }\n"
        + "".join(
            f'[[node_type]]\nname = "{name}"\ncount = 2\n'
            f'capacity = {{ cpu = 4, memory = "4Gi" }}\nmodels = "models/{name}"\n'
            f'time_s = "{time_s * factors[name]} * iterations"\n'
            f'energy_j = "{energy_j} * iterations"\n'
            for name, (time_s, energy_j) in RATES.items()
        )
    )
    return path


def play(path, seed=0, change=lambda task: task):
    """Simulate tasks, and store them as they completed; return them."""
    cluster = read_cluster(path)
    estimates, _ = open_estimates(cluster)
    types = {table.name: table.node_type for table in cluster.node_type}
    arrivals = made_up(cluster.trace, seed)
    played = simulate_cluster(cluster, policy="random", seed=seed).outcomes[0].played.tasks
    found = []
    for row in played.itertuples():
        ending = Ending(
            f"{seed}/{row.name}", START_S + row.end_s, row.node, row.time_s, row.energy_j
        )
        task = arrivals[int(row.name) - 1].task
        found.append(change(completed_task(estimates, types[row.type], task, ending)))
    with open_completed(cluster) as store:
        store.append(found)
    return found


def mean_error(path, kind, seed):
    """Return how far off predicted times are on new simulated tasks."""
    tasks = simulate_cluster(path, policy="random", seed=seed).tasks()
    own = tasks[tasks.type == kind]
    assert len(own) > 20
    return float((own.predicted_time_s / own.time_s - 1).abs().mean())


def outcome(maintained, kind, target):
    (found,) = [m for m in maintained.models if m.types == (kind,) and m.target == target]
    return found


def test_a_type_that_drifted_is_learned_again(cluster_file):
    play(cluster_file)
    before = mean_error(cluster_file, "fast", seed=7)
    assert before > 0.4
    maintained = maintain_models(cluster_file, now_s=NOW_S)
    assert outcome(maintained, "fast", "time_s").verdict == "promoted"
    assert mean_error(cluster_file, "fast", seed=7) < 0.05
    assert mean_error(cluster_file, "slow", seed=7) < 0.05
    assert last_round_s(read_cluster(cluster_file)) == NOW_S
    # The rest of the output is that of the new fit, too.
    folder = cluster_file.parent / "models/fast/time_s"
    results = json.loads((folder / "results.json").read_text())
    assert results["data"]["n_rows"] == foretell.load_model(folder).n_rows != 57


def test_what_did_not_happen_of_late_is_not_forgotten(cluster_file, tmp_path):
    write_cluster(tmp_path, slower=1.2)
    text = cluster_file.read_text().replace("from = 100, to = 1000", "from = 400, to = 500")
    cluster_file.write_text(text)
    play(cluster_file)
    maintained = maintain_models(cluster_file, now_s=NOW_S)
    assert outcome(maintained, "fast", "time_s").verdict == "promoted"
    placement = foretell.place_task(cluster_file, "cpu=1,iterations=900", H=0)
    assert {node.estimate.trust for node in placement.nodes} == {"inside"}


def test_a_bad_refit_is_not_promoted(cluster_file, tmp_path):
    write_cluster(tmp_path, slower=1.0)

    def spoiled(task):  # all but the newest report times that are far off
        at_s = task.at_s
        return task if at_s > START_S + 1500 else replace(task, time_s=task.time_s * 5)

    play(cluster_file, change=spoiled)
    file = tmp_path / "models/fast/time_s/best.foretell"
    before = file.read_bytes()
    found = outcome(maintain_models(cluster_file, now_s=NOW_S), "fast", "time_s")
    assert found.verdict == "kept"
    assert found.new_error > 0.5 > 0.1 > found.old_error
    assert file.read_bytes() == before
    assert not list((tmp_path / "records").glob("replaced/fast-time-s-*"))


def test_the_old_model_is_kept_and_can_be_put_back(cluster_file, tmp_path):
    play(cluster_file)
    folder = tmp_path / "models/fast/time_s"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    maintained = maintain_models(cluster_file, now_s=NOW_S)
    (kept,) = maintained.replaced.glob("fast-time-s-*/000001")
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    assert before["best.foretell"] != (folder / "best.foretell").read_bytes()


def test_without_new_tasks_nothing_is_promoted_again(cluster_file, tmp_path):
    tasks = play(cluster_file)
    first = maintain_models(cluster_file, now_s=NOW_S)
    assert first.promoted
    before = sorted(first.replaced.glob("*/*"))
    again = maintain_models(cluster_file, now_s=NOW_S + 1)
    assert not again.promoted
    assert all("No task completed since" in str(outcome) for outcome in again.models)
    assert sorted(again.replaced.glob("*/*")) == before
    later = [replace(t, uid=f"{t.uid} later", at_s=t.at_s + 10_000) for t in tasks]
    with open_completed(read_cluster(cluster_file)) as store:
        store.append(later)
    third = maintain_models(cluster_file, now_s=NOW_S + 2)
    assert all(outcome.n_newest for outcome in third.models)


def test_models_kept_are_the_last_three(tmp_path):
    for number in range(8, 13):
        (tmp_path / f"{number:06d}").mkdir()
    promote.discard_older(tmp_path, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000010", "000011", "000012"]
    promote.discard_older(tmp_path / "missing", 3)


def only_fast(path, models):
    """Leave the fast type alone, with one model of time."""
    text = path.read_text()
    path.write_text(text[: text.rindex("[[node_type]]")].replace('"models/fast"', f'"{models}"'))


def test_a_single_model_file_is_replaced_in_its_place(cluster_file, tmp_path):
    source = tmp_path / "models/fast/time_s/best.foretell"
    shutil.copy(source, tmp_path / "own.foretell")
    only_fast(cluster_file, "own.foretell")
    text = cluster_file.read_text().replace("tasks = 200", "tasks = 40")
    cluster_file.write_text(text)
    play(cluster_file)
    found = outcome(maintain_models(cluster_file, now_s=NOW_S), "fast", "time_s")
    assert found.verdict == "promoted"
    (kept,) = (tmp_path / "records").glob("replaced/*/*/own.foretell")
    assert kept.read_bytes() == source.read_bytes()
    assert mean_error(cluster_file, "fast", seed=7) < 0.1


def test_a_model_that_types_share_learns_from_all_of_them(cluster_file):
    text = cluster_file.read_text().replace('"models/slow"', '"models/fast"')
    cluster_file.write_text(text)
    play(cluster_file)
    found = maintain_models(cluster_file, now_s=NOW_S)
    assert [m.types for m in found.models] == [("fast", "slow")] * 2
    assert {m.n_tasks for m in found.models} == {200}


def test_modelled_energies_teach_a_model_of_energy_nothing(cluster_file):
    play(cluster_file, change=lambda task: replace(task, energy_source="modelled"))
    found = maintain_models(cluster_file, now_s=NOW_S)
    assert outcome(found, "fast", "energy_j").verdict == "too few tasks"
    assert "0 tasks with a measured energy" in str(found)
    assert outcome(found, "fast", "time_s").verdict == "promoted"


def test_tasks_outside_the_window_do_not_count(cluster_file, tmp_path):
    write_cluster(tmp_path, slower=2.0, more='window = "1h"')
    play(cluster_file)
    found = maintain_models(cluster_file, now_s=NOW_S)
    assert {m.verdict for m in found.models} == {"too few tasks"}
    found = maintain_models(cluster_file, now_s=START_S - 1)  # a clock that was set back
    assert {m.n_tasks for m in found.models} == {0}


def test_a_refit_that_fails_is_said_and_the_others_go_on(cluster_file, tmp_path):
    play(cluster_file)
    campaign = tmp_path / "models/fast/time_s/campaign.toml"
    campaign.write_text(campaign.read_text().replace("[techniques.LRRidge]", "[techniques.Gone]"))
    found = maintain_models(cluster_file, now_s=NOW_S)
    assert outcome(found, "fast", "time_s").verdict == "failed"
    assert "Gone" in outcome(found, "fast", "time_s").reason
    assert outcome(found, "slow", "time_s").verdict in ("promoted", "kept")


class CrashError(BaseException):
    """Stands for the end of the process."""


def crash_at(monkeypatch, n):
    """Let the nth write to disk end the process."""
    count = iter(range(10_000))

    def crashing(function):
        def run(*given, **named):
            if next(count) == n:
                raise CrashError
            return function(*given, **named)

        return run

    monkeypatch.setattr(promote, "write_whole", crashing(promote.write_whole))
    monkeypatch.setattr(maintain.Journal, "_write", crashing(maintain.Journal._write))
    monkeypatch.setattr(promote.Path, "rename", crashing(promote.Path.rename))
    monkeypatch.setattr(maintain, "refit", crashing(maintain.refit))


def content(folder):
    files = [p for p in sorted(folder.rglob("*.foretell")) if p.is_file()]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def test_a_crash_at_any_write_loses_nothing(cluster_file, tmp_path):
    only_fast(cluster_file, "models/fast/time_s")
    play(cluster_file)
    models, records = tmp_path / "models", tmp_path / "records"
    whole = tmp_path / "whole"
    shutil.copytree(models, whole / "models")
    shutil.copytree(records, whole / "records")
    expected = maintain_models(cluster_file, now_s=NOW_S)
    assert len(expected.promoted) == 1
    after = content(models)
    for n in range(200):
        for folder in (models, records):
            shutil.rmtree(folder)
            shutil.copytree(whole / folder.name, folder)
        with pytest.MonkeyPatch.context() as patched:
            crash_at(patched, n)
            try:
                maintain_models(cluster_file, now_s=NOW_S)
            except CrashError:
                pass
            else:
                break
        open_estimates(read_cluster(cluster_file))  # every model can be loaded
        has_begun = last_round_s(read_cluster(cluster_file)) is not None
        resumed = maintain_models(cluster_file, now_s=NOW_S + has_begun * 1000 * 86_400)
        assert resumed == expected
        assert content(models) == after
        old = content(records / "replaced")
        assert {v for k, v in old.items() if k.endswith("best.foretell")} <= set(
            content(whole / "models").values()
        )
    assert n > 20


def test_killed_while_it_fits_it_goes_on_with_the_same_round(cluster_file, tmp_path):
    play(cluster_file)
    code = "import sys, foretell; foretell.maintain_models(sys.argv[1], now_s=float(sys.argv[2]))"
    process = subprocess.Popen([sys.executable, "-c", code, str(cluster_file), str(NOW_S)])
    while not list(tmp_path.glob("records/fits/*/journal")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    maintained = maintain_models(cluster_file, now_s=NOW_S + 5)
    assert maintained.number == 1
    assert last_round_s(read_cluster(cluster_file)) == NOW_S
    assert outcome(maintained, "fast", "time_s").verdict == "promoted"
    assert mean_error(cluster_file, "fast", seed=7) < 0.05


def test_two_processes_do_not_maintain_the_same_models(cluster_file, tmp_path, monkeypatch):
    from foretell.files import directory

    monkeypatch.setattr(directory, "_LOCK_WAIT_S", 0.1)
    (tmp_path / "records").mkdir()
    hold = (
        "import sys, pathlib; from foretell.files.directory import locked\n"
        "p = pathlib.Path(sys.argv[1])\n"
        "with locked(p / 'lock', p):\n    print('held', flush=True); sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "records")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdout.readline() == "held\n"
    try:
        with pytest.raises(StorageError, match="another foretell is writing"):
            maintain_models(cluster_file, now_s=NOW_S)
    finally:
        other.communicate("")


def test_the_command_prints_what_became_of_each_model(cluster_file):
    play(cluster_file, change=lambda task: replace(task, at_s=time.time() - 60))
    shown = CliRunner().invoke(cli, ["cluster", "maintain", str(cluster_file), "-j", "1"])
    assert shown.exit_code == 0, shown.output
    first = next(line for line in shown.stdout.splitlines() if line.startswith("fast, time_s"))
    assert "promoted. On the newest" in first
    assert "replaced" in shown.stdout
    shown = CliRunner().invoke(cli, ["cluster", "maintain", str(cluster_file), "-j", "1", "--json"])
    found = json.loads(shown.stdout)
    assert found["round"] == 2
    assert {m["verdict"] for m in found["models"]} == {"kept"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('records = "records"', ""), "does not say where completed tasks are stored"),
        (("[maintenance]", '[maintenance]\nwindow = "a month"'), "maintenance.window"),
        (("[maintenance]", "[maintenance]\nkeep_accurate = 2"), "at most 1, not 2"),
    ],
)
def test_wrong_settings_are_refused_with_what_to_do(cluster_file, change, expected):
    cluster_file.write_text(cluster_file.read_text().replace(*change))
    with pytest.raises(UsageError, match=expected):
        maintain_models(cluster_file)


def test_a_cluster_without_models_has_none_to_maintain():
    types = [{"name": "a", "count": 1, "capacity": {"cpu": 1}, "time_s": 1}]
    with pytest.raises(UsageError, match="no node type has models"):
        maintain_models({"maintenance": {"records": "r"}, "node_type": types})


@pytest.mark.parametrize(
    ("n_accurate", "said"), [(0, "none of the 24 tasks it learned from was well predicted"),
                             (5, "5 of the 24 tasks it learned from were well predicted")],
)  # fmt: skip
def test_an_outcome_counts_the_tasks_to_learn_from_without_the_newest(n_accurate, said):
    outcome = ModelOutcome(
        "m.foretell", ("a",), "time_s", "promoted", 30, n_accurate, n_runs=28, n_newest=6,
        old_error=0.4, new_error=0.04,
    )  # fmt: skip
    assert said in str(outcome)
