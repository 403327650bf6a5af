"""Choosing a node: formulas by hand, ties, unknown nodes, and the optimum by brute force."""

import itertools
import math

import numpy as np
import pytest

from foretell.decide.placement.choose import Chooser, PolicyChoice, read_policies, read_policy
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.estimates import Estimates, type_models
from foretell.decide.placement.policies import Policy
from foretell.decide.placement.tasks import Task, read_task
from foretell.errors import UsageError
from foretell.machines import Resources


def cluster_of(**types):
    """Make a cluster: for each type, its time, energy, CPUs, and other entries."""
    tables = []
    for name, (time_s, energy_j, cpus, *more) in types.items():
        table = {"name": name, "nodes": [name], "capacity": {"cpu": cpus, "memory": "64Gi"}}
        table |= {} if time_s is None else {"time_s": time_s}
        table |= {} if energy_j is None else {"energy_j": energy_j}
        tables.append({**table, **(more[0] if more else {})})
    return read_cluster({"node_type": tables})


def chooser_of(cluster, policy, seed=0):
    return Chooser(cluster, Estimates(type_models(cluster, {})), read_policy(policy), seed)


def ranked(chooser, task="cpu=1"):
    task = read_task(task)
    ranking = chooser.rank(task, chooser.fleet.need(task.needs))
    shown = chooser.policy.shown(ranking.scores)
    names = ranking.candidates.names
    return {names[i]: float(shown[i]) for i in ranking.order}


# The example of the rank reversal: A has energy 10 and performance 1, B 20 and 1.6.
A, B, C = (1.0, 10, 8), (1 / 1.6, 20, 8), (1.0, 100, 8)


def test_heats_scores_are_those_computed_by_hand():
    assert ranked(chooser_of(cluster_of(a=A, b=B), "heats:H=0.5")) == pytest.approx(
        {"a": 100 * (0.5 * 0.5 + 0.5 / 1.6), "b": 50.0}
    )


def test_heats_counts_energy_in_full_where_no_candidate_takes_any():
    flat = {"idle_w": 10, "busy_w": 10}  # so that load adds no power
    cluster = cluster_of(a=(10, None, 8, flat), b=(40, None, 8, flat))
    assert ranked(chooser_of(cluster, "heats:H=0.6:energy=marginal")) == pytest.approx(
        {"a": 60 + 40, "b": 60 + 40 / 4}
    )


def test_a_third_node_reverses_the_ranks_of_heats_and_not_of_geometric():
    def order(policy, **types):
        scores = ranked(chooser_of(cluster_of(**types), policy))
        return [name for name in scores if name != "c"]

    assert order("heats:H=0.5", a=A, b=B) == ["a", "b"]
    assert order("heats:H=0.5", a=A, b=B, c=C) == ["b", "a"]
    with_c = ranked(chooser_of(cluster_of(a=A, b=B, c=C), "heats:H=0.5"))
    assert with_c["b"] == pytest.approx(90, abs=0.5)
    assert with_c["a"] == pytest.approx(76, abs=0.5)
    for H in np.linspace(0, 1, 11):
        without = order(f"geometric:H={H}", a=A, b=B)
        assert order(f"geometric:H={H}", a=A, b=B, c=C) == without


def test_geometric_scores_are_those_computed_by_hand():
    found = ranked(chooser_of(cluster_of(a=(10, 100, 8), b=(30, 50, 8)), "geometric:H=0.6"))
    assert found["a"] == pytest.approx(100 * 2**-0.6)
    assert found["b"] == pytest.approx(100 * 3**-0.4)


def test_geometric_does_not_depend_on_units():
    hours = cluster_of(a=("10 / 3600", "100 / 1000", 8), b=("30 / 3600", "50 / 1000", 8))
    seconds = cluster_of(a=(10, 100, 8), b=(30, 50, 8))
    for H in (0, 0.3, 1):
        policy = f"geometric:H={H}"
        assert ranked(chooser_of(hours, policy)) == pytest.approx(
            ranked(chooser_of(seconds, policy))
        )


