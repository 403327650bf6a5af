"""No task is lost or bound twice: whatever is killed, restarted, cut or lost on the way."""

import contextlib
import json
import os
import random
import signal
import threading
import time

import pytest
import urllib3

from ..control_plane import RefusedError, wait_until
from ..kubelets import SECONDS, pod
from ..proxy import CuttingProxy
from ..replicas import LEASE, SHORT_S, Replicas, leader

CLUSTER = """
[[node_type]]
name = "any"
selector = { type = "any" }
capacity = { cpu = 4 }
time_s = 1
energy_j = 1
"""
PODS = "/api/v1/namespaces/default/pods"


class Load:
    """Pods that are made, and what an observer sees of them.

    Attributes
    ----------
    nodes
        The nodes that each pod was bound to, by its id: more than one would be a mistake.
    """

    def __init__(self, control_plane, kubelets):
        self.api, self.kubelets = control_plane.api(), kubelets
        self.names, self.nodes = [], {}
        self._is_over = False
        self._watch = None
        self._thread = threading.Thread(target=self._observe, daemon=True)
        self._thread.start()

    def add(self, n, *, seconds=0.3, cpu=1):
        """Make pods, whatever it takes."""
        for _ in range(n):
            name = f"task-{len(self.names)}"
            self.names.append(name)
            made = pod(name, cpu=cpu, scheduler="foretell", annotations={SECONDS: seconds})
            wait_until(lambda made=made: self._make(made), "a pod that is made")

    def _make(self, made):
        try:
            self.api.create(PODS, made)
        except RefusedError as error:
            return error.status == 409  # an attempt before that seemed to fail
        except urllib3.exceptions.HTTPError:
            return False
        return True

    def _observe(self):
        while not self._is_over:
            # A line that was cut is no JSON: then all is listed again, as after a lost connection.
            with contextlib.suppress(RefusedError, urllib3.exceptions.HTTPError, ValueError):
                listed = self.api.request("GET", PODS)
                for item in listed["items"]:
                    self._see(item)
                self._watch = self.api.watch(PODS, listed["metadata"]["resourceVersion"])
                for change in self._watch:
                    if change["type"] == "ERROR":
                        break
                    self._see(change["object"])

    def _see(self, item):
        if node := item["spec"].get("nodeName"):
            self.nodes.setdefault(item["metadata"]["uid"], set()).add(node)

    def are_all_bound(self):
        """Whether no pod waits for a node now."""
        return not self.api.list(f"{PODS}?fieldSelector=spec.nodeName=")

    def check(self):
        """Wait until all pods have run, and look for any that were lost or bound twice."""
        wanted = {f"default/{name}" for name in self.names}

        def are_done():
            assert not self.kubelets.overfull
            return wanted <= {name for _, name, _, _ in list(self.kubelets.finished)}

        def missing():
            done = {name for _, name, _, _ in list(self.kubelets.finished)}
            return f"{len(wanted - done)} of {len(wanted)}: {sorted(wanted - done)[:5]}"

        wait_until(are_done, missing)
        self._is_over = True
        if self._watch is not None:
            self._watch.close()
        started = [name for _, name, _ in self.kubelets.started]
        assert len(started) == len(set(started)) == len(wanted)
        assert all(len(nodes) == 1 for nodes in self.nodes.values())


@pytest.fixture
def load(control_plane, kubelets):
    return Load(control_plane, kubelets)


