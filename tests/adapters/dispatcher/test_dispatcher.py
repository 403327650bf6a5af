"""The dispatcher with real commands: order, retries, preemption, and what a restart finds."""

import json
import threading
from datetime import date

import pytest

from foretell.adapters.dispatcher.engines import EngineLostError
from foretell.adapters.dispatcher.processes import marked
from foretell.adapters.dispatcher.store.runs import read_rows
from foretell.errors import StorageError, UsageError

from .conftest import await_that


def rows(queue):
    return {row["name"]: row for row in read_rows(queue.folder / "state" / "runs.csv")}


def test_jobs_run_one_at_a_time_the_highest_class_first_and_then_in_order(queue):
    dispatcher = queue.open("low", "mid", "high")
    once = "mkdir inside && echo $FORETELL_CLASS >> log && rmdir inside"
    for i, of in enumerate(["low", "high", "mid", "low", "high", "mid"]):
        queue.submit(f"{of} {i}", once, of=of)
    dispatcher.run(until_empty=True)
    started = ["high 1", "high 4", "mid 2", "mid 5", "low 0", "low 3"]
    assert queue.told("started") == [("started", name) for name in started]
    assert (queue.folder / "log").read_text().split() == [name.split()[0] for name in started]
    assert {row["status"] for row in rows(queue).values()} == {"ok"}


def test_a_job_that_comes_while_another_runs_waits_for_it_unless_jobs_are_preempted(queue):
    dispatcher = queue.open()
    queue.submit("long", "touch begun; until test -e may-end; do sleep 0.01; done")
    thread = threading.Thread(target=dispatcher.run, kwargs={"until_empty": True})
    thread.start()
    await_that((queue.folder / "begun").exists)
    queue.submit("urgent", "touch urgent", of="high")
    (queue.folder / "may-end").touch()
    thread.join()
    assert queue.told("started", "done", "preempted") == [
        ("started", "long"), ("done", "long"), ("started", "urgent"), ("done", "urgent"),
    ]  # fmt: skip


def test_a_failure_is_tried_again_twice_and_then_set_aside_with_its_reason(queue):
    dispatcher = queue.open()
    job = queue.submit("broken", "echo $FORETELL_SEED >> seeds; echo the disk is on fire; exit 4")
    queue.submit("fine", "true")
    dispatcher.run(until_empty=True)
    assert queue.told("failed", "aside", "done") == [
        ("failed", "broken"), ("failed", "broken"), ("aside", "broken"), ("done", "fine"),
    ]  # fmt: skip
    row = rows(queue)["broken"]
    assert (row["status"], row["n_attempts"]) == ("failed", "3")
    assert "4" in row["reason"]
    assert "the disk is on fire" in row["reason"]
    aside = queue.folder / "state" / "aside"
    kept = json.loads((aside / f"{job.id}.failed.json").read_text())
    assert kept == {"class": "low", "run": job.run, "arguments": {}, "name": "broken"}
    assert "on fire" in (aside / f"{job.id}.failed.reason").read_text()
    seeds = (queue.folder / "seeds").read_text().split()
    assert len(seeds) == 3
    assert len(set(seeds)) == 1  # a retry drops the same tasks


def test_a_failure_that_passes_is_done_in_the_end(queue):
    dispatcher = queue.open()
    queue.submit("flaky", "test -e tried || { touch tried; exit 1; }")
    dispatcher.run(until_empty=True)
    row = rows(queue)["flaky"]
    assert (row["status"], row["n_attempts"], row["reason"]) == ("ok", "2", "")
    assert float(row["wasted_s"]) > 0


