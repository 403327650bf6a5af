"""What is wrong with a request is said in one shape, and the next request is answered."""

import json

import pytest

ROW = {"size": 33, "nodes": 3, "machine": "m4", "is_big": True}
JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}
PREDICT = "/models/sort/predict"
FIXED = {"size": 40, "machine": "m4", "is_big": True}


@pytest.mark.parametrize(
    ("method", "path", "kind", "words"),
    [
        ("GET", "/nothing", "not-found", "/docs"),
        ("GET", "/models/", "not-found", "/models/"),
        ("PUT", "/models", "method", "PUT"),
        ("GET", PREDICT, "method", "GET"),
        ("GET", "/models/srt", "unknown-model", "Did you mean 'sort'?"),
        ("GET", "/jobs/none", "unknown-job", "none"),
        ("DELETE", "/jobs/none", "unknown-job", "none"),
        ("POST", PREDICT, "media-type", "application/json"),
        ("POST", "/models/sort/plan", "media-type", "application/json"),
    ],
)
def test_what_is_not_there_or_not_done(server, method, path, kind, words):
    found, detail = server.problem_of(server.client.request(method, path))
    assert found == kind
    assert words in detail


@pytest.mark.parametrize(
    ("row", "place", "words"),
    [
        ({"size": None}, "rows[0].size", "None"),
        ({**ROW, "size": []}, "rows[0].size", "[]"),
        ({**ROW, "size": True}, "rows[0].size", "must be a number, not true"),
        ({**ROW, "machine": "m4\0"}, "rows[0].machine", "NUL"),
    ],
)
def test_a_row_of_the_wrong_shape_is_refused_alone_and_among_others(server, row, place, words):
    alone = json.dumps({"rows": [row]})
    found, detail = server.problem_of(server.client.post(PREDICT, content=alone, headers=JSON))
    assert (found, place in detail, words in detail) == ("wrong-input", True, True), detail
    second = json.dumps({"rows": [ROW, row]})
    found, detail = server.problem_of(server.client.post(PREDICT, content=second, headers=JSON))
    assert found == "wrong-input"
    assert place.replace("[0]", "[1]") in detail, detail


@pytest.mark.parametrize(
    ("row", "column", "words", "trust"),
    [
        ({k: v for k, v in ROW.items() if k != "is_big"}, "is_big", "needs it", "missing"),
        ({**ROW, "size": "big"}, "size", "'big'", "invalid"),
        ({**ROW, "size": 10**400}, "size", "infinite", "invalid"),
        ({**ROW, "size": 0}, "size", "positive", "invalid"),
    ],
)
def test_a_wrong_value_is_refused_alone_and_marked_among_others(server, row, column, words, trust):
    alone = json.dumps({"rows": [row]})
    found, detail = server.problem_of(server.client.post(PREDICT, content=alone, headers=JSON))
    assert (found, f"column '{column}'" in detail, words in detail) == ("wrong-input", True, True)
    second = json.dumps({"rows": [ROW, row]})
    good, bad = server.client.post(PREDICT, content=second, headers=JSON).json()["predictions"]
    (expected,) = server.client.post(PREDICT, json={"rows": [ROW]}).json()["predictions"]
    assert good == pytest.approx(expected)
    assert (bad["value"], bad["trust"]) == (None, trust)
    assert column in bad["outside"]


def test_an_infinite_number_is_refused(server):
    content = json.dumps({"rows": [{**ROW, "size": float("inf")}]})
    found, detail = server.problem_of(server.client.post(PREDICT, content=content, headers=JSON))
    assert found == "wrong-input" and "size" in detail


def test_flags_are_refused_in_numeric_columns_of_curves_and_plans(server):
    body = {"row": {**ROW, "size": True}, "column": "nodes"}
    found, detail = server.problem_of(server.client.post("/models/sort/curve", json=body))
    assert found == "wrong-input" and "row.size" in detail
    for body, place in (
        ({"vary": {"nodes": [1, 2]}, "fix": {**FIXED, "size": True}}, "fix.size"),
        ({"vary": {"nodes": [2, True]}, "fix": FIXED}, "vary.nodes"),
    ):
        found, detail = server.problem_of(server.client.post("/models/sort/plan", json=body))
        assert found == "wrong-input" and place in detail


