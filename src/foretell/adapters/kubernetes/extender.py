"""The extender of kube-scheduler: it keeps its filters, and asks here how good each node is."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from numpy.typing import NDArray
from pydantic_core import from_json

from foretell.adapters.http.server.api import JSON
from foretell.adapters.http.server.problems import WRONG_INPUT, ProblemError
from foretell.adapters.http.server.run import listen, run_server, url_of
from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.events import NO_PREDICTION, WRONG_ANNOTATION, Events
from foretell.adapters.kubernetes.live import Live
from foretell.adapters.kubernetes.metrics import SchedulerMetrics
from foretell.adapters.kubernetes.moves.report import MoveReport
from foretell.adapters.kubernetes.pods import Pod, read_pod, read_pod_task
from foretell.adapters.kubernetes.records import Record
from foretell.adapters.kubernetes.scores import MOST, extender_scores
from foretell.adapters.kubernetes.service import PRIORITIZE, ServiceSettings, make_service
from foretell.adapters.kubernetes.state import State
from foretell.adapters.kubernetes.upkeep.upkeep import Upkeep
from foretell.adapters.kubernetes.watching import LOG
from foretell.decide.placement.choose import Chooser
from foretell.decide.placement.estimates import TypeEstimates
from foretell.decide.placement.tasks import Task
from foretell.errors import ForetellError

COMPONENT = "foretell"
_ASSUMED_S = 5.0  # until then kube-scheduler has bound a pod, or decided otherwise
_MOST_SHOWN = 4
_MOST_ENTRIES = 50_000
_MOST_WARNED = 10_000
_MOST_EARLY = 1_000
_MOST_UID = 64  # characters; those of Kubernetes have 36
_SHAPE = "a part of it has another shape; send it in JSON as the API server gives it"


@dataclass(frozen=True)
class Decision:
    """How good nodes are for a pod.

    Attributes
    ----------
    nodes, scores
        The nodes that were asked about, and a score from 0 to 10 for each.
    is_known
        Whose score rests on predictions.
    why_unknown
        Why nothing is predicted for some of them, if that is known.
    """

    pod: Pod
    H: float
    nodes: Sequence[str]
    scores: NDArray[np.int64]
    is_known: NDArray[np.bool_]
    why_unknown: str = ""

    @property
    def n_unknown(self) -> int:
        """How many nodes have the median score, since nothing is predicted there."""
        return int(np.count_nonzero(~self.is_known))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, with the best nodes alone."""
        order = np.argsort(-self.scores, kind="stable")[:_MOST_SHOWN]
        return {
            "pod": self.pod.title,
            "H": self.H,
            "n_nodes": len(self.nodes),
            "n_unknown": self.n_unknown,
            "why_unknown": self.why_unknown,
            "scores": {self.nodes[i]: int(self.scores[i]) for i in order},
        }

    def __str__(self) -> str:
        order = np.argsort(-self.scores, kind="stable")
        shown = ", ".join(f"{self.nodes[i]} {self.scores[i]}" for i in order[:_MOST_SHOWN])
        more = f" and {len(order) - _MOST_SHOWN} more" if len(order) > _MOST_SHOWN else ""
        why = f": {self.why_unknown}" if self.why_unknown else ""
        unknown = f"; no prediction on {self.n_unknown}{why}" if self.n_unknown else ""
        return f"{self.pod.title}: {shown}{more} (H {self.H:g}{unknown})"


@dataclass(frozen=True)
class _Early:
    """What was found about a pod that no watch has shown.

    Attributes
    ----------
    best, until
        The best node, and until when the pod may be assumed there.
    why_blind
        Why no prediction can be used for it; empty if one can.
    """

    best: str
    until: float
    why_blind: str


