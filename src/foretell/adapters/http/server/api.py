"""A FastAPI application whose errors are problems and whose query parameters are strict."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from foretell._version import __version__
from foretell.adapters.http.server import problems
from foretell.adapters.http.server.input_errors import describe_parameter
from foretell.adapters.http.server.problems import Problem, ProblemError
from foretell.errors import Option, suggest

JSON, CSV = "application/json", "text/csv"
_PROBLEM = {
    "description": "A problem",
    "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
#: The statuses that any route may answer with.
_ANY_ROUTE = (401, 403, 408, 413, 421, 422, 431, 500, 503, 504)

Responses = dict[int | str, dict[str, Any]]


def make_api(summary: str, lifespan: Any, *, docs: str = "") -> FastAPI:
    """Make an application without routes; ``docs`` is the path of its documentation, if any."""
    hint = f"; see {docs}" if docs else ""
    app = FastAPI(
        title="foretell",
        version=__version__,
        summary=summary,
        lifespan=lifespan,
        dependencies=[Depends(_refuse_unknown_parameters)],
        openapi_url=None,
        docs_url=None,  # FastAPI's page loads scripts from another site
        redoc_url=None,
        redirect_slashes=False,
    )

    @app.exception_handler(ProblemError)
    async def on_problem(_: Request, error: ProblemError) -> Response:
        return error.response()

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        texts = {
            404: f"there is nothing at {request.url.path[:200]}{hint}",
            405: f"{request.method[:20]} is not supported here{hint}",
        }
        text = texts.get(error.status_code, str(error.detail))
        otherwise = problems.INTERNAL if error.status_code >= 500 else problems.WRONG_INPUT
        kind = problems.BY_STATUS.get(error.status_code, otherwise)
        return ProblemError(kind, text, headers=error.headers).response()

    @app.exception_handler(RequestValidationError)
    async def on_wrong_parameter(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        option = Option(str(first["loc"][-1]))
        text = describe_parameter(first)
        return ProblemError(problems.WRONG_INPUT, text, option=option).response()

    @app.exception_handler(ClientDisconnect)
    async def on_disconnect(_: Request, __: ClientDisconnect) -> Response:
        """Count the request; the client is gone and does not read this answer."""
        text = "the client left before its request was complete"
        return ProblemError(problems.MALFORMED, text).response()

    @app.exception_handler(Exception)
    async def on_failure(_: Request, __: Exception) -> Response:
        return ProblemError(problems.INTERNAL, "the request failed; see the log").response()

    return app


async def _refuse_unknown_parameters(request: Request) -> None:
    """Refuse query parameters that a route does not have, and those given twice."""
    route = request.scope["route"]
    if not isinstance(route, APIRoute) or not route.include_in_schema:
        return  # files of the page may be asked for with anything
    known = [str(parameter.alias) for parameter in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            hint = suggest(name[:100], known) if known else "This path has no parameters."
            raise ProblemError(
                problems.WRONG_INPUT,
                f"unknown query parameter {name[:100]!r}. {hint}",
                option=Option(name[:100]),
            )
        if len(request.query_params.getlist(name)) > 1:
            raise ProblemError(
                problems.WRONG_INPUT, "is given more than once; give it once", option=Option(name)
            )


def require_media_type(request: Request, *known: str) -> str:
    """Return the content type of a request; raise a problem when it is not a known one."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in known:
        came = f", not {given[:100]!r}" if given else ""
        raise ProblemError(
            problems.MEDIA_TYPE_UNKNOWN,
            f"the body must be {' or '.join(known)}{came}; say which in the header Content-Type",
        )
    return given


def responses(model: type, *statuses: int, status: int = 200, csv: bool = False) -> Responses:
    """Describe what a route answers: a model, or problems with some statuses."""
    answer: dict[str, Any] = {"model": model}
    if csv:
        answer["content"] = {CSV: {"schema": {"type": "string"}}}
    return {status: answer, **problem_responses(*statuses)}


def problem_responses(*statuses: int) -> Responses:
    """Describe the problems that a route may answer with, besides those of every route."""
    return {code: {**_PROBLEM, "model": Problem} for code in sorted({*_ANY_ROUTE, *statuses})}


def request_body(model: str | None, csv: str | None = None) -> dict[str, Any]:
    """Describe a body that the application reads itself, by the name of its schema."""
    content: dict[str, Any] = {}
    if model is not None:
        content[JSON] = {"schema": {"$ref": f"#/components/schemas/{model}"}}
    if csv is not None:
        content[CSV] = {"schema": {"type": "string", "description": csv}}
    return {"requestBody": {"required": True, "content": content}}
