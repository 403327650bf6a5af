"""Training the network with PyTorch: on both orders of pairs, with its own outputs fed back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.corun.models.gru.network import HIDDEN, N_FED_BACK
from foretell.corun.models.gru.sequences import (
    HORIZON,
    N_INPUTS,
    N_METRICS,
    N_OUTPUTS,
    STEPS,
    sequence_of,
    target_of,
)
from foretell.errors import UsageError

if TYPE_CHECKING:
    import torch

    from foretell.corun.models.cases import Case

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GruOptions:
    """How the network is trained.

    Attributes
    ----------
    has_completion
        Whether inputs have the percentage completion of both jobs; without it, the network has to
        find the end by itself.
    metric
        The only metric that the network sees and predicts, for one network per metric; None means
        all.
    """

    epochs: int = 45
    patience: int = 15
    batch: int = 16
    rate: float = 1e-3
    has_completion: bool = True
    metric: int | None = None
    seed: int = 0


def train_network(cases: Sequence[Case], options: GruOptions | None = None) -> dict[str, Array]:
    """Train a network on pairs, and return its arrays."""
    chosen = options or GruOptions()
    with one_thread():
        return Training(Data(cases, chosen), chosen).run()


@contextmanager
def one_thread() -> Iterator[None]:
    """Train on one thread: sums come out the same, and other processes keep their cores."""
    if find_spec("torch") is None:
        raise UsageError(
            "the sequence-to-sequence model is trained with PyTorch; install foretell[torch]"
        )
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Data:
    """All jobs of all cases, as arrays."""

    def __init__(self, cases: Sequence[Case], options: GruOptions) -> None:
        import torch

        inputs, metrics, completion, ends = [], [], [], []
        for case in cases:
            for k in range(len(case.jobs)):
                target = target_of(case, k)
                inputs.append(masked(sequence_of(case, k).inputs, options))
                metrics.append(_only(target.metrics, options.metric, (0,)))
                completion.append(target.completion)
                ends.append(target.ends)
        flat = np.concatenate(inputs)
        self.center, self.scale = flat.mean(axis=0), np.maximum(flat.std(axis=0), 1e-3)
        self.raw = torch.tensor(np.array(inputs), dtype=torch.float32)
        normal = (np.array(inputs) - self.center) / self.scale
        self.inputs = torch.tensor(normal, dtype=torch.float32)
        self.metrics = torch.tensor(np.array(metrics), dtype=torch.float32)
        self.completion = torch.tensor(np.array(completion), dtype=torch.float32)
        self.ends = torch.tensor(np.array(ends), dtype=torch.float32)
        draw = np.random.default_rng(options.seed)
        order = draw.permutation(len(inputs))
        n_held = max(2, len(inputs) // 7)
        self.held, self.rows = order[:n_held], order[n_held:]


def masked(inputs: Array, options: GruOptions) -> Array:
    """Return inputs without what is not to be known: completion, or other metrics."""
    found = _only(inputs, options.metric, (0, N_METRICS + 2))
    if not options.has_completion:
        found[:, [N_METRICS, 2 * N_METRICS + 2]] = 0.0
    return found


def _only(values: Array, metric: int | None, starts: tuple[int, ...]) -> Array:
    """Return a copy with zero for all metrics but one, in blocks that begin at some columns."""
    found = values.copy()
    if metric is not None:
        others = [s + k for s in starts for k in range(N_METRICS) if k != metric]
        found[:, others] = 0.0
    return found


class Training:
    """Epochs over the rows, until rows that are held out get no better."""

    def __init__(self, data: Data, options: GruOptions) -> None:
        import torch

        self._data, self._options = data, options
        torch.manual_seed(options.seed)
        self._parts = self._make_parts()
        self._optimizer = torch.optim.Adam(self._parts.parameters(), lr=options.rate)
        self._draw = np.random.default_rng(options.seed)

    def _make_parts(self) -> torch.nn.ModuleDict:
        import torch

        return torch.nn.ModuleDict(
            {
                "encoder": torch.nn.GRU(N_INPUTS, HIDDEN, batch_first=True),
                "decoder": torch.nn.GRUCell(N_FED_BACK + HIDDEN, HIDDEN),
                "head": torch.nn.Linear(2 * HIDDEN, N_OUTPUTS),
            }
        )

    def run(self) -> dict[str, Array]:
        """Train, and return the best arrays, which the parts keep."""
        import torch

        best, since, kept = float("inf"), 0, self._state()
        for epoch in range(self._options.epochs):
            forced = max(0.0, 1 - epoch / (0.6 * self._options.epochs))
            order = self._draw.permutation(self._data.rows)
            for at in range(0, len(order), self._options.batch):
                self._optimizer.zero_grad()
                loss = self._loss(order[at : at + self._options.batch], forced)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self._parts.parameters(), 1.0)
                self._optimizer.step()
            with torch.no_grad():
                held = float(self._loss(self._data.held, 0.0))
            since = 0 if held < best else since + 1
            if held < best:
                best, kept = held, self._state()
            if since >= self._options.patience and forced == 0:
                break
        self._parts.load_state_dict({n: torch.tensor(a) for n, a in kept.items()})
        return {**kept, "center": self._data.center, "scale": self._data.scale}

    def _state(self) -> dict[str, Array]:
        return {n: t.numpy().astype(np.float64) for n, t in self._parts.state_dict().items()}

    def _loss(self, rows: NDArray[Any], forced: float) -> torch.Tensor:
        import torch

        data = self._data
        index = torch.as_tensor(np.ascontiguousarray(rows))
        metrics, completion, eos = self._decode(index, forced)
        wanted, done, ends = data.metrics[index], data.completion[index], data.ends[index]
        steps = torch.arange(1, HORIZON * STEPS + 1)
        over = (steps[None] >= ends.max(dim=1).values[:, None]).float()
        square = torch.nn.functional.mse_loss
        shown = torch.clamp(completion, max=1.0)
        loss = square(metrics, wanted) + 4 * square(shown, done)
        loss = loss + 0.5 * (self._end(completion) - torch.log(ends[:, 0])).abs().mean()
        return loss + torch.nn.functional.binary_cross_entropy(eos, over)

    def _end(self, completion: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of where the first job crosses its end, with gradients."""
        import torch

        done = completion[:, :, 0]
        is_over = done.detach() >= 1.0
        first = torch.where(is_over.any(1), is_over.float().argmax(1), done.shape[1] - 1)
        here = done.gather(1, first[:, None])[:, 0]
        before = done.gather(1, (first - 1).clamp(min=0)[:, None])[:, 0]
        part = (1.0 - before) / (here - before).clamp(min=1e-3)
        return torch.log((first + part).clamp(min=0.5, max=4.0 * HORIZON * STEPS))

    def _decode(
        self, index: torch.Tensor, forced: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return metrics, completion and the end by step; some steps are fed what was measured."""
        import torch

        data, n = self._data, len(index)
        encoded, last = self._parts["encoder"](data.inputs[index])
        state = last[0]
        fed = torch.zeros(n, N_FED_BACK)
        raw = data.raw[index][:, 0]
        begun = raw[:, [N_METRICS, 2 * N_METRICS + 2]] * (raw[:, [N_METRICS]] > 0)
        fed[:, N_METRICS:] = begun
        rows = []
        for step in range(HORIZON * STEPS):
            state = self._parts["decoder"](
                torch.cat([fed, self._context(encoded, state)], 1), state
            )
            out = self._parts["head"](torch.cat([state, self._context(encoded, state)], 1))
            grown = torch.nn.functional.softplus(out[:, N_METRICS:-1]) / 10
            said = torch.cat([out[:, :N_METRICS], fed[:, N_METRICS:] + grown], 1)
            rows.append(torch.cat([said, torch.sigmoid(out[:, -1:])], 1))
            fed = said
            if forced > 0 and self._draw.random() < forced:
                true = (data.metrics[index][:, step], data.completion[index][:, step])
                fed = torch.cat(true, 1)
        table = torch.stack(rows, 1)
        return table[:, :, :N_METRICS], table[:, :, N_METRICS:-1], table[:, :, -1]

    @staticmethod
    def _context(encoded: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        import torch

        scores = (encoded @ state[:, :, None])[:, :, 0] / HIDDEN**0.5
        return (torch.softmax(scores, 1)[:, None] @ encoded)[:, 0]
