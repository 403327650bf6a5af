"""Looking for moves of a live cluster now and then, and seeing each of them through."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from foretell.adapters.kubernetes.client import Api, ApiError, Object
from foretell.adapters.kubernetes.moves.evictions import Evictions
from foretell.adapters.kubernetes.moves.history import History
from foretell.adapters.kubernetes.moves.report import MoveReport
from foretell.adapters.kubernetes.moves.steps import (
    MoveUnderWay,
    Patience,
    Steps,
    Surroundings,
    await_copy,
    by_copy,
    by_owner,
)
from foretell.adapters.kubernetes.pods import COPY_OF, MOVES, Owner, Pod, read_migratable
from foretell.adapters.kubernetes.records import Record
from foretell.adapters.kubernetes.state import State
from foretell.adapters.kubernetes.watching import LOG
from foretell.closeable import Closeable
from foretell.decide.placement.moves import Mover, Running
from foretell.decide.placement.waiting import Waiting

#: Pods of these owners belong to a node.
_STAYING = ("DaemonSet", "Node")
#: Pods of this owner do not stand in for one another.
_INDEPENDENT = "Job"
_STEP_S = 0.5


class Moving(Closeable):
    """Moves pods, in a thread of its own.

    Parameters
    ----------
    are_current
        Whether all changes of the cluster are seen; while not, moves wait.
    is_leader
        Whether this replica decides; when it does no more, another one takes its moves over.
    is_dry
        Only tell what would move.
    tell
        Takes a report of each move that ended.
    """

    def __init__(
        self,
        api: Api,
        state: State,
        are_current: Callable[[], bool],
        is_leader: Callable[[], bool] = lambda: True,
        *,
        is_dry: bool = False,
        tell: Callable[[MoveReport], None] = lambda _: None,
        patience: Patience | None = None,
    ) -> None:
        self.state, self._is_dry, self._tell = state, is_dry, tell
        self._is_leader = is_leader
        self.rules = state.cluster.migration
        self._mover = Mover(self.rules, state.chooser)
        self._are_current = are_current
        self._around = Surroundings(
            api, state, Evictions(api), self._may_act, patience or Patience()
        )
        self._histories: dict[str, History] = {}
        self._under_way: dict[str, tuple[MoveUnderWay, Steps]] = {}
        self._ended: set[str] = set()  # copies whose move has ended
        self._looked_s = state.clock()
        self._stopping, self._news = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="moves", daemon=True)
        state.listeners.append(self._listen)

    def _may_act(self) -> bool:
        return self._is_leader() and self._are_current()

    def start(self) -> None:
        """Begin to look for moves."""
        self._thread.start()

    def close(self) -> None:
        """Stop; a copy that is not ready yet is taken over by who starts next."""
        self._stopping.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        with self.state.lock:
            if self._listen in self.state.listeners:
                self.state.listeners.remove(self._listen)
            self._give_up()

    @property
    def n_under_way(self) -> int:
        """How many pods move now."""
        return len(self._under_way)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._news.wait(_STEP_S)
            self._news.clear()
            try:
                self.step()
            except Exception:  # a mistake of ours must not end all moves
                LOG.exception("moves failed, and go on")

    def step(self) -> None:
        """Go on with the moves under way, and look for others when it is time."""
        if not self._is_leader():
            with self.state.lock:
                self._give_up()
        if not self._may_act():
            return
        self._advance()
        if self.state.clock() - self._looked_s >= self.rules.every_s:
            self._looked_s = self.state.clock()
            self.look()

    # What the watches see

    def _listen(self, pod: Pod, item: Object | None) -> None:
        """Take news of a pod; the lock is held."""
        for move, _ in self._under_way.values():
            if pod.uid == move.pod.uid or (move.copy is not None and pod.uid == move.copy.uid):
                move.seen[pod.uid] = None if item is None else pod
                self._news.set()
            elif item is not None and _is_next(pod, move):
                self._expect(move, pod)
        if item is None:
            self._histories.pop(pod.uid, None)
            self._ended.discard(pod.uid)

    def _expect(self, move: MoveUnderWay, pod: Pod) -> None:
        """Let an owner's next pod go to the target of the move."""
        record = self.state.records.get(pod.uid)
        if record is None or record.pod.uid in self._histories:
            return
        move.copy, record.target = pod, move.target
        self._histories[pod.uid] = move.history
        self.state.release(move.pod.uid)
        self.state.hold(pod.uid, move.target, pod.needs)
        self._news.set()

    # Moves under way

    def _advance(self) -> None:
        for uid, (move, steps) in list(self._under_way.items()):
            try:
                next(steps)
            except StopIteration as ended:
                self._end(uid, move, *ended.value)
            except ApiError as error:
                self._end(uid, move, "kept", str(error))
            except Exception as error:  # a mistake of ours must not hold up the other moves
                LOG.exception("the move of %s failed", move.pod.title)
                self._end(uid, move, "kept", f"an unexpected error: {error!r}")

    def _end(self, uid: str, move: MoveUnderWay, result: str, why: str) -> None:
        with self.state.lock:
            self._under_way.pop(uid, None)
            self._release(move)
            if move.copy is not None and (result == "moved" or move.is_copy_deleted):
                self._ended.add(move.copy.uid)  # others are taken over
            if result in ("kept", "planned"):
                self._histories[uid] = move.before.stayed(move.pod.node, self.state.clock())
            elif move.copy is not None:
                self._histories[move.copy.uid] = move.history
        try:
            self._tell(MoveReport(move.pod.title, move.pod.node, move.target, result, why))
        except Exception:
            LOG.exception("the move of %s cannot be told", move.pod.title)

    def _release(self, move: MoveUnderWay) -> None:
        self.state.release(move.pod.uid)
        if move.copy is not None:
            self.state.release(move.copy.uid)

    def _give_up(self) -> None:
        for move, _ in self._under_way.values():
            self._release(move)
        self._under_way.clear()

    # Looking for moves

    def look(self) -> None:
        """Take over copies that another process left, and begin moves that are worth it."""
        self._adopt()
        self._plan()
        self._advance()

    def _guarded(
        self, steps: Callable[[MoveUnderWay, Surroundings], Steps], move: MoveUnderWay
    ) -> Steps:
        """Begin a move only if disruption budgets allow it, and not in a dry run."""
        if self._is_dry:
            return "planned", ""
        path = f"/api/v1/namespaces/{move.pod.namespace}/pods/{move.pod.name}"
        labels = (self._around.api.get(path)["metadata"]).get("labels") or {}
        why = self._around.evictions.why_not(move.pod, labels)
        if why:
            return "kept", why
        return (yield from steps(move, self._around))

    def _adopt(self) -> None:
        if self._is_dry:
            return
        with self.state.lock:
            for record in list(self.state.records.values()):
                source = self.state.records.get(record.pod.annotations.get(COPY_OF, ""))
                if source is None or not self._is_left_over(record, source):
                    continue
                if (self._busy() | self._ended) & {record.pod.uid, source.pod.uid}:
                    continue
                move = MoveUnderWay(
                    source.pod, record.pod.node, self._history(source), self._history(record),
                    record.pod, {source.pod.uid: source.pod, record.pod.uid: record.pod},
                    may_be_evicted=True,
                )  # fmt: skip
                self._under_way[source.pod.uid] = (move, await_copy(move, self._around))

    def _is_left_over(self, copy: Record, source: Record) -> bool:
        """Whether a copy and its pod both run; nobody can name a pod that is not theirs to move."""
        return (
            copy.pod.namespace == source.pod.namespace
            and bool(copy.pod.node)
            and self._is_migratable(source.pod)
            and not source.pod.is_deleting
            and not copy.pod.is_deleting
        )

    def _plan(self) -> None:
        """Begin the moves that the policy wants now.

        The lock is given back after each pod, for decisions must not wait long.
        """
        with self.state.lock:
            busy = self._busy()
            records = [r for r in self.state.records.values() if self._may_leave(r, busy)]
            unsettled = self._unsettled()
        waiting = _Waiting(self.state)
        for record in records:
            with self.state.lock:
                # It may have changed since, and later changes must find the move.
                try:
                    if self._may_leave(record, busy) and record.pod.owner not in unsettled:
                        self._find(record, waiting.now())
                        unsettled |= self._moving_owners()
                except Exception:  # one that cannot be judged must not hold up the others
                    LOG.exception("no move of %s can be planned", record.pod.title)
                    self._under_way.pop(record.pod.uid, None)
                    self.state.release(record.pod.uid)

    def _find(self, record: Record, waiting: Waiting) -> None:
        """Begin a move of a pod if there is one, and hold the room for it."""
        running = self.state.running_of(record)
        if running is None or self.state.records.get(record.pod.uid) is not record:
            return
        history, now_s = self._history(record), self.state.clock()
        _recall(running, history, self.state.index)
        move = self._mover.find(running, waiting, now_s, self.state.allowed(record.pod))
        if move is None:
            return
        self._mover.note(running, now_s)
        target = self.state.fleet.names[move.to]
        after = history.after(record.counted, move.share, now_s)
        found = MoveUnderWay(record.pod, target, history, after)
        steps = by_copy if record.pod.owner is None else by_owner
        self.state.hold(record.pod.uid, target, record.pod.needs)
        self._under_way[record.pod.uid] = (found, self._guarded(steps, found))

    def _may_leave(self, record: Record, busy: set[str]) -> bool:
        """Whether a pod runs and may move, and nothing ties it to its node."""
        pod = record.pod
        return (
            pod.uid not in busy
            and pod.phase == "Running"
            and pod.is_ready
            and not pod.is_deleting
            and not pod.unchecked
            and (pod.owner is None or pod.owner.kind not in _STAYING)
            and self._is_migratable(pod)
        )

    def _unsettled(self) -> set[Owner | None]:
        """Return the owners of pods that move or are not ready: siblings go one after another."""
        pods = [record.pod for record in self.state.records.values()]
        return self._moving_owners() | _owners(p for p in pods if not p.is_ready or p.is_deleting)

    def _moving_owners(self) -> set[Owner | None]:
        return _owners(move.pod for move, _ in self._under_way.values())

    def _is_migratable(self, pod: Pod) -> bool:
        """Whether a pod may move; nothing else of its annotations is read."""
        if self.rules.namespaces is not None and pod.namespace not in self.rules.namespaces:
            return False
        given = {**self.state.namespaces.get(pod.namespace, {}), **pod.annotations}
        return read_migratable(given)[0] != "never"

    def _busy(self) -> set[str]:
        moves = [move for move, _ in self._under_way.values()]
        return {pod.uid for m in moves for pod in (m.pod, m.copy) if pod is not None}

    def _history(self, record: Record) -> History:
        found = self._histories.get(record.pod.uid)
        if found is None:
            text = record.pod.annotations.get(MOVES)
            found = History.read(text, self.state.clock(), time.time())
            if text is not None:
                self._histories[record.pod.uid] = found
        return found