@pytest.mark.parametrize("discipline", ["repeat", "redraw"])
def test_a_preempted_job_is_killed_and_starts_again_first_in_its_line(queue, discipline):
    dispatcher = queue.open(discipline=discipline)
    script = "echo >> begun; test -e urgent || { sleep 600 & wait; }"
    queue.submit("long", script)
    queue.submit("after", "true")
    thread = threading.Thread(target=dispatcher.run, kwargs={"until_empty": True})
    thread.start()
    await_that((queue.folder / "begun").exists)
    queue.submit("urgent", "touch urgent", of="high")
    thread.join()
    assert queue.told("started", "preempted", "done") == [
        ("started", "long"), ("preempted", "long"), ("started", "urgent"), ("done", "urgent"),
        ("started", "long"), ("done", "long"), ("started", "after"), ("done", "after"),
    ]  # fmt: skip
    assert len((queue.folder / "begun").read_text().splitlines()) == 2
    row = rows(queue)["long"]
    assert (row["n_attempts"], row["n_preempted"], row["status"]) == ("2", "1", "ok")
    assert float(row["wasted_s"]) > 0


def test_a_paused_job_goes_on_where_it_was_after_all_higher_ones(queue):
    dispatcher = queue.open("low", "mid", "high", discipline="resume")
    queue.submit("long", "echo >> begun; until test -e urgent; do sleep 0.01; done")
    thread = threading.Thread(target=dispatcher.run, kwargs={"until_empty": True})
    thread.start()
    await_that((queue.folder / "begun").exists)
    queue.submit("middle", "touch middle; until test -e urgent; do sleep 0.01; done", of="mid")
    await_that((queue.folder / "middle").exists)
    queue.submit("urgent", "touch urgent", of="high")
    thread.join()
    assert queue.told("started", "paused", "resumed", "done") == [
        ("started", "long"), ("paused", "long"), ("started", "middle"), ("paused", "middle"),
        ("started", "urgent"), ("done", "urgent"), ("resumed", "middle"), ("done", "middle"),
        ("resumed", "long"), ("done", "long"),
    ]  # fmt: skip
    assert (queue.folder / "begun").read_text() == "\n"
    row = rows(queue)["long"]
    assert (row["n_attempts"], row["n_preempted"], row["wasted_s"]) == ("1", "1", "0.0")
    assert float(row["wall_time_s"]) < float(row["response_s"])


def test_the_engine_may_be_lost_for_a_while_and_the_queue_is_kept(queue, monkeypatch):
    dispatcher = queue.open()
    monkeypatch.setattr("foretell.adapters.dispatcher.dispatcher._FIRST_PAUSE_S", 0.01)
    start, refusals = dispatcher._engine.start, iter(["no driver", "no driver", None])

    def start_late(job, drop, seed):
        if (reason := next(refusals)) is not None:
            raise EngineLostError(reason)
        return start(job, drop, seed)

    monkeypatch.setattr(dispatcher._engine, "start", start_late)
    queue.submit("patient")
    dispatcher.run(until_empty=True)
    assert queue.told("lost", "done") == [("lost", "patient"), ("done", "patient")]  # said once
    row = rows(queue)["patient"]
    assert (row["status"], row["n_attempts"]) == ("ok", "1")


def test_a_waiting_job_can_be_canceled_and_no_other(queue):
    dispatcher = queue.open()
    first, second = queue.submit("first"), queue.submit("second")
    assert dispatcher.cancel(first.id).state == "canceled"
    dispatcher.run(until_empty=True)
    assert {name: row["status"] for name, row in rows(queue).items()} == {
        "first": "canceled", "second": "ok",
    }  # fmt: skip
    for job, state in ((first, "canceled"), (second, "done")):
        with pytest.raises(UsageError, match=state):
            dispatcher.cancel(job.id)


def test_jobs_of_no_class_and_for_another_engine_are_refused(queue):
    dispatcher = queue.open()
    with pytest.raises(UsageError, match="'high'"):
        dispatcher.submit({"class": "hihg", "run": ["true"]})
    with pytest.raises(UsageError, match="list"):
        dispatcher.submit({"class": "low", "run": "words.py:count"})
    for empty in ({"class": "", "run": ["true"]}, {"class": "low", "run": ""}):
        with pytest.raises(UsageError, match=r"must be .*a text that is not empty, not ''$"):
            dispatcher.submit(empty)
    with pytest.raises(UsageError, match="urgency"):
        dispatcher.submit({"class": "low", "run": ["true"], "urgency": 1})
    with pytest.raises(UsageError, match="bytes"):
        dispatcher.submit({"class": "low", "run": ["echo", "x" * 20_000]})
    with pytest.raises(UsageError, match="character"):
        dispatcher.submit({"class": "low", "run": ["echo", "a\0b"]})
    assert len(dispatcher.unfinished(10)) == 0


