"""The spool folder: what becomes a job, what is set aside, and what a crash in between leaves."""

import json
import os
import threading
from itertools import count

import pytest

from foretell.adapters.dispatcher.jobs import new_id
from foretell.adapters.dispatcher.spool import write_job
from foretell.errors import StorageError

from .conftest import await_that

JOB = {"class": "low", "run": ["true"]}


@pytest.fixture
def spool(queue):
    return queue.folder / "spool"


def put(spool, name, content):
    """Put a file into the folder as one should: under another name first."""
    spool.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    part = spool / f".{name}.part"
    part.write_text(text)
    part.rename(spool / name)


def test_files_become_jobs_in_the_order_in_which_they_came(queue, spool):
    put(spool, "z.json", JOB)
    put(spool, "a.json", {**JOB, "name": "own name"})
    put(spool, "m.toml", 'class = "high"\nrun = ["true"]\n[arguments]\nn = 3\n')
    dispatcher = queue.open(spool=spool)
    dispatcher.run(until_empty=True)
    assert queue.told("accepted") == [("accepted", n) for n in ("z", "own name", "m")]
    assert sorted(n for _, n in queue.told("done")) == ["m", "own name", "z"]
    kept = sorted(path.name.partition("--")[2] for path in (spool / "accepted").iterdir())
    assert kept == ["a.json", "m.toml", "z.json"]


def test_a_file_that_appears_while_the_dispatcher_waits_is_run(queue, spool):
    dispatcher = queue.open(spool=spool)
    thread = threading.Thread(target=dispatcher.run)
    thread.start()
    try:
        for i in range(3):
            put(spool, f"{i}.json", JOB)
            await_that(lambda i=i: ("done", str(i)) in queue.told("done"))
    finally:
        dispatcher.stop()
        thread.join()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", "{", "JSON"),
        ("a.json", "[1]", "object"),
        ("a.json", "{'class': 'low'}", "JSON"),
        ("a.json", {"run": ["true"]}, '"class": "low"'),
        ("a.json", {"class": "low"}, '"run": ["sleep", "1"]'),
        ("a.json", {**JOB, "class": "lwo"}, "'low'"),
        ("a.json", {**JOB, "run": []}, "empty"),
        ("a.json", {**JOB, "run": "rm -r /"}, "list"),
        ("a.json", {**JOB, "rnu": 1}, "'run'"),
        ("a.json", {**JOB, "arguments": [1]}, "arguments"),
        ("a.json", {**JOB, "name": "x" * 20_000}, "bytes"),
        ("a.json", "[" * 15_000, "JSON"),
        ("a.toml", "class = low", "TOML"),
        ("a.toml", "", "empty"),
        ("readme.txt", "hello", ".json"),
        ("no-suffix", "hello", ".json"),
    ],
)
def test_a_file_that_is_no_job_is_set_aside_with_its_reason(queue, spool, name, content, reason):
    put(spool, name, content)
    put(spool, "fine.json", JOB)
    queue.open(spool=spool).run(until_empty=True)
    assert queue.told("done") == [("done", "fine")]
    aside = spool / "rejected"
    assert sorted(path.name for path in aside.iterdir()) == [name, f"{name}.rejected"]
    assert reason in (aside / f"{name}.rejected").read_text()
    text = content if isinstance(content, str) else json.dumps(content)
    assert (aside / name).read_text() == text
    (told,) = [e.text for e in queue.events if e.kind == "rejected"]
    assert name in told


def test_files_of_one_name_are_all_kept(queue, spool):
    dispatcher = queue.open(spool=spool)
    for _ in range(3):
        put(spool, "bad.json", "{")
        put(spool, "good.json", JOB)
        dispatcher.run(until_empty=True)
    assert len([p for p in (spool / "rejected").iterdir() if p.suffix == ".json"]) == 3
    assert len(list((spool / "accepted").iterdir())) == 3
    assert len(queue.told("done")) == 3


