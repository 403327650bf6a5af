"""The store: shared by processes and threads, whole after kills, and never in the way."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.tune.store import EpochRow, ProfileRow, open_store
from foretell.tune.store.rows import plain_values


def row(trial="t1", epoch=0, **changes):
    values = {"hyper": {"lr": 0.1}, "system": {"threads": 2}, "epoch_s": 1.5, **changes}
    return EpochRow("lenet", trial, epoch, values.pop("phase", "steady"), **values)


def test_epochs_come_back_as_a_table_with_hyperparameters_and_settings(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        store.add_epochs([row(), row(epoch=1, hyper={"lr": 0.2, "act": "relu"}, core_s=2.5)])
    with open_store(tmp_path / "store.sqlite") as store:
        table = store.epochs("lenet")
        assert {"job", "trial", "epoch", "phase", "h.lr", "h.act", "s.threads", "epoch_s",
                "core_s", "load_others"} <= set(table.columns)  # fmt: skip
        assert list(table["h.lr"]) == [0.1, 0.2]
        assert list(table["core_s"]) == [0.0, 2.5]
        assert len(store.epochs("other")) == 0


def test_the_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "deep" / "store.sqlite"
    open_store(path).close()
    assert path.stat().st_mode & 0o077 == 0


def test_an_epoch_is_stored_once_unless_it_is_replaced():
    store = open_store(":memory:")
    store.add_epochs([row(epoch_s=1.0)])
    store.add_epochs([row(epoch_s=2.0)])
    assert list(store.epochs("lenet")["epoch_s"]) == [1.0]
    store.add_epochs([row(epoch_s=3.0)], replacing=True)
    assert list(store.epochs("lenet")["epoch_s"]) == [3.0]


def test_rows_of_other_machines_are_seen_only_if_shared():
    store, other = open_store(":memory:"), open_store(":memory:")
    other.add_epochs([row(machine="elsewhere"), row("t2")])
    store.merge(other)
    assert [r.trial for r in store.rows("lenet")] == ["t2"]
    assert [r.trial for r in store.rows("lenet", share=True)] == ["t1", "t2"]


@given(st.dictionaries(st.text(max_size=5), st.one_of(
    st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.just(b'data'),
    st.just([1, 2]), st.just(print))))  # fmt: skip
def test_only_finite_numbers_and_short_names_are_kept(values):
    kept = plain_values(values)
    for name, value in kept.items():
        assert value == values[name]
        assert isinstance(value, int | float) or len(value) <= 40


WRITER = """
import sys
from foretell.tune.store import EpochRow, open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
n = int(sys.argv[3])
i = 0
while i < n or n < 0:
    store.add_epochs([EpochRow("j", sys.argv[2], i, "steady", {}, {"threads": 1}, 1.0)])
    i += 1
    print(i, flush=True)
