"""Simulations as users run them: policies compared over seeds, files written, same bytes."""

import json
import math

import pandas as pd
import pytest
import tomli_w
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli
from foretell.cluster.simulate import Interval, simulate_cluster, simulate_weights
from foretell.errors import DatasetError, UsageError
from foretell.report.placement import load_of, recommendation, write_simulation

from ..corun.jobs import made_up

CLUSTER = {
    "trace": {"tasks": 60, "bursts": 2, "every_s": 100, "within_s": 50, "cpu": 2,
              "features": {"work": {"from": 10, "to": 40}}},
    "node_type": [
        {"name": "fast", "count": 2, "capacity": {"cpu": 16, "memory": "32Gi"},
         "time_s": "work", "energy_j": "10 * work", "idle_w": 3},
        {"name": "slow", "count": 4, "capacity": {"cpu": 8, "memory": "8Gi"},
         "time_s": "1.5 * work", "energy_j": "3 * work", "idle_w": 1},
    ],
}  # fmt: skip


def test_energy_falls_and_times_grow_with_the_weight():
    found = simulate_weights(CLUSTER, policy="kube,geometric", seed=1, n_seeds=4)
    kube, weights = found.simulation.outcomes[0], found.outcomes
    energy = [o.mean("task_j") for o in weights]
    times = [o.mean("mean_completion_s") for o in weights]
    assert [o.choice.H for o in weights] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert energy == sorted(energy, reverse=True)
    assert times == sorted(times)
    assert energy[-1] < kube.mean("task_j") < energy[0]
    assert "against kube" in recommendation(found)


def test_a_recommendation_names_the_policy_that_was_swept_and_its_settings():
    found = simulate_weights(CLUSTER, policy="kube,geometric:energy=node:moves=on,best:H=1")
    assert recommendation(found).startswith("geometric with energy=node, moves=on, swept over H: ")
    assert found.settings == "energy=node, moves=on"
    only_best = simulate_weights(CLUSTER, policy="kube,best:H=1")
    assert (only_best.title, only_best.settings) == ("geometric", "energy=task, moves=off")


def test_the_best_weight_is_recommended_without_a_report(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(tomli_w.dumps(CLUSTER))
    shown = run(path, "--policy", "kube,geometric:H=0")
    assert shown.exit_code == 0, shown.output
    sweep = simulate_weights(CLUSTER, policy="kube,geometric:H=0")
    assert shown.stdout.splitlines()[-1] == recommendation(sweep)
    assert "-o saving.html" in shown.stderr
    energy = [o.mean("total_j") for o in sweep.outcomes]
    best = sweep.outcomes[energy.index(min(energy))].choice.H
    if f"H = {best:g} " in shown.stdout:
        assert f"H = {best:g} saves most" in shown.stdout
    assert "H = " not in run(path, "--policy", "kube", "--json").stdout


def test_a_hint_offers_a_sweep_only_if_none_was_made(tmp_path, monkeypatch):
    path = tmp_path / "cluster.toml"
    path.write_text(tomli_w.dumps(CLUSTER))
    swept = run(path, "--policy", "kube,geometric:H=0")
    assert "swept over H" in swept.stdout
    assert swept.stderr.splitlines()[-1] == "With pictures: -o saving.html"
    monkeypatch.setattr("foretell.cluster.simulate.simulate_weights", _must_not)
    many = [{**node, "count": 500} for node in CLUSTER["node_type"]]
    path.write_text(tomli_w.dumps({**CLUSTER, "node_type": many}))
    large = run(path, "--policy", "kube,geometric:H=0")
    assert large.exit_code == 0, large.output
    assert "swept over H" not in large.stdout
    assert large.stderr.splitlines()[-1] == "With pictures, and swept over H: -o saving.html"


def test_a_table_of_tasks_takes_no_sweep(tmp_path, monkeypatch):
    path = tmp_path / "cluster.toml"
    path.write_text(tomli_w.dumps(CLUSTER))
    monkeypatch.setattr("foretell.cluster.simulate.simulate_weights", _must_not)
    shown = run(path, "--policy", "kube,geometric:H=0", "-o", tmp_path / "tasks.csv")
    assert shown.exit_code == 0, shown.output
    assert "swept over H" not in shown.output


def _must_not(*_, **__):
    raise AssertionError("it was swept")


def test_it_is_said_by_which_weight_regret_counts_where_weights_differ():
    said = "Regret weighs energy and time by the H of its row"
    assert said in str(simulate_cluster(CLUSTER, policy="kube,geometric:H=0"))
    assert said not in str(simulate_cluster(CLUSTER, policy="kube,geometric"))


def test_a_sweep_is_compared_with_the_first_policy_even_if_it_is_part_of_the_sweep():
    found = simulate_weights(CLUSTER, policy="geometric:H=0.4,geometric:H=1")
    assert found.simulation.outcomes[0].label == "geometric H=0.4"
    assert [o.choice.H for o in found.outcomes] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]


