"""Placing a task with fitted models: predictions, trust, cache, and what is refused."""

import json
import re

import pytest
import tomli_w
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli
from foretell.cluster.models import load_predictors, open_estimates, reload_models
from foretell.cluster.place import place_task
from foretell.cluster.simulate import simulate_cluster
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.estimates import Estimates, type_models
from foretell.decide.placement.tasks import read_task
from foretell.errors import ForetellError, ModelError, UsageError

from ..corun.jobs import made_up


def test_predictions_are_those_of_the_models_with_intervals_and_trust(cluster_file):
    placement = place_task(cluster_file, "cpu=2,iterations=800", H=0)
    chosen = placement.chosen
    assert chosen.type == "fast"
    assert chosen.estimate.time.value == pytest.approx(800 * 0.05, rel=0.05)
    assert chosen.estimate.time.lower < 40 < chosen.estimate.time.upper
    assert chosen.estimate.energy.value == pytest.approx(800 * 0.5, rel=0.05)
    assert chosen.estimate.trust == "inside"
    assert place_task(cluster_file, "cpu=2,iterations=800", H=1).chosen.type == "slow"


def test_a_task_far_outside_the_data_decides_nothing(cluster_file):
    placement = place_task(cluster_file, "cpu=2,iterations=9000000", H=0)
    assert {node.estimate.trust for node in placement.nodes} == {"far"}
    assert len({node.score for node in placement.nodes}) == 1
    assert not any(node.is_known for node in placement.nodes)
    assert "above the largest measured" in str(placement)
    assert "No prediction can be used for this task" in str(placement)


def test_a_missing_feature_is_named(cluster_file):
    placement = place_task(cluster_file, "cpu=2")
    assert "needs 'iterations'" in placement.nodes[0].estimate.remark
    assert len({node.score for node in placement.nodes}) == 1


def test_every_task_is_predicted_once_per_type(cluster_file):
    cluster = read_cluster(cluster_file)
    estimates, _ = open_estimates(cluster)
    tasks = [read_task(f"cpu=2,iterations={500 + i % 3}") for i in range(30)]
    estimates.prefetch(tasks)
    one_by_one = [estimates.of(task) for task in tasks]
    assert estimates.n_predicted == 3 * 2
    alone, _ = open_estimates(cluster)
    assert alone.of(tasks[1]).time_s.tolist() == pytest.approx(one_by_one[1].time_s.tolist())


def test_other_models_are_used_once_they_replace_the_old(cluster_file, models):
    cluster = read_cluster(cluster_file)
    predictors = load_predictors(cluster)
    estimates = Estimates(type_models(cluster, predictors))
    task = read_task("iterations=800")
    before = estimates.of(task).time_s.tolist()
    estimates.replace(type_models(cluster, load_predictors(cluster)))
    estimates.of(task)
    assert estimates.n_predicted == 2  # the same models, read again
    swapped = {"fast": predictors["slow"], "slow": predictors["fast"]}
    estimates.replace(type_models(cluster, swapped))
    assert estimates.of(task).time_s.tolist() == before[::-1]


def test_a_fixed_column_of_a_type_reaches_its_model(cluster_file):
    text = re.sub(
        r"count = 2", "count = 2\ncolumns = { iterations = 500 }", cluster_file.read_text()
    )
    cluster_file.write_text(text)
    chosen = place_task(cluster_file, "cpu=1,iterations=800", H=0).chosen
    assert chosen.estimate.time.value == pytest.approx(25, rel=0.05)


