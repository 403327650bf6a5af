"""The steps of one move: a copy that starts before the pod ends, or the owner's next pod.

Each is a generator: it yields while it waits, and returns how the move ended. The pod is evicted
only when its copy is ready on a node that is there; until then, any problem deletes the copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from foretell.adapters.kubernetes.client import Api, ApiError, Object
from foretell.adapters.kubernetes.moves.copies import copy_of
from foretell.adapters.kubernetes.moves.evictions import Evictions
from foretell.adapters.kubernetes.moves.history import History
from foretell.adapters.kubernetes.pods import COPY_OF, MOVES, Pod, read_pod
from foretell.adapters.kubernetes.state import State

Result = Literal["moved", "kept", "elsewhere", "planned"]
Steps = Generator[None, None, tuple[Result, str]]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Patience:
    """How long a move waits.

    Attributes
    ----------
    ready_s
        For a copy to be ready.
    hold_s
        For the owner's next pod, and for a disruption budget.
    """

    ready_s: float = 120.0
    hold_s: float = 60.0


@dataclass(eq=False)
class MoveUnderWay:
    """A pod that moves.

    Attributes
    ----------
    before, history
        The moves that it made before, and with this one.
    copy
        The pod that takes its place, once there is one.
    seen
        The last news of both pods, by their uid; None once a pod is gone.
    may_be_evicted
        Whether an eviction was asked for, perhaps by another process. If the pod then ends, its
        copy is what is left of it.
    is_copy_deleted
        Whether the server deletes the copy or has none.
    """

    pod: Pod
    target: str
    before: History
    history: History
    copy: Pod | None = None
    seen: dict[str, Pod | None] = field(default_factory=dict)
    may_be_evicted: bool = False
    is_copy_deleted: bool = False

    @property
    def has_left(self) -> bool:
        """Whether the pod was evicted, and is going or gone."""
        now = self.seen.get(self.pod.uid, self.pod)
        is_going = now is None or (now.is_deleting and not now.is_finished)
        return self.may_be_evicted and is_going

    @property
    def source(self) -> Pod | None:
        """The pod as it is now; None once it is gone or ends."""
        now = self.seen.get(self.pod.uid, self.pod)
        return None if now is None or now.is_finished or now.is_deleting else now

    @property
    def successor(self) -> Pod | None:
        """The pod that takes its place, as it is now."""
        return None if self.copy is None else self.seen.get(self.copy.uid, self.copy)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What the steps of a move need."""

    api: Api
    state: State
    evictions: Evictions
    may_act: Callable[[], bool]
    patience: Patience = Patience()

    def now_s(self) -> float:
        """Return the time, by the monotonic clock."""
        return self.state.clock()

    def has_target(self, move: MoveUnderWay) -> bool:
        """Whether the target is there, and ready."""
        with self.state.lock:
            node = self.state.nodes.get(move.target)
            return node is not None and node.is_ready and not node.problem


def by_copy(move: MoveUnderWay, around: Surroundings) -> Steps:
    """Start a copy on the target; when it is ready, evict the pod."""
    path = f"/api/v1/namespaces/{move.pod.namespace}/pods"
    try:
        item = yield from _asked(lambda: around.api.get(f"{path}/{move.pod.name}"))
        now = read_pod(item)
        if now.uid != move.pod.uid or now.is_finished or now.is_deleting or move.source is None:
            return "kept", "the pod ended, or is being deleted"
        text = move.history.to_text(around.now_s(), time.time())
        wanted = copy_of(item, move.target, text, move.history.n_moves)
        try:
            created = around.api.post(path, wanted)
        except ApiError as error:
            if error.status is not None:
                raise
            # The answer is lost; whether the copy was created, the server knows.
            created = yield from _asked(
                lambda: around.api.get(f"{path}/{wanted['metadata']['name']}")
            )
            if read_pod(created).annotations.get(COPY_OF) != move.pod.uid:
                return "kept", f"another pod is named {wanted['metadata']['name']}"
    except ApiError as error:
        return "kept", f"the copy could not be created: {error}"
    with around.state.lock:
        around.state.release(move.pod.uid)
        uid = created["metadata"]["uid"]
        if uid not in around.state.records:  # otherwise the watch was first, and may know more
            around.state.put_pod(created)
        record = around.state.records.get(uid)
        if record is None:
            return "kept", "the copy ended at once"
        move.copy = record.pod
    return (yield from await_copy(move, around))


def await_copy(move: MoveUnderWay, around: Surroundings) -> Steps:
    """Wait until a copy is ready, and evict the pod; if it does not get ready, delete the copy."""
    end_s = around.now_s() + around.patience.ready_s
    budget_s: float | None = None
    while not move.has_left:
        why = _copy_problem(move, around, end_s if budget_s is None else budget_s)
        if not why and _is_up(move.successor) and around.may_act():
            if budget_s is None:
                budget_s = around.now_s() + around.patience.hold_s
            try:
                if _asked_to_go(move, around):
                    break
            except ApiError as error:
                why = f"the pod could not be evicted: {error}"
        if why:
            yield from _delete_copy(move, around)
            return "kept", why
        yield
    end_s = around.now_s() + around.patience.hold_s
    while not move.has_left and around.now_s() < end_s:  # until the watch shows it
        yield
    return "moved", ""