def test_links_pipes_and_files_in_the_making_do_no_harm(queue, spool):
    spool.mkdir()
    os.mkfifo(spool / "pipe.json")
    (spool / "link.json").symlink_to("/dev/zero")
    (spool / "gone.json").symlink_to(queue.folder / "nowhere")
    (spool / "half.json.part").write_text("{")
    (spool / ".hidden.json").write_text("{")
    (spool / "folder").mkdir()
    (spool / "folder.json").mkdir()
    (spool / "to-folder.json").symlink_to(queue.folder)
    (queue.folder / "elsewhere.json").write_text(json.dumps(JOB))
    (spool / "job.json").symlink_to(queue.folder / "elsewhere.json")
    put(spool, "fine.json", JOB)
    queue.open(spool=spool).run(until_empty=True)
    assert queue.told("done") == [("done", "fine")]
    names = {path.name for path in (spool / "rejected").glob("*.rejected")}
    links = {"link", "gone", "to-folder", "job"}
    assert names == {f"{name}.json.rejected" for name in {"pipe", *links}}
    for name in links:
        assert "link" in (spool / "rejected" / f"{name}.json.rejected").read_text()
    (told,) = [e.text for e in queue.events if e.kind == "note"]  # once
    assert "folder.json" in told
    assert (queue.folder / "elsewhere.json").exists()
    assert (spool / "half.json.part").exists()
    assert (spool / ".hidden.json").exists()


def test_a_submitted_job_has_the_id_that_was_promised(queue, spool):
    job_id = write_job(spool, JOB)
    dispatcher = queue.open(spool=spool)
    assert [job.id for job in dispatcher.unfinished(5)] == [job_id]
    write_job(spool, JOB)
    (spool / "accepted" / f"{job_id}--{job_id}.json").rename(spool / f"{job_id}.json")
    dispatcher.run(until_empty=True)
    assert len({e.job.id for e in queue.events if e.kind == "done"}) == 3  # never one id twice


def test_a_crash_between_moving_a_file_and_the_journal_loses_and_doubles_nothing(queue, spool):
    taking = spool / ".taking"
    taking.mkdir(parents=True)
    fresh = new_id()
    (taking / f"{fresh}--fresh.json").write_text(json.dumps(JOB))
    (taking / f"{new_id()}--bad.json").write_text("{")
    dispatcher = queue.open(spool=spool)
    assert [job.id for job in dispatcher.unfinished(5)] == [fresh]
    (spool / "accepted" / f"{fresh}--fresh.json").rename(taking / f"{fresh}--fresh.json")
    queue.close()
    dispatcher = queue.open(spool=spool)  # the journal has it, and it waits
    dispatcher.run(until_empty=True)
    (spool / "accepted" / f"{fresh}--fresh.json").rename(taking / f"{fresh}--fresh.json")
    queue.close()
    dispatcher = queue.open(spool=spool)  # it has ended
    dispatcher.run(until_empty=True)
    assert queue.told("done") == [("done", "fresh")]
    assert list(taking.iterdir()) == []
    assert (spool / "rejected" / "bad.json").exists()


def test_files_that_cannot_be_written_to_the_journal_wait_for_better_times(
    queue, spool, monkeypatch
):
    dispatcher = queue.open(spool=spool)
    intake, calls = dispatcher._intake, count()
    accept = intake.accept

    def full_at_first(requests):
        if next(calls) == 0:
            raise StorageError("the disk is full")
        return accept(requests)

    monkeypatch.setattr(intake, "accept", full_at_first)
    put(spool, "a.json", JOB)
    with pytest.raises(StorageError):
        dispatcher._spool.take_some()
    dispatcher.run(until_empty=True)
    assert queue.told("done") == [("done", "a")]


def test_no_more_files_are_taken_than_may_wait(queue, spool, monkeypatch):
    monkeypatch.setattr("foretell.adapters.dispatcher.intake.MOST_WAITING", 2)
    for i in range(5):
        put(spool, f"{i}.json", JOB)
    dispatcher = queue.open(spool=spool)
    assert len(dispatcher.unfinished(10)) == 2
    assert len(list(spool.glob("*.json"))) == 3
    dispatcher.run(until_empty=True)
    assert len(queue.told("done")) == 5