OWN = pd.DataFrame({"arrival_s": [0, 1, 2], "cpu": 1, "memory": "1Gi", "work": 20,
                    "H": [0.9, None, 0.2]})  # fmt: skip


def test_a_simulation_says_how_many_tasks_have_their_own_weight():
    found = simulate_cluster(CLUSTER, OWN, policy="kube,geometric:H=0")
    assert "2 of 3 tasks have their own H; the policy's H does not apply to them." in str(found)
    assert found.to_json()["n_tasks_with_own_H"] == 2
    assert simulate_weights(CLUSTER, OWN) is not None
    without = simulate_cluster(CLUSTER, OWN.drop(columns="H"), policy="kube,geometric:H=0")
    assert "own H" not in str(without)
    assert "own H" not in str(simulate_cluster(CLUSTER, OWN, policy="kube,first_fit"))


@pytest.mark.parametrize("own", [True, False], ids=["table", "made up"])
def test_nothing_is_swept_over_h_if_all_tasks_have_their_own(tmp_path, own):
    trace = CLUSTER["trace"] | ({} if own else {"H": [0.2, 0.9]})
    tasks = OWN.fillna({"H": 0.5}) if own else None
    given = {"cluster": {**CLUSTER, "trace": trace}, "tasks": tasks, "policy": "kube,geometric:H=1"}
    assert simulate_weights(**given) is None
    found = simulate_cluster(**given)
    assert "All tasks have their own H; the policy's H does not apply." in str(found)
    write_simulation(found, None, tmp_path / "a.md")
    text = (tmp_path / "a.md").read_text()
    assert "All tasks have their own H" in text
    assert "swept" not in text
    assert "against H" not in text


def test_policies_meet_the_same_tasks():
    found = simulate_cluster(CLUSTER, policy="kube,random,geometric:H=1", seed=3)
    arrivals = {tuple(o.played.tasks["arrival_s"]) for o in found.outcomes}
    assert len(arrivals) == 1
    tasks = found.tasks()
    assert len(tasks) == 3 * 60
    assert set(tasks["policy"]) == {"kube", "random", "geometric H=1"}


def test_intervals_are_those_of_students_t():
    found = Interval.of([1.0, 2.0, 3.0, 4.0])
    half = 3.182446 * math.sqrt(5 / 3) / 2  # t of 3 degrees of freedom, from a table
    assert (found.lower, found.upper) == pytest.approx((2.5 - half, 2.5 + half))
    assert Interval.of([2.0]) == Interval(2.0, 2.0, 2.0)


def test_small_cases_have_an_exact_regret():
    small = {**CLUSTER, "trace": {**CLUSTER["trace"], "tasks": 5}}
    small["node_type"] = [{**t, "count": 1} for t in CLUSTER["node_type"]]
    found = simulate_cluster(small, policy="best:H=0,first_fit")
    assert found.is_exact
    assert "≤" not in str(found)
    best = found.outcomes[0]
    assert best.mean("regret") < 0.1
    assert not simulate_cluster(CLUSTER, policy="kube").is_exact


def test_load_is_the_share_of_cpus_in_use():
    trace = pd.DataFrame({"arrival_s": [0.0, 10.0], "cpu": [16, 8], "work": [20, 10]})
    found = simulate_cluster(CLUSTER, trace, policy="geometric:H=0")
    load = load_of(found, found.outcomes[0])
    at = {t: [float(load.shares["fast"][(load.at_s <= t).sum() - 1])] for t in (5.0, 15.0)}
    assert at == {5.0: [0.5], 15.0: [0.75]}  # 16 and 24 of 32 CPUs
    assert load.shares["slow"].max() == 0
    used = {**CLUSTER, "node": [{"name": "slow-1", "used": {"cpu": 8}, "ready": False}]}
    found = simulate_cluster(used, trace, policy="geometric:H=0")
    assert load_of(found, found.outcomes[0]).shares["slow"].min() == 0.25  # 8 of 32 CPUs
    assert "Idle energy includes nodes that are not ready: slow-1." in str(found)


