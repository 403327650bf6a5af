"""Evictions and budgets on servers that are newer than the one that other tests use."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from foretell.adapters.kubernetes.client import Api, ApiError
from foretell.adapters.kubernetes.moves.evictions import Evictions
from foretell.adapters.kubernetes.pods import read_pod

POD = read_pod({"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7"}})
BUDGETS = "/apis/policy/v1/namespaces/n/poddisruptionbudgets?limit=500"


class Server:
    """A server that has the policy group in some versions, and notes what it is sent."""

    def __init__(self, versions):
        self.answers = {
            ("GET", "/apis/policy"): (200, {"versions": [{"version": v} for v in versions]}),
        }
        self.evictions = []
        self.refuses = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, found = outer.answer(self.command, self.path, body)
                content = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = _answer  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, method, path, body):
        if path.endswith("/eviction"):
            sent = json.loads(body)
            self.evictions.append(sent)
            status = self.refuses.get(sent["apiVersion"], 201)
            return status, {"message": "no" if status > 299 else ""}
        return self.answers.get((method, path), (404, {"message": "none"}))

    def api(self):
        from kubernetes import client

        host = f"http://127.0.0.1:{self._server.server_address[1]}"
        return Api(client.ApiClient(client.Configuration(host=host)))

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve():
    made = []

    def start(*versions):
        made.append(Server(versions))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.mark.parametrize(
    ("served", "sent"),
    [(("v1",), "policy/v1"), (("v1", "v1beta1"), "policy/v1"), (("v1beta1",), "policy/v1beta1")],
)
def test_the_newest_version_is_used_and_only_this_pod_is_meant(serve, served, sent):
    server = serve(*served)
    assert Evictions(server.api()).evict(POD) == "evicted"
    (found,) = server.evictions
    assert (found["apiVersion"], found["kind"]) == (sent, "Eviction")
    assert found["metadata"] == {"name": "p", "namespace": "n"}
    assert found["deleteOptions"]["preconditions"] == {"uid": "u", "resourceVersion": "7"}


def test_a_server_with_new_budgets_and_old_evictions_gets_old_ones(serve):
    server = serve("v1", "v1beta1")
    server.refuses["policy/v1"] = 400
    evictions = Evictions(server.api())
    assert evictions.evict(POD) == "evicted"
    assert evictions.evict(POD) == "evicted"
    versions = [found["apiVersion"] for found in server.evictions]
    assert versions == ["policy/v1", "policy/v1beta1", "policy/v1beta1"]


@pytest.mark.parametrize(("status", "outcome"), [(404, "gone"), (409, "changed"), (429, "refused")])
def test_refusals_are_told_apart(serve, status, outcome):
    server = serve("v1")
    server.refuses["policy/v1"] = status
    assert Evictions(server.api()).evict(POD) == outcome


def test_other_refusals_are_errors(serve):
    server = serve("v1")
    server.refuses["policy/v1"] = 403
    with pytest.raises(ApiError) as caught:
        Evictions(server.api()).evict(POD)
    assert caught.value.status == 403


def budget(selector, allowed, generation=2, observed=2):
    return {
        "metadata": {"name": "b", "generation": generation},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": observed},
    }


@pytest.mark.parametrize(
    ("item", "is_allowed"),
    [
        (budget({"matchLabels": {"app": "x"}}, 0), False),
        (budget({"matchLabels": {"app": "x"}}, 1), True),
        (budget({"matchLabels": {"app": "x"}}, 1, observed=1), False),
        (budget({"matchLabels": {"app": "y"}}, 0), True),
        (budget({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 0), False),
        (budget({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, 0),
         True),
        (budget({}, 0), False),
        (budget(None, 0), True),
    ],
)  # fmt: skip
def test_a_budget_counts_if_its_selector_matches(serve, item, is_allowed):
    server = serve("v1")
    server.answers["GET", BUDGETS] = (200, {"items": [item]})
    why = Evictions(server.api()).why_not(POD, {"app": "x"})
    assert (why == "") is is_allowed


def test_an_empty_selector_matched_nothing_in_the_old_version(serve):
    server = serve("v1beta1")
    path = BUDGETS.replace("v1", "v1beta1")
    server.answers["GET", path] = (200, {"items": [budget({}, 0)]})
    assert Evictions(server.api()).why_not(POD, {"app": "x"}) == ""
