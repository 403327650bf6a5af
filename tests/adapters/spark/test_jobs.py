"""Jobs on a real Spark in local mode: partitions that are never read, errors, cuts and losses.

One engine serves all tests of this module. Those that lose it come last.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from foretell import UsageError, kept_partitions, learn_queue
from foretell.adapters.dispatcher.engines import EngineLostError, spark
from foretell.adapters.spark.events import read_events

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples" / "queue"
PATIENCE_S = 120


@pytest.fixture(scope="module")
def desk(new_desk):
    return new_desk(events="events")


@pytest.fixture(scope="module")
def posts(desk):
    """A file of posts."""
    path = desk.folder / "posts.xml"
    command = [sys.executable, EXAMPLES / "make_posts.py", path, "--megabytes", "4", "--seed", "3"]
    subprocess.run(command, check=True)
    return path


def waited(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return True


def test_session_stays_from_job_to_job_and_a_file_may_change(desk):
    first, second = desk.run("functions.py:add_up"), desk.run("functions.py:add_up", n=3)
    assert (first[0].is_done, first[1]["sum"], second[1]["sum"]) == (True, 90, 6)
    assert first[1]["pid"] == second[1]["pid"] == desk.driver_pid
    changing = desk.folder / "changing.py"
    for answer in (1, 2):
        changing.write_text(f"def answer(spark):\n    return {answer}\n")
        os.utime(changing, ns=(answer, answer))
        assert desk.run("changing.py:answer")[1] == answer


def test_what_the_queue_drops_is_dropped_and_estimates_are_results(desk):
    outcome, result = desk.run("functions.py:estimated", drop=0.35, seed=11)
    assert outcome.is_done
    n_kept = len(kept_partitions(10, 0.35, 11))
    assert result == {"value": 100, "bound": 0, "low": 100, "high": 100, "n_kept": n_kept,
                      "n_partitions": 10}  # fmt: skip


def bytes_read(desk, run, **arguments):
    """Return how many bytes a job read from files, by Spark's own count, and its result."""
    before = sum(
        s.read_bytes for job in read_events(desk.folder / "events").jobs for s in job.stages
    )
    outcome, result = desk.run(run, **arguments)
    assert outcome.is_done, outcome
    found = read_events(desk.folder / "events").jobs
    return sum(s.read_bytes for job in found for s in job.stages) - before, result


def test_partitions_are_dropped_before_they_are_read(desk, posts):
    desk.run("functions.py:add_up")  # so that there are events to begin with
    arguments = {"path": str(posts), "partitions": 8, "kept": [0, 3, 6]}
    pruned, n = bytes_read(desk, "functions.py:read_pruned", **arguments)
    ignored, same = bytes_read(desk, "functions.py:read_and_ignore", **arguments)
    size = posts.stat().st_size
    assert n == same
    assert pruned / 3 < 0.45 * size  # three ways, each of which reads 3 of 8 partitions
    assert ignored > 0.7 * size


def test_words_are_counted_exactly_without_dropping_and_within_bounds_with_it(desk, posts):
    sys.path.insert(0, str(EXAMPLES))
    try:
        from word_counts import count_words
    finally:
        sys.path.remove(str(EXAMPLES))
    true = Counter(dict(count_words(posts.read_text().splitlines())))
    outcome, exact = desk.run("word_counts.py:word_counts", path=str(posts), top=300)
    assert outcome.is_done, outcome
    assert {w: e["value"] for w, e in exact.items()} == {w: true[w] for w in exact}
    assert min(true[w] for w in exact) == true.most_common(300)[-1][1]
    outcome, some = desk.run("word_counts.py:word_counts", drop=0.2, path=str(posts), top=300)
    assert {e["n_kept"] for e in some.values()} == {4}
    covered = [e["low"] <= true[w] <= e["high"] for w, e in some.items()]
    assert sum(covered) / len(covered) > 0.85  # all of them miss the same partition


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("fail", "ValueError: the third column"),
        ("fail_in_a_task", "ZeroDivisionError"),
        ("return_a_set", "type set is no result"),
        ("keep_nothing", "numbered from 0"),
        ("add_upp", "Did you mean 'add_up'?"),
    ],
)
def test_job_that_fails_says_why_and_the_session_stays(desk, function, reason):
    pid = desk.driver_pid
    outcome, result = desk.run(f"functions.py:{function}")
    assert not outcome.is_done
    assert reason in outcome.reason
    assert result is None
    assert desk.driver_pid == pid


def test_what_a_job_prints_is_in_its_folder(desk):
    job, running = desk.start("functions.py:add_up")
    assert running.wait(PATIENCE_S).is_done
    assert "adding up" in desk.setting.output(job).read_text()