def test_tasks_that_are_left_out_are_counted():
    trace = pd.DataFrame({"arrival_s": [0, 1], "cpu": [99, 1], "memory": "1Gi", "work": 5})
    found = str(simulate_cluster(CLUSTER, trace, policy="kube"))
    assert found.startswith("2 tasks (1 left out), 6 nodes")
    assert "1 task fits on no node, even on an empty one, and is left out." in found


def test_a_weight_in_a_table_that_is_out_of_range_names_its_row_and_column():
    trace = pd.DataFrame({"arrival_s": [0, 1], "cpu": 1, "work": 5, "H": [0.5, 3]})
    with pytest.raises(DatasetError, match="row 2, column 'H': must be a number from 0 to 1"):
        simulate_cluster(CLUSTER, trace)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cluster": {**CLUSTER, "trace": None}}, r"no \[trace\].*tasks='trace.csv'"),
        ({"policy": "kube,kube"}, "'kube' is given twice"),
        ({"n_seeds": 0}, "n_seeds: must be at least 1, not 0"),
        ({"seed": -1}, "seed: must be at least 0"),
        ({"cluster": {**CLUSTER, "trace": {"H": 3}}}, r"^trace\.H: must be a number from 0 to 1"),
        (
            {"tasks": pd.DataFrame({"arrival_s": [0, 1], "cpu": 1, "work": [1, None]})},
            "row 2: its time on nodes of type .* is not known.*needs 'work'",
        ),
        (
            {"tasks": pd.DataFrame({"arrival_s": [0], "cpu": [99], "work": [1]})},
            "fits on any node.*asks for 99 CPUs; 16 of 16 free",
        ),
        (
            {
                "cluster": {
                    **CLUSTER,
                    "node_type": [
                        {
                            "name": "a",
                            "count": 1,
                            "capacity": {"cpu": 2},
                            "time_s": 1,
                            "energy_j": 1,
                        }
                    ],
                }
            },
            "fits on any node.*a-1: no memory in its capacity",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(given, expected):
    source = {k: v for k, v in given.get("cluster", CLUSTER).items() if v is not None}
    options = {k: v for k, v in given.items() if k != "cluster"}
    with pytest.raises(UsageError, match=expected):
        simulate_cluster(source, **options)


# With fitted models, and the command


def run(*arguments):
    return CliRunner().invoke(cli, ["cluster", "simulate", *map(str, arguments)])


@pytest.fixture
def trace_file(tmp_path):
    rows = [f"{i * 2},1,256Mi,{300 + 20 * (i % 30)}" for i in range(80)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["arrival_s,cpu,memory,iterations", *rows]) + "\n")
    return path


def test_decisions_use_the_models_and_the_simulation_what_is_true(cluster_file, trace_file):
    found = simulate_cluster(cluster_file, trace_file, policy="geometric:H=1")
    tasks = found.tasks()
    rates = tasks["type"].map({"fast": 0.05, "slow": 0.4})
    iterations = [300 + 20 * (i % 30) for i in range(80)]
    assert tasks["time_s"].tolist() == pytest.approx((rates * iterations).tolist())
    assert tasks["predicted_time_s"].tolist() != pytest.approx(tasks["time_s"].tolist())
    assert tasks["predicted_time_s"].tolist() == pytest.approx(tasks["time_s"].tolist(), rel=0.1)


def test_the_command_prints_a_line_per_policy_and_the_same_bytes_again(cluster_file, trace_file):
    policy = "kube,heats:H=0,geometric:H=1"
    words = (cluster_file, "--tasks", trace_file, "--policy", policy, "--seed", 1, "--seeds", 2)
    first = run(*words)
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    assert lines[0] == "80 tasks, 4 nodes, 2 seeds, simulated"
    assert [line.split("  ")[0] for line in lines[2:5]] == ["kube", "heats H=0", "geometric H=1"]
    assert run(*words).stdout == first.stdout
    found = json.loads(run(*words, "--json").stdout)
    assert [p["policy"] for p in found["policies"]] == ["kube", "heats H=0", "geometric H=1"]
    assert len(found["policies"][0]["figures"]) == 2


