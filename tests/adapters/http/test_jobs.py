"""Fits as jobs: one at a time, nothing overwritten, nothing lost."""

import io
import json
import os
import signal

import pandas as pd
import pytest

import foretell

CSV = {"Content-Type": "text/csv"}
ROW = {"size": 33, "nodes": 3}


def fit(server, table, **options):
    query = {"name": "new", "target": "time_s", **options}
    return server.client.post("/fit", params=query, content=table, headers=CSV)


def kind_of(response):
    assert response.headers["content-type"] == "application/problem+json", response.text
    return response.json()["type"].rpartition(":")[2]


def test_a_fit_becomes_a_model_with_a_name(serve, table):
    server = serve("-j", "1")
    response = fit(server, table)
    assert response.status_code == 202
    job = response.json()
    assert response.headers["location"] == f"/jobs/{job['id']}"
    done = server.ended(job)
    assert done["state"] == "done", done
    assert done["n_done"] == done["n_total"] > 0 and done["ended_at"]
    names = [m["name"] for m in server.client.get("/models").json()["models"]]
    assert names == ["new", "plain", "sort"]
    (found,) = server.client.post("/models/new/predict", json={"rows": [ROW]}).json()["predictions"]
    model = foretell.fit_model(pd.read_csv(io.BytesIO(table)), target="time_s").best
    assert found["value"] == pytest.approx(model.forecast_row(ROW).value[0])
    assert not (server.models / ".jobs" / job["id"] / "runs.csv").exists()
    assert server.client.get("/jobs").json()["jobs"] == [done]
    assert kind_of(server.client.delete(f"/jobs/{job['id']}")) == "ended"


def test_a_model_is_replaced_only_when_that_is_asked_for(serve, table):
    server = serve("-j", "1")
    before = (server.models / "plain.foretell").read_bytes()
    assert kind_of(fit(server, table, name="plain")) == "taken"
    assert kind_of(fit(server, table, name="sort")) == "taken"
    assert (server.models / "plain.foretell").read_bytes() == before
    assert server.client.get("/models/plain").json()["technique"] == "LRRidge"
    job = fit(server, table, name="plain", replace=True).json()
    assert kind_of(fit(server, table, name="plain", replace=True)) == "taken"  # by that job
    assert server.ended(job)["state"] == "done"
    assert server.client.get("/models/plain").json()["technique"] == "Ensemble"
    assert not (server.models / "plain.foretell").exists()


@pytest.mark.parametrize("name", ["..", "../up", "a/b", ".jobs", "", "a" * 101, "a\0b", "é"])
def test_no_name_of_a_fit_leads_out_of_the_directory(serve_once, table, name):
    before = sorted(serve_once.models.parent.iterdir())
    assert kind_of(fit(serve_once, table, name=name)) == "wrong-input"
    assert sorted(serve_once.models.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("content", "target", "words"),
    [
        (b"a,b\n1,2\n", "time_s", "the table has no column 'time_s'"),
        (b"", "time_s", "empty"),
        (b"\x80\x04.", "time_s", "UTF-8"),
        (b"a,time_s\n1,-1\n2,-2\n3,-3\n", "time_s", "positive"),
    ],
)
def test_a_table_that_cannot_be_fitted_fails_with_a_reason(serve_once, content, target, words):
    job = fit(serve_once, content, name="bad", target=target).json()
    ended = serve_once.ended(job)
    assert ended["state"] == "failed"
    assert words in ended["detail"]
    assert str(serve_once.models) not in ended["detail"]
    assert kind_of(serve_once.client.get("/models/bad")) == "unknown-model"


def test_only_csv_is_fitted(serve_once):
    response = serve_once.client.post("/fit?name=a&target=b", json={})
    assert kind_of(response) == "media-type"


def test_jobs_wait_for_their_turn_up_to_a_number_and_can_be_canceled(serve_once, table):
    jobs = []
    while True:
        response = fit(serve_once, table, name=f"many{len(jobs)}")
        if response.status_code != 202:
            break
        jobs.append(response.json())
    assert kind_of(response) == "busy" and "retry-after" in response.headers
    assert len(jobs) >= 8
    for job in reversed(jobs):
        canceled = serve_once.client.delete(f"/jobs/{job['id']}")
        assert canceled.status_code in (200, 409)
    assert {serve_once.ended(job)["state"] for job in jobs} <= {"canceled", "done"}
    assert serve_once.ended(jobs[-1])["state"] == "canceled"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=lambda end: end.name)
def test_a_restart_loses_nothing(serve, table, end):
    first = serve("-j", "1")
    done = first.ended(fit(first, table, name="early").json())
    job = fit(first, table, name="late").json()
    first.wait_for(lambda: first.client.get(f"/jobs/{job['id']}").json()["state"] == "running")
    os.kill(first.process.pid, end)
    first.process.wait()
    second = serve("-j", "1")
    assert second.client.get(f"/jobs/{done['id']}").json() == done
    assert second.ended(job)["state"] == "done"
    assert second.client.get("/models/late").status_code == 200


def test_a_second_server_on_the_same_directory_fits_nothing(serve, table):
    serve("-j", "1")
    second = serve("-j", "1")
    assert second.client.get("/health").json()["is_read_only"]
    assert kind_of(fit(second, table)) == "read-only"
    assert second.client.get("/models/sort").status_code == 200


def test_a_record_that_was_tampered_with_is_passed_over(serve, table):
    first = serve("-j", "1")
    job = first.ended(fit(first, table, name="kept").json())
    first.close()
    record = first.models / ".jobs" / job["id"] / "job.json"
    values = json.loads(record.read_text())
    record.write_text(json.dumps({**values, "name": "../../up", "state": "queued"}))
    second = serve("-j", "1")
    assert second.client.get("/jobs").json()["jobs"] == []
    assert second.client.get("/models/kept").status_code == 200


@pytest.fixture(scope="module")
def serve_once(tmp_path_factory, fitted, server):
    """One server for all that leaves no trace."""
    models = tmp_path_factory.mktemp("once") / "models"
    models.mkdir()
    started = type(server)(models, "-j", "1")
    yield started
    started.close()
