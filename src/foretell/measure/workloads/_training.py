"""What each worker does: two small networks, trained with DistributedDataParallel and timed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.machines import Needs, Resources
from foretell.measure.workloads._digits import N_CLASSES, Digits, load_digits
from foretell.measure.workloads._own_code import load_function

if TYPE_CHECKING:
    import torch

_SEED = 0


@dataclass(frozen=True)
class Job:
    """What all workers of one run get to know.

    Attributes
    ----------
    settings
        The parameters of the networks' training, with defaults; empty for a function of the user's.
    configuration
        The parameters as the sweep has them.
    images
        The folder with MNIST's files; None takes scikit-learn's digits.
    train_function
        ``module:function`` of the user's own, in ``folder`` or installed.
    """

    workers: int
    cpus: int
    gpus: int
    settings: Mapping[str, Any]
    configuration: Mapping[str, Any]
    images: str | None
    train_function: str | None
    folder: str

    @property
    def needs(self) -> Needs:
        """The CPUs and GPUs of each worker."""
        return Needs(Resources(cpus=self.cpus, gpus=self.gpus), n_parts=self.workers)


@dataclass(frozen=True)
class WorkerReport:
    """What one worker reports after its work.

    Attributes
    ----------
    entered_at
        When it began, in seconds since 1970.
    stages_s
        The seconds of each stage, one number for each time it was entered.
    numbers
        What else it measured.
    """

    entered_at: float
    stages_s: Mapping[str, list[float]]
    numbers: Mapping[str, Any]


class WorkerFailedError(Exception):
    """The work of one worker raised an error, in one line, because Ray passes it on as text."""


@dataclass
class StageTimer:
    """Times stages on one worker; a stage entered often, such as an epoch, keeps every time."""

    entries_s: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is done inside; the column ``<name>_s`` has the mean of all such times."""
        started = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - started)

    def add(self, name: str, seconds: float) -> None:
        """Add one time of a stage that was measured elsewhere."""
        self.entries_s.setdefault(name, []).append(seconds)


def work(job: Job, device: Any) -> WorkerReport:
    """Do one worker's part of a run; its process group exists already."""
    import torch

    entered_at = time.time()
    torch.set_num_threads(job.cpus)
    torch.manual_seed(_SEED)
    timer = StageTimer()
    try:
        is_own = job.train_function is not None
        numbers = _call(job, timer) if is_own else _train_digits(job, timer, device)
    except Exception as error:
        text = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {text[0] if text else 'no reason'}"
        raise WorkerFailedError(reason) from error
    return WorkerReport(entered_at, timer.entries_s, numbers)


def _call(job: Job, timer: StageTimer) -> Mapping[str, Any]:
    assert job.train_function is not None
    function = load_function(job.train_function, Path(job.folder), "workload.train_function")
    with timer.stage("training_loop"):
        found = function(dict(job.configuration), timer)
    if found is None or isinstance(found, Mapping):
        return found or {}
    kind = type(found).__name__
    raise TypeError(f"{job.train_function} returned a {kind}; return a dict of numbers")


def import_all() -> None:
    """Import what training needs, even what Torch imports only with the first optimizer."""
    import sklearn.datasets  # noqa: F401
    import torch
    from torch.nn.parallel import DistributedDataParallel  # noqa: F401

    torch.optim.SGD([torch.zeros(1, requires_grad=True)])


def make_network(model: str) -> torch.nn.Module:
    """Return the network named ``small``, of 405,466 parameters, or ``large``, of 2,907,466."""
    from torch import nn

    if model == "small":
        return nn.Sequential(
            *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(64 * 5 * 5, 240), nn.ReLU()),
            nn.Linear(240, N_CLASSES),
        )
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(128 * 7 * 7, 448), nn.ReLU()),
        nn.Linear(448, N_CLASSES),
    )


