"""Workers come and go; the server stays."""

import os
import shutil
import signal

ROW = {"size": 33, "nodes": 3, "machine": "m4", "is_big": True}


def test_a_worker_that_is_lost_is_replaced(serve):
    server = serve("-j", "2", "--read-only")
    before = {worker.pid for worker in server.workers()}
    assert len(before) == 2
    for pid in before:
        os.kill(pid, signal.SIGKILL)

    def answer():
        response = server.client.post("/models/sort/predict", json={"rows": [ROW]})
        assert response.status_code in (200, 503)
        return response.status_code == 200

    def is_whole():
        health = server.client.get("/health").json()
        return health["status"] == "ok" and health["n_workers"] == 2

    server.wait_for(answer)
    # A dead worker that waits in the pool is found by the next request that gets it.
    server.wait_for(lambda: answer() and is_whole())
    after = {worker.pid for worker in server.workers()}
    assert len(after) == 2 and not after & before


def test_an_answer_that_takes_too_long_is_given_up(serve):
    server = serve("-j", "1", "--read-only", "--time-limit", "1")
    (worker,) = server.workers()
    worker.suspend()
    response = server.client.post("/models/sort/predict", json={"rows": [ROW]})
    assert response.status_code == 504
    assert response.json()["type"].endswith("took-too-long")
    server.wait_for(
        lambda: server.client.post("/models/sort/predict", json={"rows": [ROW]}).is_success
    )


def test_the_directory_may_change_under_the_server(serve):
    server = serve("-j", "1")
    models = server.models
    shutil.copytree(models / "sort", models / "late")
    assert server.client.get("/models/late").json()["technique"] == "Ensemble"
    shutil.copy(models / "plain.foretell", models / "part")
    (models / "part").replace(models / "late" / "best.foretell")
    assert server.client.get("/models/late").json()["technique"] == "LRRidge"
    (models / "late" / "best.foretell").write_bytes(b"PK\x03\x04 no model")
    broken = server.client.get("/models/late")
    assert broken.status_code == 500
    assert broken.json()["type"].endswith("broken-model")
    listed = {m["name"]: m for m in server.client.get("/models").json()["models"]}
    assert "problem" in listed["late"] and listed["sort"]["technique"] == "Ensemble"
    shutil.rmtree(models / "late")
    assert server.client.get("/models/late").status_code == 404
    shutil.rmtree(models)
    assert server.client.get("/models/sort").status_code == 404
    assert server.client.get("/health").status_code == 200
