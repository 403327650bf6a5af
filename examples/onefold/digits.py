"""A network that reads digits: how wide, which learning rate, how many threads, how to serve it."""

import itertools

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import foretell
from foretell import tune

images, digits = load_digits(return_X_y=True)
parts = train_test_split(images / 16, digits, test_size=0.3, stratify=digits, random_state=0)
known, held_out = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
known_digits, held_out_digits = map(torch.tensor, parts[2:])


def build(hidden, layers):
    """Return an untrained network."""
    sizes = [64] + [hidden] * layers
    linear = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    blocks = [module for layer in linear for module in (layer, torch.nn.ReLU())]
    return torch.nn.Sequential(*blocks, torch.nn.Linear(hidden, 10))


def train(config, budget, state):
    """Train one trial for one budget."""
    torch.manual_seed(0)
    if state is None:
        network = build(config["hidden"], config["layers"])
        state = network, torch.optim.SGD(network.parameters(), lr=config["lr"], momentum=0.9)
    network, optimizer = state
    chosen = torch.tensor(budget.subset(known_digits))
    for _ in budget.epochs:
        for batch in chosen[torch.randperm(len(chosen))].split(config["batch_size"]):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(known[batch]), known_digits[batch])
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        accuracy = (network(held_out).argmax(1) == held_out_digits).float().mean().item()
    return tune.Progress(accuracy, state)


if __name__ == "__main__":
    found = tune.search(
        train,
        hyper={
            "hidden": [16, 64, 256],
            "layers": [1, 2],
            "batch_size": [16, 32, 64],
            "lr": {"from": 0.001, "to": 0.3, "spacing": "log"},
        },
        system={"threads": [1, 2]},
        deployable=foretell.Deployable(
            build,
            input_shape=(64,),
            scenario="poisson:500/s",
            vary={"batch": [1, 4, 16], "threads": [1, 2]},
        ),
        accuracy=0.95,
        p99_s=0.005,
        trials=12,
    )
    print(found)