@pytest.mark.parametrize("policy", ["heats", "geometric", "best"])
def test_weight_1_takes_the_least_energy_and_weight_0_the_least_time(policy):
    cluster = cluster_of(fast=(10, 90, 8), slow=(60, 30, 8))
    assert next(iter(ranked(chooser_of(cluster, f"{policy}:H=1")))) == "slow"
    assert next(iter(ranked(chooser_of(cluster, f"{policy}:H=0")))) == "fast"


def test_an_unknown_option_of_a_policy_is_refused_with_those_that_there_are():
    with pytest.raises(UsageError, match=r"no option 'foo'\. Known: H, energy, moves"):
        read_policy("geometric:foo=2")
    with pytest.raises(UsageError, match="Did you mean 'energy'"):
        read_policy("geometric:enery=node")


def test_the_weight_of_a_task_wins_over_that_of_the_policy():
    chooser = chooser_of(cluster_of(fast=(10, 90, 8), slow=(60, 30, 8)), "geometric:H=0")
    assert next(iter(ranked(chooser, "cpu=1,H=1"))) == "slow"


def test_kube_scores_are_those_of_its_definition():
    cluster = read_cluster(
        {
            "node_type": [
                {"name": "a", "nodes": ["a"], "capacity": {"cpu": 4, "memory": "8Gi"}},
                {"name": "b", "nodes": ["b"], "capacity": {"cpu": 16, "memory": "16Gi"}},
            ],
            "node": [{"name": "b", "used": {"cpu": 4, "memory": "2Gi"}}],
        }
    )
    found = ranked(chooser_of(cluster, "kube"), "cpu=1,memory=4Gi")
    # a: 1 of 4 CPUs and 4 of 8 GiB; b: 5 of 16 CPUs and 6 of 16 GiB
    assert found["a"] == pytest.approx((75 + 50) / 2 + 100 * (1 - 0.25))
    assert found["b"] == pytest.approx((11 / 16 + 10 / 16) * 50 + 100 * (1 - 1 / 16))


def test_peaks_takes_the_node_whose_power_grows_least():
    curve = {"k0": 20, "k1": 10, "k2": 0.02}
    cluster = cluster_of(a=(1, 1, 10, {"power": curve}), b=(1, 1, 10, {"idle_w": 10, "busy_w": 20}))
    found = ranked(chooser_of(cluster, "peaks"), "cpu=2")
    assert found == pytest.approx({"b": -2.0, "a": -10 * (math.exp(0.4) - 1)})


def test_peaks_and_marginal_energy_agree_when_times_are_equal():
    for seed in range(20):
        random = np.random.default_rng(seed)
        types = {
            f"n{i}": (5, None, 8, {"power": {"k0": 5, "k1": k1, "k2": k2}})
            for i, (k1, k2) in enumerate(random.uniform([1, 0.005], [9, 0.04], (6, 2)).tolist())
        }
        cluster = cluster_of(**types)
        marginal = ranked(chooser_of(cluster, "geometric:H=1:energy=marginal"), "cpu=2")
        assert list(marginal) == list(ranked(chooser_of(cluster, "peaks"), "cpu=2"))


@pytest.mark.parametrize("policy", ["peaks", "geometric:H=1:energy=marginal"])
@pytest.mark.parametrize("power", [{"idle_w": 10, "busy_w": 20}, {"power": (10, 2, 0.02)}])
def test_an_overused_node_adds_at_least_as_much_power_as_a_full_one(policy, power):
    """As after CPUs were taken off it: kube-scheduler may still ask about it."""
    if "power" in power:
        power = {"power": dict(zip(("k0", "k1", "k2"), power["power"], strict=True))}
    types = dict.fromkeys(("full", "half", "over"), (10, None, 10, power))
    chooser = chooser_of(cluster_of(**types), policy)
    fleet, task = chooser.fleet, read_task("cpu=1")
    need = fleet.need(task.needs)
    for name, cpus in (("full", 9), ("half", 5), ("over", 15)):
        fleet.take(fleet.names.index(name), fleet.need(Resources(cpus=cpus)))
    found = chooser.beside(task, need, np.arange(3))
    full, half, over = found.extra_w
    assert over >= full >= half > 0
    scores, _ = chooser.scores(found, 1.0)
    assert scores[2] <= scores[0]
    # What it draws is still that of full load.
    assert fleet.watts(np.array([2])) == pytest.approx(fleet.types[2].watts(1.0))