def _owners(pods: Iterable[Pod]) -> set[Owner | None]:
    """Return the owners of pods that stand in for one another."""
    return {p.owner for p in pods if p.owner is not None and p.owner.kind != _INDEPENDENT}


class _Waiting:
    """The pods that wait, made again only when nodes or pods have changed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: tuple[object, int, int] | None = None
        self._found = Waiting()

    def now(self) -> Waiting:
        """Return them; the lock is held."""
        state = self._state
        seen = (state.fleet, state.n_room, state.n_arrived)
        if seen != self._seen:
            self._seen, self._found = seen, state.waiting()
        return self._found


def _recall(running: Running, history: History, index: dict[str, int]) -> None:
    """Tell the policy which moves a pod has made; nodes that are gone count as well."""
    running.share, running.n_moves = history.share, history.n_moves
    for node, at_s in history.left.items():
        place = index.get(node, -1)
        running.left[place] = max(at_s, running.left.get(place, at_s))


def _is_next(pod: Pod, move: MoveUnderWay) -> bool:
    """Whether a pod is the one that the owner of a moved pod made in its place."""
    return (
        move.copy is None
        and move.pod.owner is not None
        and pod.owner == move.pod.owner
        and not pod.node
        and not pod.is_deleting
        and move.source is None
        and pod.uid != move.pod.uid
    )