class Extender:
    """Scores the nodes that kube-scheduler found fit for a pod.

    Parameters
    ----------
    dry_run
        Answer with equal scores, so that nothing changes, and only tell what would be answered.
    tell
        Takes each decision.
    complain
        Takes what is wrong with a pod, once per pod: the reason of an event, and its text.
    """

    def __init__(
        self,
        state: State,
        metrics: SchedulerMetrics,
        *,
        dry_run: bool = False,
        tell: Callable[[Decision], None] = lambda _: None,
        complain: Callable[[Pod, str, str], None] = lambda _, __, ___: None,
    ) -> None:
        self._state, self._metrics = state, metrics
        self._dry_run, self._tell, self._complain = dry_run, tell, complain
        self._assumed: dict[str, float] = {}
        self._early: OrderedDict[str, _Early] = OrderedDict()
        self._warned: OrderedDict[str, None] = OrderedDict()
        self._entries = _Entries()
        state.listeners.append(self._take_seen)

    def prioritize(self, body: bytes) -> bytes:
        """Answer a request of kube-scheduler."""
        start_s = time.perf_counter()
        item, names = read_arguments(body)
        try:
            pod = self._pod(item)
        except (ForetellError, AttributeError, TypeError, KeyError, ValueError) as error:
            why = str(error) if isinstance(error, ForetellError) else _SHAPE
            raise ProblemError(
                WRONG_INPUT, f"must be a pod as Kubernetes writes it: {why}", at=("Pod",)
            ) from None
        decision = self.decide(pod, names)
        scores = [0] * len(names) if self._dry_run else decision.scores.tolist()
        answer = self._entries.answer(names, scores, self._state.index)
        self._metrics.decision_seconds.observe(time.perf_counter() - start_s)
        known = "none" if not decision.is_known.any() else "some" if decision.n_unknown else "all"
        self._metrics.decisions.labels(known).inc()
        self._tell(decision)
        return answer

    def _pod(self, item: Object) -> Pod:
        """Return the pod as a watch showed it, or as it was sent, of which nothing is kept.

        Anybody who reaches the server can send pods that are not there, of any size.
        """
        with self._state.lock:
            record = self._state.records.get(item["metadata"].get("uid") or "")
        return read_pod(item, is_kept=False) if record is None else record.pod

    def decide(self, pod: Pod, names: Sequence[str]) -> Decision:
        """Score nodes for a pod."""
        state = self._state
        with state.lock:
            self._release(pod.uid)
            chooser = state.chooser
            record = state.records.get(pod.uid)
            if record is None:
                task, _ = read_pod_task(pod, state.namespaces.get(pod.namespace, {}))
            else:
                task, _ = state.task(record)
            find = state.index.get
            places = np.array([find(name, -1) for name in names], dtype=np.int64)
            estimates = chooser.estimates.of(task, is_kept=record is not None)
            scores, is_known = _scores(chooser, task, estimates, places)
            if record is not None and (target := state.target_of(record)):
                is_target = places == state.index[target]
                if is_target.any():  # a move is under way
                    scores = np.where(is_target, MOST, 0)
            why = _why_unknown(chooser, task, estimates, places[~is_known])
            why_blind = chooser.why_blind(task, estimates)
            decision = Decision(pod, chooser.weight(task), names, scores, is_known, why)
            best = ""
            if is_known.any() and not self._dry_run:
                place = places[int(np.argmax(scores))]
                best = chooser.fleet.names[place] if place >= 0 else ""
            if record is None:
                self._remember(pod.uid, best, why_blind)
            else:
                self._warn(record, why_blind)
                self._assume(record, best)
        return decision

    def _warn(self, record: Record, why_blind: str) -> None:
        """Complain once about a pod that there is: anybody can send one that is not."""
        pod, (_, complaints) = record.pod, self._state.task(record)
        told = [(WRONG_ANNOTATION, text) for text in complaints]
        told += [(NO_PREDICTION, why_blind)] if why_blind else []
        if not told or pod.uid in self._warned:
            return
        self._warned[pod.uid] = None
        if len(self._warned) > _MOST_WARNED:
            self._warned.popitem(last=False)
        if complaints:
            self._metrics.errors.labels("annotation").inc()
        for reason, text in told:
            LOG.warning("%s: %s", pod.title, text)
            self._complain(pod, reason, text)

    def _assume(self, record: Record, best: str) -> None:
        """Count the pod on the best node, until it is seen where kube-scheduler puts it."""
        if best in self._state.index and not record.pod.node:
            self._state.assume(record, best)
            self._assumed[record.pod.uid] = self._state.clock() + _ASSUMED_S

    def _remember(self, uid: str, best: str, why_blind: str) -> None:
        """Keep what was answered about a pod that the watch has not shown yet.

        Anybody can send a pod that is not there, so little is kept, and not for long.
        """
        if 0 < len(uid) <= _MOST_UID:
            self._early[uid] = _Early(best, self._state.clock() + _ASSUMED_S, why_blind)
            if len(self._early) > _MOST_EARLY:
                self._early.popitem(last=False)

    def _take_seen(self, pod: Pod, _: Object | None) -> None:
        """Take that the watch shows a pod, which was perhaps asked about before."""
        early, record = self._early.pop(pod.uid, None), self._state.records.get(pod.uid)
        if early is None or record is None:
            return
        self._warn(record, early.why_blind)
        if self._state.clock() < early.until:
            self._assume(record, early.best)

    def _release(self, uid: str) -> None:
        """Take back what was assumed of a pod, and of others long ago."""
        now = self._state.clock()
        ended = [key for key, until in self._assumed.items() if key == uid or until <= now]
        for key in ended:
            del self._assumed[key]
            record = self._state.records.get(key)
            if record is not None and record.assumed:
                self._state.forget(record)


def add_extender(app: FastAPI, extender: Extender, metrics: SchedulerMetrics) -> None:
    """Add the route that kube-scheduler asks."""

    async def prioritize(request: Request) -> Response:
        """Score the nodes of a pod."""
        try:
            return Response(extender.prioritize(await request.body()), media_type=JSON)
        except ProblemError:
            metrics.errors.labels("request").inc()
            raise
        except Exception:
            metrics.errors.labels("internal").inc()
            LOG.exception("a request of kube-scheduler failed")
            raise

    # A plain route, without the parameters and shapes that FastAPI would check: it takes less time.
    app.router.add_route(PRIORITIZE, prioritize, methods=["POST"])


