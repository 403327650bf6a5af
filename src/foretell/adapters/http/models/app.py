"""The routes of the application; workers and the queue of fits do the work."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response

from foretell._version import __version__
from foretell.adapters.http.models import schemas
from foretell.adapters.http.models.fits.queue import FitQueue
from foretell.adapters.http.models.fits.records import Record
from foretell.adapters.http.models.metrics import ModelMetrics
from foretell.adapters.http.models.settings import Settings
from foretell.adapters.http.models.workers.pool import Pool
from foretell.adapters.http.page import add_page
from foretell.adapters.http.server.api import (
    CSV,
    JSON,
    make_api,
    problem_responses,
    request_body,
    require_media_type,
    responses,
)
from foretell.adapters.http.server.guard import Guard

#: Paths that need no token: none of them shows anything about models.
_OPEN = {"/", "/health", "/docs", "/openapi.json"}
_OPEN_FOLDER = "/page/"

Interval = Annotated[
    float, Query(gt=0, lt=1, description="The share of runs that the interval should hold.")
]


def make_app(settings: Settings) -> Guard:
    """Make the application of one server; its workers start when it does."""
    metrics = ModelMetrics()
    pool, fits = Pool(settings), FitQueue(settings, metrics)
    metrics.watch(pool)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await pool.start()
            await fits.start()
            yield
        finally:
            await fits.close()
            await pool.close()

    app = make_api(
        "How long a job will take and how much energy it will use, before it runs.",
        lifespan,
        docs="/docs",
    )
    _add_models(app, pool)
    _add_answers(app, pool, metrics)
    _add_fits(app, fits, settings)
    _add_state(app, pool, fits, metrics, settings)
    add_page(app)
    return Guard(app, settings.access, settings.requests, metrics, is_open=_is_open)


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith(_OPEN_FOLDER)


def _add_models(app: FastAPI, pool: Pool) -> None:
    @app.get("/models", responses=responses(schemas.Models))
    async def list_models() -> Response:
        """List the models that are there now."""
        return _response(*await pool.ask({"do": "list"}, may_take_long=True))

    @app.get("/models/{name}", responses=responses(schemas.Model, 404))
    async def describe_model(name: str) -> Response:
        """Describe a model: its target, its columns, and how far off it was."""
        return _response(*await pool.ask({"do": "describe", "name": name}))

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        """Return the OpenAPI description, to which a worker adds the shapes of bodies."""
        _, content = await pool.ask({"do": "schemas"})
        description = app.openapi()
        described = description["components"]["schemas"]
        for name, shape in json.loads(content).items():
            described.setdefault(name, shape)
        return Response(json.dumps(description), media_type=JSON)


def _add_answers(app: FastAPI, pool: Pool, metrics: ModelMetrics) -> None:
    @app.post(
        "/models/{name}/predict",
        responses=responses(schemas.Predictions, 404, 415, csv=True),
        openapi_extra=request_body("Rows", csv="A header and one row per configuration."),
    )
    async def predict(name: str, request: Request, interval: Interval = 0.9) -> Response:
        """Predict rows, sent as JSON or CSV; with `Accept: text/csv` the answer is CSV."""
        asked = {
            "do": "predict",
            "name": name,
            "interval": interval,
            "media_type": require_media_type(request, JSON, CSV),
            "as_csv": CSV in request.headers.get("accept", ""),
        }
        answer, content = await pool.ask(asked, await request.body())
        metrics.rows.inc(answer.get("n_rows", 0))
        return _response(answer, content)

    @app.post(
        "/models/{name}/curve",
        responses=responses(schemas.Curve, 404, 415),
        openapi_extra=request_body("CurveRequest"),
    )
    async def curve(name: str, request: Request) -> Response:
        """Predict along one numeric column, inside the measured range and beyond."""
        require_media_type(request, JSON)
        return _response(*await pool.ask({"do": "curve", "name": name}, await request.body()))

    @app.post(
        "/models/{name}/plan",
        responses=responses(schemas.Plan, 404, 415),
        openapi_extra=request_body("PlanBody"),
    )
    async def plan(name: str, request: Request) -> Response:
        """Choose the configuration to use, under limits that hold with a stated probability."""
        require_media_type(request, JSON)
        asked = {"do": "plan", "name": name}
        return _response(*await pool.ask(asked, await request.body(), may_take_long=True))


def _add_fits(app: FastAPI, fits: FitQueue, settings: Settings) -> None:
    longest_s = settings.limits.fit_s

    @app.post(
        "/fit",
        status_code=202,
        responses=responses(schemas.Job, 409, 415, status=202),
        openapi_extra=request_body(None, csv="A table of runs: a header and one row per run."),
    )
    async def fit(
        request: Request,
        name: Annotated[str, Query(description="The name of the new model.")],
        target: Annotated[str, Query(description="The column to predict.", min_length=1)],
        seed: Annotated[int | None, Query(ge=0, lt=2**32)] = None,
        time_limit_s: Annotated[float | None, Query(gt=0)] = None,
        replace: Annotated[
            bool, Query(description="Whether to replace the model of this name, if there is one.")
        ] = False,
    ) -> Response:
        """Fit a model to a table of runs, as a job."""
        require_media_type(request, CSV)
        asked = {
            "name": name,
            "target": target,
            "seed": seed,
            "time_limit_s": min(time_limit_s or longest_s, longest_s),
            "replace": replace,
        }
        job = await fits.add(asked, await request.body())
        return _job_response(job, 202, {"Location": f"/jobs/{job.id}"})

    @app.get("/jobs", responses=responses(schemas.Jobs))
    async def list_jobs() -> schemas.Jobs:
        """List the fits, the latest first."""
        return schemas.Jobs(jobs=list[schemas.Job](fits.all()))

    @app.get("/jobs/{job_id}", responses=responses(schemas.Job, 404))
    async def job(job_id: str) -> Response:
        """Show the state and the progress of a fit."""
        return _job_response(fits.get(job_id))

    @app.delete("/jobs/{job_id}", responses=responses(schemas.Job, 404, 409))
    async def cancel_job(job_id: str) -> Response:
        """Cancel a fit that waits or runs."""
        return _job_response(fits.cancel(job_id))


def _add_state(
    app: FastAPI, pool: Pool, fits: FitQueue, metrics: ModelMetrics, settings: Settings
) -> None:
    @app.get("/health", responses=responses(schemas.Health))
    async def health() -> schemas.Health:
        """Show the state of the server, for load balancers."""
        return schemas.Health(
            status="ok" if pool.n_alive == settings.limits.n_workers else "degraded",
            version=__version__,
            n_workers=pool.n_alive,
            needs_token=settings.access.token is not None,
            is_read_only=fits.is_read_only,
        )

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}, **problem_responses()})
    async def get_metrics() -> Response:
        """Return all counts, for Prometheus."""
        return Response(metrics.to_bytes(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _response(answer: Mapping[str, Any], content: bytes) -> Response:
    return Response(content, answer["status"], media_type=answer["media_type"])


def _job_response(
    record: Record, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    shown = record.model_dump_json(include=set(schemas.Job.model_fields))
    return Response(shown, status, headers, JSON)
