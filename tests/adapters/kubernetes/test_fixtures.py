"""The control plane and the kubelets that other tests rely on are real enough."""

import contextlib
import gc
import signal
import socket
import ssl
import struct
import sys

from .control_plane import wait_until
from .kubelets import SECONDS, node_of, pod


def test_kube_scheduler_binds_pods_that_fake_kubelets_run_to_their_end(control_plane, kubelets):
    api = control_plane.api()
    kubelets.add("small", {"size": "s"}, cpu=1)
    kubelets.add("large", {"size": "l"}, cpu=8)
    control_plane.scheduler()
    pods = "/api/v1/namespaces/default/pods"
    api.create(pods, pod("timed", cpu=2, annotations={SECONDS: 0.1}))
    assert node_of(api, "timed") == "large"
    wait_until(lambda: api.get(f"{pods}/timed")["status"]["phase"] == "Succeeded", "its end")
    assert [name for _, name, node, _ in kubelets.finished] == ["default/timed"]
    assert not kubelets.overfull


def test_a_kubelet_runs_the_command_of_a_pod_and_ends_it_when_the_pod_is_deleted(
    control_plane, kubelets, tmp_path
):
    api, held = control_plane.api(), []
    kubelets.add("one", hold=held.append)
    pods = "/api/v1/namespaces/default/pods"
    written = tmp_path / "written"
    code = f"import pathlib, time; pathlib.Path({str(written)!r}).write_text('x'); time.sleep(600)"
    api.create(pods, pod("real", command=[sys.executable, "-c", code], nodeName="one"))
    wait_until(written.exists, "the process at work")
    process = kubelets.nodes["one"].pods[api.get(f"{pods}/real")["metadata"]["uid"]].process
    assert held == [process.pid]
    api.request("DELETE", f"{pods}/real")
    wait_until(lambda: api.get(f"{pods}/real") is None, "the deletion")
    assert process.poll() is not None


def test_a_kubelet_refuses_a_pod_that_a_scheduler_should_not_have_put_there(
    control_plane, kubelets
):
    api = control_plane.api()
    kubelets.add("one", cpu=2)
    pods = "/api/v1/namespaces/default/pods"
    for name in ("first", "second"):
        api.create(pods, pod(name, cpu="1500m", nodeName="one"))
    wait_until(lambda: kubelets.overfull, "a refusal")
    assert kubelets.overfull[0][1:] == ("one", "cpu")


def test_what_is_stored_survives_a_restart_of_etcd_and_of_the_api_server(control_plane, kubelets):
    api = control_plane.api()
    kubelets.add("one")
    control_plane.etcd.stop(signal.SIGKILL)
    control_plane.start_etcd()
    control_plane.api_server.stop(signal.SIGKILL)
    control_plane.start_api_server()
    assert [node["metadata"]["name"] for node in api.list("/api/v1/nodes")] == ["one"]


def test_a_connection_that_a_killed_server_resets_before_tls_fails_no_test():
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()  # by a reset, as when a process is killed
        with contextlib.suppress(OSError):
            ssl.create_default_context().wrap_socket(connection, server_hostname="localhost")
        del connection
    gc.collect()
