"""A training loop of PyTorch with the three lines, run for several batch sizes one after another.

python examples/tune/three_lines.py STORE
"""

import sys

import torch
from sklearn.datasets import load_digits

from foretell.tune import pipeline  # 1

data = load_digits()
images = torch.tensor(data.data, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
labels = torch.tensor(data.target)


def train(config):
    """Train a small network on handwritten digits; return its last loss and what was tuned."""
    torch.manual_seed(0)
    nn = torch.nn
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(576, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=config["lr"], momentum=0.9)
    knobs = pipeline("digits", {"threads": [1, 2]}, params=config, store=sys.argv[1])  # 2
    for _ in knobs.epochs(range(8)):  # 3
        total = 0.0
        for batch in torch.randperm(len(images)).split(config["batch_size"]):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
    return total / len(images), knobs


if __name__ == "__main__":
    for batch_size in (16, 64, 32, 16):
        config = {"lr": 0.02, "batch_size": batch_size}
        loss, knobs = train(config)
        print(f"batch_size={batch_size}: loss {loss:.4f}")
        print(knobs)