def test_a_corrupt_model_is_refused_before_anything_is_placed(cluster_file, models, tmp_path):
    bad = tmp_path / "bad.foretell"
    content = next(models.rglob("best.foretell")).read_bytes()
    bad.write_bytes(content[: len(content) // 2])
    cluster_file.write_text(cluster_file.read_text().replace("models/fast", "bad.foretell"))
    with pytest.raises(ModelError, match=r"node type fast, models: .*bad\.foretell"):
        place_task(cluster_file, "cpu=1,iterations=800")


def test_a_corrupt_model_at_reload_leaves_the_old_ones_in_use(cluster_file, models, tmp_path):
    (tmp_path / "own").mkdir()
    for kind in ("time_s", "energy_j"):
        content = (models / "fast" / kind / "best.foretell").read_bytes()
        (tmp_path / "own" / f"{kind}.foretell").write_bytes(content)
    own = '["own/time_s.foretell", "own/energy_j.foretell"]'
    cluster_file.write_text(cluster_file.read_text().replace('"models/fast"', own))
    cluster = read_cluster(cluster_file)
    estimates, _ = open_estimates(cluster)
    task = read_task("iterations=800")
    before = estimates.of(task)
    (tmp_path / "own" / "time_s.foretell").write_bytes(b"no model")
    assert "node type fast, models" in reload_models(cluster, estimates)
    assert estimates.of(task) is before
    slow = (models / "slow" / "time_s" / "best.foretell").read_bytes()
    (tmp_path / "own" / "time_s.foretell").write_bytes(slow)
    assert reload_models(cluster, estimates) is None
    assert estimates.of(task).time_s[0] == pytest.approx(before.time_s[1])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"missing"', "node type fast, models: there is no model"),
        ('["models/fast/time_s", "models/slow/time_s"]', "node type fast: has two models of time"),
    ],
)
def test_models_that_do_not_fit_are_refused(cluster_file, written, expected):
    cluster_file.write_text(cluster_file.read_text().replace('"models/fast"', written))
    with pytest.raises(ForetellError, match=expected):
        place_task(cluster_file, "cpu=1,iterations=800")


