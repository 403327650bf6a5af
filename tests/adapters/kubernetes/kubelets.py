"""Fake kubelets: nodes of several types that run pods by keeping time, or as real processes."""

import contextlib
import heapq
import itertools
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from foretell.machines import read_amount

from .control_plane import RefusedError, wait_until

#: How long a pod takes where only time is kept; without it, until it is deleted.
SECONDS = "kubelet/seconds"
#: How long a pod takes until it is ready; "never" for one that never is.
START_SECONDS = "kubelet/start-seconds"
_RENEW_S = 10.0


@dataclass
class FakeNode:
    """A node of the fake kubelets.

    Attributes
    ----------
    hold
        Called with the id of each process that is started for a pod, to limit its CPU; without it,
        no process is started and only time is kept.
    pods
        The pods that run, by their id.
    """

    name: str
    amounts: dict
    hold: object = None
    pods: dict = field(default_factory=dict)


class Kubelets:
    """Registers nodes, and does for their pods what kubelets do, as an administrator.

    Attributes
    ----------
    started
        (time, namespace/name, node) of every pod that was started, on the monotonic clock.
    finished
        (time, namespace/name, node, seconds) of every pod that ended by itself.
    overfull
        Pods that were refused, since their requests exceed what the node has left: a scheduler at
        fault, for a kubelet checks this again.
    """

    def __init__(self, api):
        self._api = api
        self.nodes, self.started, self.finished, self.overfull = {}, [], [], []
        self._lock, self._is_stopped = threading.RLock(), threading.Event()
        self._timers, self._order, self._wake = [], itertools.count(), threading.Condition()
        self._work = ThreadPoolExecutor(8)
        self._watch = None
        self._threads = [
            threading.Thread(target=loop, daemon=True)
            for loop in (self._watch_pods, self._keep_time)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        self._after(_RENEW_S, self._renew)
        return self

    def __exit__(self, *_):
        self._is_stopped.set()
        with self._wake:
            self._wake.notify_all()
        if self._watch is not None:
            self._watch.close()
        for thread in self._threads:
            thread.join()
        self._work.shutdown(cancel_futures=True)
        for node in self.nodes.values():
            for pod in node.pods.values():
                pod.stop()

    def add(
        self,
        name,
        labels=None,
        *,
        cpu="4",
        memory="8Gi",
        pods="110",
        more=None,
        taints=(),
        hold=None,
    ):
        """Register a node that is ready."""
        amounts = {"cpu": str(cpu), "memory": str(memory), "pods": str(pods), **(more or {})}
        labels = {"kubernetes.io/hostname": name, **(labels or {})}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        with self._lock:
            self.nodes[name] = FakeNode(name, {k: read_amount(v) for k, v in amounts.items()}, hold)
        self._api.create("/api/v1/nodes", node)
        self.set_ready(name, True, {"capacity": amounts, "allocatable": amounts}, taints)

    def add_many(self, names, labels=None, **options):
        """Register several nodes at once."""
        list(self._work.map(lambda name: self.add(name, labels, **options), names))

    def set_ready(self, name, is_ready, more=None, taints=()):
        """Say that a node is ready, or not; both with the taint that goes with it."""
        now = _now()
        condition = {"type": "Ready", "status": str(is_ready), "reason": "Fake", "message": "",
                     "lastHeartbeatTime": now, "lastTransitionTime": now}  # fmt: skip
        status = {"conditions": [condition], **(more or {})}
        kept = list(taints)
        if not is_ready:
            kept.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
        self._api.patch(f"/api/v1/nodes/{name}/status", {"status": status})
        self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": kept}})

    def lose(self, name):
        """Lose a node with all that runs on it, as when its machine is gone and it is deleted."""
        with self._lock:
            for pod in self.nodes.pop(name).pods.values():
                pod.stop()
        self._api.delete(f"/api/v1/nodes/{name}")

    # What follows runs in threads of its own.

    def _watch_pods(self):
        while not self._is_stopped.is_set():
            try:
                listed = self._api.request("GET", "/api/v1/pods")
                for pod in listed["items"]:
                    self._see(pod)
                self._forget_missing({pod["metadata"]["uid"] for pod in listed["items"]})
                self._watch = self._api.watch("/api/v1/pods", listed["metadata"]["resourceVersion"])
                for change in self._watch:
                    if change["type"] == "ERROR":
                        break
                    if change["type"] == "DELETED":
                        self._end(change["object"])
                    else:
                        self._see(change["object"])
            except Exception:
                # The API server may be away for a while, as in a test that restarts it.
                self._is_stopped.wait(0.2)

    def _see(self, pod):
        """Start a pod that is new on a node, or end one that is to be deleted."""
        meta, status = pod["metadata"], pod["status"]
        with self._lock:
            node = self.nodes.get(pod["spec"].get("nodeName"))
            if node is None:
                return
            if meta.get("deletionTimestamp"):
                self._end(pod)
                self._submit(self._delete, pod)
            elif meta["uid"] not in node.pods and status.get("phase", "Pending") == "Pending":
                running = _Running(pod, node)
                lacking = running.lacking()
                node.pods[meta["uid"]] = running
                if lacking:
                    del node.pods[meta["uid"]]
                    self.overfull.append((running.name, node.name, lacking))
                    self._submit(self._set_phase, running, "Failed", f"OutOf{lacking}")
                else:
                    self._start(running)

    def _start(self, running):
        wait_s = running.annotations.get(START_SECONDS)
        if wait_s == "never":
            return
        if wait_s:
            self._after(float(wait_s), lambda: self._submit(self._begin, running))
        else:
            self._submit(self._begin, running)

    def _begin(self, running):
        """Run a pod: set it running, and see to it that its end is noticed."""
        with self._lock:
            if running.is_stopped:
                return
            running.begin()
        self.started.append((running.began, running.name, running.node.name))
        self._set_phase(running, "Running")
        seconds = running.annotations.get(SECONDS)
        if running.process is not None:  # in a thread of its own, for it may take long
            threading.Thread(target=self._await_process, args=(running,), daemon=True).start()
        elif seconds is not None:
            left = running.began + float(seconds) - time.monotonic()
            self._after(left, lambda: self._submit(self._succeed, running, "Succeeded"))

    def _await_process(self, running):
        self._succeed(running, "Succeeded" if running.process.wait() == 0 else "Failed")

    def _succeed(self, running, phase):
        now = time.monotonic()
        with self._lock:
            if running.is_stopped:
                return
            running.node.pods.pop(running.uid, None)
            running.stop()
        self.finished.append((now, running.name, running.node.name, now - running.began))
        self._set_phase(running, phase)

    def _set_phase(self, running, phase, reason=None):
        ready = str(phase == "Running")
        moment = {"startedAt": running.began_at}
        state = {"running": moment}
        if phase != "Running":
            state = {
                "terminated": {**moment, "finishedAt": _now(), "exitCode": int(phase == "Failed")}
            }
        status = {
            "phase": phase,
            "startTime": running.began_at,
            "conditions": [
                {"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")
            ],
            "containerStatuses": [
                {"name": c["name"], "image": c.get("image", ""), "imageID": "", "restartCount": 0,
                 "ready": phase == "Running", "state": state}
                for c in running.pod["spec"]["containers"]
            ],
        }  # fmt: skip
        if reason:
            status["reason"] = reason
        self._report(f"{running.path}/status", {"status": status})

    def _report(self, path, body):
        """Change a status, again and again as a kubelet does, unless the object is gone."""
        while not self._is_stopped.is_set():
            try:
                self._api.patch(path, body, "application/strategic-merge-patch+json")
                return
            except RefusedError as refused:
                if refused.status == 404:  # it may be deleted by now
                    return
            except Exception:  # the API server may be away
                pass
            self._is_stopped.wait(0.2)

    def _end(self, pod):
        """Stop a pod that is being deleted, or is gone."""
        with self._lock:
            for node in self.nodes.values():
                if running := node.pods.pop(pod["metadata"]["uid"], None):
                    running.stop()

    def _forget_missing(self, uids):
        with self._lock:
            for node in self.nodes.values():
                for uid in [uid for uid in node.pods if uid not in uids]:
                    node.pods.pop(uid).stop()

    def _delete(self, pod):
        """Confirm a deletion, as a kubelet does when nothing of the pod runs anymore."""
        conditions = {"uid": pod["metadata"]["uid"]}
        self._api.delete(_path(pod), gracePeriodSeconds=0, preconditions=conditions)

    def _renew(self):
        """Renew the leases of all nodes, so that a controller knows that they live."""
        with self._lock:
            names = list(self.nodes)
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for name in names:
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
            with contextlib.suppress(Exception):
                try:
                    self._api.patch(f"{leases}/{name}", {"spec": spec})
                except RefusedError:
                    self._api.create(leases, {"metadata": {"name": name}, "spec": spec})
        self._after(_RENEW_S, lambda: self._submit(self._renew))

    def _submit(self, function, *arguments):
        if not self._is_stopped.is_set():
            self._work.submit(function, *arguments)

    def _after(self, seconds, function):
        with self._wake:
            heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), function))
            self._wake.notify_all()

    def _keep_time(self):
        while not self._is_stopped.is_set():
            with self._wake:
                if not self._timers:
                    self._wake.wait()
                    continue
                left = self._timers[0][0] - time.monotonic()
                if left > 0:
                    self._wake.wait(left)
                    continue
                _, _, function = heapq.heappop(self._timers)
            function()


