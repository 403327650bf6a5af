"""The desk: what a worker does with a request about models, from bytes to bytes."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import pandas as pd
import pydantic

from foretell.adapters.http.curve import curve_of
from foretell.adapters.http.frames import Message
from foretell.adapters.http.passports import passports
from foretell.adapters.http.planning import plan_of, read_plan_body, request_schemas
from foretell.adapters.http.problems import ProblemError
from foretell.adapters.http.schemas import CurveRequest, Rows
from foretell.adapters.http.shelf import MOST_NAMES, Shelf
from foretell.dataset import Dataset, TextTable
from foretell.errors import ForetellError, UsageError
from foretell.files.complaints import dotted
from foretell.model.saved.model import Configurations, SavedModel
from foretell.predictor import FORECAST_COLUMNS, Forecast

Asked = TypeVar("Asked", bound=pydantic.BaseModel)
_ALTERNATIVES = ("bool", "int", "float", "str")
_MOST_DETAIL = 2_000  # characters, of what may quote a hostile table


class Desk:
    """Answers requests; whatever is wrong with one becomes a problem, and the next one is read."""

    def __init__(self, shelf: Shelf, most_rows: int) -> None:
        self._shelf = shelf
        self._most_rows = most_rows
        self._described: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._verbs: dict[str, Callable[[dict[str, Any], bytes], Message]] = {
            "list": self._list,
            "describe": self._describe,
            "predict": self._predict,
            "curve": self._curve,
            "plan": self._plan,
            "schemas": lambda *_: _json(request_schemas()),
        }

    def answer(self, header: dict[str, Any], body: bytes) -> Message:
        """Answer one request."""
        try:
            return self._verbs[header["do"]](header, body)
        except ProblemError as problem:
            return _problem(problem)
        except ForetellError as error:
            return _problem(ProblemError("wrong-input", str(error)[:_MOST_DETAIL]))
        except MemoryError:
            return _problem(ProblemError("too-large", "that needs more memory than there is"))
        except RecursionError:
            return _problem(ProblemError("wrong-input", "the request nests too deeply"))
        except Exception:  # a mistake of ours must not end the worker
            traceback.print_exc(file=sys.stderr)
            return _problem(ProblemError("internal", "the request could not be answered"))

    def _list(self, _: dict[str, Any], __: bytes) -> Message:
        return _json({"models": [self._entry(name) for name in self._shelf.names()]})

    def _entry(self, name: str) -> dict[str, Any]:
        try:
            return self._description(name)
        except ProblemError as problem:
            return {"name": name, "problem": problem.detail}

    def _describe(self, header: dict[str, Any], _: bytes) -> Message:
        return _json(self._description(header["name"]))

    def _description(self, name: str) -> dict[str, Any]:
        identity = self._shelf.identity(name)
        if self._described.get(name, (None,))[0] != identity:
            if len(self._described) > MOST_NAMES:
                self._described.clear()
            self._described[name] = identity, _description(name, self._shelf.model(name))
        return self._described[name][1]

    def _predict(self, header: dict[str, Any], body: bytes) -> Message:
        name, interval = header["name"], header["interval"]
        model = self._shelf.model(name)
        if header["media_type"] == "text/csv":
            table = model.configurations(TextTable(body, "the table"))
            self._refuse_many(len(table.frame))
        else:
            rows = _read(Rows, body).rows
            self._refuse_many(len(rows))
            if len(rows) == 1 and not header["as_csv"]:
                return _predictions(name, model, interval, model.forecast_row(rows[0], interval))
            table = model.configurations(Dataset(pd.DataFrame(rows), "the rows"))
        forecast = model.forecast(table, interval)
        return (
            _csv(table, forecast)
            if header["as_csv"]
            else _predictions(name, model, interval, forecast)
        )

    def _refuse_many(self, n_rows: int) -> None:
        if n_rows > self._most_rows:
            raise ProblemError(
                "too-large",
                f"{n_rows:,} rows came, and at most {self._most_rows:,} are predicted at once; "
                "send them in parts",
            )

    def _curve(self, header: dict[str, Any], body: bytes) -> Message:
        name = header["name"]
        model = self._shelf.model(name)
        return _json({"model": name, **curve_of(model, _read(CurveRequest, body))})

    def _plan(self, header: dict[str, Any], body: bytes) -> Message:
        name = header["name"]
        more, request = read_plan_body(body)
        models = [self._shelf.model(n) for n in (name, *more)]
        return _json({"model": name, **plan_of(models, request)})


def _description(name: str, model: SavedModel) -> dict[str, Any]:
    columns = []
    for column in model.feature_map.columns:
        low, high = model.ranges.get(column.name, (None, None))
        levels = list(column.levels) or model.levels.get(column.name, [])
        columns.append(
            {"name": column.name, "kind": column.kind, "low": low, "high": high, "levels": levels}
        )
    return {
        "name": name,
        "target": model.target,
        "technique": model.technique,
        "n_rows": model.n_rows,
        "columns": columns,
        "errors": model.scores,
        "has_intervals": model.calibration is not None,
        "formula": model.formula,
    }


def _read(kind: type[Asked], body: bytes) -> Asked:
    try:
        return kind.model_validate_json(body)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place, rule = first["loc"], first["msg"]
        if place[-1:] and place[-1] in _ALTERNATIVES:  # of the values that a column may have
            place, rule = place[:-1], "a value is a number, a text, true or false"
        where = dotted(place)[:_MOST_DETAIL]
        raise ProblemError("wrong-input", f"{where}: {rule}") from None


def _predictions(name: str, model: SavedModel, interval: float, forecast: Forecast) -> Message:
    answer = {
        "model": name,
        "target": model.target,
        "interval": interval,
        "predictions": passports(forecast),
    }
    return _json(answer, n_rows=len(forecast.value))


def _csv(table: Configurations, forecast: Forecast) -> Message:
    for name in FORECAST_COLUMNS:
        if name in table.frame.columns:
            raise UsageError(f"{table.name} has a column '{name}' already; rename or remove it")
    joined = table.frame.reset_index(drop=True).join(forecast.to_frame())
    answer = {"status": 200, "media_type": "text/csv", "n_rows": len(joined)}
    return answer, joined.to_csv(index=False).encode()


def _json(value: dict[str, Any], **more: Any) -> Message:
    content = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return {"status": 200, "media_type": "application/json", **more}, content


def _problem(problem: ProblemError) -> Message:
    return {"problem": problem.kind}, problem.detail.encode()