def test_a_wrong_weight_is_blamed_on_where_it_is_written(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(tomli_w.dumps(NODES))
    shown = CliRunner().invoke(cli, ["cluster", "place", str(path), "--task", "cpu=1,H=2"])
    assert shown.exit_code == 2
    assert "--task: H must be a number from 0 to 1, not 2" in shown.stderr
    shown = CliRunner().invoke(cli, ["cluster", "place", str(path), "--task", "cpu=1", "--H", "2"])
    assert "--H: must be a number from 0 to 1, not 2" in shown.stderr


def test_a_file_with_selectors_alone_says_what_to_add():
    live = {"node_type": [{"name": "a", "selector": {"kind": "a"}, "capacity": {"cpu": 4},
                           "time_s": 1, "energy_j": 1}]}  # fmt: skip
    for what in (lambda: place_task(live, "cpu=1"), lambda: simulate_cluster(live)):
        with pytest.raises(UsageError, match=r"live cluster only; write count or nodes in .*count"):
            what()


# What decided


POWERED = {
    "node_type": [
        {"name": "steep", "count": 1, "capacity": {"cpu": 4}, "time_s": 10, "energy_j": 5,
         "idle_w": 10, "busy_w": 50},
        {"name": "flat", "count": 1, "capacity": {"cpu": 4}, "time_s": 20, "energy_j": 90,
         "idle_w": 10, "busy_w": 14, "can_power_off": True},
        {"name": "dark", "count": 1, "capacity": {"cpu": 4}, "time_s": 1, "energy_j": 1,
         "can_power_off": True},
    ],
}  # fmt: skip
NO_POWER = "no power: write idle_w and busy_w, or power"


@pytest.mark.parametrize(
    ("policy", "column", "cells"),
    [
        # a quarter of 40 W or 4 W, for 10 s or 20 s
        ("geometric:H=1:energy=marginal", "counted", {"steep-1": "100 J", "flat-1": "20 J"}),
        # 90 J, and 10 W for 20 s, as the node would be off
        ("geometric:H=1:energy=node", "counted", {"steep-1": "5 J", "flat-1": "290 J"}),
        ("peaks", "added power", {"steep-1": "10 W", "flat-1": "1 W"}),
    ],
)
def test_what_decides_is_shown_and_why_it_is_not_known(policy, column, cells):
    placement = place_task(POWERED, "cpu=1", policy=policy)
    head, *rows = str(placement).splitlines()
    at = head.index(column)
    shown = {row.split()[0]: row[at:].split("  ")[0] for row in rows[:3]}
    assert shown == {**cells, "dark-1": "–"}
    dark = next(row for row in rows if row.startswith("dark-1"))
    assert f"{NO_POWER}, so its score is the median of the others" in dark
    assert placement.chosen.node != "dark-1"
    found = {node["node"]: node for node in placement.to_json()["nodes"]}
    assert found["dark-1"]["remark"] == NO_POWER
    assert found["dark-1"]["added_power_w"] is None
    assert found["flat-1"]["added_power_w"] == pytest.approx(1)


def test_what_does_not_decide_is_not_shown():
    for policy in ("geometric:H=0:energy=marginal", "geometric:H=1", "kube"):
        text = str(place_task(POWERED, "cpu=1", policy=policy))
        assert "counted" not in text
        assert NO_POWER not in text
    assert "H = " not in str(place_task(POWERED, "cpu=1", policy="peaks"))


def test_a_time_behind_the_energy_that_counts_must_be_known():
    types = [{**POWERED["node_type"][0], "time_s": "missing"}, *POWERED["node_type"][1:]]
    found = place_task({"node_type": types}, "cpu=1", H=1, policy="geometric:energy=marginal")
    row = next(r for r in str(found).splitlines() if r.startswith(f"{types[0]['name']}-1"))
    assert "missing" in row and "'missing' needs 'missing'" in row


def test_what_is_not_needed_may_be_unknown():
    types = [{"name": "a", "count": 1, "capacity": {"cpu": 4}, "time_s": 5}]
    row = str(place_task({"node_type": types}, "cpu=1", H=0)).splitlines()[1]
    assert row.endswith("inside   ← chosen")
    row = str(place_task({"node_type": types}, "cpu=1", H=0.5)).splitlines()[1]
    assert "a has no model of energy" in row


def test_features_that_no_prediction_uses_are_named():
    found = place_task(POWERED, "cpu=1,mem=9Ti,color=red")
    assert list(found.unused) == ["color", "mem"] == list(found.to_json()["unused"])
    assert "No prediction uses 'mem'. Did you mean memory?" in str(found)
    assert not place_task(POWERED, "cpu=1").unused


# Why nodes are out


NODES = {
    "node_type": [
        {"name": "big", "count": 3, "capacity": {"cpu": 8, "memory": "8Gi"}, "time_s": 5,
         "energy_j": 5},
        {"name": "small", "count": 1, "capacity": {"cpu": 1, "memory": "8Gi"}, "time_s": 5},
    ],
    "node": [
        {"name": "big-1", "used": {"memory": "7.5Gi"}},
        {"name": "big-2", "ready": False},
    ],
}  # fmt: skip


def test_each_excluded_node_has_its_reason():
    placement = place_task(NODES, "cpu=2,memory=1Gi")
    assert [node.node for node in placement.nodes] == ["big-3"]
    assert placement.excluded == {
        "big-1": "no room (asks for 1 GiB of memory; 0.5 GiB of 8 GiB free)",
        "big-2": "not ready",
        "small-1": "too small (asks for 2 CPUs; 1 of 1 free)",
    }


def test_a_request_beyond_every_node_is_said_so():
    placement = place_task(NODES, "cpu=9")
    assert placement.chosen is None
    assert "too small" in placement.excluded["big-3"]
    assert "No node can take this task, even if it were empty" in str(placement)
    full = {"node_type": NODES["node_type"][1:], "node": [{"name": "small-1", "used": {"cpu": 1}}]}
    assert "No node can take this task now" in str(place_task(full, "cpu=1"))
    assert "no example.com/fpga" in str(place_task(NODES, "example.com/fpga=1"))


def test_what_no_node_of_a_type_has_is_named_before_what_is_in_use():
    nodes = {"node_type": NODES["node_type"][:1], "node": [{"name": "big-1", "used": {"cpu": 7}}]}
    nodes["node_type"] = [*nodes["node_type"], {"name": "gpu", "count": 1, "time_s": 5,
                                                "capacity": {"cpu": 8, "gpu": 1}}]  # fmt: skip
    placement = place_task(nodes, "cpu=2,gpu=1")
    assert placement.excluded["big-1"] == "too small (no GPUs in its capacity)"


def test_a_cluster_of_selectors_alone_has_no_nodes_to_place_on():
    kind = {"name": "a", "selector": {"x": "y"}, "capacity": {"cpu": 4}, "time_s": 5}
    with pytest.raises(UsageError, match=r"the cluster has no nodes.* write count or nodes"):
        place_task({"node_type": [kind]}, "cpu=1")


def test_pod_slots_count():
    nodes = {"node_type": [{**NODES["node_type"][0], "capacity": {"cpu": 8, "pods": 1}}]}
    used = {**nodes, "node": [{"name": "big-1", "used": {"pods": 1}}]}
    assert place_task(used, "cpu=1").excluded == {"big-1": "no room (asks for 1 pod; 0 of 1 free)"}


# The command


def run(*arguments):
    return CliRunner().invoke(cli, ["cluster", *map(str, arguments)])


def test_the_command_prints_ranked_nodes(cluster_file):
    task = "cpu=2,memory=1Gi,iterations=800"
    shown = run("place", cluster_file, "--task", task, "--H", 0.6)
    assert shown.exit_code == 0, shown.output
    first, second, *_ = shown.output.splitlines()
    assert first.split()[:2] == ["node", "type"]
    assert second.endswith("← chosen")
    assert "energy counts 60 %, time 40 %" in shown.output
    found = json.loads(run("place", cluster_file, "--task", task, "--H", 0.6, "--json").output)
    assert found["chosen"] == second.split()[0]
    assert len(found["nodes"]) == 4
    assert found["nodes"][0]["time_lower_s"] < found["nodes"][0]["time_s"]


def test_the_command_exits_with_1_if_no_node_can_take_the_task(cluster_file):
    shown = run("place", cluster_file, "--task", "cpu=64,iterations=1")
    assert shown.exit_code == 1
    assert "too small" in shown.stderr
    assert shown.stdout == ""


@pytest.mark.parametrize("task", ["cpu=1", "cpu=1,iterations=abc", "cpu=1,iterations=-5"])
def test_the_command_chooses_no_node_if_nothing_is_known(cluster_file, task):
    shown = run("place", cluster_file, "--task", task)
    assert shown.exit_code == 1
    assert "← chosen" not in shown.output
    assert "No prediction can be used" in shown.stderr
    rows = [line for line in shown.stderr.splitlines() if line.startswith(("fast", "slow"))]
    assert sum("iterations" in row for row in rows) == 2  # the reason, once for each type
    assert json.loads(run("place", cluster_file, "--task", task, "--json").output)["chosen"] is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--task", "cpu=1,iterations=1e400"], "iterations=1e400 is out of range"),
        (["--task", "cpu=1", "--H", "1.5"], "error: --H: must be a number from 0 to 1, not 1.5"),
        (["--task", "cpu"], "error: --task: 'cpu' is not NAME=VALUE"),
        (["--task", "cpu=1", "--policy", "kub"], "Did you mean 'kube'"),
        ([], "Missing option '--task'"),
    ],
)
def test_wrong_options_are_named_as_flags(cluster_file, arguments, expected):
    shown = run("place", cluster_file, *arguments)
    assert shown.exit_code == 2
    assert expected in shown.stderr


