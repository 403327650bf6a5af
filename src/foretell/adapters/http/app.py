"""The application: routes, thin ones; what they answer is worked out by the pool and the jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from foretell._version import __version__
from foretell.adapters.http import schemas
from foretell.adapters.http.guard import Guard
from foretell.adapters.http.jobs import Jobs
from foretell.adapters.http.metrics import Metrics
from foretell.adapters.http.page import add_page
from foretell.adapters.http.pool import Pool
from foretell.adapters.http.problems import MEDIA_TYPE, ProblemError, problem_of_status
from foretell.adapters.http.settings import Settings
from foretell.files.complaints import dotted

_CSV, _JSON = "text/csv", "application/json"
_PROBLEM = {
    "description": "A problem",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
#: What any route may answer, besides what it is for.
_ANY = (401, 403, 408, 413, 421, 422, 500, 503, 504)
Interval = Annotated[
    float, Query(gt=0, lt=1, description="The share of runs that the interval is to hold.")
]


def make_app(settings: Settings) -> Guard:
    """Make the application of one server; it starts its workers when it is started."""
    metrics = Metrics()
    pool, jobs = Pool(settings), Jobs(settings, metrics)
    metrics.watch(pool)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await pool.start()
            await jobs.start()
            yield
        finally:
            await jobs.close()
            await pool.close()

    app = FastAPI(
        title="foretell",
        version=__version__,
        summary="How long a job will take, and how much energy it will burn, before it runs.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,  # that page loads scripts from elsewhere; ours is in page/
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_models(app, pool)
    _add_questions(app, pool, metrics)
    _add_fits(app, jobs, settings)
    _add_state(app, pool, jobs, metrics, settings)
    add_page(app)
    _add_problems(app)
    return Guard(app, settings, metrics)


def _add_models(app: FastAPI, pool: Pool) -> None:
    @app.get("/models", responses=_answers(schemas.Models))
    async def list_models() -> Response:
        """List the models that are there now."""
        return _response(*await pool.ask({"do": "list"}, may_take_long=True))

    @app.get("/models/{name}", responses=_answers(schemas.Model, 404))
    async def describe_model(name: str) -> Response:
        """Tell what a model predicts, from which columns, and how far off it was."""
        return _response(*await pool.ask({"do": "describe", "name": name}))

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        """Return the description, to which a worker adds the shapes of bodies."""
        _, content = await pool.ask({"do": "schemas"})
        description = app.openapi()
        described = description["components"]["schemas"]
        for name, shape in json.loads(content).items():
            described.setdefault(name, shape)
        return Response(json.dumps(description), media_type=_JSON)


def _add_questions(app: FastAPI, pool: Pool, metrics: Metrics) -> None:
    @app.post(
        "/models/{name}/predict",
        responses=_answers(schemas.Predictions, 404, 415, csv=True),
        openapi_extra=_body("Rows", csv="A header and one row per configuration."),
    )
    async def predict(name: str, request: Request, interval: Interval = 0.9) -> Response:
        """Predict rows, given as JSON or CSV; with `Accept: text/csv` the answer is CSV, too."""
        asked = {
            "do": "predict",
            "name": name,
            "interval": interval,
            "media_type": _media_type(request, _JSON, _CSV),
            "as_csv": _CSV in request.headers.get("accept", ""),
        }
        answer, content = await pool.ask(asked, await request.body())
        metrics.rows.inc(answer["n_rows"])
        return _response(answer, content)

    @app.post(
        "/models/{name}/curve",
        responses=_answers(schemas.Curve, 404, 415),
        openapi_extra=_body("CurveRequest"),
    )
    async def curve(name: str, request: Request) -> Response:
        """Predict along one numeric column, over what was measured and beyond."""
        _media_type(request, _JSON)
        return _response(*await pool.ask({"do": "curve", "name": name}, await request.body()))

    @app.post(
        "/models/{name}/plan",
        responses=_answers(schemas.Plan, 404, 415),
        openapi_extra=_body("PlanBody"),
    )
    async def plan(name: str, request: Request) -> Response:
        """Choose the configuration to use, under limits that hold with a stated probability."""
        _media_type(request, _JSON)
        asked = {"do": "plan", "name": name}
        return _response(*await pool.ask(asked, await request.body(), may_take_long=True))


def _add_fits(app: FastAPI, jobs: Jobs, settings: Settings) -> None:
    longest_s = settings.limits.fit_s

    @app.post(
        "/fit",
        status_code=202,
        responses=_answers(schemas.Job, 409, 415, status=202),
        openapi_extra=_body(None, csv="A table of runs: a header and one row per run."),
    )
    async def fit(
        request: Request,
        name: Annotated[str, Query(description="What the new model is to be called.")],
        target: Annotated[str, Query(description="The column to predict.", min_length=1)],
        seed: Annotated[int | None, Query(ge=0, lt=2**32)] = None,
        time_limit_s: Annotated[float | None, Query(gt=0)] = None,
        replace: Annotated[bool, Query(description="Whether to replace a model.")] = False,
    ) -> Response:
        """Fit a model to a table of runs, as a job."""
        _media_type(request, _CSV)
        asked = {
            "name": name,
            "target": target,
            "seed": seed,
            "time_limit_s": min(time_limit_s or longest_s, longest_s),
            "replace": replace,
        }
        job = await jobs.add(asked, await request.body())
        return _job_response(job, 202, {"Location": f"/jobs/{job.id}"})

    @app.get("/jobs", responses=_answers(schemas.Jobs))
    async def list_jobs() -> schemas.Jobs:
        """List the fits, the latest first."""
        return schemas.Jobs(jobs=[schemas.Job(**dict(j)) for j in jobs.all()])

    @app.get("/jobs/{job_id}", responses=_answers(schemas.Job, 404))
    async def job(job_id: str) -> Response:
        """Tell how far a fit is."""
        return _job_response(jobs.get(job_id))

    @app.delete("/jobs/{job_id}", responses=_answers(schemas.Job, 404, 409))
    async def cancel_job(job_id: str) -> Response:
        """Cancel a fit that waits or runs."""
        return _job_response(jobs.cancel(job_id))


def _add_state(app: FastAPI, pool: Pool, jobs: Jobs, metrics: Metrics, settings: Settings) -> None:
    @app.get("/health", responses=_answers(schemas.Health))
    async def health() -> schemas.Health:
        """Tell whether the server is well."""
        return schemas.Health(
            status="ok" if pool.n_alive == settings.limits.n_workers else "degraded",
            version=__version__,
            n_workers=pool.n_alive,
            needs_token=settings.token is not None,
            is_read_only=jobs.is_read_only,
        )

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}, **_problems()})
    async def get_metrics() -> Response:
        """Tell what was counted, for Prometheus."""
        return Response(metrics.to_bytes(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(ProblemError)
    async def problem(_: Request, error: ProblemError) -> Response:
        return _problem_response(error)

    @app.exception_handler(HTTPException)
    async def http_problem(request: Request, error: HTTPException) -> Response:
        details = {404: f"there is nothing at {request.url.path[:200]}; see /docs",
                   405: f"{request.method[:20]} is not done here; see /docs"}  # fmt: skip
        found = problem_of_status(
            error.status_code, details.get(error.status_code, str(error.detail))
        )
        found.headers = dict(error.headers or {})
        return _problem_response(found)

    @app.exception_handler(RequestValidationError)
    async def wrong_input(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = dotted(first["loc"][1:])
        return _problem_response(ProblemError("wrong-input", f"{place}: {first['msg']}"))

    @app.exception_handler(Exception)
    async def mistake(_: Request, __: Exception) -> Response:
        return _problem_response(ProblemError("internal", "the request could not be answered"))


def _media_type(request: Request, *known: str) -> str:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in known:
        raise ProblemError(
            "media-type", f"send {' or '.join(known)}, and say so in the header Content-Type"
        )
    return given


def _response(answer: Mapping[str, Any], content: bytes) -> Response:
    return Response(content, answer["status"], media_type=answer["media_type"])


def _job_response(job: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    told = schemas.Job(**{name: getattr(job, name) for name in schemas.Job.model_fields})
    return Response(told.model_dump_json(), status, headers, _JSON)


def _problem_response(problem: ProblemError) -> Response:
    return Response(problem.to_bytes(), problem.status, problem.headers, MEDIA_TYPE)


def _answers(
    model: type, *statuses: int, status: int = 200, csv: bool = False
) -> dict[int | str, dict[str, Any]]:
    answer: dict[str, Any] = {"model": model}
    if csv:
        answer["content"] = {_CSV: {"schema": {"type": "string"}}}
    return {status: answer, **_problems(*statuses)}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {code: {**_PROBLEM, "model": schemas.Problem} for code in sorted({*_ANY, *statuses})}


def _body(model: str | None, csv: str | None = None) -> dict[str, Any]:
    """Describe a body that a worker reads; the worker knows its shape."""
    content: dict[str, Any] = {}
    if model is not None:
        content[_JSON] = {"schema": {"$ref": f"#/components/schemas/{model}"}}
    if csv is not None:
        content[_CSV] = {"schema": {"type": "string", "description": csv}}
    return {"requestBody": {"required": True, "content": content}}
