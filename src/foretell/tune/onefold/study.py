"""The study of a search: an Optuna study that another process can go on with after a crash."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import Option, StorageError
from foretell.files.directory import locked
from foretell.tune.onefold.inference import Inference
from foretell.tune.onefold.space import Space, settings_key
from foretell.tune.onefold.trials import FAILED, KEPT, SPENT, Rung, Trial

if TYPE_CHECKING:
    import optuna

NAME = "foretell search"
_RECORD, _REPEAT, _SEARCH = "foretell", "foretell_repeat", "foretell_search"
_MOST_REPEATS = 20
#: URLs of files, and the file.
_SQLITE = re.compile(r"^sqlite(?:\+\w+)?:///(?:file:)?([^?]+)")


@dataclass(frozen=True)
class Asked:
    """A trial to run: its settings, and how Optuna compares it with others.

    Attributes
    ----------
    told
        The steps that Optuna has scores of already, from before an interruption.
    """

    trial: optuna.Trial
    config: dict[str, Any]
    told: frozenset[int] = frozenset()

    def report(self, score: float, step: int) -> None:
        """Take the score of a rung."""
        if step not in self.told:
            self.trial.report(score, step)

    def should_prune(self) -> bool:
        """Whether the trial is worse than others at this rung."""
        return self.trial.should_prune()


class SearchStudy:
    """Asks Optuna for configurations, and tells it how their trials ended.

    Each draw has a seed of its own, so that a search which was interrupted goes on as it would
    have without.
    """

    def __init__(self, study: optuna.Study, space: Space, seed: int) -> None:
        self._study, self._space, self._seed = study, space, seed
        self._left: list[int] = []

    def ended(self) -> list[Trial]:
        """List the trials that ended; those that were interrupted are not among them."""
        records = [(t.number, t.user_attrs.get(_RECORD)) for t in self._study.get_trials(False)]
        return [_read(number, record) for number, record in records if record is not None]

    def ask(self) -> Asked | None:
        """Return a trial with settings that no other had; None if no more are found.

        A trial that a process which is no more was at comes first: it is run again.
        """
        import optuna

        if self._left:
            return self._asked(optuna.Trial(self._study, self._left.pop()))
        tried = {settings_key(trial.config) for trial in self.ended()}
        untried = self._space.others(tried)
        if untried == []:
            return None
        for _ in range(_MOST_REPEATS):
            self._study.sampler = self._sampler()
            asked = self._asked(self._study.ask(dict(self._space.distributions)))
            if settings_key(asked.config) not in tried:
                return asked
            asked.trial.set_user_attr(_REPEAT, True)
            self._study.tell(asked.trial, state=optuna.trial.TrialState.FAIL)
            if untried:
                self._study.enqueue_trial(untried[self._draw_seed() % len(untried)])
        return None

    def _asked(self, trial: optuna.Trial) -> Asked:
        config = {name: trial.params[name] for name in self._space.names}
        known = {frozen.number: frozen for frozen in self._study.get_trials(False)}
        return Asked(trial, config, frozenset(known[trial.number].intermediate_values))

    def end(self, asked: Asked, ended: Trial, score: float | None, over: float) -> None:
        """Keep how a trial ended.

        Parameters
        ----------
        over
            How far it is over its latency limit; 0 if it is not.
        """
        from optuna.trial import TrialState

        trial = asked.trial
        # Older versions of Optuna compare such trials by their scores only.
        if over > 0 and hasattr(trial, "set_constraint"):
            trial.set_constraint("p99_s", over)
        trial.set_user_attr(_RECORD, ended.to_json())
        if ended.status == FAILED:
            self._study.tell(trial, state=TrialState.FAIL)
        elif ended.status in (KEPT, SPENT):
            self._study.tell(trial, score)
        else:
            self._study.tell(trial, state=TrialState.PRUNED)

    def take_over(self) -> None:
        """Take the trials of a process that is no more; one without all its settings is lost."""
        from optuna.trial import TrialState

        for trial in self._study.get_trials(False, states=(TrialState.RUNNING,)):
            if set(trial.params) == set(self._space.names):
                self._left.append(trial._trial_id)
            else:
                self._study.tell(trial.number, state=TrialState.FAIL)
        self._left.reverse()

    def check(self, search: Mapping[str, Any], place: str) -> None:
        """Refuse a study of another search."""
        found = self._study.user_attrs.get(_SEARCH)
        wanted = json.loads(json.dumps(search))
        if found is None:
            self._study.set_user_attr(_SEARCH, wanted)
            return
        other = sorted(k for k in {*found, *wanted} if found.get(k) != wanted.get(k))
        if other:
            raise StorageError(
                f"{place} holds a search with another {' and '.join(other)}; searches are never "
                "mixed.",
                remedy=("Give another place with ", Option("storage"), ", or move that one away."),
            )

    def _sampler(self) -> optuna.samplers.BaseSampler:
        from optuna.samplers import TPESampler

        # Hyperband keeps its brackets apart, and each of them sees only few trials.
        return TPESampler(
            seed=self._draw_seed(), n_startup_trials=len(self._space.distributions) + 1
        )

    def _draw_seed(self) -> int:
        """Return the seed of the next draw, which only depends on how many there were."""
        import numpy as np

        n = sum(bool({_RECORD, _REPEAT} & {*t.user_attrs}) for t in self._study.get_trials(False))
        return int(np.random.SeedSequence([self._seed, n]).generate_state(1)[0])


@contextmanager
def opened(
    storage: str | Path | None,
    space: Space,
    search: Mapping[str, Any],
    hyperband: Mapping[str, int],
) -> Iterator[SearchStudy]:
    """Open the study of a search, new or with the trials that it has.

    Parameters
    ----------
    storage
        A file, a URL as Optuna takes it, or nothing: then it lives as long as the process.
    search
        What the trials depend on. A study with something else is refused.
    hyperband
        The options of Optuna's pruner.
    """
    import optuna

    with ExitStack() as stack:
        place = None if storage is None else _file_of(str(storage))
        if place is not None:
            stack.enter_context(_alone(place))
        is_path = storage is not None and "://" not in str(storage)
        url = f"sqlite:///{place}" if is_path else storage
        stack.enter_context(_quiet())
        try:
            study = optuna.create_study(
                storage=None if url is None else str(url),
                study_name=NAME,
                pruner=optuna.pruners.HyperbandPruner(**hyperband),
                load_if_exists=True,
            )
        except Exception as error:
            if url is None:
                raise
            raise StorageError(
                f"{storage} cannot be opened as a study of Optuna: {_first_line(error)}",
                remedy=("Give another place with ", Option("storage"), "."),
            ) from error
        if url is not None:
            stack.callback(_close, study)
        found = SearchStudy(study, space, int(search["seed"]))
        found.check(search, str(storage))
        if place is not None:  # on a server, trials that run may be those of another process
            found.take_over()
        yield found


def _file_of(storage: str) -> Path | None:
    """Return the file that keeps a study; None if a server does, or memory."""
    if "://" not in storage:
        return Path(storage).resolve()
    found = _SQLITE.match(storage)
    return None if found is None or found[1] == ":memory:" else Path(found[1]).resolve()


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Keep other processes out of a file."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(place.with_name(f"{place.name}.lock"), place))
        except StorageError as error:
            raise StorageError(
                error.text, remedy=("Give another place with ", Option("storage"), ".")
            ) from None
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna from telling of each study and trial, as it does by default."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _close(study: optuna.Study) -> None:
    storage = study._storage
    backend = getattr(storage, "_backend", storage)
    storage.remove_session()
    engine = getattr(backend, "engine", None)
    if engine is not None:
        engine.dispose()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _read(number: int, record: Mapping[str, Any]) -> Trial:
    inference = record["inference"]
    return Trial(
        number=number,
        config=record["config"],
        status=record["status"],
        why=record["why"],
        rungs=tuple(Rung(**rung) for rung in record["rungs"]),
        inference=None if inference is None else Inference(**inference),
    )
