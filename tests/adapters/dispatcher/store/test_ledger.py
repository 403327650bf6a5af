"""The ledger: whatever happened, and wherever the file was cut, reading it again agrees."""

import csv
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from foretell.adapters.dispatcher.jobs import Job
from foretell.adapters.dispatcher.store import records
from foretell.adapters.dispatcher.store.ledger import Ledger, read_state
from foretell.adapters.dispatcher.store.records import QueueState
from foretell.adapters.dispatcher.store.runs import find_row, recent_responses
from foretell.errors import StorageError
from foretell.files.directory import is_claimed
from foretell.files.journal import decode, encode

CLASSES = ["low", "mid", "high"]
STEPS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.floats(0, 9)), max_size=40)


def play(steps):
    """Yield records of a queue in which anything legal may happen, in the order of a real one."""
    state, clock = QueueState(CLASSES), 100.0
    for number, (step, level, passed_s) in enumerate(steps):
        clock += passed_s
        running, head = state.running, state.waiting.head
        made = None
        if step <= 2 or (running is None and head is None):
            job = Job(f"job-{number}", CLASSES[level], level, ["true", str(number)],
                      {"n": number}, f"name {level}", clock)  # fmt: skip
            made = records.arrival(job)
        elif running is None and head is not None:
            if head.state == "paused":
                made = records.go_on(head, clock)
            elif step == 3:
                made = records.end(head, clock, "canceled")
            else:
                made = records.start(head, clock, 0.2, number)
        elif running is not None:
            made = in_engine(running, clock, step - 3)
        state.apply(made)
        yield made


def in_engine(job, at, step):
    """Return one of the things that may happen to a job in the engine."""
    return [
        records.pause(job, at, 0.1),
        records.put_back(job, at, "preempted"),
        records.put_back(job, at, "failed", 'no, "quoted"\nreason'),
        records.put_back(job, at, "lost"),
        records.end(job, at, "done", sprint_s=0.5),
        records.end(job, at, "failed", "why"),
        records.budget(at, 5.0, is_sprinting=True),
    ][step]


def facts(state):
    """Return all that a state consists of."""
    return (
        {job.id: job for job in state.jobs.values()},
        [job.id for job in state.waiting],
        state.running and state.running.id,
        {key: n for key, n in state.n_ended.items() if n},
        state.budget,
    )


def folded(written):
    state = QueueState(CLASSES)
    for record in written:
        state.apply(record)
    return state


@given(STEPS)
def test_the_fewest_records_add_up_to_the_same_state(steps):
    state = folded(play(steps))
    again = folded(decode(b"".join(map(encode, state.records())))[0])
    assert facts(again) == facts(state)


@given(STEPS)
def test_a_job_is_at_exactly_one_place(steps):
    state = QueueState(CLASSES)
    n_arrived = n_ended = 0
    for record in play(steps):
        n_arrived += record["kind"] == "job"
        n_ended += state.apply(record) is not None
        waiting = [job.id for job in state.waiting]
        inside = [state.running.id] if state.running else []
        assert sorted(waiting + inside) == sorted(state.jobs)
        assert len(state.jobs) == n_arrived - n_ended
        assert sum(state.n_ended.values()) == n_ended


@settings(max_examples=30)
@given(STEPS, st.floats(0, 1), st.booleans())
def test_a_journal_cut_anywhere_is_the_state_of_its_whole_records(steps, share, is_noted):
    written = list(play(steps))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "state")
        with Ledger(place, CLASSES) as ledger:
            queue_id = ledger.queue_id
            if is_noted:
                for record in written:
                    ledger.note(record)
                ledger.sync()
            else:
                ledger.write(written)
        journal = place / "journal"
        content = journal.read_bytes()
        lines = content.splitlines(keepends=True)
        n_kept = sum(map(len, lines[:3]))  # the header, the queue, the totals: of its making
        cut = n_kept + round(share * (len(content) - n_kept))
        journal.write_bytes(content[:cut])
        whole = decode(content[:cut])[0][3:]
        assert facts(read_state(place, CLASSES)) == facts(folded(whole))
        for _ in range(2):  # the second reads what the first compacted
            with Ledger(place, CLASSES) as ledger:
                assert facts(ledger.state) == facts(folded(whole))
                assert ledger.queue_id == queue_id
        ended = [r["id"] for r in whole if r["kind"] == "end"]
        with (place / "runs.csv").open(newline="") as file:
            assert [row["id"] for row in csv.DictReader(file)] == ended


def id_of(i):
    return f"20261117T000000{i:06}-0123abcd"


