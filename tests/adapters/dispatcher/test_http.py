"""Jobs over HTTP, on loopback, with the guard that every server has."""

import asyncio
import os
import signal
import stat
import threading

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks

from foretell.adapters.dispatcher.http import make_app
from foretell.adapters.dispatcher.metrics import DispatcherMetrics
from foretell.adapters.http.server.settings import Access
from foretell.errors import StorageError

from .conftest import await_that, queue_of

JOB = {"class": "low", "run": ["true"], "name": "one"}
TOKEN = "0123456789abcdef0123"


class Client:
    """Sends requests to an application in this process."""

    def __init__(self, app, token):
        self._app, self._headers = app, {"Authorization": f"Bearer {token}"}

    def request(self, method, path, *, headers=(), **content):
        async def send():
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as c:
                return await c.request(
                    method, path, headers={**self._headers, **dict(headers)}, **content
                )

        return asyncio.run(send())

    def __getattr__(self, method):
        return lambda path, **content: self.request(method.upper(), path, **content)


@pytest.fixture
def client(queue):
    """A client of a dispatcher that takes jobs and does not run them yet."""
    metrics = DispatcherMetrics()
    queue.open()
    metrics.watch(queue.dispatcher.status)
    queue.metrics = metrics
    app = make_app(queue.dispatcher, metrics, Access(TOKEN))
    return Client(app, TOKEN)


def problem(answer, status, kind):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:foretell:problem:{kind}"
    return answer.json()["detail"]


def test_a_job_is_taken_listed_shown_and_canceled(client):
    answer = client.post("/jobs", json={**JOB, "arguments": {"n": 1}})
    assert answer.status_code == 201
    job = answer.json()
    assert answer.headers["location"] == f"/jobs/{job['id']}"
    assert (job["class"], job["state"], job["arguments"]) == ("low", "queued", {"n": 1})
    urgent = client.post("/jobs", json={**JOB, "class": "high"}).json()
    listed = client.get("/jobs").json()
    assert [j["id"] for j in listed["jobs"]] == [urgent["id"], job["id"]]
    assert listed["n_waiting"] == 2
    assert client.get(f"/jobs/{job['id']}").json() == job
    assert client.delete(f"/jobs/{job['id']}").json()["state"] == "canceled"
    assert client.get(f"/jobs/{job['id']}").json()["state"] == "canceled"
    problem(client.delete(f"/jobs/{job['id']}"), 409, "not-waiting")


def test_a_job_that_ended_is_still_shown(client, queue):
    job = client.post("/jobs", json=JOB).json()
    queue.dispatcher.run(until_empty=True)
    found = client.get(f"/jobs/{job['id']}").json()
    assert (found["state"], found["attempts"]) == ("done", 1)
    assert found["arrived_at"] <= found["started_at"] <= found["ended_at"]
    assert "done" in problem(client.delete(f"/jobs/{job['id']}"), 409, "not-waiting")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "JSON"),
        (b"{}", "class"),
        (b'{"class": "lwo", "run": ["true"]}', "'low'"),
        (b'{"class": "low", "run": "a.py:f"}', "list"),
        (b'{"class": "low", "run": [], "arguments": {}}', "empty"),
        (b'{"class": "low", "run": ["true"], "urgency": 1}', "urgency"),
        (b'{"class": "low", "run": ["a\\u0000b"]}', "NUL"),
        (b'{"class": "low", "run": ["true"], "arguments": {"x": NaN}}', "finite"),
        (b'{"class": "low", "run": ["true"], "arguments": {"x": [-Infinity]}}', "finite"),
        (b'{"class": "low", "run": ["true"], "arguments": {"x": 1e999}}', "finite"),
    ],
)
def test_what_is_no_job_is_a_problem_that_says_why(client, body, words):
    answer = client.post("/jobs", content=body, headers={"Content-Type": "application/json"})
    assert words in problem(answer, 422, "wrong-input")
    assert client.get("/jobs").json()["jobs"] == []


