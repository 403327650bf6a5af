"""Small networks to serve: of convolutions, of wide layers, of steps one by one, and LeNet."""

from torch import nn


def lenet():
    """LeNet-5 for images of 28 × 28: starting a layer takes longer than computing it."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def convolutions(width=32):
    """Four convolutions for images of 28 × 28: each sample takes about the same."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2 * width, 4 * width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(4 * width, 4 * width, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4 * width, 10),
    )  # fmt: skip


def wide(width=2048):
    """Wide layers for 784 numbers: reading the weights takes long, and a batch reads them once."""
    return nn.Sequential(
        nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10),
    )  # fmt: skip


def recurrent(width=192):
    """Two LSTM layers that read an image in 392 steps: a few images take less than one by one."""
    return Recurrent(width)


class Recurrent(nn.Module):
    """Reads two pixels of an image at a time."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.LSTM(2, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        """Return the scores of ten classes."""
        steps, _ = self.layers(images.flatten(1).unflatten(1, (-1, 2)))
        return self.head(steps[:, -1])