def test_no_text_with_a_nul_character_is_taken_for_a_known_level(server):
    body = {"vary": {"nodes": [1, 2]}, "fix": {**FIXED, "machine": "m4\0"}}
    found, detail = server.problem_of(server.client.post("/models/sort/plan", json=body))
    assert found == "wrong-input" and "fix.machine" in detail
    body = {"row": {**ROW, "machine": "\0m4"}, "column": "nodes"}
    found, detail = server.problem_of(server.client.post("/models/sort/curve", json=body))
    assert found == "wrong-input" and "row.machine" in detail
    # Other control characters are part of a level, one that was never measured.
    rows = {"rows": [{**ROW, "machine": "m4\x07"}]}
    (prediction,) = server.client.post(PREDICT, json=rows).json()["predictions"]
    assert prediction["trust"] == "unknown level"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"rows": []}, "rows"),
        ([], "an object"),
        ({"rows": [ROW], "row": 1}, "Did you mean 'rows'?"),
        ({"rows": "x"}, "rows"),
    ],
)
def test_a_wrong_body_of_a_prediction(server, body, words):
    found, detail = server.problem_of(server.client.post(PREDICT, json=body))
    assert found == "wrong-input"
    assert words in detail


@pytest.mark.parametrize(
    ("interval", "rule"),
    [
        ("1.5", "less than 1"),
        ("0", "more than 0"),
        ("x", "a number"),
        ("nan", "less than 1"),
        ("", "number"),
    ],
)
def test_a_wrong_interval(server, interval, rule):
    path = f"{PREDICT}?interval={interval}"
    response = server.client.post(path, json={"rows": [ROW]})
    found, detail = server.problem_of(response)
    assert found == "wrong-input"
    assert response.json()["option"] == "interval"
    assert detail.startswith("interval: must be") and rule in detail


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"{PREDICT}?intervall=0.5", "Did you mean 'interval'?"),
        (f"{PREDICT}?interval=0.5&interval=0.9", "more than once"),
        ("/models/sort/curve?interval=0.5", "no parameters"),
        ("/fit?name=a&target=b&replce=true", "Did you mean 'replace'?"),
    ],
)
def test_unknown_and_repeated_query_parameters_are_refused(server, path, words):
    found, detail = server.problem_of(server.client.post(path, json={"rows": [ROW]}))
    assert found == "wrong-input" and words in detail
    assert "interval" in detail or "replce" in detail


def test_the_page_ignores_query_parameters(server):
    assert server.client.get("/?anything=1").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/fit?name=a", None),
        ("POST", f"{PREDICT}?interval=x", {"rows": [ROW]}),
        ("POST", PREDICT, {"rows": [ROW], "more": 1}),
        ("POST", PREDICT, {}),
        ("POST", PREDICT, {"rows": {}}),
        ("POST", "/models/sort/curve", {"row": ROW}),
        ("POST", "/models/sort/curve", {"row": ROW, "column": 3}),
        ("POST", "/models/sort/plan", {"vary": []}),
        ("POST", "/models/sort/plan", {"vary": {"nodes": [1]}, "fix": FIXED, "confidence": "x"}),
        ("POST", "/models/sort/plan", {"models": [1]}),
    ],
)
def test_messages_are_written_for_people_and_not_by_a_validator(server, method, path, body):
    response = server.client.request(method, path, json=body)
    found, detail = server.problem_of(response)
    assert found == "wrong-input"
    for raw in ("Input should", "Field required", "Extra inputs", "valid string", "pydantic"):
        assert raw not in detail


def test_a_problem_names_the_option_and_the_remedy_in_the_words_of_json(server):
    body = {"vary": {"nodes": [1]}, "fix": FIXED, "deadline": "1x"}
    problem = server.client.post("/models/sort/plan", json=body).json()
    assert problem["option"] == "deadline"
    assert problem["detail"].startswith("deadline: ")
    problem = server.client.post("/models/sort/plan", json={"vary": {"nodes": [1]}}).json()
    assert "fix.is_big" in problem["remedy"] and problem["remedy"] in problem["detail"]
    shape = server.client.get("/openapi.json").json()["components"]["schemas"]["Problem"]
    assert {"option", "remedy"} <= set(shape["properties"])
    assert "option" not in shape["required"]


@pytest.mark.parametrize("path", [PREDICT, "/models/sort/curve", "/models/sort/plan"])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"null", b"[" * 99_999, b'{"a":' * 9_999, b"1e999", b'"\\ud800"'],
    ids=range(8),
)
def test_what_is_no_json(server, path, content):
    found, _ = server.problem_of(server.client.post(path, content=content, headers=JSON))
    assert found == "wrong-input"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"size,nodes\n1\0,2\n", "not text"),
        (b"size,nodes\n1,2\n", "is_big"),
        (b"\x80\x04pickle", "UTF-8"),
        (b"size,nodes,machine,is_big\n", "no rows"),
        (b"size,size\n1,2\n", "more than one column"),
        (b"<html>", "HTML"),
    ],
)
def test_what_is_no_table(server, content, words):
    found, detail = server.problem_of(server.client.post(PREDICT, content=content, headers=CSV))
    assert found == "wrong-input"
    assert words in detail