def test_what_waits_and_what_ran_is_there_after_a_restart_and_in_order(queue):
    queue.open()
    for i in range(4):
        queue.submit(f"job {i}", "true", of=["low", "high"][i % 2])
    queue.close()
    dispatcher = queue.open()
    dispatcher.run(until_empty=True)
    assert queue.told("started") == [("started", f"job {i}") for i in (1, 3, 0, 2)]
    queue.close()
    dispatcher = queue.open()
    queue.events.clear()
    dispatcher.run(until_empty=True)
    assert queue.told("started") == []
    assert dispatcher.status().classes[0].done == 2


def test_closing_ends_the_job_in_the_engine_and_keeps_it(queue):
    dispatcher = queue.open()
    queue.submit("long", "touch begun; test -e again || sleep 600")
    thread = threading.Thread(target=dispatcher.run)
    thread.start()
    await_that((queue.folder / "begun").exists)
    marks = dispatcher._engine.setting.marks
    dispatcher.stop()
    thread.join()
    dispatcher.close()
    assert marked(marks) == []
    assert queue.told("interrupted") == [("interrupted", "long")]
    (queue.folder / "again").touch()
    dispatcher = queue.open()
    dispatcher.run(until_empty=True)
    assert rows(queue)["long"]["n_attempts"] == "2"


def test_a_disk_that_is_full_stops_the_dispatcher_and_a_restart_goes_on(queue, monkeypatch):
    dispatcher = queue.open()
    queue.submit("one", "echo >> begun")
    queue.submit("two", "echo >> begun")
    append, calls = dispatcher._ledger._journal.append, iter(range(100))

    def fail_once(records):
        if next(calls) == 1:  # the end of the first, and the start of the second
            raise StorageError("the journal cannot be written: No space left on device")
        append(records)

    monkeypatch.setattr(dispatcher._ledger._journal, "append", fail_once)
    with pytest.raises(StorageError):
        dispatcher.run(until_empty=True)
    with pytest.raises(StorageError):  # what follows would not fit to what is written
        queue.submit("three")
    dispatcher.close()
    queue.open().run(until_empty=True)
    assert len((queue.folder / "begun").read_text().splitlines()) == 2
    assert {n: row["n_attempts"] for n, row in rows(queue).items()} == {"one": "1", "two": "1"}


def test_dispatches_say_how_long_the_engine_was_free(queue):
    dispatcher = queue.open()
    for i in range(3):
        queue.submit(f"job {i}")
    dispatcher.run(until_empty=True)
    latencies = [e.latency_s for e in queue.events if e.kind == "started"]
    assert len(latencies) == 3
    assert all(latency > 0 for latency in latencies)


def test_resume_is_refused_for_an_engine_that_cannot_stop_jobs(queue, monkeypatch):
    from foretell.adapters.dispatcher.engines.command import CommandEngine

    monkeypatch.setattr(CommandEngine, "can_pause", False)
    with pytest.raises(UsageError, match="resume"):
        queue.open(discipline="resume")