@pytest.fixture
def cluster_file(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture
def replicas(control_plane, template, cluster_file, tmp_path):
    kubeconfig = control_plane.kubeconfig()
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as found:
        yield found


@pytest.mark.slow
def test_replicas_that_are_killed_at_random_moments(control_plane, kubelets, replicas, load):
    kubelets.add_many([f"n{i}" for i in range(4)], {"type": "any"}, cpu=4)
    api, moments = control_plane.api(), random.Random(13)
    replicas.start(lease_seconds=SHORT_S)
    replicas.start(lease_seconds=SHORT_S)
    for i in range(20):
        load.add(12)
        if i % 2:  # in the midst of its bindings, and otherwise as soon as it may bind
            # On a busy machine another replica may take the lease, and bind all of them.
            wait_until(
                lambda: leader(api, replicas).decisions or load.are_all_bound(),
                lambda: [replica.text for replica in replicas.all],
            )
        killed = leader(api, replicas)
        time.sleep(moments.uniform(0, 0.3))
        killed.stop(signal.SIGKILL)
        replicas.start(lease_seconds=SHORT_S, is_ready=False)
    load.check()
    assert sum(bool(replica.decisions) for replica in replicas.all) >= 5


def test_a_leader_that_was_suspended_does_not_bind_beside_its_successor(
    control_plane, kubelets, replicas, load
):
    kubelets.add("n1", {"type": "any"}, cpu=2)
    api = control_plane.api()
    replicas.start(lease_seconds=SHORT_S)
    replicas.start(lease_seconds=SHORT_S)
    first = leader(api, replicas)
    load.add(2, seconds=4)
    load.add(20, seconds=0.05)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        load.add(10, seconds=0.05)
        held = api.get(LEASE)["spec"]["holderIdentity"]
        wait_until(lambda: api.get(LEASE)["spec"]["holderIdentity"] != held, "a successor")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    load.add(10, seconds=0.05)
    load.check()
    first.wait("does not have the lease")


def test_a_replica_that_is_stopped_gives_the_lease_back(control_plane, kubelets, replicas, load):
    kubelets.add("n1", {"type": "any"})
    api = control_plane.api()
    replicas.start()
    first = leader(api, replicas)
    second = replicas.start()
    first.stop()
    assert leader(api, replicas) is second
    load.add(3)
    load.check()


def test_etcd_that_is_restarted(control_plane, kubelets, replicas, load):
    kubelets.add_many(["n1", "n2"], {"type": "any"})
    replicas.start()
    load.add(10)
    feeder = threading.Thread(target=load.add, args=(30,))
    feeder.start()
    control_plane.etcd.stop(signal.SIGKILL)
    control_plane.start_etcd()
    feeder.join()
    load.add(10)
    load.check()


def test_watches_and_requests_that_are_cut(
    control_plane, kubelets, template, cluster_file, tmp_path, load
):
    kubelets.add_many(["n1", "n2"], {"type": "any"})
    port = int(control_plane.url.rpartition(":")[2])
    with contextlib.closing(CuttingProxy(port)) as proxy:
        described = json.loads(control_plane.kubeconfig().read_text())
        described["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        kubeconfig = tmp_path / "through-the-proxy"
        kubeconfig.write_text(json.dumps(described))
        with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
            replica = replicas.start()
            moments = random.Random(13)
            for i in range(10):
                load.add(6)
                proxy.cut()
                proxy.is_open = i % 3 > 0  # now and then, no new connection is taken either
                time.sleep(moments.uniform(0, 0.3))
                proxy.is_open = True
            load.check()
            assert proxy.n_cut > 3  # how many there are depends on how soon they are made again
            assert replica.is_alive()


def test_a_node_that_vanishes_while_pods_are_bound(control_plane, kubelets, replicas, load):
    api = control_plane.api()
    kubelets.add_many(["n1", "n2", "n3"], {"type": "any"})
    replicas.start()
    load.add(20, seconds=0.2)
    kubelets.lose("n2")
    load.add(20, seconds=0.2)

    def collect():
        """Do what the garbage collector and the owner of pods do: delete, and make new ones."""
        for item in api.list(PODS):
            if item["spec"].get("nodeName") == "n2" and item["status"]["phase"] != "Succeeded":
                api.delete(f"{PODS}/{item['metadata']['name']}", gracePeriodSeconds=0)
                load.names.remove(item["metadata"]["name"])
                load.add(1)
        waiting = {f"default/{name}" for name in load.names}
        return waiting <= {name for _, name, _, _ in list(kubelets.finished)}

    wait_until(collect, "all pods")
    assert not kubelets.overfull
    assert all(len(nodes) == 1 for nodes in load.nodes.values())