def test_energy_of_a_node_that_would_be_off_counts_when_asked_for():
    power = {"idle_w": 10, "busy_w": 12, "can_power_off": True}
    cluster = cluster_of(off=(10, 5, 8, power), on=(10, 50, 8, {**power, "can_power_off": False}))
    assert next(iter(ranked(chooser_of(cluster, "geometric:H=1")))) == "off"
    # off: 5 J + 10 W for 10 s = 105 J, more than the 50 J on a node that is on anyway
    assert next(iter(ranked(chooser_of(cluster, "geometric:H=1:energy=node")))) == "on"


def test_first_fit_takes_the_first_by_name_with_room():
    cluster = cluster_of(b=(1, 1, 8), a=(9, 9, 1), c=(1, 1, 8))
    assert list(ranked(chooser_of(cluster, "first_fit"), "cpu=2")) == ["b", "c"]


def test_random_takes_every_node_about_as_often_and_repeats_itself():
    cluster = cluster_of(a=(1, 1, 8), b=(1, 1, 8), c=(1, 1, 8))

    def draws(seed):
        chooser = chooser_of(cluster, "random", seed)
        task = Task()
        need = chooser.fleet.need(task.needs)
        return [chooser.choose(task, need) for _ in range(600)]

    counts = np.bincount(draws(1), minlength=3)
    assert counts.min() > 150  # 200 expected, standard deviation 11.5
    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_equal_scores_pack_for_energy_and_spread_for_speed():
    same = (10, 50)
    cluster = cluster_of(a=(*same, 8), b=(*same, 4), c=(*same, 4))
    assert next(iter(ranked(chooser_of(cluster, "geometric:H=0.5")))) == "b"  # least left, by name
    assert next(iter(ranked(chooser_of(cluster, "geometric:H=0.4")))) == "a"


@pytest.mark.parametrize("policy", ["geometric:H=0.5", "heats:H=0.5"])
def test_a_node_without_a_model_gets_the_median_and_is_not_rewarded(policy):
    cluster = cluster_of(a=(10, 10, 8), b=(20, 20, 8), c=(40, 40, 8), new=(None, None, 8))
    found = ranked(chooser_of(cluster, policy))
    assert found["new"] == pytest.approx(float(np.median([found[n] for n in "abc"])), rel=0.5)
    assert next(iter(found)) == "a"
    assert found["b"] == pytest.approx(found["new"])


@pytest.mark.parametrize("policy", ["geometric", "heats", "best"])
@pytest.mark.parametrize("H", [0, 0.4, 0.5, 1])
@pytest.mark.parametrize("unknown", [None, 0, "missing_column"])
def test_a_node_of_which_nothing_is_known_loses_against_known_ones_of_the_same_score(
    policy, H, unknown
):
    """Three of four known nodes are the best, so that the median is their score."""
    good, bad = (10, 10, 8), (90, 90, 8)
    for cpus in (2, 64):  # it is preferred by its free CPUs, at one weight or the other
        new = (unknown, unknown, cpus)
        cluster = cluster_of(a=new, b=good, c=good, d=good, e=bad)
        chooser = chooser_of(cluster, f"{policy}:H={H}")
        assert next(iter(ranked(chooser))) == "b"
        task = read_task("cpu=1")
        need = chooser.fleet.need(task.needs)
        assert chooser.fleet.names[chooser.choose(task, need)] == "b"