def test_an_answer_as_csv_overwrites_no_column(server):
    body, headers = {"rows": [{**ROW, "trust": 1}]}, {"Accept": "text/csv"}
    found, detail = server.problem_of(server.client.post(PREDICT, json=body, headers=headers))
    assert found == "wrong-input" and "'trust'" in detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"row": ROW, "column": "machine"}, "not a numeric column"),
        ({"row": ROW, "column": "siz"}, "Did you mean 'size'?"),
        ({"row": {}, "column": "size"}, "no column"),
        ({"row": ROW, "column": "size", "n_points": 10**9}, "n_points"),
    ],
)
def test_a_wrong_curve(server, body, words):
    found, detail = server.problem_of(server.client.post("/models/sort/curve", json=body))
    assert found == "wrong-input"
    assert words in detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"vary": {"nodes": [1]}, "deadline": "1x", "fix": FIXED}, "deadline"),
        ({"vary": {"nodes": [1], "nods": [2]}, "fix": FIXED}, "nods"),
        ({"vary": {"nodes": []}, "fix": FIXED}, "nodes"),
        ({"vary": {"nodes": {"from": 1, "to": 10**15, "step": 1}}, "fix": FIXED}, "nodes"),
        ({"vary": {}, "deadlin": "1s"}, "deadlin"),
        ({"vary": {"nodes": [1]}}, "is_big"),
        ({"models": "sort"}, "models"),
        ({"models": ["sort"] * 9}, "models"),
        ([], "object"),
    ],
)
def test_a_wrong_plan(server, body, words):
    found, detail = server.problem_of(server.client.post("/models/sort/plan", json=body))
    assert found == "wrong-input"
    assert words in detail and "--" not in detail


def test_a_plan_with_a_model_that_is_not_there(server):
    body = {"models": ["energy"], "vary": {"nodes": [1]}, "fix": FIXED}
    found, _ = server.problem_of(server.client.post("/models/sort/plan", json=body))
    assert found == "unknown-model"


def test_a_server_that_only_reads_fits_nothing(server):
    path = "/fit?name=a&target=b"
    found, _ = server.problem_of(server.client.post(path, content=b"a,b\n1,2\n", headers=CSV))
    assert found == "read-only"


@pytest.mark.parametrize(
    "path",
    [
        "/models/..", "/models/%2e%2e", "/models/..%2f..%2fetc%2fpasswd", "/models/%2fetc",
        "/models/sort%00", "/models/sort%2fbest.foretell", "/models/.jobs", "/models/sort%0a",
        "/models/" + "a" * 5000, "/models/%ff%fe", "/page/..%2fserver.py", "/page/%2e%2e",
        "/models/sort.", "/models/SORT", "/models/so%00rt/predict",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_directory(server, path):
    answer = server.exchange(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
    )
    assert server.problem_in(answer) in {"not-found", "unknown-model", "method"}
    assert b"root:" not in answer and str(server.models).encode() not in answer
    assert server.works()


def test_thousands_of_rows_of_garbage_are_refused_and_do_no_harm(server):
    garbage = [{"size": f"x{i}", "nodes": "?", "machine": "\x01", "is_big": "maybe"}
               for i in range(10_000)]  # fmt: skip
    kind, detail = server.problem_of(server.client.post(PREDICT, json={"rows": garbage}))
    assert kind == "wrong-input" and "10000" in detail.replace(",", "")
    text = b"\n".join(b"\x01%d;\xc3\xa9,," % i for i in range(10_000))
    kind, _ = server.problem_of(server.client.post(PREDICT, content=text, headers=CSV))
    assert kind == "wrong-input"
    assert server.works()


@pytest.mark.parametrize("size", [0, -4.5])
def test_values_that_are_not_positive_are_refused_with_the_range_of_the_column(server, size):
    row = {**ROW, "size": size}
    answers = [
        server.client.post(PREDICT, json={"rows": [row]}),
        server.client.post("/models/sort/curve", json={"row": row, "column": "nodes"}),
        server.client.post(
            "/models/sort/plan", json={"vary": {"nodes": [1, 2]}, "fix": {**FIXED, "size": size}}
        ),
        server.client.post(
            PREDICT, content=f"size,nodes,machine,is_big\n{size},3,m4,true\n", headers=CSV
        ),
    ]
    for answer in answers:
        found, detail = server.problem_of(answer)
        assert found == "wrong-input"
        for words in ("size", f"{size:g}", "10 to 80", "positive"):
            assert words in detail
    beside = server.client.post(PREDICT, json={"rows": [ROW, row]}).json()["predictions"]
    assert [answer["trust"] for answer in beside] == ["inside", "invalid"]
    assert "10 to 80" in beside[1]["outside"]