def test_the_group_alone_lists_its_commands():
    shown = run()
    assert shown.exit_code == 0
    assert {"place", "probe", "simulate"} <= set(shown.stdout.split())
    assert "Did you mean 'place'" in run("plce").stderr


def test_a_weight_outside_the_range_is_refused_in_python():
    with pytest.raises(UsageError, match=r"H: must be a number from 0 to 1, not 1\.5"):
        place_task(NODES, "cpu=1", H=1.5)


def profiled(tmp_path, cores):
    """Write the profile of a job that keeps so many cores busy; return the name of its file."""
    foretell.write_profile(made_up("job", cores=cores), tmp_path / f"{cores}.profile")
    return f"{cores}.profile"


def crowded(tmp_path):
    """Write a cluster of two alike nodes, on the first of which a wide job runs."""
    path = tmp_path / "cluster.toml"
    path.write_text(
        f'[profiles]\nwide = "{profiled(tmp_path, 2.0)}"\n'
        '[[node]]\nname = "a"\nrunning = ["wide"]\n'
        '[[node_type]]\nname = "n"\nnodes = ["a", "b"]\ncapacity = { cpu = 2 }\n'
        "time_s = 100\nenergy_j = 50\n"
    )
    return path


def test_a_task_with_a_profile_is_placed_beside_neighbors_that_slow_it_least(tmp_path):
    path = crowded(tmp_path)
    assert place_task(path, "cpu=1").chosen.node == "a"
    found = place_task(path, "cpu=1,profile=wide")
    assert [(n.node, n.slowdown) for n in found.nodes] == [("b", 1.0), ("a", pytest.approx(2.0))]
    assert found.nodes[1].estimate.time.value == pytest.approx(200.0)
    assert found.nodes[1].estimate.energy.value == 50.0
    assert found.to_json()["nodes"][1]["slowdown"] == pytest.approx(2.0)
    assert re.search(r"slower .*\nb .* 1\.00×.*\na .* 2\.00×", str(found))
    assert "slower" not in str(place_task(path, "cpu=1"))


def test_a_profile_may_also_be_a_file_and_must_be_one_of_the_two(tmp_path):
    path = crowded(tmp_path)
    narrow = tmp_path / profiled(tmp_path, 1.0)
    slowdowns = [n.slowdown for n in place_task(path, f"cpu=1,profile={narrow}").nodes]
    assert slowdowns == [1.0, pytest.approx(1.5)]
    done = CliRunner().invoke(cli, ["cluster", "place", str(path), "--task", "profile=wyde"])
    assert done.exit_code == 2
    assert "the profile 'wyde', which is neither one of [profiles]" in done.output
