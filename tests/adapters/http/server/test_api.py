"""The parts of the server make another application, which has nothing to do with models."""

import asyncio

import httpx
import pytest
from fastapi import Request

from foretell.adapters.http.server.api import JSON, make_api, require_media_type
from foretell.adapters.http.server.guard import Guard
from foretell.adapters.http.server.metrics import Metrics
from foretell.adapters.http.server.settings import Access, RequestLimits

TOKEN = "a token that nobody guesses"
METRICS = Metrics()


@pytest.fixture(scope="module")
def app():
    """A queue that takes jobs."""
    api = make_api("Takes jobs.", None)

    @api.post("/jobs")
    async def add(request: Request, priority: int = 0) -> dict[str, int]:
        require_media_type(request, JSON)
        return {"n_bytes": len(await request.body()), "priority": priority}

    @api.get("/fails")
    async def fail() -> None:
        raise ZeroDivisionError("a secret")

    limits = RequestLimits(max_body_bytes=100)
    return Guard(api, Access(TOKEN), limits, METRICS, is_open=lambda path: path == "/open")


def ask(app, method, path, token=TOKEN, **more):
    """Send one request, without a socket."""

    async def send():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers, **more)

    return asyncio.run(send())


def kind_of(response):
    assert response.headers["content-type"] == "application/problem+json"
    return response.json()["type"].rpartition(":")[2]


def test_a_request_is_answered_and_counted(app):
    response = ask(app, "POST", "/jobs?priority=3", json={})
    assert response.json() == {"n_bytes": 2, "priority": 3}
    counted = METRICS.to_bytes().decode()
    assert 'foretell_requests_total{method="POST",route="/jobs",status="200"} 1.0' in counted


@pytest.mark.parametrize(
    ("method", "path", "more", "kind"),
    [
        ("POST", "/jobs", {"json": {}, "token": "wrong"}, "token"),
        ("POST", "/jobs", {"json": {}, "headers": {"Host": "evil.example"}}, "host"),
        (
            "POST",
            "/jobs",
            {"json": {}, "headers": {"Origin": "http://evil.example"}},
            "foreign-page",
        ),
        ("POST", "/jobs", {"json": "x" * 200}, "too-large"),
        ("POST", "/jobs", {"content": b"x"}, "media-type"),
        ("POST", "/jobs?prioritty=3", {"json": {}}, "wrong-input"),
        ("POST", "/jobs?priority=high", {"json": {}}, "wrong-input"),
        ("GET", "/jobs", {}, "method"),
        ("GET", "/open", {"token": "wrong"}, "not-found"),
        ("GET", "/fails", {}, "internal"),
    ],
)
def test_what_is_wrong_is_a_problem(app, method, path, more, kind):
    response = ask(app, method, path, **more)
    assert kind_of(response) == kind
    assert "secret" not in response.text
