"""Networks for tests: some that can be served, and some that cannot."""

import builtins
import sys
import time
from pathlib import Path

import torch
from torch import nn


def small(width=8):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 3))


def words():
    return nn.EmbeddingBag(50, 8)


def without_batches():
    return nn.Sequential(nn.Flatten(0), nn.Linear(16, 3))


class Positive(nn.Module):
    def forward(self, x):
        return x[x.mean(dim=1) > 0.5]


def dynamic():
    return nn.Sequential(nn.Flatten(), Positive(), nn.Linear(16, 3))


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=0)


def averaging():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), Mean())


class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 3)

    def forward(self, x):
        return self.layer(x).sum()


def failing():
    raise ValueError("no such weights")


def wrong_kind():
    return 3


class Greedy(nn.Module):
    """Cannot compute large batches."""

    def forward(self, x):
        if len(x) > 6:
            raise RuntimeError("not enough memory: you tried to allocate 9 TB")
        return x.flatten(1)


def greedy():
    return Greedy()


class Noting(nn.Module):
    """Notes the sizes of its batches in a file, and cannot compute large ones."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def forward(self, x):
        if len(x) > 8:
            raise RuntimeError("not enough memory")
        with Path(self.path).open("a") as file:
            file.write(f"{len(x)}\n")
        return x.flatten(1)


def noting(path):
    return Noting(path)


class Killed(nn.Module):
    """Ends its process in large batches, as the kernel does where memory runs out."""

    def forward(self, x):
        if len(x) > 6:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        return x.flatten(1)


def killed():
    return Killed()


class Picky(nn.Module):
    """Raises an error without a text in large batches."""

    def __init__(self, error):
        super().__init__()
        self.error = getattr(builtins, error)

    def forward(self, x):
        if len(x) > 6:
            raise self.error
        return x.flatten(1)


def picky(error):
    return Picky(error)


class Rested(nn.Module):
    """Takes 20 ms longer after a pause of as long."""

    def __init__(self):
        super().__init__()
        self.last = time.monotonic()

    def forward(self, x):
        if time.monotonic() - self.last > 0.02:
            time.sleep(0.02)
        self.last = time.monotonic()
        return x.flatten(1)


def chatty():
    sys.stdout.write("building\n")
    torch.manual_seed(1)
    return small()


not_a_function = 3
