"""Whatever comes to the desk, an answer or a problem of the client leaves it."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foretell.adapters.http.desk import Desk
from foretell.adapters.http.problems import KINDS
from foretell.adapters.http.shelf import Shelf

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
def desk(fitted):
    return Desk(Shelf(fitted), most_rows=1000)


def check(answer):
    header, content = answer
    if "problem" in header:
        assert KINDS[header["problem"]][0] < 500, content
    else:
        assert header["status"] == 200
        if header["media_type"] == "application/json":
            json.loads(content, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def ask(desk, verb, body, **more):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    check(desk.answer({"do": verb, "name": "sort", **more}, content))


@SMALL
@given(st.lists(ROW, max_size=3), st.booleans(), st.floats(0.01, 0.99))
def test_rows_of_anything(desk, rows, as_csv, interval):
    options = {"media_type": "application/json", "as_csv": as_csv, "interval": interval}
    ask(desk, "predict", {"rows": rows}, **options)


@SMALL
@given(st.binary(max_size=60), st.sampled_from(["application/json", "text/csv"]), st.booleans())
def test_bytes_of_any_kind(desk, body, media_type, as_csv):
    ask(desk, "predict", body, media_type=media_type, as_csv=as_csv, interval=0.9)
    ask(desk, "predict", b"size,nodes,machine,is_big\n" + body, media_type="text/csv",
        as_csv=as_csv, interval=0.9)  # fmt: skip
    ask(desk, "curve", body)
    ask(desk, "plan", body)


@SMALL
@given(ROW, st.sampled_from([*COLUMNS, "no"]), st.integers(2, 30), st.floats(1, 100))
def test_curves_of_anything(desk, row, column, n_points, beyond):
    ask(desk, "curve", {"row": row, "column": column, "n_points": n_points, "beyond": beyond})


@SMALL
@given(PLAN | ANYTHING)
def test_plans_of_anything(desk, plan):
    ask(desk, "plan", plan)


@SMALL
@given(st.text(max_size=20))
def test_names_of_any_kind(desk, name):
    check(desk.answer({"do": "describe", "name": name}, b""))