def test_the_command_writes_a_report_and_the_tasks(cluster_file, trace_file, tmp_path):
    words = (cluster_file, "--tasks", trace_file, "--policy", "kube,geometric:H=1")
    page, again, table = (tmp_path / n for n in ("a.html", "b.html", "tasks.csv"))
    shown = run(*words, "-o", page)
    assert shown.exit_code == 0, shown.output
    assert "against kube" in shown.stdout
    text = page.read_text()
    assert text.count("<svg") == 4  # H, the front, and the nodes under both policies
    assert "simulated" in text
    run(*words, "-o", again)
    assert again.read_bytes() == page.read_bytes()
    assert run(*words, "-o", table).exit_code == 0
    assert len(pd.read_csv(table)) == 160
    refused = run(*words, "-o", table)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--policy", "kubes"], "unknown policy 'kubes'. Did you mean 'kube'"),
        (["--seeds", "0"], "--seeds: must be at least 1"),
        (["-o", "report.txt"], "-o report.txt: a report ends in .html, .md, .pdf, and a table"),
        (["--tasks", "nowhere.csv"], "nowhere.csv"),
        ([], "no [trace]"),
    ],
)
def test_wrong_options_are_named_as_flags(cluster_file, arguments, expected):
    shown = run(cluster_file, *arguments)
    assert shown.exit_code == 2
    assert expected in shown.stderr


# Tasks that share nodes, and slow one another

ONE_NODE = {
    "node_type": [{"name": "n", "count": 1, "capacity": {"cpu": 2, "memory": "8Gi"},
                   "time_s": "work", "energy_j": "work"}],
}  # fmt: skip


def profiled(tmp_path, cores):
    """Write the profile of a job that keeps so many cores busy."""
    foretell.write_profile(made_up("job", cores=cores), tmp_path / f"{cores}.profile")
    return str(tmp_path / f"{cores}.profile")


def ends(tasks, cluster=ONE_NODE):
    found = simulate_cluster(cluster, tasks, policy="first_fit")
    return found.outcomes[0].played.tasks.set_index("name")["end_s"].to_dict()


def test_tasks_with_profiles_slow_one_another(tmp_path):
    """Each asked for one CPU and uses both: the first is alone for 4 of its 10 s, then at half."""
    tasks = pd.DataFrame({"arrival_s": [0.0, 4.0], "cpu": 1, "work": 10.0, "name": ["a", "b"]})
    assert ends(tasks) == {"a": 10.0, "b": 14.0}
    wide = tasks.assign(profile=profiled(tmp_path, 2.0))
    assert ends(wide) == {"a": pytest.approx(16.0), "b": pytest.approx(20.0)}
    narrow = tasks.assign(profile=profiled(tmp_path, 1.0))
    assert ends(narrow) == {"a": pytest.approx(10.0), "b": pytest.approx(14.0)}


def test_a_policy_that_predicts_avoids_the_neighbor_that_slows(tmp_path):
    """Two nodes of one kind: by time, the third task goes where its neighbor leaves it room."""
    two = {"node_type": [{**ONE_NODE["node_type"][0], "count": 2}]}
    tasks = pd.DataFrame(
        {
            "arrival_s": [0.0, 1.0, 2.0], "cpu": 1, "work": 100.0, "name": ["wide", "calm", "new"],
            "profile": [profiled(tmp_path, c) for c in (2.0, 0.5, 1.0)],
        }
    )  # fmt: skip
    found = simulate_cluster(two, tasks, policy="geometric:H=0")
    nodes = found.outcomes[0].played.tasks.set_index("name")["node"]
    assert nodes["calm"] != nodes["wide"]
    assert nodes["new"] == nodes["calm"]


def test_a_file_with_profiles_may_move_tasks_that_have_none(tmp_path):
    profile = profiled(tmp_path, 2.0)
    cluster = {**ONE_NODE, "profiles": {"wide": profile}, "migration": {"enabled": True}}
    tasks = pd.DataFrame({"arrival_s": [0.0], "cpu": 1, "work": 10.0, "name": ["a"]})
    assert ends(tasks, cluster) == {"a": 10.0}
    with pytest.raises(UsageError, match="not moved in a simulation"):
        ends(tasks.assign(profile="wide"), cluster)


def test_profiles_that_cannot_be_used_are_refused(tmp_path):
    tasks = pd.DataFrame({"arrival_s": [0.0], "cpu": 1, "work": 10.0, "profile": "no.profile"})
    with pytest.raises(UsageError, match=r"the profile 'no\.profile', which is neither"):
        ends(tasks)
    known = tasks.assign(profile=profiled(tmp_path, 1.0))
    with pytest.raises(UsageError, match="not moved"):
        simulate_cluster(ONE_NODE, known, policy="geometric:moves=on")
