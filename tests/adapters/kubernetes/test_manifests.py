"""The manifests in deploy/, on a real API server: accepted, and with no right too many."""

import json
import urllib.request
from pathlib import Path

import pytest
import yaml

from .control_plane import PATIENCE_S, wait_until
from .kubelets import node_of, pod
from .test_extender import CLUSTER, PODS, WORK, certificates, described, extender_of

__all__ = ["certificates"]  # a fixture

DEPLOY = Path(__file__).parents[3] / "deploy" / "kubernetes"
#: Where the API server of the tests keeps objects of each kind.
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/foretell/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/foretell/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/foretell/rolebindings",
    "ConfigMap": "/api/v1/namespaces/foretell/configmaps",
    "Service": "/api/v1/namespaces/foretell/services",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/foretell/networkpolicies",
    "Deployment": "/apis/apps/v1/namespaces/foretell/deployments",
    "PodDisruptionBudget": "/apis/policy/v1beta1/namespaces/foretell/poddisruptionbudgets",
}


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def apply(api, name):
    """Create the objects of a manifest, or leave those that are there; return what is stored."""
    found = []
    for item in documents(name):
        if item["kind"] == "PodDisruptionBudget":
            item["apiVersion"] = "policy/v1beta1"  # this server is older than policy/v1
        path = PATHS[item["kind"]]
        stored = api.get(f"{path}/{item['metadata']['name']}") or api.create(path, item)
        found.append((item, stored))
    return found


def missing(sent, stored, place=""):
    """Name the entries that an API server dropped, since it does not know them."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            if key not in stored and value not in ({}, [], None):
                yield f"{place}.{key}"
            else:
                yield from missing(value, stored.get(key), f"{place}.{key}")
    elif isinstance(sent, list) and isinstance(stored, list):
        for i, pair in enumerate(zip(sent, stored, strict=True)):
            yield from missing(*pair, f"{place}[{i}]")


MANIFESTS = sorted(
    path.name for path in DEPLOY.glob("*.yaml") if path.name != "scheduler-configuration.yaml"
)


def test_manifests_are_accepted_and_no_entry_is_unknown(control_plane):
    api = control_plane.api()
    for name in sorted(MANIFESTS, key=lambda name: name != "rbac.yaml"):
        for sent, stored in apply(api, name):
            assert not list(missing(sent, stored)), name


def extenders():
    """The extender of either kube-scheduler."""
    second = next(d for d in documents("second-scheduler.yaml") if d["kind"] == "ConfigMap")
    for found in (documents("scheduler-configuration.yaml")[0],
                  yaml.safe_load(second["data"]["configuration.yaml"])):  # fmt: skip
        yield from found["extenders"]


def test_one_point_outweighs_all_preferences_of_kube_scheduler_together():
    # The default weights of newer versions, which are the larger ones. Each plugin gives up to
    # 100 points, and kube-scheduler stretches the 10 points of an extender to as many.
    weights = {
        "NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1,
        "InterPodAffinity": 2, "NodeAffinity": 2, "PodTopologySpread": 2, "TaintToleration": 3,
    }  # fmt: skip
    found = [extender["weight"] * 10 for extender in extenders()]
    assert len(found) == 2
    assert min(found) > 100 * sum(weights.values())


def test_the_network_policy_admits_to_the_extender_and_its_port_alone():
    policy = documents("network-policy.yaml")[0]["spec"]
    there = {d["kind"]: d["spec"] for d in documents("extender.yaml")}
    assert policy["podSelector"] == there["Deployment"]["selector"]
    assert [p["port"] for p in policy["ingress"][0]["ports"]] == [
        port["containerPort"]
        for port in there["Deployment"]["template"]["spec"]["containers"][0]["ports"]
    ]
    deployments = (d for d in documents("second-scheduler.yaml") if d["kind"] == "Deployment")
    labels = next(deployments)["spec"]["template"]["metadata"]["labels"]
    assert {"podSelector": {"matchLabels": labels}} in policy["ingress"][0]["from"]


@pytest.fixture
def account(control_plane):
    """A kubeconfig with the token of the extender's account, which has the rights in rbac.yaml."""
    api = control_plane.api()
    apply(api, "rbac.yaml")
    path = "/api/v1/namespaces/foretell/serviceaccounts/foretell/token"
    token = api.create(path, {"spec": {}})["status"]["token"]
    return control_plane.kubeconfig("foretell", token=token), control_plane.api(token=token)