DEEP = "[" * 600 + "]" * 600


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.toml", 'class="low"\nrun=["true"]\narguments.day=2026-01-01\n', "'date'"),
        ("a.toml", f'class="low"\nrun=["true"]\narguments.x={"[" * 150 + "]" * 150}\n', "deeper"),
        ("a.json", '{"class":"low","run":["true"],"arguments":{"x":"\\ud800"}}', "character"),
        ("a.json", f'{{"class":"low","run":["true"],"arguments":{{"x":{DEEP}}}}}', "deeper"),
        ("a.json", '{"class":"low","run":["true"],"arguments":{"x":NaN}}', "finite"),
        ("a.json", '{"class":"\\ud800","run":["true"]}', "class"),
    ],
)
def test_values_that_no_journal_can_hold_are_set_aside_and_do_not_stop_the_rest(
    queue, spool, name, content, reason
):
    put(spool, name, content)
    put(spool, "fine.json", JOB)
    for _ in range(2):
        queue.open(spool=spool).run(until_empty=True)
        queue.close()
    assert queue.told("done") == [("done", "fine")]
    assert reason in (spool / "rejected" / f"{name}.rejected").read_text()


def test_a_file_that_reading_stumbles_over_is_set_aside_while_others_are_taken(
    queue, spool, monkeypatch
):
    from foretell.adapters.dispatcher import spool as module

    read = module._values

    def stumble(path):
        if path.name.endswith("odd.json"):
            raise KeyError("odd")
        return read(path)

    monkeypatch.setattr(module, "_values", stumble)
    put(spool, "odd.json", JOB)
    put(spool, "fine.json", JOB)
    queue.open(spool=spool).run(until_empty=True)
    assert queue.told("done") == [("done", "fine")]
    assert "KeyError" in (spool / "rejected" / "odd.json.rejected").read_text()


def test_the_watch_over_the_folder_survives_any_error(queue, spool, monkeypatch):
    dispatcher = queue.open(spool=spool)
    accept, calls = dispatcher._intake.accept, count()

    def fail_at_first(requests):
        if next(calls) == 0:
            raise RuntimeError("never thought of")
        return accept(requests)

    monkeypatch.setattr(dispatcher._intake, "accept", fail_at_first)
    thread = threading.Thread(target=dispatcher.run)
    thread.start()
    try:
        put(spool, "a.json", JOB)
        await_that(lambda: ("done", "a") in queue.told("done"))
    finally:
        dispatcher.stop()
        thread.join()
    assert any("never thought of" in e.text for e in queue.events if e.kind == "note")


def test_a_file_name_that_is_no_text_is_taken(queue, spool):
    spool.mkdir()
    for name in (b"b\xff.json", b"\xff.txt", "ü".encode() * 100 + b".json"):
        (spool / os.fsdecode(name)).write_text(json.dumps(JOB))
    queue.open(spool=spool).run(until_empty=True)
    names = [name for _, name in queue.told("done")]
    assert sorted(names) == ["b\ufffd", "ü" * 72]
    assert (os.fsencode(spool) + b"/rejected/\xff.txt") in {
        os.fsencode(path) for path in (spool / "rejected").iterdir()
    }
    for event in queue.events:
        str(event).encode()


@pytest.mark.parametrize("other", ["low", "high"])
def test_two_files_of_one_id_are_two_jobs(queue, spool, other):
    job_id = new_id()
    put(spool, f"{job_id}.json", {**JOB, "name": "one"})
    put(spool, f"{job_id}.toml", f'class="{other}"\nrun=["true"]\nname="two"\n')
    queue.open(spool=spool).run(until_empty=True)
    assert sorted(queue.told("done")) == [("done", "one"), ("done", "two")]
    ids = [e.job.id for e in queue.events if e.kind == "done"]
    assert len(set(ids)) == 2
    assert job_id in ids
    queue.close()
    queue.open(spool=spool)  # the journal is sound


def test_two_files_of_one_id_that_a_crash_left_are_two_jobs(queue, spool):
    taking, job_id = spool / ".taking", new_id()
    taking.mkdir(parents=True)
    for name in ("one", "two"):
        (taking / f"{job_id}--{name}.json").write_text(json.dumps(JOB))
    queue.open(spool=spool).run(until_empty=True)
    assert sorted(queue.told("done")) == [("done", "one"), ("done", "two")]


def test_a_link_to_nowhere_that_a_crash_left_is_set_aside(queue, spool):
    (spool / ".taking").mkdir(parents=True)
    (spool / ".taking" / f"{new_id()}--gone.json").symlink_to(queue.folder / "nowhere")
    queue.open(spool=spool).run(until_empty=True)
    assert (spool / "rejected" / "gone.json.rejected").exists()