"""


def writer(path, name, n):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(n)], stdout=subprocess.PIPE, text=True
    )


def test_processes_and_threads_write_at_once_and_nothing_is_lost(tmp_path):
    path = tmp_path / "store.sqlite"
    processes = [writer(path, f"p{i}", 40) for i in range(3)]
    store = open_store(path)

    def write(name):
        for i in range(40):
            store.add_epochs([EpochRow("j", name, i, "steady", {}, {"threads": 1}, 1.0)])

    threads = [threading.Thread(target=write, args=[f"t{i}"]) for i in range(3)]
    for thread in threads:
        thread.start()
    for each in [*threads]:
        each.join()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert len(store.rows("j")) == 240
    assert store.path == path


def test_what_was_told_as_stored_is_there_after_the_writer_was_killed(tmp_path):
    path = tmp_path / "store.sqlite"
    for round_ in range(3):
        process = writer(path, f"p{round_}", -1)
        told = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        store = open_store(path)
        rows = [r for r in store.rows("j") if r.trial == f"p{round_}"]
        assert len(rows) >= int(told[-1])
        assert store.path == path
        store.close()
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def goes_to_memory(path, caplog):
    """Tell that a store at a path works in memory, and that one line says so."""
    with caplog.at_level(logging.WARNING):
        store = open_store(path)
        store.add_epochs([row()])
        store.add_epochs([row(epoch=1)])
    assert store.path is None
    assert len(store.rows("lenet")) == 2
    assert len(caplog.records) == 1
    assert str(path) in caplog.text


def test_a_damaged_file_is_left_alone(tmp_path, caplog):
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"no database at all" * 100)
    goes_to_memory(path, caplog)
    assert path.read_bytes() == b"no database at all" * 100


def test_a_file_that_is_damaged_while_it_is_used_is_left_alone(tmp_path, caplog):
    path = tmp_path / "store.sqlite"
    store = open_store(path)
    store.add_epochs([row(epoch=i) for i in range(200)])
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(bytes(content))
    with caplog.at_level(logging.WARNING):
        store = open_store(path)
        store.rows("lenet")
        store.add_epochs([row()])
    assert store.path is None
    assert len(caplog.records) == 1


@pytest.mark.parametrize("version", [7, 0])
def test_a_database_of_another_version_or_program_is_left_alone(tmp_path, caplog, version):
    path = tmp_path / "store.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (x)")
    other.execute(f"PRAGMA user_version = {version}")
    other.commit()
    other.close()
    goes_to_memory(path, caplog)
    tables = sqlite3.connect(path).execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("mine",)]


def test_a_file_that_stays_locked_is_given_up(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("foretell.tune.store.database._WAIT_S", 0.05)
    path = tmp_path / "store.sqlite"
    open_store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    goes_to_memory(path, caplog)
    other.execute("ROLLBACK")
    other.close()


def test_a_path_that_cannot_be_made_is_given_up(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    goes_to_memory(tmp_path / "file" / "store.sqlite", caplog)


def test_a_forked_process_opens_the_file_for_itself(tmp_path):
    store = open_store(tmp_path / "store.sqlite")
    store.add_epochs([row("parent")])
    pid = os.fork()
    if pid == 0:
        store.add_epochs([row("child")])
        os._exit(0)
    os.waitpid(pid, 0)
    assert {r.trial for r in store.rows("lenet")} == {"parent", "child"}


def test_what_a_training_writes_that_is_collected_within_a_transaction_comes_after_it(tmp_path):
    store, seen = open_store(tmp_path / "store.sqlite"), []

    class Interrupted:
        """A number; whoever asks for it in a transaction lets a training be collected."""

        def __conform__(self, protocol):
            store.leave(os.getpid())
            store.add_end("lenet", "collected", 1, "complete")
            seen.append(store.trainings())
            return 3

    store.enter("lenet", 1.0)
    store.add_end("lenet", "t", Interrupted(), "complete")
    assert store.path is not None
    assert seen == [[(os.getpid(), 1.0)]]
    assert store.trainings() == []
    assert store.ends("lenet") == {"t": (3, "complete"), "collected": (1, "complete")}


def test_rungs_are_where_trials_of_the_job_were_stopped():
    store = open_store(":memory:")
    for trial in range(6):
        last = 1 if trial < 4 else 9
        store.add_epochs([row(f"t{trial}", i) for i in range(last)])
        store.add_end("lenet", f"t{trial}", last, "stopped" if last == 1 else "complete")
    assert store.rungs("lenet", 9) == (1,)
    assert store.rungs("other", 9) == ()


def test_epochs_that_were_left_out_teach_no_times_but_where_trials_end():
    store = open_store(":memory:")
    for trial in ("a", "b"):
        store.add_epochs([row(trial, 0), replace(row(trial, 1), phase="left out")])
        store.add_epochs([replace(row(trial, 1), epoch_s=99.0)])  # as the callback of a search does
        store.add_end("lenet", trial, 2, "stopped")
    store.add_epochs([replace(row("c"), job="busy", phase="left out")])
    assert [(r.trial, r.epoch) for r in store.rows("lenet")] == [("a", 0), ("b", 0)]
    assert store.n_rows("lenet") == len(store.epochs("lenet")) == 2
    assert store.rungs("lenet", 9) == (2,)
    assert store.jobs() == ["lenet"]


def test_a_probe_that_never_ended_counts_against_its_setting():
    store = open_store(":memory:")
    for trial in ("a", "b"):
        store.begin_probe("lenet", trial, {"threads": 4})
    store.begin_probe("lenet", "a", {"threads": 2})
    store.begin_probe("lenet", "a", {"threads": 1})
    store.end_probe("lenet", "a", {"threads": 1})
    assert store.infeasible("lenet", "c") == [{"threads": 4}]
    assert store.infeasible("lenet", "a") == [{"threads": 2}, {"threads": 4}]


def test_profiles_keep_what_became_of_them():
    store = open_store(":memory:")
    store.add_profile(ProfileRow("j", "t", "16", {"faults": 3.0}, False))
    store.add_profile(ProfileRow("j", "t", "16", {"faults": 3.0}, False, {"threads": 1}, 0.5))
    (found,) = store.profiles()
    assert (found.best, found.best_s, found.was_known) == ({"threads": 1}, 0.5, False)


def test_restarts_are_learned_from_a_prior_of_five_seconds():
    store = open_store(":memory:")
    assert store.restart_s(5.0) == 5.0
    for _ in range(9):
        store.add_restart(2.0)
    assert store.restart_s(5.0) == 2.0
