"""Latency of architectures, for searches that have inference in their objective."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretell.decide.deployment.scenario import Scenario, read_scenario
from foretell.deploy.answer import Deployment
from foretell.deploy.choose import choose_deployment
from foretell.deploy.network import read_network
from foretell.spaces.values import Values

#: Options under which latencies stay the same.
_OF_NO_EFFECT = ("cache", "progress")


@dataclass(frozen=True)
class Latency:
    """What the best setting of an architecture comes to.

    Attributes
    ----------
    throughput
        Samples per second.
    deployment
        The whole answer.
    """

    mean_s: float
    p99_s: float
    throughput: float
    batch: int
    threads: int
    deployment: Deployment = field(repr=False)


class Deployable:
    """A family of networks that are to be served.

    Parameters
    ----------
    build
        A function of the architecture that returns a ``torch.nn.Module``; or ``file.py:function``.
    input_shape
        Of one sample, without the batch.
    scenario
        ``single-stream``, ``offline``, ``poisson:120/s`` or ``burst:8/50ms``.
    vary
        What can be chosen: ``batch``, ``threads``, ``wait``.
    p99
        What 99 of 100 requests must stay below; a search should rather judge by ``p99_s``.
    options
        As of ``choose_deployment``.

    >>> from foretell import Deployable
    >>> family = Deployable("net.py:build", (1, 28, 28), "single-stream")
    ... # doctest: +SKIP
    >>> family.latency(width=32).p99_s                # doctest: +SKIP
    0.0041
    """

    def __init__(
        self,
        build: str | Callable[..., Any],
        input_shape: str | Sequence[int],
        scenario: str | Scenario = "single-stream",
        *,
        vary: Mapping[str, Values] | None = None,
        p99: str | float | None = None,
        **options: Any,
    ) -> None:
        self.build, self._shape = build, input_shape
        self._scenario = read_scenario(scenario)
        self._vary, self._p99, self._options = vary, p99, options
        self._known: dict[str, Latency] = {}

    @property
    def depends_on(self) -> dict[str, str]:
        """What latencies depend on besides the architecture, in words that stay the same."""
        shape = self._shape if isinstance(self._shape, str) else ",".join(map(str, self._shape))
        told = {name: v for name, v in self._options.items() if name not in _OF_NO_EFFECT}
        return {
            "build": read_network(self.build, self._shape).build,
            "input_shape": shape,
            "scenario": str(self._scenario),
            "vary": str(dict(self._vary or {})),
            "p99": str(self._p99),
            **{name: str(value) for name, value in told.items()},
        }

    def latency(self, **architecture: Any) -> Latency:
        """Return what an architecture comes to; each is measured once."""
        key = json.dumps(architecture, sort_keys=True, default=str)
        if key not in self._known:
            found = choose_deployment(
                self.build,
                self._shape,
                self._scenario,
                p99=self._p99,
                vary=self._vary,
                arguments=architecture,
                **self._options,
            )
            figures, setting = found.figures, found.setting
            self._known[key] = Latency(
                figures.mean_s, figures.p99_s, figures.per_s, setting.batch, setting.threads, found
            )
        return self._known[key]
