"""The second of the three lines: checks what a user wants tuned, and makes the hook."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from foretell.errors import ForetellError, Option, UsageError, error_lines, suggest
from foretell.tune.hook.context import Context, detect
from foretell.tune.hook.loop import Pipeline
from foretell.tune.hook.paper import PaperPolicy
from foretell.tune.hook.policy import OBJECTIVES, Grid, Objective, Policy
from foretell.tune.hook.product import ProductPolicy
from foretell.tune.knobs import KNOBS, Knob, Surroundings
from foretell.tune.store import Store, open_store
from foretell.tune.store.rows import plain_value, plain_values

LOG = logging.getLogger("foretell.tune")

MODES = ("product", "paper")


class PipelineOptions(TypedDict, total=False):
    """What can be set of a hook, by name."""

    objective: str
    store: str | Path | Store | None
    strict: bool
    mode: str
    changes_results: bool
    rungs: Sequence[int] | None
    share: bool


def pipeline(
    job: Any,
    settings: Mapping[str, Sequence[Any]],
    params: Mapping[str, Any] | None = None,
    **options: Unpack[PipelineOptions],
) -> Pipeline:
    """Tune system settings of a training loop between its epochs.

    Parameters
    ----------
    job
        The name of the job, under which its epochs are stored; or a trial of Optuna.
    settings
        The values that may be tried, by knob: ``{"threads": [1, 2, 4]}``.
    params
        The hyperparameters of this training. Only numbers and short names are stored.
    objective
        What is to be small: ``throughput`` (core-seconds per epoch while other trainings run,
        else seconds), ``latency`` (seconds), ``energy`` (modelled) or ``cost``.
    store
        The file of the store, or an open store; see ``open_store``.
    strict
        Raise errors of the hook, instead of leaving settings alone.
    mode
        ``product``, or ``paper`` for PipeTune as published.
    changes_results
        Allow knobs under which the same hyperparameters give another learning curve.
    rungs
        After how many epochs a search may stop trials. By default those of Optuna's pruner, or
        those after which earlier trials of the job ended.
    share
        Learn from epochs of other machines, too.

    >>> knobs = pipeline("lenet", {"threads": [1, 2]}, {"lr": 0.1}, store=":memory:")
    >>> for epoch in knobs.epochs(range(2)):
    ...     pass  # train
    """
    allowed = PipelineOptions.__annotations__
    for name in options:
        if name not in allowed:
            raise UsageError(f"no option '{name}'. {suggest(name, allowed)}")
    return make_pipeline(detect(job, params), settings, options)


def make_pipeline(
    context: Context, settings: Mapping[str, Sequence[Any]], options: PipelineOptions
) -> Pipeline:
    """Make the hook of a training whose search is known."""
    try:
        return _made(context, settings, open_store(options.get("store")), options)
    except Exception as error:  # a knob of another package may raise anything
        if options.get("strict", False) or isinstance(error, UsageError):
            raise
        found = Pipeline(context, {}, open_store(":memory:"), make_policy=_no_policy, hyper={})
        found.step_aside(error_lines(error)[0])
        return found


class KnobRefusedError(ForetellError):
    """A knob cannot be used here; the training goes on without it."""


def _made(
    context: Context,
    settings: Mapping[str, Sequence[Any]],
    store: Store,
    options: PipelineOptions,
) -> Pipeline:
    objective = _one_of("objective", options.get("objective", "throughput"), OBJECTIVES)
    mode = _one_of("mode", options.get("mode", "product"), MODES)
    if options.get("rungs") is not None:
        context.rungs = tuple(int(n) for n in options["rungs"] or ())
    values = {name: _checked(name, given) for name, given in settings.items()}
    if not values:
        raise UsageError("name at least one knob to tune", option=Option("settings"))
    allows = bool(options.get("changes_results", False))
    knobs = {name: _knob(name, values[name], context, allows) for name in values}
    hyper = plain_values(context.params)
    kind = ProductPolicy if mode == "product" else PaperPolicy

    def make_policy() -> Policy:
        infeasible = store.infeasible(context.job, context.trial)
        grid = Grid(knobs, values, context.lease, infeasible)
        hook.reasons += [(0, why) for why in grid.reasons]
        return kind(
            store, grid, Objective(objective, context.lease),
            job=context.job, trial=context.trial, hyper=hyper,
            share=bool(options.get("share", False)),
        )  # fmt: skip

    Grid(knobs, values)  # too many combinations are an error before the first epoch
    hook = Pipeline(
        context, knobs, store, make_policy=make_policy, hyper=hyper,
        is_strict=bool(options.get("strict", False)), may_change=allows,
    )  # fmt: skip
    return hook


def _checked(name: str, given: Sequence[Any]) -> list[float | str]:
    """Return the values of a knob."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise UsageError(
            f"the values of a knob are a list such as [1, 2, 4], not {given!r}",
            option=Option("settings", key=name),
        )
    values = [plain_value(value) for value in given]
    found = [value for value in values if value is not None]
    if len(found) < len(values):
        raise UsageError(
            f"the values of a knob are numbers or short names, not {given!r}",
            option=Option("settings", key=name),
        )
    return found


def _knob(name: str, values: Sequence[float | str], context: Context, allows: bool) -> Knob:
    knob = KNOBS.get(name)()
    for value in values:
        knob.check(value)
    if knob.changes_results and not allows:
        raise UsageError(
            f"'{name}' changes what is learned, not only how fast",
            option=Option("settings", key=name),
            remedy=("allow that with ", Option("changes_results", "True")),
        )
    n = 2 if context.is_threaded else 1
    why = knob.refusal(Surroundings(n, "Optuna runs several trials in it (n_jobs)"))
    if why is not None:
        raise KnobRefusedError(why, option=Option("settings", key=name))
    return knob


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise UsageError(
            f"there is no '{value}'. {suggest(value, known)}", option=Option(name, str(value))
        )
    return value


def _no_policy() -> Policy:
    raise AssertionError("a hook that steps aside chooses nothing")
