"""The extender, asked over HTTP by tests and by the real kube-scheduler."""

import json
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from .control_plane import PATIENCE_S, wait_until
from .kubelets import node_of, pod

PODS = "/api/v1/namespaces/default/pods"
#: Time and energy of a task of 100 iterations: 10 s and 1,000 J, or 100 s and 100 J.
CLUSTER = """
[policy]
H = 0.0
[[node_type]]
name = "fast"
selector = { kind = "fast" }
capacity = { cpu = 4, memory = "8Gi" }
time_s = "iterations / 10"
energy_j = "iterations * 10"
[[node_type]]
name = "frugal"
selector = { kind = "frugal" }
capacity = { cpu = 4, memory = "8Gi" }
time_s = "iterations"
energy_j = "iterations"
"""
WORK = {"foretell/iterations": 100}


@pytest.fixture
def cluster_file(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture
def extend(foretell, control_plane, cluster_file):
    """Start the extender; return the command and its address."""

    def start(*options, kubeconfig=None):
        known = kubeconfig or control_plane.kubeconfig()
        run = foretell(
            "cluster", "schedule", cluster_file, "--mode", "extender", "--port", "0", "--json",
            "--kubeconfig", known, *options,
        )  # fmt: skip
        assert run.reaches(lambda: '"url"' in run.text, PATIENCE_S), run.text
        return run, json.loads(run.text.splitlines()[0])["url"]

    return start


def ask(url, body, context=None):
    """Send a body to an extender; return the status and the JSON of the answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{url}/prioritize", data, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def scores(url, described, names):
    status, found = ask(url, {"Pod": described, "Nodes": None, "NodeNames": names})
    assert status == 200, found
    assert [entry["Host"] for entry in found] == names
    return [entry["Score"] for entry in found]


def described(name, **annotations):
    found = pod(name, annotations={**WORK, **{f"foretell/{k}": v for k, v in annotations.items()}})
    found["metadata"] |= {"namespace": "default", "uid": name}
    return found


def read(url, path, context=None):
    with urllib.request.urlopen(url + path, timeout=60, context=context) as answer:
        return answer.read().decode()


def extender_of(url, **more):
    return {
        "urlPrefix": url, "prioritizeVerb": "prioritize", "weight": 100, "nodeCacheCapable": True,
        "ignorable": True, "httpTimeout": "20s", **more,
    }  # fmt: skip


def test_kube_scheduler_binds_each_pod_to_the_node_that_is_best_for_its_own_weight(
    control_plane, kubelets, extend
):
    api = control_plane.api()
    for kind in ("fast", "frugal"):
        kubelets.add_many([f"{kind}-1", f"{kind}-2"], {"kind": kind})
    wanted = {"metadata": {"name": "green", "annotations": {"foretell/H": "1"}}}
    if not api.get("/api/v1/namespaces/green"):
        api.create("/api/v1/namespaces", wanted)
    _, url = extend()
    control_plane.scheduler({"extenders": [extender_of(url)]})
    cases = {
        ("default", "plain"): ({}, "fast"),  # as the cluster file says
        ("default", "saving"): ({"foretell/H": 1}, "frugal"),
        ("green", "by-namespace"): ({}, "frugal"),
        ("green", "own"): ({"foretell/H": 0}, "fast"),
        ("default", "wrong"): ({"foretell/H": "much"}, "fast"),
    }
    for (namespace, name), (annotations, _) in cases.items():
        body = pod(name, annotations={**WORK, **annotations})
        api.create(f"/api/v1/namespaces/{namespace}/pods", body)
    for (namespace, name), (_, kind) in cases.items():
        assert node_of(api, name, namespace).startswith(kind), name
    assert not kubelets.overfull
    events = wait_until(lambda: _warnings(api), "an event about the wrong annotation")
    assert {event["involvedObject"]["name"] for event in events} == {"wrong"}
    assert all("foretell/H" in event["message"] for event in events)


def _warnings(api):
    found = api.list("/api/v1/namespaces/default/events")
    return [event for event in found if event["source"].get("component") == "foretell"]


def test_what_kube_scheduler_filters_out_stays_out(control_plane, kubelets, extend):
    api = control_plane.api()
    kubelets.add("fast-small", {"kind": "fast"}, cpu=1)
    taint = {"key": "kept", "effect": "NoSchedule"}
    kubelets.add("fast-tainted", {"kind": "fast"}, cpu=8, taints=[taint])
    kubelets.add("frugal", {"kind": "frugal"}, cpu=8)
    _, url = extend()
    control_plane.scheduler({"extenders": [extender_of(url)]})
    api.create(PODS, pod("large", cpu=4, annotations=WORK))
    assert node_of(api, "large") == "frugal"


@pytest.fixture
def certificates(tmp_path):
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    return make_certificate(tmp_path)


def make_certificate(folder, name="IP:127.0.0.1"):
    cert, key = folder / "tls.crt", folder / "tls.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
               "-subj", "/CN=foretell", "-addext", f"subjectAltName={name}",
               "-keyout", str(key), "-out", str(cert)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def test_kube_scheduler_may_ask_over_https_and_send_whole_nodes(
    control_plane, kubelets, extend, certificates
):
    api, (cert, key) = control_plane.api(), certificates
    kubelets.add("fast", {"kind": "fast"}, cpu=8)
    kubelets.add("frugal", {"kind": "frugal"}, cpu=2)
    # The certificate is also that of the client, so that it is let in.
    run, url = extend("--cert", cert, "--key", key, "--client-ca", cert)
    assert url.startswith("https://")
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        read(url, "/healthz", ssl.create_default_context(cafile=cert))
    known = {"caFile": str(cert), "certFile": str(cert), "keyFile": str(key)}
    more = {"nodeCacheCapable": False, "enableHTTPS": True, "tlsConfig": known}
    control_plane.scheduler({"extenders": [extender_of(url, **more)]})
    api.create(PODS, pod("saving", annotations={**WORK, "foretell/H": 1}))
    assert node_of(api, "saving") == "frugal"
    assert '"scores": {"frugal": 10' in run.text

    def shown():
        return ssl.get_server_certificate(("127.0.0.1", int(url.rpartition(":")[2])))

    # Certificates end, and new ones are used without a restart; a broken one is not.
    old = shown()
    key.write_bytes(b"nothing")
    wait_until(lambda: "the old certificate stays" in run.text, lambda: run.text)
    assert shown() == old
    make_certificate(cert.parent)
    wait_until(lambda: shown() == cert.read_text(), lambda: run.text)


def test_kube_scheduler_may_ask_by_address_and_check_the_name_in_the_certificate(
    control_plane, kubelets, extend, tmp_path
):
    name = "foretell.foretell.svc"  # which a scheduler in the network of its node cannot resolve
    cert, key = make_certificate(tmp_path, f"DNS:{name}")
    kubelets.add("fast", {"kind": "fast"})
    kubelets.add("frugal", {"kind": "frugal"})
    _, url = extend("--cert", cert, "--key", key)
    known = {"caFile": str(cert), "serverName": name}
    more = {"enableHTTPS": True, "tlsConfig": known}
    control_plane.scheduler({"extenders": [extender_of(url, **more)]})
    api = control_plane.api()
    api.create(PODS, pod("saving", annotations={**WORK, "foretell/H": 1}))
    assert node_of(api, "saving") == "frugal"


def test_pods_are_bound_without_the_extender_if_it_is_killed(control_plane, kubelets, extend):
    api = control_plane.api()
    kubelets.add("fast", {"kind": "fast"})
    run, url = extend()
    control_plane.scheduler({"extenders": [extender_of(url)]})
    assert run.kill()
    api.create(PODS, pod("orphan", annotations=WORK))
    assert node_of(api, "orphan") == "fast"


def test_pods_are_bound_while_the_extender_does_not_answer_within_the_timeout(
    control_plane, kubelets, extend
):
    """As with the scheduler configuration in deploy/: 100 ms, and ignorable."""
    api = control_plane.api()
    kubelets.add("fast", {"kind": "fast"})
    run, url = extend()
    control_plane.scheduler({"extenders": [extender_of(url, httpTimeout="100ms")]})
    os.kill(run.process.pid, signal.SIGSTOP)  # connections are taken, and nothing is answered
    try:
        api.create(PODS, pod("hasty", annotations=WORK))
        assert node_of(api, "hasty") == "fast"
    finally:
        os.kill(run.process.pid, signal.SIGCONT)


def test_a_dry_run_tells_its_decisions_and_answers_with_equal_scores(
    control_plane, kubelets, extend
):
    kubelets.add("fast", {"kind": "fast"})
    kubelets.add("frugal", {"kind": "frugal"})
    run, url = extend("--dry-run")
    assert len(set(scores(url, described("asked"), ["frugal", "fast"]))) == 1
    told = json.loads(run.text.splitlines()[-1])["decision"]
    assert told["pod"] == "default/asked"
    assert told["scores"]["fast"] == 10 > told["scores"]["frugal"]


def test_nodes_without_a_prediction_get_the_median_and_are_equal_where_there_is_none(
    control_plane, kubelets, extend
):
    kubelets.add_many(["fast-1", "fast-2"], {"kind": "fast"})
    kubelets.add("frugal", {"kind": "frugal"})
    kubelets.add("other", {"kind": "other"})
    _, url = extend()
    names = ["other", "fast-1", "fast-2", "frugal", "never-seen"]
    found = scores(url, described("asked"), names)
    # H is 0: the frugal node is ten times slower. The median is that of the best, which stay apart.
    assert found == [9, 10, 10, 0, 9]
    assert scores(url, described("asked"), ["other", "frugal", "fast-1"])[0] == 5
    unknown = pod("asked")  # without iterations, no time can be computed
    unknown["metadata"] |= {"namespace": "default", "uid": "u"}
    assert len(set(scores(url, unknown, names))) == 1


def test_a_pod_without_what_models_need_is_told_what_is_missing(control_plane, kubelets, extend):
    kubelets.add("fast-1", {"kind": "fast"})
    api = control_plane.api()
    asked = api.create(PODS, pod("bare"))
    run, url = extend()
    scores(url, asked, ["fast-1"])
    events = "/api/v1/namespaces/default/events"

    def told():
        return [e["message"] for e in api.list(events) if e["involvedObject"]["name"] == "bare"]

    wait_until(told, run.text)
    assert "no prediction can be used" in told()[0]
    assert "needs 'iterations'" in told()[0]
    assert "needs 'iterations'" in run.text


def test_pods_that_were_just_scored_count_where_they_are_likely_to_go(
    control_plane, kubelets, extend
):
    api = control_plane.api()
    kubelets.add_many(["fast-1", "fast-2"], {"kind": "fast"})
    run, url = extend()
    names = ["fast-1", "fast-2"]
    created = api.create(PODS, pod("first", cpu=2, annotations=WORK))
    # The extender must have seen the pod, which takes a moment after its creation.
    wait_until(lambda: sorted(scores(url, created, names)) == [10, 10], "equal nodes")

    def is_counted():
        # With H = 0 the node with more free CPUs is better, so one of the two is left behind.
        scores(url, created, names)
        return sorted(scores(url, described("second"), names)) == [9, 10]

    wait_until(is_counted, lambda: run.text)


BAD = {
    "garbage": (b"\x00\xff{", 422, "not valid JSON"),
    "empty": (b"", 422, "not valid JSON"),
    "a list": (b"[]", 422, "must be an object"),
    "nesting": (b"[" * 100_000, 422, "not valid JSON"),
    "no pod": (b'{"NodeNames": []}', 422, "Pod"),
    "names that are numbers": (b'{"Pod": {"metadata": {}}, "NodeNames": [1]}', 422, "NodeNames"),
    "no nodes": (b'{"Pod": {"metadata": {}}}', 422, "Nodes.items"),
    "a pod of nonsense": (
        b'{"Pod": {"metadata": {}, "spec": {"containers": 5}}, "NodeNames": []}', 422,
        "Pod: must be a pod as Kubernetes writes it: a part of it has another shape",
    ),
    "a request of nonsense": (
        b'{"Pod": {"metadata": {}, "spec": {"containers": [{"resources": '
        b'{"requests": {"cpu": "many"}}}]}}, "NodeNames": []}', 422, "cpu",
    ),
    "10 MB": (b'{"Pod": "' + b"x" * 10_000_000 + b'"}', 413, "nodeCacheCapable"),
}  # fmt: skip


def test_bodies_that_kube_scheduler_would_not_send_are_refused_and_do_no_harm(
    control_plane, kubelets, extend
):
    kubelets.add("fast", {"kind": "fast"})
    _, url = extend()
    for what, (body, status, part) in BAD.items():
        found, problem = ask(url, body)
        assert found == status, (what, problem)
        assert part in problem["detail"], (what, problem)
    assert scores(url, described("asked"), ["fast"]) == [10]
    text = read(url, "/metrics")
    assert f'foretell_errors_total{{kind="request"}} {len(BAD)}.0' in text
    for status, n in ((200, 1), (413, 1), (422, len(BAD) - 1)):
        labels = f'method="POST",route="/prioritize",status="{status}"'
        assert f"foretell_requests_total{{{labels}}} {n}.0" in text
    assert 'route="other"' not in text


def test_health_and_counts_are_there_to_be_read(control_plane, kubelets, extend):
    kubelets.add("fast", {"kind": "fast"})
    _, url = extend()
    scores(url, described("asked"), ["fast", "other"])
    wait_until(lambda: json.loads(read(url, "/healthz")) == {"status": "ok"}, "health")
    wait_until(lambda: "foretell_state_is_current 1.0" in read(url, "/metrics"), "all watches")
    text = read(url, "/metrics")
    assert 'foretell_decisions_total{known="some"} 1.0' in text
    assert "foretell_decision_seconds_count 1.0" in text
    assert 'foretell_nodes{type="fast"} 1.0' in text
    assert 'foretell_nodes{type="(no node type)"} 0.0' in text


def test_it_answers_from_what_it_saw_last_while_the_api_server_is_away(
    control_plane, kubelets, extend
):
    kubelets.add("fast", {"kind": "fast"})
    kubelets.add("frugal", {"kind": "frugal"})
    run, url = extend()
    names = ["fast", "frugal"]
    before = scores(url, described("asked"), names)
    control_plane.api_server.stop(signal.SIGKILL)
    wait_until(lambda: json.loads(read(url, "/healthz"))["status"] == "stale", lambda: run.text)
    assert scores(url, described("asked"), names) == before
    control_plane.start_api_server()
    wait_until(lambda: json.loads(read(url, "/healthz"))["status"] == "ok", lambda: run.text)


# Starting it where it cannot work


def test_an_api_server_that_is_away_or_refuses_is_named_with_what_to_do(
    control_plane, foretell, cluster_file, tmp_path
):
    away = json.loads(control_plane.kubeconfig().read_text())
    away["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "away").write_text(json.dumps(away))
    cases = {
        tmp_path / "away": "cannot be reached",
        control_plane.kubeconfig(token="wrong"): "401",
        control_plane.kubeconfig("nobody"): "rbac.yaml",
        tmp_path / "missing": "--kubeconfig",
    }
    runs = {
        path: foretell("cluster", "schedule", cluster_file, "--kubeconfig", path, "--port", "0")
        for path in cases
    }
    for path, expected in cases.items():
        assert runs[path].wait(PATIENCE_S) == 2
        assert expected in " ".join(runs[path].text.split())
        assert "Traceback" not in runs[path].text


def test_an_address_that_others_can_reach_needs_a_certificate(
    control_plane, foretell, cluster_file
):
    known = control_plane.kubeconfig()
    common = ["cluster", "schedule", cluster_file, "--kubeconfig", known, "--port", "0"]
    cases = {
        ("--host", "0.0.0.0"): "--cert",
        ("--cert", cluster_file, "--key", cluster_file): "PEM",
        ("--cert", cluster_file): "--key",
    }
    runs = {options: foretell(*common, *options) for options in cases}
    for options, expected in cases.items():
        assert runs[options].wait(PATIENCE_S) == 2
        assert expected in runs[options].text


def test_a_corrupt_model_keeps_it_from_starting(control_plane, foretell, cluster_file, tmp_path):
    (tmp_path / "bad.foretell").write_bytes(b"no model")
    text = cluster_file.read_text().replace('time_s = "iterations"', 'models = "bad.foretell"')
    cluster_file.write_text(text)
    run = foretell("cluster", "schedule", cluster_file, "--kubeconfig", control_plane.kubeconfig())
    assert run.wait(PATIENCE_S) == 2
    assert "node type frugal, models" in run.text