def test_the_table_of_runs_teaches_foretell_how_long_jobs_of_each_class_take(queue):
    from foretell.dataset import read_dataset
    from foretell.queue.predict import predict_queue

    dispatcher = queue.open()
    for i in range(6):
        queue.submit(f"job {i}", of=["low", "high"][i % 2])
    queue.submit("broken", "false")
    dispatcher.cancel(queue.submit("not wanted").id)
    dispatcher.run(until_empty=True)
    table = queue.folder / "state" / "runs.csv"
    usable, _ = read_dataset(table).for_target("wall_time_s")
    assert sorted(usable.columns) == ["drop", "job_class", "wall_time_s"]
    assert len(usable.frame) == 6  # those that failed or were canceled are left out
    assert (usable.frame["wall_time_s"] > 0).all()
    assert sorted(int(row["repeat"]) for row in rows(queue).values()) == [1, 1, 2, 2, 3, 3, 4, 5]
    times = {"rate_per_s": 0.1, "runs": str(table), "column": "wall_time_s"}
    classes = [{"name": n, **times, "only": f"job_class == '{n}'"} for n in ("low", "high")]
    found = predict_queue({"class": classes}).to_json()["classes"]
    measured = usable.frame.groupby("job_class")["wall_time_s"].mean()
    assert {c["class"]: c["service_s"] for c in found} == pytest.approx(measured.to_dict())


def test_arguments_that_are_not_json_are_refused(queue):
    dispatcher = queue.open()
    job = {"class": "low", "run": ["true"]}
    for value, words in [
        (date(2026, 1, 1), "'date'"), ({1: 2}, "texts"), (float("inf"), "finite"),
        ("\ud800", "character"), (10**5_000, "digits"), ({"\ud800": 1}, "character"),
    ]:  # fmt: skip
        with pytest.raises(UsageError, match=words):
            dispatcher.submit({**job, "arguments": {"x": value}})
    dispatcher.submit({**job, "arguments": {"x": [1, 2.5, None, True, {"y": "ü"}]}})
    assert len(dispatcher.unfinished(10)) == 1


def test_a_folder_for_a_job_that_cannot_be_made_is_an_error_of_storage(queue):
    dispatcher = queue.open()
    job = queue.submit("one")
    place = queue.folder / "state" / "jobs" / job.id
    place.touch()
    with pytest.raises(StorageError, match=job.id):
        dispatcher.run(until_empty=True)
    dispatcher.close()
    place.unlink()
    queue.open().run(until_empty=True)
    assert rows(queue)["one"]["status"] == "ok"


def test_the_start_of_the_engine_is_no_time_of_a_job(queue, monkeypatch):
    dispatcher = queue.open()
    answers = iter([False] * 20)
    monkeypatch.setattr(dispatcher._engine, "is_ready", lambda: next(answers, True))
    queue.submit("first")
    dispatcher.run(until_empty=True)
    row = rows(queue)["first"]
    assert float(row["wait_s"]) > 0.3
    assert float(row["wall_time_s"]) < float(row["response_s"]) - 0.3
    assert [e.text for e in queue.events if e.kind == "note"] == [
        "the engine starts; jobs wait for it"
    ]
    assert next(e.latency_s for e in queue.events if e.kind == "started") < 0.3


def test_an_engine_that_does_not_start_is_lost_and_the_job_waits(queue, monkeypatch):
    dispatcher = queue.open()
    monkeypatch.setattr("foretell.adapters.dispatcher.dispatcher._FIRST_PAUSE_S", 0.01)
    answers = iter([False, "no driver", False, "no driver", False])

    def is_ready():
        answer = next(answers, True)
        if isinstance(answer, str):
            raise EngineLostError(answer)
        return answer

    monkeypatch.setattr(dispatcher._engine, "is_ready", is_ready)
    queue.submit("patient")
    dispatcher.run(until_empty=True)
    assert queue.told("lost", "done") == [("lost", "patient"), ("done", "patient")]
    assert dispatcher.lost == ""
    assert rows(queue)["patient"]["n_attempts"] == "1"


def test_a_dispatcher_starts_with_a_table_of_another_version_and_says_where_it_is(queue):
    queue.open()
    queue.submit("waiting")
    queue.close()
    (queue.folder / "state" / "runs.csv").write_text("class,response_s\nlow,1\n")
    queue.open().run(until_empty=True)
    (told,) = [e.text for e in queue.events if e.kind == "note"]
    assert "runs-1.csv" in told
    assert rows(queue)["waiting"]["status"] == "ok"
