"""The runs of a sweep: values are combined, filtered, repeated and shuffled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from foretell.errors import UsageError
from foretell.measure.sweep import Sweep, check_expressions
from foretell.measure.workloads import Workload
from foretell.spaces.rules import Rules
from foretell.spaces.values import Scalar, drawn, latin_hypercube, listed

Configuration = dict[str, Scalar]

#: More runs than this must be confirmed; more combinations than that are not even listed.
MANY_RUNS = 10_000
MOST_COMBINATIONS = 20_000_000


@dataclass(frozen=True)
class Run:
    """One execution of the job: its place in the sweep, its settings, and which repeat it is."""

    index: int
    configuration: Configuration
    repeat: int

    def __str__(self) -> str:
        return f"run {self.index + 1}"


def list_runs(sweep: Sweep, workload: Workload) -> list[Run]:
    """List all runs in the order in which they are made."""
    configurations = list_configurations(sweep, workload)
    runs = [(c, r) for r in range(1, sweep.repeats + 1) for c in configurations]
    if sweep.order == "random":
        # So that a machine that slows down over the hours does not look like an effect.
        order = np.random.default_rng(sweep.seed).permutation(len(runs))
        runs = [runs[i] for i in order]
    return [Run(i, c, r) for i, (c, r) in enumerate(runs)]


def list_configurations(sweep: Sweep, workload: Workload) -> list[Configuration]:
    """List the configurations, with what is derived from them."""
    rules = Rules.of(derive=sweep.derive, only=sweep.only, exclude=sweep.exclude)
    # In this order: the workload is not asked about combinations that the parameters rule out.
    wanted = (c for c in _candidates(sweep) if rules.allows(c))
    kept = [c for c in _derived(sweep, workload, rules, wanted) if rules.allows(c)]
    if not kept:
        raise UsageError("no configuration is left: 'only' and 'exclude' rule out all of them")
    for configuration in kept:
        sweep.cpu_limit_of(configuration)  # refuses an impossible limit before anything runs
    return kept


def count_runs(sweep: Sweep) -> int:
    """Count the runs before any filter."""
    if sweep.configurations:
        n = len(sweep.configurations) * _n_combinations(sweep)
    else:
        n = sweep.design.n if sweep.design.n is not None else _n_combinations(sweep)
    return n * sweep.repeats


def _n_combinations(sweep: Sweep) -> int:
    return math.prod(len(listed(values)) for values in sweep.parameters.values())


def _derived(
    sweep: Sweep, workload: Workload, rules: Rules, configurations: Iterable[Configuration]
) -> Iterator[Configuration]:
    """Add the derived columns to configurations: the workload's, then the sweep's own."""
    for i, configuration in enumerate(configurations):
        derived = workload.derived(configuration)
        if i == 0:
            check_expressions(sweep, derived)
        yield rules.with_derived({**configuration, **derived})


def _candidates(sweep: Sweep) -> Iterator[Configuration]:
    if sweep.design.method != "grid":
        return _sampled(sweep)
    if count_runs(sweep) // sweep.repeats > MOST_COMBINATIONS:
        raise UsageError(
            f"the grid has {count_runs(sweep) // sweep.repeats:,} combinations; draw some of them: "
            'design = {method = "latin", n = 1000}'
        )
    return _combined(sweep)


def _combined(sweep: Sweep) -> Iterator[Configuration]:
    names = list(sweep.parameters)
    for values in product(*(listed(v) for v in sweep.parameters.values())):
        fixed = dict(zip(names, values, strict=True))
        if not sweep.configurations:
            yield fixed
        for configuration in sweep.configurations:
            yield {**fixed, **configuration}


def _sampled(sweep: Sweep) -> Iterator[Configuration]:
    """Draw configurations; one that was drawn before is replaced, for a bounded number of draws."""
    assert sweep.design.n is not None
    seen: set[tuple[Scalar, ...]] = set()
    for shares in islice(_shares(sweep), 20 * sweep.design.n):
        values = tuple(drawn(v, s) for v, s in zip(sweep.parameters.values(), shares, strict=True))
        if values not in seen:
            seen.add(values)
            yield dict(zip(sweep.parameters, values, strict=True))
        if len(seen) == sweep.design.n:
            return


def _shares(sweep: Sweep) -> Iterator[list[float]]:
    """Yield draws without end: one number from 0 to 1 for each parameter."""
    assert sweep.design.n is not None
    n, n_names = sweep.design.n, len(sweep.parameters)
    random = np.random.default_rng(sweep.seed)
    while True:
        is_latin = sweep.design.method == "latin"
        shares = latin_hypercube(n, n_names, random) if is_latin else random.random((n, n_names))
        yield from shares.tolist()