def test_tasks_that_arrive_together_take_unknown_nodes_for_average_ones():
    types = {"b": (10, 10, 1), "c": (20, 20, 1), "d": (90, 90, 1), "new": (None, None, 1)}
    for policy in ("geometric", "best"):
        chooser = chooser_of(cluster_of(**types), f"{policy}:H=0.5")
        task = read_task("cpu=1")
        pairs = [(task, chooser.fleet.need(task.needs))] * 3
        placed = chooser.assign(pairs)
        assert {chooser.fleet.names[node] for node in placed} == {"b", "c", "new"}
        assert {chooser.fleet.names[node] for node in chooser.assign(pairs[:2])} == {"b", "c"}


@pytest.mark.parametrize("scores", [[1.0], [1.0, 2.0], [[1.0], 2.0, 3.0], ["a", "b", "c"], 1.0])
def test_a_policy_that_does_not_return_one_number_per_node_is_named(scores):
    class Careless(Policy):
        def scores(self, candidates, H, random):
            return scores

    chooser = chooser_of(cluster_of(a=(1, 1, 8), b=(20, 1, 8), c=(10, 1, 8)), "geometric")
    chooser.policy = Careless()
    with pytest.raises(
        UsageError, match=r"Careless.scores\(\) must return one number for each of 3"
    ):
        ranked(chooser)


@pytest.mark.parametrize(
    ("policy", "a", "why"),
    [
        ("geometric:H=0.5", (None, 5, 1), "can be used"),  # time is missing
        ("geometric:H=0.5", (5, 5, 1), ""),
        ("geometric:H=1", (None, 5, 1), ""),  # energy alone decides
        ("geometric:H=0", (None, 5, 1), "can be used"),
        ("kube", (None, None, 1), ""),  # nothing decides
    ],
)
def test_it_says_why_a_policy_knows_nothing_of_a_task(policy, a, why):
    chooser = chooser_of(cluster_of(a=a), policy)
    said = chooser.why_blind(read_task("cpu=1"))
    assert why in said
    assert bool(said) == bool(why)
    if said:
        assert "a has no model of time" in said


def test_a_score_that_is_not_finite_counts_as_unknown():
    class Careless(Policy):  # reads times without saying that it needs them
        def scores(self, candidates, H, random):
            return -candidates.time_s

    chooser = chooser_of(cluster_of(a=(None, 1, 8), b=(20, 1, 8), c=(10, 1, 8)), "geometric")
    chooser.policy = Careless()
    assert list(ranked(chooser)) == ["c", "a", "b"]
    chooser.policy.scores = lambda candidates, H, random: np.full(len(candidates.nodes), np.nan)
    assert set(ranked(chooser).values()) == {0.0}


def test_a_node_without_a_power_curve_is_not_the_best_for_peaks():
    power = {"idle_w": 1, "busy_w": 9}
    cluster = cluster_of(a=(1, 1, 8, power), b=(1, 1, 16, power), unknown=(1, 1, 64))
    assert next(iter(ranked(chooser_of(cluster, "peaks")))) == "b"


@pytest.mark.parametrize(
    ("policy", "what"),
    [("peaks", "policy peaks"), ("geometric:energy=marginal", "energy = marginal"),
     ("heats:H=0:energy=marginal", "energy = marginal")],
)  # fmt: skip
def test_a_policy_that_counts_power_is_refused_where_no_node_type_has_any(policy, what):
    without = cluster_of(a=(1, 1, 8), b=(1, 1, 8))
    with pytest.raises(UsageError, match=f"{what} counts .*write idle_w and busy_w, or power"):
        chooser_of(without, policy)
    chooser_of(cluster_of(a=(1, 1, 8), b=(1, 1, 8, {"idle_w": 1, "busy_w": 2})), policy)


@pytest.mark.parametrize("policy", ["geometric", "heats", "best"])
def test_scores_are_equal_if_nothing_is_known(policy):
    cluster = cluster_of(a=(None, None, 8), b=(None, None, 8))
    assert len(set(ranked(chooser_of(cluster, policy)).values())) == 1


def test_an_unknown_time_does_not_matter_where_energy_alone_counts():
    cluster = cluster_of(a=("missing_column", 10, 8), b=(5, 20, 8))
    assert next(iter(ranked(chooser_of(cluster, "geometric:H=1")))) == "a"
    assert next(iter(ranked(chooser_of(cluster, "geometric:H=0.9")))) == "b"


