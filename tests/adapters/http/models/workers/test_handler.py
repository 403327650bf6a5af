"""Whatever a request holds, the handler answers it, or says what is wrong with it."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foretell.adapters.http.models.store import ModelStore
from foretell.adapters.http.models.workers.handler import RequestHandler

SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 100),
    st.floats(),
    st.floats(1e-3, 1e3),
    st.text(max_size=5),
    st.sampled_from(["m4", "c4", "1h", "nodes", "nodes * 2", "9**9**9", "size <= 40"]),
)
ANYTHING = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
COLUMNS = ("size", "nodes", "machine", "is_big")
ROW = st.fixed_dictionaries({}, optional=dict.fromkeys((*COLUMNS, "trust", "more"), SCALAR))
RANGE = st.fixed_dictionaries(
    {"from": SCALAR, "to": SCALAR}, optional={"step": SCALAR, "n": SCALAR, "factor": SCALAR}
)
FEW = st.dictionaries(st.sampled_from(COLUMNS), st.lists(SCALAR, max_size=3) | RANGE, max_size=2)
PRICES = st.fixed_dictionaries(
    {},
    optional={
        "price_per_hour": SCALAR,
        "nodes": SCALAR,
        "by": st.sampled_from([*COLUMNS, "no"]),
        "machines": st.dictionaries(st.text(max_size=2), ANYTHING, max_size=2),
        "start_up_s": SCALAR,
    },
)
PLAN = st.fixed_dictionaries(
    {"vary": FEW | ANYTHING, "fix": ROW | ANYTHING},
    optional={
        "only": st.lists(SCALAR, max_size=2),
        "most": ROW,
        "minimize": st.sampled_from(["time", "cost", "energy", "x"]),
        "confidence": SCALAR,
        "risk": SCALAR | st.sampled_from(["cautious", "bold"]),
        "deadline": SCALAR,
        "budget": SCALAR,
        "max_energy": SCALAR,
        "prices": PRICES,
        "models": st.lists(st.sampled_from(["sort", "plain", "no"]), max_size=2),
    },
)
SMALL = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def handler(fitted):
    return RequestHandler(ModelStore(fitted), max_rows=1000)


def check(answer):
    header, content = answer
    assert header["status"] < 500, content
    if header["media_type"] != "text/csv":
        json.loads(content, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def ask(handler, verb, body, **more):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    check(handler.answer({"do": verb, "name": "sort", **more}, content))


@SMALL
@given(st.lists(ROW, max_size=3), st.booleans(), st.floats(0.01, 0.99))
def test_rows_of_anything(handler, rows, as_csv, interval):
    options = {"media_type": "application/json", "as_csv": as_csv, "interval": interval}
    ask(handler, "predict", {"rows": rows}, **options)


@SMALL
@given(st.binary(max_size=60), st.sampled_from(["application/json", "text/csv"]), st.booleans())
def test_bytes_of_any_kind(handler, body, media_type, as_csv):
    ask(handler, "predict", body, media_type=media_type, as_csv=as_csv, interval=0.9)
    ask(handler, "predict", b"size,nodes,machine,is_big\n" + body, media_type="text/csv",
        as_csv=as_csv, interval=0.9)  # fmt: skip
    ask(handler, "curve", body)
    ask(handler, "plan", body)


@SMALL
@given(ROW, st.sampled_from([*COLUMNS, "no"]), st.integers(2, 30), st.floats(1, 100))
def test_curves_of_anything(handler, row, column, n_points, beyond):
    ask(handler, "curve", {"row": row, "column": column, "n_points": n_points, "beyond": beyond})


@SMALL
@given(PLAN | ANYTHING)
def test_plans_of_anything(handler, plan):
    ask(handler, "plan", plan)


@SMALL
@given(st.text(max_size=20))
def test_names_of_any_kind(handler, name):
    check(handler.answer({"do": "describe", "name": name}, b""))


class FailingStore:
    """A store whose models fail in a way that nobody foresaw."""

    def __init__(self, error):
        self.error = error

    def model(self, name):
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("No objects to concatenate in /secret/path"), 500),
        (ZeroDivisionError(), 500),
        (AssertionError(), 500),
        (MemoryError(), 413),
        (RecursionError(), 422),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unexpected_error_is_a_problem_without_a_traceback(fitted, capsys, error, status):
    failing = RequestHandler(FailingStore(error), max_rows=10)
    header, content = failing.answer({"do": "plan", "name": "sort"}, b"{}")
    problem = json.loads(content)
    assert header["status"] == problem["status"] == status
    assert "Traceback" not in content.decode() and "secret" not in content.decode()
    assert ("Traceback" in capsys.readouterr().err) == (status == 500)  # the log says where
