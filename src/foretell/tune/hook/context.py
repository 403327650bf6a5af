"""Where a training runs: alone, as a trial of Ray Tune, or as a trial of Optuna."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretell.errors import Option, UsageError

LOG = logging.getLogger("foretell.tune")

ALONE, RAY, OPTUNA = "alone", "ray", "optuna"
#: No training has so many epochs: rungs below them are enough.
_MANY_EPOCHS = 1_000_000


@dataclass
class Context:
    """What is known of the search around a training.

    Attributes
    ----------
    lease
        The CPUs that the search has set aside for this trial; None outside of such a search.
    rungs
        After how many epochs the search may stop trials; None if it does not say.
    reporter
        The object whose method ``report`` tells the search of an epoch; None if there is none.
    is_threaded
        Whether the search runs several trials in this process.
    """

    kind: str
    job: str
    trial: str
    params: dict[str, Any] = field(default_factory=dict)
    lease: float | None = None
    rungs: tuple[int, ...] | None = None
    reporter: Any = None
    is_threaded: bool = False

    def on_report(self, around: Callable[[Callable[[], Any]], Any]) -> Callable[[], None]:
        """Have ``around`` called with each report as a function; return what undoes that.

        A search may stop a trial while it reports, and then nothing more of it is ever run.
        """
        reporter = self.reporter
        if reporter is None:
            return lambda: None
        original = reporter.report

        def report(*args: Any, **kwargs: Any) -> Any:
            return around(lambda: original(*args, **kwargs))

        reporter.report = report

        def undo() -> None:
            with contextlib.suppress(AttributeError):
                del reporter.report

        return undo


def detect(job: Any, params: Mapping[str, Any] | None) -> Context:
    """Find out what kind of search a training is part of.

    Parameters
    ----------
    job
        The name of the job, or a trial of Optuna.
    """
    if isinstance(job, str):
        if not job.strip():
            raise UsageError("a job needs a name, such as 'lenet'", option=Option("job"))
        if params is not None and not isinstance(params, Mapping):
            raise UsageError(
                f"hyperparameters are a dict such as {{'lr': 0.1}}, not {params!r}",
                option=Option("params"),
            )
        found = _in_ray(job) or Context(ALONE, job, f"{os.getpid()}-{uuid.uuid4().hex[:8]}")
        found.params = dict(params or {})
        return found
    if hasattr(job, "suggest_float") and hasattr(job, "report"):
        return _in_optuna(job, params)
    raise UsageError(
        f"the first argument is the name of the job or a trial of Optuna, not {type(job).__name__}",
        option=Option("job"),
    )


def _in_ray(job: str) -> Context | None:
    """Return the trial of Ray Tune in which this runs; None outside of one.

    Ray's session is not public. In a version without it, a training counts as one by itself.
    """
    if "ray" not in sys.modules:
        return None
    session = _ray_session()
    if session is None:  # asked outside of a search, Ray would warn
        return None
    try:
        from ray import tune

        context = tune.get_context()
        trial = context.get_trial_id()
        resources = context.get_trial_resources()
    except Exception:  # Ray may be imported without any search
        return None
    if trial is None:
        return None
    lease = resources.required_resources.get("CPU") if resources is not None else None
    return Context(RAY, job, str(trial), lease=lease, reporter=session)


def _ray_session() -> Any:
    try:
        from ray.train._internal.session import get_session

        return get_session()
    except (ImportError, AttributeError):
        return None


def _in_optuna(trial: Any, params: Mapping[str, Any] | None) -> Context:
    study: Any = getattr(trial, "study", None)
    number = getattr(trial, "number", 0)
    name = str(_read(lambda: study.study_name) or "optuna")
    return Context(
        OPTUNA,
        name,
        # Studies of one name may begin again, and count their trials from 0.
        f"{name}-{number}-{_start_of(trial)}",
        params=dict(params if params is not None else trial.params),
        rungs=_read(lambda: _optuna_rungs(study, number)),
        reporter=trial,
        # With n_jobs > 1 Optuna runs every trial in a thread of a pool.
        is_threaded="ThreadPoolExecutor" in threading.current_thread().name,
    )


def _read(what: Callable[[], Any]) -> Any:
    """Return what a study tells; None if that fails, for a training goes on without it."""
    try:
        return what()
    except Exception as error:  # pruners and storages of other packages may raise anything
        LOG.debug("a study of Optuna cannot be read: %s", error)
        return None


def _start_of(trial: Any) -> str:
    started = getattr(trial, "datetime_start", None)
    return started.strftime("%Y%m%dT%H%M%S.%f") if started is not None else ""


def _optuna_rungs(study: Any, number: int) -> tuple[int, ...] | None:
    """Return after how many epochs a pruner of Optuna may stop a trial, if it has rungs."""
    if "optuna" not in sys.modules:
        return None
    from foretell.decide.tuning.rungs import Rules
    from foretell.decide.tuning.schedulers import SCHEDULERS
    from foretell.decide.tuning.search import Search
    from foretell.tune.optuna.callback import recognized

    pruner: Any = getattr(study, "pruner", None)
    while getattr(pruner, "_wrapped_pruner", None) is not None:
        pruner = pruner._wrapped_pruner
    most = getattr(pruner, "_max_resource", _MANY_EPOCHS)
    if not isinstance(most, int):  # it is not known before a first trial is complete
        return None
    search = recognized(pruner, Search("random", 1, Rules(most)))
    if search.scheduler not in ("optuna-halving", "optuna-hyperband"):
        return None
    kind = SCHEDULERS.get(search.scheduler)
    scheduler, found = kind(number + 1, search.rules, study=study.study_name), [0]
    while found[-1] < most:
        found.append(scheduler.until(number, found[-1]))
    return tuple(found[1:])