def test_job_that_is_cut_short_leaves_no_task_and_no_outcome(desk, tmp_path):
    pid = desk.driver_pid
    job, running = desk.start("functions.py:work_until_killed", mark=str(tmp_path))
    assert waited(lambda: len(list(tmp_path.iterdir())) == 2)
    waiting = threading.Thread(target=running.wait)  # as a dispatcher does
    waiting.start()
    assert running.kill() is None
    waiting.join(PATIENCE_S)
    assert desk.driver_pid == pid
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert waited(lambda: not any(map(psutil.pid_exists, workers)))
    assert not desk.setting.outcome(job).exists()
    assert desk.run("functions.py:add_up")[0].is_done


def test_workers_do_not_read_the_zip_of_spark_again_and_again(desk):
    assert desk.run("functions.py:zips_of_a_worker")[1] == []


def test_job_that_had_ended_keeps_its_outcome_when_it_is_cut(desk):
    job, running = desk.start("functions.py:add_up")
    assert waited(desk.setting.outcome(job).exists)
    assert running.kill().is_done


def test_classes_are_learned_from_what_ran_here(desk, posts):
    for _ in range(3):
        assert desk.run("word_counts.py:word_counts", class_name="low", path=str(posts))[0].is_done
        quick = desk.run("functions.py:add_up", class_name="high", n=100)
        assert quick[0].is_done
    found = learn_queue(desk.folder / "events", order=["low", "high"])
    high = found.values["class"][-1]
    assert (found.values["slots"], high["name"], high["tasks"]) == (2, "high", 2)
    assert high["rate_per_s"] > 0


def test_run_that_is_no_function_is_refused(desk):
    for run, match in ((["sort"], "file.py:function"), ("functions.py", "file.py:function"),
                       ("nothing.py:run", "no file")):  # fmt: skip
        with pytest.raises(UsageError, match=match):
            desk.engine.check(run)


def test_function_that_does_not_end_costs_the_session(desk, tmp_path, monkeypatch):
    monkeypatch.setattr(spark, "_GRACE_S", 0.2)
    pid = desk.driver_pid
    _, running = desk.start("functions.py:go_on_whatever_happens", mark=str(tmp_path))
    assert waited((tmp_path / "started").exists)
    assert running.kill() is None
    assert not psutil.pid_exists(pid)
    assert desk.run("functions.py:add_up")[1]["pid"] == desk.driver_pid != pid


def test_spark_that_dies_in_a_job_fails_it_once_and_is_started_again(desk):
    pid = desk.driver_pid
    outcome, _ = desk.run("functions.py:lose_spark")
    assert not outcome.is_done
    assert "Spark ended during the job" in outcome.reason
    assert desk.run("functions.py:add_up")[1]["sum"] == 90
    assert desk.driver_pid != pid


def test_killed_driver_fails_the_job_and_leaves_nothing_behind(desk, tmp_path):
    job, running = desk.start("functions.py:work_until_killed", mark=str(tmp_path))
    assert waited(lambda: len(list(tmp_path.iterdir())) == 2)
    old = set(running.pids)
    assert len(old) >= 4  # the driver, the JVM, and workers in Python
    os.kill(desk.driver_pid, signal.SIGKILL)
    outcome = running.wait(PATIENCE_S)
    assert not outcome.is_done
    assert "SIGKILL" in outcome.reason
    assert waited(lambda: not any(map(psutil.pid_exists, old)))
    assert not desk.setting.outcome(job).exists()
    # The next dispatcher: one job had ended, the other was cut short.
    done = desk.job("functions.py:add_up")
    desk.setting.outcome(done).write_text(json.dumps({"is_done": True, "reason": ""}))
    found = desk.engine.recover([job, done])
    assert {name: o.is_done for name, o in found.items()} == {done.id: True}
    desk.engine.close()


def test_session_that_cannot_start_is_an_engine_that_is_lost(new_desk):
    desk = new_desk(conf={"spark.executor.heartbeatInterval": "never"})
    with pytest.raises(EngineLostError, match="never"):
        desk.run("functions.py:add_up")


def test_engine_is_ready_once_it_has_a_session_and_says_why_it_gets_none(new_desk):
    desk = new_desk()
    assert not desk.engine.is_ready()  # a session takes seconds, for which nobody waits here
    waited(desk.engine.is_ready)
    assert desk.run("functions.py:add_up")[0].is_done
    os.kill(desk.driver_pid, signal.SIGKILL)
    assert not desk.run("functions.py:add_up")[0].is_done
    assert not desk.engine.is_ready()
    waited(desk.engine.is_ready)
    desk.close()
    lost = new_desk(conf={"spark.executor.heartbeatInterval": "never"})
    with pytest.raises(EngineLostError, match="never"):
        waited(lost.engine.is_ready)