def jobs_that_end(n):
    for i in range(n):
        job = Job(id_of(i), "low", 0, ["true"], name=f"n{i}", arrived_at=float(i))
        yield records.arrival(job)
        yield records.start(job, i + 1.0, 0.0, 0)
        yield records.end(job, i + 3.5, "done")


def test_the_table_of_runs_says_how_long_each_job_waited_and_ran(tmp_path):
    with Ledger(tmp_path / "state", CLASSES) as ledger:
        ledger.write(jobs_that_end(2))
    found = find_row(tmp_path / "state" / "runs.csv", id_of(1))
    assert (found["state"], found["arrived_at"], found["ended_at"]) == ("done", 1.0, 4.5)
    assert find_row(tmp_path / "state" / "runs.csv", id_of(2)) is None
    responses = recent_responses(tmp_path / "state" / "runs.csv", CLASSES)
    assert {k: list(v) for k, v in responses.items()} == {"low": [3.5, 3.5], "mid": [], "high": []}


def test_a_journal_that_grows_for_long_is_compacted_and_nothing_is_kept_in_memory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("foretell.adapters.dispatcher.store.ledger._MOST_NEEDLESS", 30)
    with Ledger(tmp_path / "state", CLASSES) as ledger:
        for i, record in enumerate(jobs_that_end(100)):
            ledger.write([record])
            ledger.tidy()
            assert len((tmp_path / "state" / "journal").read_bytes().splitlines()) < 50, i
        assert ledger.state.n_ended["low", "done"] == 100
        assert not ledger._journal.records
    with Ledger(tmp_path / "state", CLASSES) as ledger:
        assert ledger.state.n_ended["low", "done"] == 100
    assert len((tmp_path / "state" / "runs.csv").read_text().splitlines()) == 101


def test_a_row_that_a_crash_left_twice_or_half_is_there_once(tmp_path):
    place = tmp_path / "state"
    with Ledger(place, CLASSES) as ledger:
        ledger.write(jobs_that_end(1))
    runs = place / "runs.csv"
    row = runs.read_bytes().splitlines(keepends=True)[1]
    runs.write_bytes(runs.read_bytes() + row + row[:20])  # as if a compaction had been cut short
    Ledger(place, CLASSES).close()
    assert runs.read_bytes().splitlines(keepends=True)[1:] == [row]


def test_jobs_of_a_class_that_is_gone_are_not_dropped_silently(tmp_path):
    with Ledger(tmp_path / "state", CLASSES) as ledger:
        ledger.write([records.arrival(Job("a", "mid", 1, ["true"]))])
    with pytest.raises(StorageError, match=r"'mid'.*low, high"):
        Ledger(tmp_path / "state", ["low", "high"])
    with Ledger(tmp_path / "state", CLASSES) as ledger:
        assert list(ledger.state.jobs) == ["a"]


def test_jobs_that_ended_keep_no_class_in_the_file_and_stay_in_the_table(tmp_path):
    place = tmp_path / "state"
    with Ledger(place, CLASSES) as ledger:
        for name in ("a", "b"):
            job = Job(name, "mid", 1, ["true"])
            ledger.write([records.arrival(job), records.start(job, 1.0, 0.0, 1)])
            ledger.write([records.end(ledger.state.jobs[name], 2.0, "done")])
        ledger.write([records.arrival(Job("c", "low", 0, ["true"]))])
    before = (place / "runs.csv").read_text()
    assert before.count("mid") == 2
    assert list(read_state(place, ["low", "high"]).jobs) == ["c"]
    for _ in range(2):  # the second reads what the first compacted
        with Ledger(place, ["low", "high"]) as ledger:
            assert list(ledger.state.jobs) == ["c"]
            assert ledger.state.n_ended["mid", "done"] == 2
        assert (place / "runs.csv").read_text() == before


def test_two_dispatchers_never_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("foretell.files.directory._LOCK_WAIT_S", 0.0)
    for _ in range(2):
        with Ledger(tmp_path / "state", CLASSES):
            with pytest.raises(StorageError, match="dispatcher runs already") as caught:
                Ledger(tmp_path / "state", CLASSES)
            assert caught.value.remedy == ()  # another place would have two take the same files
            assert is_claimed(tmp_path / "state")
        assert not is_claimed(tmp_path / "state")


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "thesis.tex").touch()
    with pytest.raises(StorageError, match="thesis"):
        Ledger(tmp_path / "state", CLASSES)