def test_the_account_of_the_extender_has_the_rights_it_needs_and_no_others(
    control_plane, account, kubelets, foretell, certificates, tmp_path
):
    kubeconfig, own = account
    review = own.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                        {"spec": {"namespace": "kube-system"}})  # fmt: skip
    granted = {
        (verb, resource)
        for rule in review["status"]["resourceRules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if not resource.startswith("selfsubject")  # which everybody has
    }
    read = {(verb, what) for verb in ("list", "watch") for what in ("nodes", "pods", "namespaces")}
    assert granted == read | {("create", "events")}

    # The extender works as it is started in the Deployment, with these rights alone.
    api, (cert, key) = control_plane.api(), certificates
    kubelets.add("fast", {"kind": "fast"})
    kubelets.add("frugal", {"kind": "frugal"})
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    deployment = next(d for d in documents("extender.yaml") if d["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    there = {"/etc/foretell/cluster.toml": tmp_path / "cluster.toml",
             "/etc/foretell-tls/tls.crt": cert, "/etc/foretell-tls/tls.key": key,
             "8443": "0", "0.0.0.0": "127.0.0.1"}  # fmt: skip
    words = []
    for word in container["args"]:
        for old, new in there.items():
            word = word.replace(old, str(new))
        words.append(word)
    run = foretell(*words, "--kubeconfig", kubeconfig, "--json")
    assert run.reaches(lambda: '"url"' in run.text, PATIENCE_S), run.text
    url = json.loads(run.text.splitlines()[0])["url"]

    # kube-scheduler asks as in scheduler-configuration.yaml, by address and with more patience.
    described_once = documents("scheduler-configuration.yaml")[0]
    assert described_once["extenders"][0].keys() <= {*extender_of(url), "enableHTTPS", "tlsConfig"}
    described_once["extenders"][0] |= {
        "urlPrefix": url, "httpTimeout": "20s", "tlsConfig": {"caFile": str(cert)},
    }  # fmt: skip
    described_once["apiVersion"] = "kubescheduler.config.k8s.io/v1beta1"
    control_plane.scheduler(described_once)
    api.create(PODS, pod("saving", annotations={**WORK, "foretell/H": 1}))
    api.create(PODS, pod("wrong", annotations={**WORK, "foretell/H": 2}))
    assert node_of(api, "saving") == "frugal"
    assert node_of(api, "wrong") == "fast"
    events = "/api/v1/namespaces/default/events"
    wait_until(
        lambda: [e for e in api.list(events) if e["reason"] == "WrongAnnotation"], lambda: run.text
    )

    # The service name is one by which it may be called.
    service = next(d for d in documents("extender.yaml") if d["kind"] == "Service")["metadata"]
    host = f"{service['name']}.{service['namespace']}.svc"
    assert described_once["extenders"][0]["prioritizeVerb"] == "prioritize"
    assert _status(url, host, cert) == 200
    assert _status(url, "elsewhere.example", cert) == 421


def _status(url, host, cert):
    import ssl

    body = json.dumps({"Pod": described("asked"), "NodeNames": ["fast"]}).encode()
    request = urllib.request.Request(f"{url}/prioritize", body, {"Host": host})
    try:
        known = ssl.create_default_context(cafile=cert)
        with urllib.request.urlopen(request, timeout=60, context=known) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_two_replicas_run_and_the_budget_keeps_one_of_them(control_plane, kubelets):
    api = control_plane.api()
    kubelets.add_many(["one", "two"])
    apply(api, "rbac.yaml")
    apply(api, "extender.yaml")
    control_plane.controllers("deployment,replicaset,disruption")
    control_plane.scheduler()
    deployment, budget = (
        f"{PATHS[kind]}/foretell" for kind in ("Deployment", "PodDisruptionBudget")
    )
    wait_until(lambda: api.get(deployment)["status"].get("availableReplicas") == 2, "two replicas")
    wait_until(
        lambda: api.get(budget).get("status", {}).get("disruptionsAllowed") == 1, "the budget"
    )
    pods = api.list("/api/v1/namespaces/foretell/pods")
    assert {item["spec"]["nodeName"] for item in pods} == {"one", "two"}