def read_arguments(body: bytes) -> tuple[Object, list[str]]:
    """Read what kube-scheduler asks: the pod, and the names of nodes.

    Where it sends whole nodes, only their names are used: what is known of them comes from the API
    server. Names of entries are read in any case, for versions of Kubernetes differ in it.
    """
    try:
        given = from_json(body, cache_strings="keys")
    except (ValueError, RecursionError) as error:
        raise ProblemError(WRONG_INPUT, f"the body is not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise ProblemError(WRONG_INPUT, "the body must be an object with Pod and NodeNames")
    found = {key.lower(): value for key, value in given.items()}
    pod, names, nodes = (found.get(key) for key in ("pod", "nodenames", "nodes"))
    if not isinstance(pod, dict) or not isinstance(pod.get("metadata"), dict):
        raise ProblemError(WRONG_INPUT, "must be a pod with its metadata", at=("Pod",))
    if names is not None:
        if not isinstance(names, list) or set(map(type, names)) - {str}:
            raise ProblemError(WRONG_INPUT, "must be a list of names", at=("NodeNames",))
        return pod, names
    items = nodes.get("items") if isinstance(nodes, dict) else None
    if not isinstance(items, list) or not all(map(_is_node, items)):
        raise ProblemError(
            WRONG_INPUT, "must be a list of nodes, unless NodeNames is given", at=("Nodes", "items")
        )
    return pod, [item["metadata"]["name"] for item in items]


def _is_node(item: object) -> bool:
    meta = item.get("metadata") if isinstance(item, Mapping) else None
    return isinstance(meta, Mapping) and isinstance(meta.get("name"), str)


def _scores(
    chooser: Chooser, task: Task, estimates: TypeEstimates, places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Score nodes by their places in the fleet; one that is not there has the place -1."""
    fleet = chooser.fleet
    there = np.flatnonzero(places >= 0)
    is_known = np.zeros(len(places), dtype=bool)
    scores, shown = np.zeros(len(places)), np.zeros(len(places))
    preference = np.zeros(len(places), dtype=np.int64)
    if len(there):
        need, H = fleet.taken(task.needs), chooser.weight(task)
        candidates = chooser.beside(task, need, places[there], estimates)
        scores[there], is_known[there] = chooser.scores(candidates, H)
        shown[there] = chooser.policy.shown(scores[there])
        preference[there] = chooser.preference(candidates, H)
    return extender_scores(scores, shown, is_known, preference), is_known


def _why_unknown(
    chooser: Chooser, task: Task, estimates: TypeEstimates, places: NDArray[np.int64]
) -> str:
    """Say why nothing is predicted on some nodes, by their places in the fleet."""
    types = np.unique(chooser.fleet.type_of[places[places >= 0]])
    return estimates.why_unknown(chooser.counts(chooser.weight(task)), types.tolist())


class _Entries(dict[str, list[str]]):
    """The parts of answers: each node's name with each score, written only once."""

    def __missing__(self, name: str) -> list[str]:
        if len(self) >= _MOST_ENTRIES:
            self.clear()
        self[name] = [_entry(name, score) for score in range(MOST + 1)]
        return self[name]

    def answer(self, names: Sequence[str], scores: Sequence[int], known: Container[str]) -> bytes:
        """Write scores as kube-scheduler reads them; only names that are known are kept."""
        parts = [
            self[name][score] if name in known else _entry(name, score)
            for name, score in zip(names, scores, strict=True)
        ]
        return f"[{','.join(parts)}]".encode()


def _entry(name: str, score: int) -> str:
    return f'{{"Host":{json.dumps(name)},"Score":{score}}}'


def run_extender(
    live: Live,
    settings: ServiceSettings,
    *,
    dry_run: bool = False,
    tell: Callable[[Decision | MoveReport], None] = lambda _: None,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Answer kube-scheduler until a signal stops it; ``on_ready`` gets the address."""
    opened = listen(settings.host, settings.port, refusal=settings.refusal)
    url = url_of(opened, settings.tls)
    with opened, live, Events(live.api, COMPONENT) as events:
        live.start()
        events.start()
        extender = Extender(
            live.state,
            live.metrics,
            dry_run=dry_run,
            tell=tell,
            complain=lambda pod, reason, text: events.tell(pod, reason, text, "Warning"),
        )
        upkeep = Upkeep(live, is_dry=dry_run, tell=tell)
        app = make_service(
            settings,
            live.metrics,
            lambda: live.watches.are_current,
            lambda app: add_extender(app, extender, live.metrics),
        )
        with upkeep:
            run_server(app, settings.limits, opened, lambda: on_ready(url), tls=settings.tls)
