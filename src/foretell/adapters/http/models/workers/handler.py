"""The request handler of a worker: from the bytes of a request to the bytes of its answer."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pandas as pd
import pydantic
from pydantic.json_schema import models_json_schema

from foretell.adapters.http.models.answers import (
    curve_of,
    describe,
    passports,
    read_runs,
    refuse_flags,
    runs_along,
)
from foretell.adapters.http.models.schemas import CurveRequest, Rows
from foretell.adapters.http.models.store import MAX_NAMES, ModelStore
from foretell.adapters.http.models.workers.process import Message
from foretell.adapters.http.server.input_errors import read_body
from foretell.adapters.http.server.problems import (
    INTERNAL,
    MEDIA_TYPE,
    TOO_LARGE,
    WRONG_INPUT,
    ProblemError,
    in_json,
)
from foretell.dataset import Dataset, TextTable
from foretell.decide.plan.plan import make_plan
from foretell.decide.question.objective import PlanRequest
from foretell.errors import ForetellError
from foretell.model.saved.model import SavedModel
from foretell.model.saved.usable_rows import cells_as_given, forecast_usable_rows
from foretell.predictor import Forecast

_Header = dict[str, Any]
_MAX_MODELS = 5


class PlanBody(PlanRequest):
    """What to choose from, the limits, and what to minimize.

    ``models`` names further models, of energy or memory, that predict the same configurations.
    """

    models: list[str] = pydantic.Field(default=[], max_length=_MAX_MODELS)


class RequestHandler:
    """Answers requests; every error becomes a problem, so that the next request is answered."""

    def __init__(self, store: ModelStore, max_rows: int) -> None:
        self._store = store
        self._max_rows = max_rows
        self._descriptions: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._last_runs: tuple[Any, pd.DataFrame | None] = None, None
        self._actions: dict[str, Callable[[_Header, bytes], Message]] = {
            "list": self._list,
            "describe": self._describe,
            "predict": self._predict,
            "curve": self._curve,
            "plan": self._plan,
            "schemas": _schemas,
        }

    def answer(self, header: _Header, body: bytes) -> Message:
        """Answer one request."""
        try:
            return self._actions[header["do"]](header, body)
        except ProblemError as problem:
            return _problem(problem)
        except ForetellError as error:
            return _problem(ProblemError.of(error))
        except MemoryError:
            return _problem(
                ProblemError(TOO_LARGE, "the request needs more memory than there is; ask for less")
            )
        except RecursionError:
            return _problem(ProblemError(WRONG_INPUT, "the request is nested too deeply"))
        except Exception:  # a bug must not end the worker; its traceback goes to the log alone
            traceback.print_exc(file=sys.stderr)
            return _problem(ProblemError(INTERNAL, "the request failed; see the server's log"))

    def _list(self, _: _Header, __: bytes) -> Message:
        return _json({"models": [self._entry(name) for name in self._store.names()]})

    def _entry(self, name: str) -> dict[str, Any]:
        try:
            return self._description(name)
        except ProblemError as problem:
            return {"name": name, "problem": problem.to_problem().detail}

    def _describe(self, header: _Header, _: bytes) -> Message:
        return _json(self._description(header["name"]))

    def _description(self, name: str) -> dict[str, Any]:
        identity = self._store.identity(name)
        if self._descriptions.get(name, (None,))[0] != identity:
            if len(self._descriptions) > MAX_NAMES:
                self._descriptions.clear()
            self._descriptions[name] = identity, describe(name, self._store.model(name))
        return self._descriptions[name][1]

    def _predict(self, header: _Header, body: bytes) -> Message:
        name, interval = header["name"], header["interval"]
        model = self._store.model(name)
        source = None
        if header["media_type"] == "text/csv":
            source = TextTable(body, "the table")
            table = model.configurations(source)
            self._check_count(len(table.frame))
        else:
            rows = read_body(Rows, body).rows
            self._check_count(len(rows))
            refuse_flags(model, rows)
            if len(rows) == 1 and not header["as_csv"]:
                return _predictions(name, model, interval, model.forecast_row(rows[0], interval))
            table = model.configurations(Dataset(pd.DataFrame(rows), "the rows"))
        forecast = forecast_usable_rows(table, interval)
        if not header["as_csv"]:
            return _predictions(name, model, interval, forecast)
        cells = cells_as_given(source, table)
        content = forecast.beside(cells, table.name).to_csv(index=False).encode()
        return {"status": 200, "media_type": "text/csv", "n_rows": len(cells)}, content

    def _check_count(self, n_rows: int) -> None:
        if n_rows > self._max_rows:
            raise ProblemError(
                TOO_LARGE,
                f"{n_rows:,} rows are too many; at most {self._max_rows:,} are predicted at once, "
                "so send them in parts",
            )

    def _curve(self, header: _Header, body: bytes) -> Message:
        name = header["name"]
        model, asked = self._store.model(name), read_body(CurveRequest, body)
        curve = curve_of(model, asked)
        runs = runs_along(model, self._runs(name), asked.row, asked.column)
        return _json({"model": name, **curve, "runs": runs})

    def _runs(self, name: str) -> pd.DataFrame | None:
        """Return the runs behind a model; those of the model asked for last are kept."""
        identity = self._store.identity(name)
        if self._last_runs[0] != identity:
            found = read_runs(self._store.model(name), self._store.runs(name))
            self._last_runs = identity, found
        return self._last_runs[1]

    def _plan(self, header: _Header, body: bytes) -> Message:
        name = header["name"]
        request = read_body(PlanBody, body)
        models = [self._store.model(n) for n in (name, *request.models)]
        return _json({"model": name, **make_plan(models, request).to_json(in_json)})


def _schemas(_: _Header, __: bytes) -> Message:
    """Describe the bodies that workers read, for the OpenAPI description of the server."""
    bodies: list[Any] = [(kind, "validation") for kind in (Rows, CurveRequest, PlanBody)]
    found = models_json_schema(bodies, ref_template="#/components/schemas/{model}")[1]
    return _json(found["$defs"])


def _predictions(name: str, model: SavedModel, interval: float, forecast: Forecast) -> Message:
    answer = {
        "model": name,
        "target": model.target,
        "interval": interval,
        "predictions": passports(forecast),
    }
    return _json(answer, n_rows=len(forecast.value))


def _json(value: dict[str, Any], **more: Any) -> Message:
    content = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return {"status": 200, "media_type": "application/json", **more}, content


def _problem(problem: ProblemError) -> Message:
    return {"status": problem.kind.status, "media_type": MEDIA_TYPE}, problem.to_bytes()
