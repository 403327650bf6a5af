"""What the server answers is what the library says."""

import http.client
import io
import json

import pandas as pd
import pytest

from foretell.decide.plan.plan import make_plan

ROW = {"size": 33, "nodes": 3, "machine": "m4", "is_big": True}
FAR = {"size": 400, "nodes": 3, "machine": "c4", "is_big": True}


def assert_same(found, forecast):
    """Compare answers with what the model says in this process."""
    expected = forecast.to_frame().rename(columns={"prediction": "value"})
    found = pd.DataFrame(found).astype(expected.dtypes)[list(expected.columns)]
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-12)


def answers(response):
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


def test_health_tells_how_the_server_is(server):
    health = server.client.get("/health").json()
    assert health["status"] == "ok"
    assert health["n_workers"] == len(server.workers()) > 0
    assert not health["needs_token"] and health["is_read_only"]


def test_models_are_listed_with_columns_ranges_and_errors(server, model):
    models = {m["name"]: m for m in server.client.get("/models").json()["models"]}
    assert list(models) == ["plain", "sort"]
    sort = models["sort"]
    assert (sort["target"], sort["technique"], sort["n_rows"]) == ("time_s", "Ensemble", 32)
    assert sort["errors"]["validation"]["mape"] == model.scores["validation"]["mape"]
    columns = {c.pop("name"): c for c in sort["columns"]}
    assert columns["size"] == {
        "kind": "number", "low": 10, "high": 80, "levels": [10, 20, 40, 80],
    }  # fmt: skip
    assert columns["machine"]["kind"] == "category"
    assert columns["machine"]["levels"] == ["c4", "m4"]
    assert columns["is_big"]["kind"] == "flag"
    assert server.client.get("/models/sort").json()["columns"][0]["name"] in columns


@pytest.mark.parametrize("rows", [[ROW], [FAR], [ROW, FAR, ROW]], ids=len)
def test_predictions_are_those_of_the_model(server, model, rows):
    found = answers(server.client.post("/models/sort/predict", json={"rows": rows}))
    assert_same(found, model.forecast(pd.DataFrame(rows)))


def test_the_interval_can_be_chosen(server, model):
    path = "/models/sort/predict?interval=0.5"
    (found,) = answers(server.client.post(path, json={"rows": [ROW]}))
    assert found["upper"] == pytest.approx(model.forecast(pd.DataFrame([ROW]), 0.5).upper[0])


def test_a_model_without_intervals_says_null(server):
    (found,) = answers(server.client.post("/models/plain/predict", json={"rows": [ROW]}))
    assert found["lower"] is None and found["upper"] is None


def test_an_unknown_level_is_told_in_the_passport(server):
    rows = [{**ROW, "machine": "x1"}]
    (found,) = answers(server.client.post("/models/sort/predict", json={"rows": rows}))
    assert found["trust"] == "unknown level"
    assert "x1" in found["outside"]


def test_csv_goes_in_and_comes_out(server, model):
    rows = pd.DataFrame([ROW, FAR])
    csv = {"Content-Type": "text/csv; charset=utf-8"}
    body = rows.to_csv(index=False).encode()
    found = answers(server.client.post("/models/sort/predict", content=body, headers=csv))
    expected = model.forecast(rows)
    assert [p["value"] for p in found] == pytest.approx(expected.value.tolist(), rel=1e-13)
    response = server.client.post(
        "/models/sort/predict", content=body, headers={**csv, "Accept": "text/csv"}
    )
    assert response.headers["content-type"].startswith("text/csv")
    written = pd.read_csv(io.StringIO(response.text), keep_default_na=False)
    assert list(written.columns) == [*rows.columns, *expected.to_frame().columns]
    assert written["prediction"].tolist() == pytest.approx(expected.value.tolist())


def test_a_row_of_a_table_that_lacks_a_value_is_marked_and_the_others_are_predicted(server, model):
    csv = {"Content-Type": "text/csv"}
    body = pd.DataFrame([ROW, {**FAR, "size": None}]).to_csv(index=False).encode()
    found = answers(server.client.post("/models/sort/predict", content=body, headers=csv))
    assert found[0]["value"] == pytest.approx(model.forecast(pd.DataFrame([ROW])).value[0])
    assert (found[1]["value"], found[1]["trust"]) == (None, "missing")
    assert "size" in found[1]["outside"]


def test_csv_keeps_its_cells_and_marks_rows_with_wrong_ones(server):
    csv = {"Content-Type": "text/csv", "Accept": "text/csv"}
    rows = ["020,4,m4,true", "big,4,m4,true", ",4,m4,true"]
    body = "size,nodes,machine,is_big\n" + "\n".join(rows)
    response = server.client.post("/models/sort/predict", content=body.encode(), headers=csv)
    assert response.status_code == 200
    lines = response.text.splitlines()[1:]
    assert [line[: len(row)] for line, row in zip(lines, rows, strict=True)] == rows
    assert [line.rsplit(",", 1)[1] for line in lines] == ["inside", "invalid", "missing"]