def test_a_file_is_set_aside_once_even_if_the_journal_cannot_be_written_then(
    queue, spool, monkeypatch
):
    dispatcher = queue.open(spool=spool)
    put(spool, "bad.json", "{")
    put(spool, "good.json", JOB)
    with monkeypatch.context() as patch:
        patch.setattr(dispatcher._ledger._journal, "append", full_disk)
        with pytest.raises(StorageError):
            dispatcher._spool.take_some()
    dispatcher.run(until_empty=True)
    assert len([e for e in queue.events if e.kind == "rejected"]) == 1
    assert sorted(p.name for p in (spool / "rejected").iterdir()) == [
        "bad.json", "bad.json.rejected",
    ]  # fmt: skip
    assert queue.told("done") == [("done", "good")]


def full_disk(records):
    raise StorageError("the disk is full")


def test_a_job_that_was_taken_before_an_error_is_not_taken_again(queue, spool, monkeypatch):
    dispatcher = queue.open(spool=spool)
    accept = dispatcher._intake.accept

    def fail_afterwards(requests):
        accept(requests)
        raise BrokenPipeError

    put(spool, "a.json", JOB)
    with monkeypatch.context() as patch:
        patch.setattr(dispatcher._intake, "accept", fail_afterwards)
        with pytest.raises(BrokenPipeError):
            dispatcher._spool.take_some()
    dispatcher.run(until_empty=True)
    assert queue.told("done") == [("done", "a")]
    assert len(list((spool / "accepted").iterdir())) == 1


def test_a_job_is_known_also_while_its_end_is_being_written(queue, monkeypatch):
    dispatcher = queue.open()
    job = queue.submit("one")
    append, known = dispatcher._ledger._journal.append, []
    asking = threading.Thread(target=lambda: known.append(dispatcher._intake.knows(job.id)))

    def append_late(records):
        if any(r["kind"] == "end" for r in records):
            asking.start()
            asking.join(0.2)
        append(records)

    monkeypatch.setattr(dispatcher._ledger._journal, "append", append_late)
    dispatcher.run(until_empty=True)
    asking.join()
    assert known == [True]


def test_many_files_are_taken_some_at_a_time_and_jobs_start_meanwhile(queue, spool, monkeypatch):
    monkeypatch.setattr("foretell.adapters.dispatcher.spool._MOST_AT_ONCE", 3)
    for i in range(10):
        put(spool, f"{i}.json", JOB if i else "{")
    dispatcher = queue.open(spool=spool)
    status = dispatcher.status()
    assert (status.n_waiting, status.in_spool) == (2, 7)
    assert "7 in the spool folder" in str(status)
    assert any("10 files" in e.text for e in queue.events if e.kind == "note")
    accept, first_done = dispatcher._intake.accept, threading.Event()

    def accept_late(requests):
        assert first_done.wait(60)
        return accept(requests)

    def tell(event):
        if event.kind == "done":
            first_done.set()
        queue.events.append(event)

    monkeypatch.setattr(dispatcher._intake, "accept", accept_late)
    monkeypatch.setattr(dispatcher, "_tell", tell)
    dispatcher.run(until_empty=True)
    assert len(queue.told("done")) == 9
    assert dispatcher.status().in_spool == 0
    assert len([e for e in queue.events if e.kind == "note"]) == 1


def test_files_that_are_all_no_jobs_do_not_hide_those_behind_them(queue, spool, monkeypatch):
    monkeypatch.setattr("foretell.adapters.dispatcher.spool._MOST_AT_ONCE", 2)
    for i in range(7):
        put(spool, f"{i}.json", "{" if i < 6 else JOB)
    queue.open(spool=spool).run(until_empty=True)
    assert queue.told("done") == [("done", "6")]


def test_a_stop_is_heeded_while_files_are_taken(queue, spool, monkeypatch):
    monkeypatch.setattr("foretell.adapters.dispatcher.spool._MOST_AT_ONCE", 1)
    for i in range(50):
        put(spool, f"{i}.json", JOB)
    dispatcher = queue.open(spool=spool)
    monkeypatch.setattr(dispatcher, "_tell", lambda _: dispatcher.stop())
    dispatcher.run(until_empty=True)
    assert dispatcher.is_stopping
    assert len(list(spool.glob("*.json"))) > 20