def _train_digits(job: Job, timer: StageTimer, device: Any) -> dict[str, float]:
    """Train a network as in the paper's Figure 2: load the data, then the loop over epochs."""
    import_all()  # first, for it is part of no stage
    import torch
    from torch.nn.parallel import DistributedDataParallel

    settings = job.settings
    with timer.stage("data_loading"):
        folder = None if job.images is None else Path(job.images)
        training, validation = load_digits(folder, settings["num_images"])
        batches = _Batches(training, settings["batch_size"], device, is_shuffled=True)
        to_check = _Batches(validation, settings["batch_size"], device, is_shuffled=False)
    model = DistributedDataParallel(make_network(settings["model"]).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["learning_rate"], momentum=0.9)
    reductions = _Reductions()
    if device.type == "cpu":
        model.register_comm_hook(None, lambda _, bucket: reductions.reduce(bucket))
    loss = accuracy = 0.0
    with timer.stage("training_loop"):
        for epoch in range(settings["epochs"]):
            with timer.stage("train_epoch"):
                loss = _train_epoch(model, optimizer, batches.of_epoch(epoch))
            with timer.stage("validate_epoch"):
                accuracy = _validate_epoch(model, to_check.of_epoch(epoch))
    if device.type == "cpu":
        timer.add("all_reduce", covered_s(reductions.spans))
    return _averaged({"loss": loss, "accuracy": accuracy}, device)


Batch = tuple["torch.Tensor", "torch.Tensor"]


class _Batches:
    """This worker's share of a set of images, batch by batch; every worker holds the whole set."""

    def __init__(self, digits: Digits, size: int, device: Any, *, is_shuffled: bool) -> None:
        import torch
        from torch.utils.data import BatchSampler, DistributedSampler

        self._images = torch.from_numpy(digits.images).unsqueeze(1)
        self._labels = torch.from_numpy(digits.labels)
        self._device = device
        self._sampler = DistributedSampler(range(len(digits)), shuffle=is_shuffled, seed=_SEED)
        self._indices = BatchSampler(self._sampler, size, drop_last=False)

    def of_epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield images as numbers from 0 to 1, in an order that differs by epoch."""
        self._sampler.set_epoch(epoch)
        for index in self._indices:
            images = self._images[index].to(self._device).float() / 255
            yield images, self._labels[index].to(self._device)


def _train_epoch(model: Any, optimizer: Any, batches: Iterator[Batch]) -> float:
    """Train once with all images; return the mean loss."""
    from torch.nn.functional import cross_entropy

    model.train()
    total, n = 0.0, 0
    for images, labels in batches:
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        n += len(labels)
    return total / n


def _validate_epoch(model: Any, batches: Iterator[Batch]) -> float:
    """Return which share of images is recognized; no worker waits for another."""
    import torch

    model.eval()
    n_right, n = 0, 0
    with torch.no_grad():
        for images, labels in batches:
            n_right += int((model.module(images).argmax(1) == labels).sum().item())
            n += len(labels)
    return n_right / n


def _averaged(numbers: Mapping[str, float], device: Any) -> dict[str, float]:
    """Return the mean over all workers."""
    import torch
    from torch import distributed

    values = torch.tensor(list(numbers.values()), device=device)
    distributed.all_reduce(values)
    return dict(zip(numbers, (values / distributed.get_world_size()).tolist(), strict=True))


class _Reductions:
    """Times the all-reduces of gradients.

    Each bucket of gradients is timed from when it is handed over until its mean is there, which
    includes the wait for slower workers. What counts is the time in which at least one bucket is
    under way. The backward pass goes on meanwhile, so that not all of it is time lost. On a GPU
    the processor does not learn when a bucket is done, so this is not measured.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    def reduce(self, bucket: Any) -> Any:
        """Replace a bucket of gradients by its mean over workers, as without a hook."""
        from torch import distributed

        started = time.perf_counter()
        gradients = bucket.buffer().div_(distributed.get_world_size())
        pending = distributed.all_reduce(gradients, async_op=True).get_future()

        def ended(future: Any) -> Any:
            self.spans.append((started, time.perf_counter()))
            return future.value()[0]

        return pending.then(ended)


def covered_s(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of spans of time.

    >>> covered_s([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