def test_a_curve_tells_the_measured_runs_that_differ_in_its_column_only(server, fitted):
    row = {"size": 40, "nodes": 3, "machine": "m4", "is_big": True}
    curve = server.client.post("/models/sort/curve", json={"row": row, "column": "nodes"}).json()
    runs = pd.read_csv(fitted / "sort" / "runs.csv")
    alike = runs[(runs["size"] == 40) & (runs["machine"] == "m4") & runs["is_big"]]
    expected = dict(zip(alike["nodes"], alike["time_s"], strict=True))
    assert {run["x"]: run["value"] for run in curve["runs"]} == expected
    assert set(expected) == {1, 2, 4, 8}
    other = {**row, "size": 41}
    curve = server.client.post("/models/sort/curve", json={"row": other, "column": "nodes"}).json()
    assert curve["runs"] == []
    body = {"row": row, "column": "nodes"}
    assert server.client.post("/models/plain/curve", json=body).json()["runs"] == []


def test_a_curve_runs_over_the_data_and_beyond(server, model):
    body = {"row": ROW, "column": "nodes", "n_points": 30, "beyond": 2}
    curve = server.client.post("/models/sort/curve", json=body).json()
    x = [p["x"] for p in curve["points"]]
    assert (curve["low"], curve["high"]) == (1, 8)
    assert x == sorted(set(x)) and x[0] == 1 and x[-1] == 16
    assert {1, 2, 4, 8} <= set(x) and all(v == round(v) for v in x)
    expected = model.forecast(pd.DataFrame([{**ROW, "nodes": v} for v in x]))
    assert [p["value"] for p in curve["points"]] == pytest.approx(expected.value.tolist())
    assert curve["points"][-1]["trust"] != "inside"


def test_a_plan_is_that_of_the_library(server, model):
    asked = {
        "vary": {"nodes": {"from": 1, "to": 8, "step": 1}, "machine": ["m4", "c4"]},
        "fix": {"size": 40, "is_big": True},
        "deadline": "60s",
        "prices": {"price_per_hour": 2.0, "nodes": "nodes"},
    }
    plan = server.client.post("/models/sort/plan", json=asked).json()
    expected = make_plan(model, asked).to_json()
    assert plan["chosen"]["configuration"] == expected["chosen"]["configuration"]
    assert plan["chosen"]["estimates"]["cost"] == pytest.approx(
        expected["chosen"]["estimates"]["cost"]
    )
    assert plan["n_configurations"] == 16
    assert set(plan["by_certainty"]) == {"0.5", "0.8", "0.9", "0.95"}


def test_a_plan_that_does_not_exist_is_an_answer_that_says_what_binds(server):
    asked = {"vary": {"nodes": [1, 2]}, "deadline": "1s",
             "fix": {"size": 40, "is_big": True, "machine": "m4"}}  # fmt: skip
    plan = server.client.post("/models/sort/plan", json=asked).json()
    assert plan["chosen"] is None
    assert plan["closest"] is not None
    assert plan["binding"] == ["deadline"]
    assert "--" not in plan["text"]
    assert "deadline is too tight" in plan["text"]


def test_a_plan_over_very_large_ranges_is_searched(server):
    most = {"from": 1, "to": 10**12}
    asked = {"vary": {"nodes": most, "size": most}, "fix": {"machine": "m4", "is_big": True}}
    plan = server.client.post("/models/sort/plan", json=asked)
    assert plan.status_code == 200, plan.text
    assert plan.json()["is_searched"]


def test_metrics_count_requests_and_rows(server):
    def counted(name):
        lines = server.client.get("/metrics").text.splitlines()
        return float(next(line.split()[-1] for line in lines if line.startswith(name)))

    server.client.post("/models/sort/predict", json={"rows": [ROW]})
    rows = counted("foretell_predicted_rows_total")
    route = 'foretell_requests_total{method="POST",route="/models/{name}/predict",status="200"}'
    requests = counted(route)
    server.client.post("/models/sort/predict", json={"rows": [ROW, FAR]})
    assert counted("foretell_predicted_rows_total") == rows + 2
    assert counted(route) == requests + 1
    assert counted("foretell_workers ") == len(server.workers())


def test_the_description_names_every_route_and_refers_to_shapes_that_are_there(server):
    description = server.client.get("/openapi.json").json()
    assert {
        "/models", "/models/{name}", "/models/{name}/predict", "/models/{name}/curve",
        "/models/{name}/plan", "/fit", "/jobs", "/jobs/{job_id}", "/health", "/metrics",
    } == set(description["paths"])  # fmt: skip
    text = json.dumps(description)
    shapes = description["components"]["schemas"]
    referred = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert referred <= set(shapes)
    assert "$defs" not in text


@pytest.mark.parametrize("path", ["/", "/docs", "/page/page.js", "/page/style.css"])
def test_pages_need_nothing_from_elsewhere(server, path):
    response = server.client.get(path)
    assert response.status_code == 200
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    foreign = response.text.replace("http://www.w3.org/2000/svg", "")
    assert "http:" not in foreign and "https:" not in foreign


def test_a_connection_serves_one_request_after_the_other(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.connect()
    own = connection.sock.getsockname()
    for _ in range(3):
        connection.request("GET", "/health")
        assert json.load(connection.getresponse())["status"] == "ok"
        assert connection.sock.getsockname() == own
    connection.close()