def test_other_answers_come_while_a_list_of_jobs_waits_for_the_dispatcher(client, queue):
    answered, lock = [], queue.dispatcher._lock
    held, may_go = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            may_go.wait(60)

    async def ask():
        transport = httpx.ASGITransport(client._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as c:

            async def get(path):
                await c.get(path, headers=client._headers)
                answered.append(path)
                may_go.set()

            await asyncio.gather(get("/jobs"), get("/healthz"))

    threading.Thread(target=hold).start()
    assert held.wait(60)
    timer = threading.Timer(5, may_go.set)  # keeps a failure from hanging
    timer.start()
    asyncio.run(ask())
    timer.cancel()
    assert answered == ["/healthz", "/jobs"]


def test_other_problems_have_the_same_shape(client, monkeypatch):
    problem(client.get("/jobs/none"), 404, "not-found")
    problem(client.delete("/jobs/20261117T123848280549-5adf8d7e"), 404, "not-found")
    problem(client.get("/nothing"), 404, "not-found")
    problem(client.put("/jobs"), 405, "method")
    problem(client.get("/jobs?limit=3"), 422, "wrong-input")
    problem(client.post("/jobs", content=b"x"), 415, "media-type")
    problem(client.post("/jobs", json={**JOB, "name": "x" * 100_000}), 413, "too-large")
    problem(client.get("/jobs", headers={"Authorization": "Bearer wrong"}), 401, "token")
    problem(client.get("/metrics", headers={"Authorization": ""}), 401, "token")
    problem(client.get("/jobs", headers={"Host": "evil.example"}), 421, "host")
    problem(client.post("/jobs", json=JOB, headers={"Origin": "http://a.b"}), 403, "foreign-page")
    monkeypatch.setattr("foretell.adapters.dispatcher.intake.MOST_WAITING", 0)
    answer = client.post("/jobs", json=JOB)
    problem(answer, 503, "busy")
    assert "retry-after" in answer.headers


def test_a_full_disk_is_a_problem_and_the_job_is_not_taken(client, queue, monkeypatch):
    def fail(records):
        raise StorageError("the journal cannot be written: No space left on device")

    monkeypatch.setattr(queue.dispatcher._ledger._journal, "append", fail)
    assert "No space" in problem(client.post("/jobs", json=JOB), 503, "not-stored")
    monkeypatch.undo()
    assert client.get("/jobs").json()["jobs"] == []
    assert client.post("/jobs", json=JOB).status_code == 201


def test_health_needs_no_token_and_tells_of_a_lost_engine(client, queue):
    bare = {"Authorization": ""}
    assert client.get("/healthz", headers=bare).json() == {"status": "ok"}
    queue.dispatcher.lost = "no driver"
    assert client.get("/healthz", headers=bare).json() == {"status": "engine lost"}


def test_counts_tell_what_waits_ran_and_failed(client, queue):
    client.post("/jobs", json=JOB)
    client.post("/jobs", json={**JOB, "class": "high", "run": ["false"]})
    assert 'foretell_waiting_jobs{class="high"} 1.0' in client.get("/metrics").text
    queue.dispatcher.run(until_empty=True)
    for event in queue.events:
        queue.metrics.observe(event)
    text = client.get("/metrics").text
    for line in (
        'foretell_waiting_jobs{class="high"} 0.0',
        'foretell_jobs_total{class="low",event="done"} 1.0',
        'foretell_jobs_total{class="high",event="failed"} 2.0',
        'foretell_jobs_total{class="high",event="aside"} 1.0',
        'foretell_response_seconds_count{class="low"} 1.0',
        "foretell_dispatch_seconds_count 4.0",
        "foretell_engine_is_lost 0.0",
    ):
        assert line in text.splitlines()


def test_status_is_that_of_the_dispatcher(client, queue):
    client.post("/jobs", json=JOB)
    assert client.get("/status").json() == queue.dispatcher.status().to_json()


OPERATIONS = [
    ("/jobs", "POST"), ("/jobs", "GET"), ("/jobs/{job_id}", "GET"), ("/jobs/{job_id}", "DELETE"),
    ("/status", "GET"), ("/healthz", "GET"), ("/metrics", "GET"),
]  # fmt: skip
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def test_every_answer_is_one_that_the_description_promises(client):
    """What waits is not run here: the jobs are made up at random."""
    description = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    found = {(o.ok().path, o.ok().method.upper()) for o in description.get_all_operations()}
    assert found == set(OPERATIONS)
    posts = description["/jobs"]["POST"]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    cases = st.one_of(*(posts.as_strategy(generation_mode=mode) for mode in modes))

    @settings(
        max_examples=40, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases, st.booleans())
    def ask(case, is_known):
        if is_known and isinstance(case.body, dict) and "class" in case.body:
            case.body["class"] = "low"
        sent = case.as_transport_kwargs(base_url="http://localhost")
        content = {"params": sent.get("params") or {}}
        if sent.get("data"):
            content["content"] = sent["data"]
        elif "json" in sent:
            content["json"] = sent["json"]
        headers = {k: v for k, v in sent["headers"].items() if k.lower() != "authorization"}
        answer = client.request(case.method, "/jobs", headers=headers, **content)
        case.validate_response(answer, checks=CHECKS)

    ask()
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_served_dispatcher_takes_and_runs_jobs_and_leaves_no_token(tmp_path):
    from foretell.adapters.dispatcher.run import Service, run_dispatcher

    (tmp_path / "state").mkdir()
    seen, found = threading.Event(), {}

    def on_ready(dispatcher, url):
        found.update(url=url, dispatcher=dispatcher)
        seen.set()

    def talk():
        assert seen.wait(60)
        file = tmp_path / "state" / "token"
        found["mode"] = stat.S_IMODE(file.stat().st_mode)
        found["address"] = (tmp_path / "state" / "address").read_text().strip()
        headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
        try:
            with httpx.Client(base_url=found["url"], headers=headers) as client:
                found["refused"] = httpx.get(f"{found['url']}/jobs").status_code
                job_id = client.post("/jobs", json=JOB).json()["id"]
                await_that(lambda: client.get(f"/jobs/{job_id}").json()["state"] == "done")
                found["metrics"] = client.get("/metrics").text
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=talk)
    thread.start()
    was_stopped = run_dispatcher(
        queue_of("low"), service=Service(port=0), on_ready=on_ready,
        state=tmp_path / "state", spool=tmp_path / "jobs",
    )  # fmt: skip
    thread.join()
    assert was_stopped
    assert found["refused"] == 401
    assert found["mode"] == 0o600
    assert found["address"] == found["url"]
    assert 'foretell_jobs_total{class="low",event="done"} 1.0' in found["metrics"]
    assert {p.name for p in (tmp_path / "state").iterdir()} == {
        "aside", "jobs", "journal", "lock", "runs.csv",
    }  # fmt: skip
