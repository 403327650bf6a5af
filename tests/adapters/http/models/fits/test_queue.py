"""Fits as jobs: one at a time, nothing written over, nothing lost."""

import io
import json
import os
import shutil
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


def test_a_model_is_replaced_only_when_that_is_asked_for(serve_once, fitted, table):
    server, path = serve_once, serve_once.models / "flat.foretell"
    shutil.copy(fitted / "plain.foretell", path)
    shutil.copytree(fitted / "sort", server.models / "whole")
    before = path.read_bytes()
    assert kind_of(fit(server, table, name="flat")) == "taken"
    assert kind_of(fit(server, table, name="whole")) == "taken"
    assert path.read_bytes() == before
    assert server.client.get("/models/flat").json()["technique"] == "LRRidge"
    job = fit(server, table, name="flat", replace=True).json()
    assert kind_of(fit(server, table, name="flat", replace=True)) == "taken"  # by that job
    assert server.ended(job)["state"] == "done"
    assert server.client.get("/models/flat").json()["technique"] == "Ensemble"
    assert not path.exists()


def entries(folder):
    """Return all files below a folder with their contents, but for the records of jobs."""
    files = [p for p in folder.rglob("*") if p.is_file() and ".jobs" not in p.parts]
    return {p: p.read_bytes() for p in files}


@pytest.mark.parametrize("kind", ["file", "folder", "link", "damaged", "bare", "shell", "notes"])
def test_only_a_model_that_foretell_wrote_is_replaced(serve_once, fitted, table, kind):
    models = serve_once.models
    mine = models / f"mine-{kind}"
    if kind == "file":
        mine.write_text("precious")
    elif kind == "folder":
        (mine / "data").mkdir(parents=True)
        (mine / "data" / "thesis.txt").write_text("precious")
    elif kind == "link":
        mine.symlink_to(fitted / "sort")
    elif kind == "damaged":
        models.joinpath("mine-damaged.foretell").write_bytes(b"PK\x03\x04 precious")
    elif kind == "bare":  # no journal says that a fit wrote it
        mine.mkdir()
        shutil.copy(fitted / "sort" / "best.foretell", mine / "best.foretell")
    elif kind == "shell":  # a folder of somebody else, with a copy of a model
        mine.mkdir()
        shutil.copy(fitted / "sort" / "best.foretell", mine / "best.foretell")
        (mine / "journal").write_text("Dear diary")
    else:
        shutil.copytree(fitted / "sort", mine)
        (mine / "notes.txt").write_text("precious")
    before = entries(models)
    response = fit(serve_once, table, name=mine.name, replace=True)
    assert kind_of(response) == "taken", response.text
    assert kind != "notes" or "notes.txt" in response.json()["detail"]
    assert entries(models) == before


def test_what_takes_the_place_of_a_model_while_the_fit_runs_is_kept(serve_once, fitted, table):
    path = serve_once.models / "swapped"
    shutil.copytree(fitted / "sort", path)
    job = fit(serve_once, table, name="swapped", replace=True).json()
    shutil.rmtree(path)
    path.write_text("precious")
    ended = serve_once.ended(job)
    assert ended["state"] == "failed" and "'swapped'" in ended["detail"]
    assert path.read_text() == "precious"


@pytest.mark.parametrize("replace", [False, True])
def test_no_fit_is_named_like_the_best_model_of_a_fit(serve_once, table, replace):
    response = fit(serve_once, table, name="best", replace=replace)
    assert kind_of(response) == "wrong-input"
    assert response.json()["option"] == "name"


def test_a_fit_that_fails_leaves_the_old_model_in_place(serve_once, fitted):
    path = serve_once.models / "lasting"
    shutil.copytree(fitted / "sort", path)
    before = entries(path)
    wrong = b"a,time_s\n1,-1\n2,-2\n3,-3\n"
    job = fit(serve_once, wrong, name="lasting", replace=True).json()
    assert serve_once.ended(job)["state"] == "failed"
    assert entries(path) == before


