"""Jobs over HTTP: the routes of a dispatcher, behind the guard that every server has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pydantic
from fastapi import FastAPI, Query
from fastapi import Request as HttpRequest
from fastapi.responses import Response

from foretell.adapters.dispatcher.dispatcher import Dispatcher
from foretell.adapters.dispatcher.intake import FullError
from foretell.adapters.dispatcher.jobs import MOST_BYTES, Request
from foretell.adapters.dispatcher.metrics import DispatcherMetrics
from foretell.adapters.http.server.api import (
    JSON,
    make_api,
    problem_responses,
    request_body,
    require_media_type,
    responses,
)
from foretell.adapters.http.server.guard import Guard
from foretell.adapters.http.server.input_errors import read_body
from foretell.adapters.http.server.problems import BUSY, NOT_FOUND, Kind, ProblemError
from foretell.adapters.http.server.settings import Access, RequestLimits
from foretell.errors import StorageError, UsageError

NOT_STORED = Kind("not-stored", 503, "The job cannot be stored")
NOT_WAITING = Kind("not-waiting", 409, "The job does not wait")
LIMITS = RequestLimits(
    max_body_bytes=4 * MOST_BYTES, request_s=10.0, too_large="put what the job needs into a file"
)
_OPEN = {"/healthz", "/openapi.json"}
_MOST_LISTED = 1_000

Most = Annotated[int, Query(ge=1, le=_MOST_LISTED, description="How many jobs to list at most.")]


class JobAnswer(pydantic.BaseModel):
    """A job; moments are seconds since 1970."""

    model_config = pydantic.ConfigDict(populate_by_name=True)

    id: str
    class_name: Annotated[str, pydantic.Field(alias="class")]
    name: str
    state: str
    run: list[str] | str | None = None
    arguments: dict[str, Any] | None = None
    arrived_at: float
    started_at: float | None
    ended_at: float | None
    attempts: int
    drop: float
    sprint_s: float
    reason: str


class JobsAnswer(pydantic.BaseModel):
    """The jobs in the engine and those that wait, in the order of their turns."""

    jobs: list[JobAnswer]
    n_waiting: int


def make_app(dispatcher: Dispatcher, metrics: DispatcherMetrics, access: Access) -> Guard:
    """Make the application; the dispatcher runs beside it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    app = make_api("Takes jobs of several classes for one engine.", lifespan)
    _add_jobs(app, dispatcher)
    _add_state(app, dispatcher, metrics)
    return Guard(app, access, LIMITS, metrics, is_open=_OPEN.__contains__)


def _add_jobs(app: FastAPI, dispatcher: Dispatcher) -> None:
    @app.post(
        "/jobs",
        status_code=201,
        responses=responses(JobAnswer, 415, status=201),
        openapi_extra=request_body("JobRequest"),
    )
    async def submit(request: HttpRequest) -> Response:
        """Take a job; when the answer comes, the job survives a crash."""
        require_media_type(request, JSON)
        asked = read_body(Request, await request.body())
        try:
            job = await asyncio.to_thread(dispatcher.submit, asked)
        except FullError as error:
            raise ProblemError(BUSY, error.text, headers={"Retry-After": "60"}) from None
        except StorageError as error:
            raise ProblemError.of(error, NOT_STORED) from None
        except UsageError as error:
            raise ProblemError.of(error) from None
        return _json(job.to_json(), 201, {"Location": f"/jobs/{job.id}"})

    @app.get("/jobs", responses=responses(JobsAnswer))
    async def list_jobs(most: Most = 100) -> Response:
        """List the jobs in the engine and those that wait, in the order of their turns."""
        return _json(await asyncio.to_thread(_listed, dispatcher, most))

    @app.get("/jobs/{job_id}", responses=responses(JobAnswer, 404))
    async def describe(job_id: str) -> Response:
        """Show how far a job is, or how it ended."""
        return _json(await asyncio.to_thread(_found, dispatcher, job_id))

    @app.delete("/jobs/{job_id}", responses=responses(JobAnswer, 404, 409))
    async def cancel(job_id: str) -> Response:
        """Take out a job that waits; one that runs is not ended."""
        await asyncio.to_thread(_found, dispatcher, job_id)
        try:
            job = await asyncio.to_thread(dispatcher.cancel, job_id)
        except UsageError as error:
            raise ProblemError.of(error, NOT_WAITING) from None
        return _json(job.to_json())


def _add_state(app: FastAPI, dispatcher: Dispatcher, metrics: DispatcherMetrics) -> None:
    @app.get("/status", responses={200: {"content": {JSON: {}}}, **problem_responses()})
    async def status() -> Response:
        """Show how the queue is, by class."""
        return _json(await asyncio.to_thread(lambda: dispatcher.status().to_json()))

    @app.get("/healthz", responses={200: {"content": {JSON: {}}}, **problem_responses()})
    async def healthz() -> dict[str, str]:
        """Say that the dispatcher works; while its engine is lost, jobs are kept."""
        return {"status": "engine lost" if dispatcher.lost else "ok"}

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}, **problem_responses()})
    async def get_metrics() -> Response:
        """Return all counts, for Prometheus."""
        return Response(metrics.to_bytes(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        """Return the OpenAPI description."""
        found = app.openapi()
        shape = Request.model_json_schema(ref_template="#/components/schemas/{model}")
        found["components"]["schemas"].setdefault("JobRequest", shape)
        return _json(found)


def _listed(dispatcher: Dispatcher, most: int) -> dict[str, Any]:
    found = [job.to_json() for job in dispatcher.unfinished(most)]
    return {"jobs": found, "n_waiting": dispatcher.status().n_waiting}


def _found(dispatcher: Dispatcher, job_id: str) -> dict[str, Any]:
    found = dispatcher.describe(job_id)
    if found is None:
        raise ProblemError(NOT_FOUND, f"there is no job {job_id[:100]!r}")
    return found


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(value), status, headers, JSON)