@pytest.mark.parametrize("other", [0, 1])
def test_a_journal_with_one_id_twice_can_still_be_read(tmp_path, other):
    first = Job(id_of(0), "low", 0, ["true"])
    second = Job(id_of(0), CLASSES[other], other, ["false"])
    with Ledger(tmp_path / "state", CLASSES) as ledger:
        arrived = [records.arrival(first), records.arrival(second)]
        start, end = records.start(first, 1.0, 0.0, 0), records.end(first, 2.0, "done")
        ledger._journal.append([*arrived, start, end, start, end])
    for _ in range(2):
        with Ledger(tmp_path / "state", CLASSES) as ledger:
            assert (ledger.state.jobs, list(ledger.state.waiting)) == ({}, [])
    assert find_row(tmp_path / "state" / "runs.csv", id_of(0))["state"] == "done"


def test_a_job_whose_name_is_the_id_of_another_is_not_taken_for_it(tmp_path):
    runs = tmp_path / "state" / "runs.csv"
    with Ledger(tmp_path / "state", CLASSES) as ledger:
        for i, name in enumerate([id_of(1), id_of(2)]):
            job = Job(id_of(i), "low", 0, ["true"], name=name)
            ledger.write([records.arrival(job), records.end(job, 1.0, "canceled")])
    assert find_row(runs, id_of(1))["name"] == id_of(2)
    assert find_row(runs, id_of(2)) is None


@pytest.mark.parametrize("when", ["flush", "fsync"])
def test_a_table_of_runs_that_cannot_be_written_is_whole_after_a_restart(
    tmp_path, monkeypatch, when
):
    place = tmp_path / "state"
    with Ledger(place, CLASSES) as ledger, monkeypatch.context() as patch:
        if when == "flush":
            patch.setattr(ledger._runs, "_file", Full(ledger._runs._file))
            with pytest.raises(StorageError, match="space"):
                ledger.write(jobs_that_end(1))
            with pytest.raises(StorageError, match="space"):  # it would lose the row for good
                ledger.compact()
        else:
            ledger.write(jobs_that_end(1))
            patch.setattr("os.fsync", full)
            with pytest.raises(StorageError, match="space"):
                ledger._runs.sync()
    Ledger(place, CLASSES).close()
    assert find_row(place / "runs.csv", id_of(0))["state"] == "done"


def full(*_):
    raise OSError(28, "No space left on device")


class Full:
    """A file on a full disk."""

    def __init__(self, file):
        self.fileno, self.seek, self.close = file.fileno, file.seek, file.close

    write = flush = full


@pytest.mark.parametrize("header", ["class,response_s", "\x00\xff", '"job_class'])
def test_a_table_with_other_columns_is_set_aside_and_a_new_one_is_begun(tmp_path, header):
    place = tmp_path / "state"
    with Ledger(place, CLASSES) as ledger:
        ledger.write(jobs_that_end(2))
    Ledger(place, CLASSES).close()  # the rows are in the table alone
    with Ledger(place, CLASSES) as ledger:
        ledger.write([records.arrival(Job(id_of(7), "low", 0, ["true"]))])
        ledger.write([records.end(ledger.state.jobs[id_of(7)], 9.0, "canceled")])
    old = f"{header}\nlow,1\n".encode("latin-1") * 300
    (place / "runs.csv").write_bytes(old)
    (place / "runs-1.csv").write_text("of another time")
    assert not any(recent_responses(place / "runs.csv", CLASSES).values())
    with Ledger(place, CLASSES) as ledger:
        assert ledger.table_aside == place / "runs-2.csv"
        assert ledger.state.n_ended["low", "done"] == 2
    assert (place / "runs-2.csv").read_bytes() == old
    assert (place / "runs-1.csv").read_text() == "of another time"
    with Ledger(place, CLASSES) as ledger:
        assert ledger.table_aside is None
    with (place / "runs.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [id_of(7)]  # the journal had it


def test_a_crash_while_a_table_is_set_aside_leaves_no_row_twice_and_none_half(
    tmp_path, monkeypatch
):
    place = tmp_path / "state"
    with Ledger(place, CLASSES) as ledger:
        ledger.write(jobs_that_end(1))
        ledger.compact()
        job = Job(id_of(7), "low", 0, ["true"])
        ledger.write([records.arrival(job), records.end(job, 9.0, "canceled")])
    (place / "runs.csv").write_text("other,columns\n")

    def crash(self):
        raise StorageError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "compact", crash)
        with pytest.raises(StorageError, match="killed"):
            Ledger(place, CLASSES)
    Ledger(place, CLASSES).close()
    with (place / "runs.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [id_of(7)]


def test_a_time_that_is_no_number_is_left_out(tmp_path):
    with Ledger(tmp_path / "state", CLASSES) as ledger:
        ledger.write(jobs_that_end(2))
    table = tmp_path / "state" / "runs.csv"
    table.write_text(table.read_text().replace(",3.5,", ",soon,", 1))
    assert list(recent_responses(table, CLASSES)["low"]) == [3.5]
