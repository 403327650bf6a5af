"""Searches over real networks: what is found is the network that was trained."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import foretell
from foretell import tune
from foretell.tune.onefold.inference import architecture_names

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def data():
    images, digits = load_digits(return_X_y=True)
    images = torch.tensor(images / 16, dtype=torch.float32)
    return images[:1200], torch.tensor(digits[:1200]), images[1200:], torch.tensor(digits[1200:])


def accuracy(network, images, digits):
    with torch.no_grad():
        return (network(images).argmax(1) == digits).float().mean().item()


def trainer(data, used):
    known, known_digits, held_out, held_out_digits = data

    def train(config, budget, state):
        torch.manual_seed(budget.rung)
        if state is None:
            network = torch.nn.Sequential(
                torch.nn.Linear(64, config["hidden"]),
                torch.nn.ReLU(),
                torch.nn.Linear(config["hidden"], 10),
            )
            state = network, torch.optim.SGD(network.parameters(), lr=config["lr"], momentum=0.9)
        network, optimizer = state
        chosen = torch.from_numpy(budget.subset(known_digits))
        used.append((budget.rung, chosen.numpy()))
        for _ in budget.epochs:
            for batch in chosen.split(16):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(
                    network(known[batch]), known_digits[batch]
                ).backward()
                optimizer.step()
        return tune.Progress(accuracy(network, held_out, held_out_digits), state)

    return train


def test_a_network_is_found_that_is_as_accurate_as_told(data):
    used = []
    found = tune.search(
        trainer(data, used),
        {"hidden": [8, 64], "lr": {"from": 0.001, "to": 0.3, "spacing": "log"}},
        accuracy=0.85,
        trials=8,
    )
    network, _ = found.model
    assert accuracy(network, *data[2:]) == pytest.approx(found.best.accuracy)
    assert found.best.accuracy >= 0.85
    assert network[0].out_features == found.config["hidden"]
    by_rung = {}
    for rung, chosen in used:
        assert np.array_equal(by_rung.setdefault(rung, chosen), chosen)


def test_a_network_that_is_trained_again_is_the_same(data, tmp_path):
    options = {"hyper": {"hidden": [8, 64], "lr": [0.03, 0.1]}, "accuracy": 0.8, "trials": 3}
    first = tune.search(trainer(data, []), storage=tmp_path / "search.db", **options)
    again = tune.search(trainer(data, []), storage=tmp_path / "search.db", **options)
    assert again.best.number == first.best.number
    for one, other in zip(first.model[0].parameters(), again.model[0].parameters(), strict=True):
        assert torch.equal(one, other)


def test_threads_are_applied_for_each_trial_and_put_back():
    before, seen = torch.get_num_threads(), set()

    def train(config, budget, state):
        seen.add((config["threads"], torch.get_num_threads()))
        return 0.1

    tune.search(train, {"size": [1, 2, 3]}, system={"threads": [1, 2]}, accuracy=0.9, trials=6)
    assert seen == {(1, 1), (2, 2)}
    assert torch.get_num_threads() == before


def test_the_three_lines_of_the_pipeline_work_inside_a_trial(data, tmp_path):
    used = []
    plain = trainer(data, used)

    def train(config, budget, state):
        knobs = tune.pipeline(
            "digits", {"threads": [1, 2]}, params=config, store=tmp_path / "store.db", strict=True
        )
        progress = None
        for _ in knobs.epochs(range(1)):
            progress = plain(config, budget, state)
        return progress

    options = {"hyper": {"hidden": [8, 64], "lr": [0.03, 0.1]}, "accuracy": 0.8, "trials": 3}
    found, alone = tune.search(train, **options), tune.search(plain, **options)
    assert not found.failed
    assert [t.config for t in found.trials] == [t.config for t in alone.trials]
    for one, other in zip(found.trials, alone.trials, strict=True):
        pairs = list(zip(one.rungs, other.rungs, strict=False))
        assert pairs
        assert all(a.accuracy == pytest.approx(b.accuracy, abs=0.01) for a, b in pairs)


def build(hidden, layers=1):
    return torch.nn.Linear(64, hidden * layers)


def test_the_architecture_is_what_the_function_of_a_deployable_takes():
    deployable = foretell.Deployable(build, (64,), "single-stream")
    assert architecture_names(deployable, None, ["lr", "hidden", "threads"]) == ("hidden",)
    by_name = foretell.Deployable("net.py:build", (64,), "single-stream")
    with pytest.raises(foretell.UsageError, match="architecture"):
        architecture_names(by_name, None, ["lr", "hidden"])


def test_the_signature_in_the_reference_is_that_of_the_code():
    text = re.sub(r"\s", "", (ROOT / "docs/reference/python.md").read_text(encoding="utf-8"))
    for function in (tune.search, tune.Progress, tune.Budgets):
        parameters = inspect.signature(function).parameters.values()
        bare = inspect.Signature([p.replace(annotation=p.empty) for p in parameters])
        assert f"{function.__name__}{bare}".replace(" ", "") in text
