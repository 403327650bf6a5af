"""Another sequence model: convolutions over time (TCN) in the place of the recurrent network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from foretell.corun.models.gru.network import Output, end_step
from foretell.corun.models.gru.sequences import (
    HORIZON,
    N_INPUTS,
    N_METRICS,
    N_OUTPUTS,
    STEPS,
    sequence_of,
)
from foretell.corun.models.gru.train import Data, GruOptions, Training, masked, one_thread

if TYPE_CHECKING:
    import torch

    from foretell.corun.models.cases import Case

_CHANNELS, _KERNEL = 32, 3
_DILATIONS = (1, 2, 4, 8, 16)  # together they span the whole output


class ConvolutionModel:
    """Predicts all steps at once: the same inputs, outputs, loss and end as the GRU."""

    name: ClassVar[str] = "TCN"

    def __init__(self, options: GruOptions | None = None) -> None:
        self._options = options or GruOptions()
        self._training: _ConvolutionTraining | None = None

    def fit(self, cases: Sequence[Case]) -> None:
        """Train on pairs."""
        with one_thread():
            self._training = _ConvolutionTraining(Data(cases, self._options), self._options)
            self._training.run()

    def predict(self, case: Case) -> list[float]:
        """Return how long each job takes, from its start."""
        assert self._training is not None
        begin = min(job.start_s for job in case.jobs)
        found = []
        for k, job in enumerate(case.jobs):
            sequence = sequence_of(case, k)
            output = self._training.output(masked(sequence.inputs, self._options))
            end = begin + sequence.step_s * end_step(output)[0]
            found.append(max(end - job.start_s, 1e-3))
        return found


class _ConvolutionTraining(Training):
    """Residual blocks of dilated convolutions over the padded input."""

    def _make_parts(self) -> torch.nn.ModuleDict:
        import torch

        blocks = [
            torch.nn.Conv1d(_CHANNELS, _CHANNELS, _KERNEL, padding=d, dilation=d)
            for d in _DILATIONS
        ]
        return torch.nn.ModuleDict(
            {
                "first": torch.nn.Conv1d(N_INPUTS, _CHANNELS, 1),
                "blocks": torch.nn.ModuleList(blocks),
                "head": torch.nn.Conv1d(_CHANNELS, N_OUTPUTS, 1),
            }
        )

    def _decode(
        self, index: torch.Tensor, forced: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self._forward(self._data.inputs[index], self._data.raw[index])

    def _forward(
        self, inputs: torch.Tensor, raw: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        import torch

        longer = torch.nn.functional.pad(inputs, (0, 0, 0, (HORIZON - 1) * STEPS))
        x = self._parts["first"](longer.transpose(1, 2))
        for block in self._parts["blocks"]:
            x = x + torch.relu(block(x))
        out = self._parts["head"](x).transpose(1, 2)
        begun = raw[:, :1, [N_METRICS, 2 * N_METRICS + 2]] * (raw[:, :1, [N_METRICS]] > 0)
        grown = torch.nn.functional.softplus(out[:, :, N_METRICS:-1]) / 10
        return out[:, :, :N_METRICS], begun + grown.cumsum(1), torch.sigmoid(out[:, :, -1])

    def output(self, inputs: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Output:
        """Return what the trained network says of one sequence."""
        import torch

        raw = torch.tensor(inputs[None], dtype=torch.float32)
        normal = torch.tensor(
            (inputs[None] - self._data.center) / self._data.scale, dtype=torch.float32
        )
        with torch.no_grad():
            metrics, completion, eos = (t[0].numpy() for t in self._forward(normal, raw))
        return Output(metrics.astype(float), completion.astype(float), eos.astype(float))