# The optimum


def brute_force(problem):
    """Try all assignments: the most tasks placed, then the least cost."""
    n_tasks, n_nodes = problem.costs.shape
    best = (0, 0.0)
    for nodes in itertools.product([None, *range(n_nodes)], repeat=n_tasks):
        used = np.zeros_like(problem.free)
        for task, node in enumerate(nodes):
            if node is not None:
                used[:, node] += problem.needs[task]
        if (used <= problem.free).all():
            placed = [(t, n) for t, n in enumerate(nodes) if n is not None]
            best = min(best, (-len(placed), sum(problem.costs[pair] for pair in placed)))
    return best


@pytest.mark.parametrize("seed", range(8))
def test_best_is_as_good_as_the_best_of_all_assignments(seed):
    random = np.random.default_rng(seed)
    types = {
        f"n{i}": (float(t), float(e), int(c))
        for i, (t, e, c) in enumerate(random.uniform([10, 10, 1], [99, 99, 5], (3, 3)))
    }
    chooser = chooser_of(cluster_of(**types), f"best:H={random.choice([0, 0.5, 1])}")
    tasks = [Task(Resources(cpus=int(random.integers(1, 4)))) for _ in range(5)]
    pairs = [(task, chooser.fleet.need(task.needs)) for task in tasks]
    problem = chooser.problem(pairs)
    placed = chooser.assign(pairs)
    chosen = [(t, n) for t, n in enumerate(placed) if n is not None]
    cost = sum(problem.costs[pair] for pair in chosen)
    n_placed, least = brute_force(problem)
    assert len(chosen) == -n_placed
    assert cost == pytest.approx(least)


# What users write


def test_policies_are_read_with_their_settings():
    kube, heats, own = read_policies("kube, heats:H=0,geometric:H=1:energy=marginal:moves=on")
    assert kube == PolicyChoice("kube")
    assert (heats.name, heats.H) == ("heats", 0.0)
    assert (own.H, own.energy, own.moves) == (1.0, "marginal", True)
    assert own.label == "geometric H=1 energy=marginal moves=on"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("geometrik", "unknown policy 'geometrik'. Did you mean 'geometric'"),
        ("geometric:H=2", "from 0 to 1, not 2"),
        ("geometric:H", "NAME:OPTION=VALUE"),
        ("geometric:H=1:H=0", "NAME:OPTION=VALUE"),
        ("geometric:energy=all", "task, marginal, node"),
        ("geometric:moves=yes", "on or off, not yes"),
        ("kube:weight=3", "weight"),
        ("kube,kube", "'kube' is given twice"),
        ("", "unknown policy ''"),
    ],
)
def test_mistakes_in_policies_are_named(text, expected):
    with pytest.raises(UsageError, match=expected):
        read_policies(text)


@pytest.mark.parametrize("seed", range(12))
def test_tasks_that_arrive_together_are_placed_near_the_optimum(seed):
    random = np.random.default_rng(seed)
    types = {
        f"n{i}": (float(t), float(e), int(c))
        for i, (t, e, c) in enumerate(random.uniform([10, 10, 4], [99, 99, 9], (3, 3)))
    }
    chooser = chooser_of(cluster_of(**types), "geometric:H=0.5")
    tasks = [Task(Resources(cpus=int(random.integers(1, 4)))) for _ in range(5)]
    pairs = [(task, chooser.fleet.need(task.needs)) for task in tasks]
    problem = chooser.problem(pairs)
    placed = chooser.assign(pairs)
    used = np.zeros_like(problem.free)
    for need, node in zip(problem.needs, placed, strict=True):
        used[:, node] += need
    assert (used <= problem.free).all()
    n_placed, least = brute_force(problem)
    assert len(placed) == -n_placed
    cost = sum(problem.costs[t, n] for t, n in enumerate(placed))
    assert least <= cost * (1 + 1e-9)
    assert cost <= 1.05 * least