#: Makes a process kill itself, as if by a power cut, when it is about to put a new model in place.
KILLER = """
import os, signal
rename = os.rename
def killing(source, *rest, **more):
    if os.path.basename(source) == "fit":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(source, *rest, **more)
os.rename = killing
"""


def test_a_server_killed_while_it_replaces_a_model_loses_neither(serve, table, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(KILLER)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    first = serve("-j", "1", environment={"PYTHONPATH": path})
    before = entries(first.models / "sort")
    job = fit(first, table, name="sort", replace=True).json()
    assert first.process.wait(60) == -signal.SIGKILL
    assert not (first.models / "sort").exists()  # killed at the worst moment
    record = first.models / ".jobs" / job["id"] / "job.json"
    record.write_text(record.read_text().replace('"n_starts":1', '"n_starts":3'))  # not once more
    second = serve("-j", "1")
    assert second.ended(job)["state"] == "failed"
    assert entries(second.models / "sort") == before
    again = fit(second, table, name="sort", replace=True).json()
    assert second.ended(again)["state"] == "done"
    assert second.client.get("/models/sort").json()["n_rows"] == 10
    assert [p.name for p in (second.models / ".jobs").rglob("replaced")] == []


def test_a_server_killed_before_it_writes_down_that_a_fit_is_done_knows_it_afterwards(
    serve, finished
):
    models, job = finished
    folder = models / ".jobs" / job["id"]
    values = json.loads((folder / "job.json").read_text())
    (folder / "job.json").write_text(json.dumps({**values, "state": "running", "ended_at": None}))
    (folder / "replaced").mkdir()
    second = serve("-j", "1")
    assert second.client.get(f"/jobs/{job['id']}").json()["state"] == "done"
    assert not (folder / "replaced").exists()
    assert second.client.get("/models/early").status_code == 200


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
def test_a_restart_loses_nothing(serve, finished, table, end):
    done = finished[1]
    first = serve("-j", "1")
    job = fit(first, table, name="late").json()
    first.wait_for(lambda: first.client.get(f"/jobs/{job['id']}").json()["state"] == "running")
    os.kill(first.process.pid, end)
    first.process.wait()
    second = serve("-j", "1")
    assert second.client.get(f"/jobs/{done['id']}").json() == done
    assert second.ended(job)["state"] == "done"
    assert second.client.get("/models/late").status_code == 200


def test_a_second_server_on_the_same_directory_fits_nothing(serve_once, fitted, table):
    shutil.copy(fitted / "plain.foretell", serve_once.models / "shared.foretell")
    second = type(serve_once)(serve_once.models, "-j", "1")
    try:
        assert second.client.get("/health").json()["is_read_only"]
        assert kind_of(fit(second, table)) == "read-only"
        assert second.client.get("/models/shared").status_code == 200
    finally:
        second.close()


def test_a_record_that_was_tampered_with_is_passed_over(serve, finished):
    models, job = finished
    record = models / ".jobs" / job["id"] / "job.json"
    values = json.loads(record.read_text())
    record.write_text(json.dumps({**values, "name": "../../up", "state": "queued"}))
    second = serve("-j", "1")
    assert second.client.get("/jobs").json()["jobs"] == []
    assert second.client.get("/models/early").status_code == 200


@pytest.fixture(scope="module")
def finished_once(serve_once, table):
    """A job that made the model 'early', and what the server says of it."""
    return serve_once.ended(fit(serve_once, table, name="early").json())


@pytest.fixture
def finished(finished_once, serve_once, tmp_path, serve):
    """A directory of a server that has ended, with that job in it; the next server runs there."""
    models, job = tmp_path / "models", finished_once
    shutil.copytree(serve_once.models / "early", models / "early")
    shutil.copytree(serve_once.models / ".jobs" / job["id"], models / ".jobs" / job["id"])
    return models, job


@pytest.fixture(scope="module")
def serve_once(tmp_path_factory, fitted, server):
    """One server for all that leaves no trace."""
    models = tmp_path_factory.mktemp("once") / "models"
    models.mkdir()
    started = type(server)(models, "-j", "1")
    yield started
    started.close()