class _Running:
    """A pod on a node, and the process that does its work, if one does."""

    def __init__(self, pod, node):
        self.pod, self.node, self.process = pod, node, None
        self.uid, self.path = pod["metadata"]["uid"], _path(pod)
        self.name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self.annotations = pod["metadata"].get("annotations") or {}
        self.is_stopped, self.began, self.began_at = False, time.monotonic(), _now()

    def requests(self):
        """Return what its containers ask for together."""
        total = {"pods": 1.0}
        for container in self.pod["spec"]["containers"]:
            for name, amount in (container.get("resources", {}).get("requests") or {}).items():
                total[name] = total.get(name, 0.0) + read_amount(amount)
        return total

    def lacking(self):
        """Return the resource that the node has too little of, besides what runs there."""
        used = self.requests()
        for other in self.node.pods.values():
            for name, amount in other.requests().items():
                used[name] = used.get(name, 0.0) + amount
        own = self.requests()
        return next((n for n in own if used[n] > self.node.amounts.get(n, 0.0) + 1e-6), None)

    def begin(self):
        """Start the process of the first container, under the limit of the node."""
        self.began, self.began_at = time.monotonic(), _now()
        container = self.pod["spec"]["containers"][0]
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        if self.node.hold is not None and words:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
            self.node.hold(self.process.pid)

    def stop(self):
        """End its process."""
        self.is_stopped = True
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _path(pod):
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _now():
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name, *, cpu="1", memory="64Mi", annotations=None, scheduler="default-scheduler", **spec):
    """Describe a pod of one container."""
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": {"cpu": str(cpu), "memory": memory}},
    }
    container |= {key: spec.pop(key) for key in ("command", "args") if key in spec}
    meta = {"name": name, "annotations": {k: str(v) for k, v in (annotations or {}).items()}}
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], **spec},
    }


def node_of(api, name, namespace="default"):
    """Wait until a pod is bound; return its node."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"

    def why_not():
        events = api.list(f"/api/v1/namespaces/{namespace}/events")
        said = [e["message"] for e in events if e["involvedObject"]["name"] == name]
        return f"{name} is on no node: {said}, {(api.get(path) or {}).get('status')}"

    return wait_until(lambda: (api.get(path) or {"spec": {}})["spec"].get("nodeName"), why_not)