def _asked_to_go(move: MoveUnderWay, around: Surroundings) -> bool:
    """Evict the pod; return whether the server did. An ApiError if it never will."""
    pod = move.source
    if pod is None:
        return False
    was_asked, move.may_be_evicted = move.may_be_evicted, True
    try:
        outcome = around.evictions.evict(pod)
    except ApiError as error:
        if not _is_passing(error):
            move.may_be_evicted = was_asked
            raise
        return False  # perhaps it was evicted: the watch will show it
    if outcome != "evicted":  # one that is gone without us was deleted by someone else
        move.may_be_evicted = was_asked
    return outcome == "evicted"


def _copy_problem(move: MoveUnderWay, around: Surroundings, end_s: float) -> str:
    """Say why a move cannot go on; empty if it can."""
    copy = move.successor
    if move.source is None:
        return "the pod ended, or is being deleted"
    if copy is None or copy.is_deleting:
        return "the copy was deleted"
    if copy.phase == "Failed":
        return "the copy failed"
    if not around.has_target(move):
        return f"node {move.target} was lost"
    if around.now_s() >= end_s:
        if _is_up(copy):
            return "disruption budgets did not allow it"
        return f"the copy was not ready within {around.patience.ready_s:g} s"
    return ""


def by_owner(move: MoveUnderWay, around: Surroundings) -> Steps:
    """Evict the pod, and let its owner's next pod go to the target, where room is held."""
    why = yield from _evict(move, around)
    if why:
        return "kept", why
    end_s = around.now_s() + around.patience.hold_s
    is_noted = False
    while around.now_s() < end_s:
        pod = move.successor
        if pod is None and move.copy is not None:
            return "elsewhere", "its owner's next pod is gone"
        if pod is not None and not is_noted:
            is_noted = True
            _note_history(move, pod, around)
        if pod is not None and pod.node:
            there = pod.node == move.target
            return ("moved", "") if there else ("elsewhere", f"its owner's pod went to {pod.node}")
        yield
    return "elsewhere", f"its owner's next pod got no node within {around.patience.hold_s:g} s"


def _evict(move: MoveUnderWay, around: Surroundings) -> Generator[None, None, str]:
    """Evict a pod that has an owner; return why that was not possible, or an empty text."""
    end_s = around.now_s() + around.patience.hold_s
    while not move.has_left:
        if around.now_s() >= end_s:
            return "disruption budgets did not allow it"
        if move.source is None:
            return "the pod ended, or is being deleted"
        if not around.has_target(move):
            return f"node {move.target} was lost"
        try:
            if around.may_act() and _asked_to_go(move, around):
                return ""
        except ApiError as error:
            return f"the pod could not be evicted: {error}"
        yield
    return ""


def _note_history(move: MoveUnderWay, pod: Pod, around: Surroundings) -> None:
    """Write the history to the owner's next pod; without it, only this process knows it."""
    text = move.history.to_text(around.now_s(), time.time())
    body: Object = {"metadata": {"uid": pod.uid, "annotations": {MOVES: text}}}
    try:
        around.api.patch(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body)
    except ApiError:
        return


def _delete_copy(move: MoveUnderWay, around: Surroundings) -> Generator[None, None, None]:
    """Delete the copy, however long the API server is away."""
    while not around.may_act():  # another replica may have taken over
        yield
    copy = move.copy
    if copy is None:
        return
    # Even if a list does not have it: that may be older than the copy.
    body: Object = {"preconditions": {"uid": copy.uid}}
    with around.state.lock:
        if move.target not in around.state.nodes:  # no kubelet is left to confirm it
            body["gracePeriodSeconds"] = 0
    path = f"/api/v1/namespaces/{copy.namespace}/pods/{copy.name}"
    try:
        yield from _asked(lambda: around.api.delete(path, body))
    except ApiError as error:
        if error.status not in (404, 409):
            raise
    move.is_copy_deleted = True
    end_s = around.now_s() + around.patience.hold_s
    while around.now_s() < end_s:  # until the watch shows it
        now = move.successor
        if now is None or now.is_deleting:
            return
        yield


def _asked(ask: Callable[[], Answer]) -> Generator[None, None, Answer]:
    """Ask the API server until it answers; an ApiError if it refuses."""
    while True:
        try:
            return ask()
        except ApiError as error:
            if not _is_passing(error):
                raise
        yield


def _is_passing(error: ApiError) -> bool:
    """Whether an error may be over soon: no answer, or a server in trouble."""
    return error.status is None or error.status >= 500


def _is_up(pod: Pod | None) -> bool:
    return pod is not None and (pod.is_ready or pod.phase == "Succeeded")
