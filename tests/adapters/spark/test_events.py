"""What event logs tell: whole, compressed, cut, damaged, hostile, or of other versions."""

import json
import os
import tomllib

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foretell import UsageError, learn_queue
from foretell.adapters.spark.events import read_events
from foretell.cli._main import cli
from foretell.decide.queueing.queue_file import read_queue

from .made_logs import MadeLog

CLASS, JOB, DROP, ARRIVED = "foretell.class", "foretell.job", "foretell.drop", "foretell.arrived"


def waves(lengths, slots=2):
    """Start tasks as slots become free; return their starts and lengths."""
    free, tasks = [0.0] * slots, []
    for length in lengths:
        start = min(free)
        free[free.index(start)] = start + length
        tasks.append((start, length))
    return tasks


def made_up(n_low=18, n_high=6, seed=1, **options):
    """Make a log of two classes; also return the lengths of their tasks."""
    random = np.random.default_rng(seed)
    log = MadeLog(**options)
    lengths = {"low": [], "high": []}
    now = log.start_s + 10
    order = ["low"] * n_low + ["high"] * n_high
    for number, name in enumerate(random.permutation(order)):
        n_tasks, mean = {"low": (5, 0.4), "high": (3, 0.2)}[name]
        drawn = np.round(random.gamma(20, mean / 20, n_tasks), 3)
        lengths[name].append(drawn)
        properties = {CLASS: str(name), JOB: f"job-{number}", DROP: "0.0"}
        now = log.job(now, [waves(drawn), [(0.0, 0.1), (0.0, 0.1)]], **properties) + 3
    return log.end(now), lengths


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def test_two_classes_are_learned_from_their_tasks(folder):
    log, lengths = made_up()
    (folder / "app-1").write_bytes(log.content)
    found = learn_queue(folder, order=["low", "high"])
    queue = read_queue(tomllib.loads(found.toml()))
    assert queue.slots == 2
    assert [c.name for c in queue.classes] == ["low", "high"]
    for c, n_tasks in zip(queue.classes, (5, 3), strict=True):
        # The first job of all is left out; it is of one of the classes.
        candidates = [np.concatenate(lengths[c.name][skip:]) for skip in (0, 1)]
        assert any(c.map_s == pytest.approx(x.mean(), rel=1e-3) for x in candidates)
        assert any(
            c.map_scv == pytest.approx(x.var() / x.mean() ** 2, rel=2e-3) for x in candidates
        )
        assert (c.tasks, c.reduce_tasks, c.reduce_s) == ({n_tasks: 1.0}, {2: 1.0}, 0.1)
        # Before the first task and after the last, up to what stages differ from the model.
        assert c.overhead_s == pytest.approx(0.5 + 0.25, abs=0.02)
        assert c.shuffle_s == pytest.approx(0.25)
    low, high = (c.rate_per_s for c in queue.classes)
    assert low / high == pytest.approx(18 / 6, rel=1e-3)
    starts = [e["Submission Time"] for e in log.events if e["Event"].endswith("JobStart")]
    assert low + high == pytest.approx(1000 * 23 / (starts[-1] - starts[0]), rel=1e-3)


def test_arrivals_are_those_of_the_queue_and_not_the_starts(folder):
    log = MadeLog()
    now = log.start_s
    for i in range(11):  # all arrive within a second, and each runs for several
        arrived = repr(log.start_s + i / 10)
        now = log.job(now, [[(0, 3.0)]], **{CLASS: "a", JOB: str(i), ARRIVED: arrived})
    (folder / "app").write_bytes(log.end(now).content)
    values = learn_queue(folder).values
    assert values["class"][0]["rate_per_s"] == pytest.approx(10)


def test_dropped_tasks_are_counted_among_those_of_a_job(folder):
    log = MadeLog()
    now = log.start_s
    for i in range(3):
        properties = {CLASS: "a", JOB: str(i), DROP: "0.2"}
        now = log.job(now, [waves([1.0] * 4)], **properties)
    (folder / "app").write_bytes(log.end(now).content)
    found = learn_queue(folder)
    assert found.values["class"][0]["tasks"] == 5
    assert any("dropped" in note for note in found.notes)


def test_classes_may_be_groups_or_applications(folder):
    for name, group in (("etl", "g1"), ("report", "g2")):
        log = MadeLog(name=name)
        ended = log.job(log.start_s + 5, [[(0, 2.0)]], **{"spark.jobGroup.id": group})
        (folder / name).write_bytes(log.end(ended + 1).content)
    names = lambda found: sorted(c["name"] for c in found.values["class"])  # noqa: E731
    assert names(learn_queue(folder)) == ["g1", "g2"]
    by_application = learn_queue(folder, by="application")
    assert names(by_application) == ["etl", "report"]
    # The whole application is the job: 5 s and 0.5 s before its task, 0.25 s and 1 s after it.
    assert by_application.values["class"][0]["overhead_s"] == pytest.approx(6.75)
    with pytest.raises(UsageError, match="group"):
        learn_queue(folder, by="grup")


def test_stages_that_run_side_by_side_give_the_time_of_the_whole_job(folder):
    log = MadeLog()
    now = log.start_s
    for i in range(4):
        log.job(now, [[(0, 2.0)]], gap_s=0, **{CLASS: "a", JOB: str(i)})
        log.events.pop()  # the end comes later
        log.events[-2]["Stage IDs"].append(log.n_stages)
        log.task(log.n_stages, now + 0.6, now + 3.0)
        log.n_stages += 1
        log.add("JobEnd", **{"Job ID": log.n_jobs - 1, "Completion Time": round(1000 * (now + 4)),
                             "Job Result": {"Result": "JobSucceeded"}})  # fmt: skip
        now += 10
    (folder / "app").write_bytes(log.end(now).content)
    found = learn_queue(folder)
    assert found.values["class"][0]["service"]["mean_s"] == pytest.approx(4.0)
    assert any("side by side" in note for note in found.notes)


def test_jobs_and_tasks_that_failed_are_left_out(folder):
    log = MadeLog()
    now = log.start_s
    for i in range(4):
        properties = {CLASS: "a", JOB: str(i)}
        now = log.job(now, [[(0, 1.0 if i else 99.0)]], is_done=i > 0, **properties)
    log.job(now, [[(0, 1.0)]], **{CLASS: "a", JOB: "last"})
    log.events.insert(-1, log.events[-2] | {"Task End Reason": {"Reason": "TaskKilled"}})
    (folder / "app").write_bytes(log.end(now + 3).content)
    found = learn_queue(folder)
    assert found.n_jobs == {"a": 4}
    assert (found.values["class"][0]["map_s"], found.values["class"][0]["tasks"]) == (1.0, 1)
    assert any("1 job did not end well" in note for note in found.notes)


def rolling(folder, parts, suffix=""):
    """Write a log as Spark rolls it: files by number, and one that tells whether it ended."""
    log = folder / "eventlog_v2_app-1"
    log.mkdir()
    (log / "appstatus_app-1").touch()
    for i, part in enumerate(parts, start=1):
        (log / f"events_{i}_app-1{suffix}").write_bytes(part)
    return log


def zstd(content):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(content)


def test_rolling_and_compressed_logs_say_the_same(folder):
    log, _ = made_up()
    lines = log.lines
    expected = None
    for name, pack, suffix in (("plain", bytes, ""), ("packed", zstd, ".zstd")):
        for n_files in (1, 12):
            home = folder / f"{name}-{n_files}"
            home.mkdir()
            step = -(-len(lines) // n_files)
            parts = [pack(b"".join(lines[i : i + step])) for i in range(0, len(lines), step)]
            rolling(home, parts, suffix)
            found = learn_queue(home)
            expected = expected or found
            assert (found.values, found.notes) == (expected.values, expected.notes)
    assert learn_queue(folder / "plain-12" / "eventlog_v2_app-1") == expected


def test_compacted_file_stands_for_those_before_it(folder):
    log, _ = made_up()
    home = rolling(folder, [b"", b"", b"".join(log.lines[60:])])
    (home / "events_2_app-1.compact").write_bytes(b"".join(log.lines[:60]))
    (home / "events_1_app-1").write_bytes(log.content)  # Spark deletes it a moment later
    alone = folder / "alone"
    alone.mkdir()
    (alone / "app").write_bytes(log.content)
    assert learn_queue(home).values == learn_queue(alone).values


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1), is_packed=st.booleans(), data=st.data())
def test_cut_or_damaged_log_is_used_as_far_as_it_is_whole(tmp_path_factory, share, is_packed, data):
    log, _ = made_up(n_low=6, n_high=2)
    content = zstd(log.content) if is_packed else log.content
    cut = content[: int(share * len(content))]
    if data.draw(st.booleans()) and len(cut) > 400:
        place = data.draw(st.integers(300, len(cut) - 1))
        cut = cut[:place] + bytes([cut[place] ^ 0xFF]) + cut[place + 1 :]
    folder = tmp_path_factory.mktemp("cut")
    (folder / ("app.zstd" if is_packed else "app")).write_bytes(cut)
    try:
        found = read_events(folder)
    except UsageError:
        return
    whole = {e["Job ID"] for e in log.events if e["Event"].endswith("JobStart")}
    assert len(found.jobs) <= len(whole)
    if share < 0.99 and not is_packed:
        assert any("no end" in note for note in found.notes)


def test_log_cut_in_half_says_so_and_has_the_jobs_of_its_half(folder):
    log, _ = made_up()
    (folder / "app").write_bytes(log.content[: len(log.content) // 2])
    found = learn_queue(folder)
    assert 0 < sum(found.n_jobs.values()) < 24
    assert any("no end" in note for note in found.notes)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"Event":"SparkListenerJobStart","Job ID":' + b"9" * 5_000 + b"}",
        b'{"Event":"SparkListenerJobStart","Job ID":1e999,"Submission Time":NaN}',
        b'{"Event":"SparkListenerJobEnd","Job ID":77,"Completion Time":1,"Job Result":[]}',
        b'{"Event":"SparkListenerTaskEnd","Stage ID":"0","Task End Reason":"Success"}',
        b'{"Event":"SparkListenerExecutorAdded","Executor Info":{"Total Cores":-5}}',
        b'{"Event":["SparkListenerJobStart"]}',
        b"\xff\xfe\x00 not text at all",
        b"null",
    ],
)
def test_odd_lines_change_nothing(folder, line):
    log, _ = made_up(n_low=3, n_high=0)
    (folder / "app").write_bytes(log.content)
    expected = learn_queue(folder).values
    lines = log.lines
    (folder / "app").write_bytes(b"".join([*lines[:9], line + b"\n", *lines[9:]]))
    assert learn_queue(folder).values == expected


def test_line_without_end_and_a_file_that_unpacks_to_much_stay_within_memory(folder):
    log, _ = made_up(n_low=3, n_high=0)
    bomb = b'{"Event":"SparkListenerJobStart","x":"' + b"0" * (200 << 20)
    (folder / "app.zstd").write_bytes(zstd(log.content + bomb))
    found = read_events(folder)
    assert len(found.jobs) == 3
    assert any("could not be read" in note or "no end" in note for note in found.notes)


def test_names_that_would_break_a_file_or_a_terminal_are_made_plain(folder):
    log = MadeLog()
    ended = log.job(log.start_s, [[(0, 1.0)]], **{CLASS: 'a"\n[x]\x1b[31m', JOB: "1"})
    (folder / "app").write_bytes(log.end(ended).content)
    found = learn_queue(folder)
    assert tomllib.loads(found.toml())["class"][0]["name"] == found.values["class"][0]["name"]
    assert "\x1b" not in found.toml()


def test_newer_version_is_read_as_far_as_it_is_known(folder):
    log, _ = made_up(version="7.1.0")
    (folder / "app").write_bytes(log.content)
    assert any("Spark 7.1.0" in note for note in learn_queue(folder).notes)


def test_events_of_other_names_are_refused(folder):
    log = MadeLog(version="9.0")
    log.add("WorkBegun", **{"Work": 1})
    (folder / "app").write_bytes(log.content)
    with pytest.raises(UsageError, match="no job"):
        learn_queue(folder)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("app.lz4", b"LZ4Block", "spark.eventLog.compression.codec=zstd"),
        ("app", b"x,y\n1,2\n", "app is no event log"),
        ("app", b"", "app is no event log"),
        (".hidden", b"", "spark.eventLog.enabled=true"),
    ],
)
def test_what_is_no_readable_log_is_refused_with_a_remedy(folder, name, content, match):
    (folder / name).write_bytes(content)
    with pytest.raises(UsageError, match=match):
        learn_queue(folder)


def test_named_pipes_are_never_opened(folder):
    os.mkfifo(folder / "app")
    with pytest.raises(UsageError):
        learn_queue(folder)


def test_command_writes_a_class_file_and_says_what_was_left_out(folder):
    log, _ = made_up()
    (folder / "logs").mkdir()
    (folder / "logs" / "app").write_bytes(log.content[:-10])
    written = folder / "classes.toml"
    arguments = ["queue", "learn", "--events", str(folder / "logs"), "--order", "low,high"]
    shown = CliRunner().invoke(cli, [*arguments, "-o", str(written)])
    assert shown.exit_code == 0, shown.output
    assert "no end" in shown.stderr
    assert [c.name for c in read_queue(written).classes] == ["low", "high"]
    printed = CliRunner().invoke(cli, arguments)
    assert printed.stdout == written.read_text()
    as_json = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    assert as_json["n_jobs"].keys() == {"low", "high"}


def test_unknown_class_in_the_order_gets_the_nearest(folder):
    log, _ = made_up()
    (folder / "app").write_bytes(log.content)
    with pytest.raises(UsageError, match="Did you mean 'low'"):
        learn_queue(folder, order=["loww"])


def of_classes(names, first_s=9.0, **properties):
    """Make a log of jobs of one task of 1 s, a minute apart; only the first takes longer."""
    log = MadeLog()
    for i, name in enumerate(names):
        task = (0, 1.0 if i else first_s)
        log.job(log.start_s + 60 * i, [[task]], **{CLASS: name, JOB: str(i), **properties})
    return log.end(log.start_s + 60 * len(names)).content


@pytest.mark.parametrize(("n_others", "is_left_out"), [(5, True), (4, False)])
def test_first_job_is_left_out_of_its_own_class_or_a_remark_says_why_not(
    folder, n_others, is_left_out
):
    # The other class has too few jobs to leave one out, and none to leave out.
    (folder / "app").write_bytes(of_classes(["a"] * (1 + n_others) + ["b"] * 2))
    found = learn_queue(folder, order=["b", "a"])
    a = found.values["class"][1]
    assert a["map_s"] == pytest.approx(1.0 if is_left_out else (9 + n_others) / (1 + n_others))
    assert found.n_jobs["a"] == n_others + (not is_left_out)
    kept = [note for note in found.notes if "kept" in note]
    assert bool(kept) is not is_left_out
    assert all(note.startswith("a: 1 first job") and "5 others" in note for note in kept)
    assert not any(note.startswith("b:") for note in found.notes)


def test_first_jobs_are_left_out_of_one_class_and_kept_in_another(folder):
    (folder / "app-1").write_bytes(of_classes(["a"] * 6))
    (folder / "app-2").write_bytes(of_classes(["b"] * 3))
    found = learn_queue(folder)
    assert found.n_jobs == {"a": 5, "b": 3}
    assert any("left out, but for b" in note for note in found.notes)


def test_learned_load_of_1_or_more_is_remarked(folder):
    log = MadeLog()
    now = log.start_s
    for i in range(11):  # ten a second, and each runs for several
        arrived = repr(log.start_s + i / 10)
        now = log.job(now, [[(0, 3.0)]], **{CLASS: "a", JOB: str(i), ARRIVED: arrived})
    (folder / "app").write_bytes(log.end(now).content)
    notes = learn_queue(folder).notes
    assert any("load is 37.5" in note and "correct" in note for note in notes)  # 10 × 3.75 s
    (folder / "app").write_bytes(of_classes(["a"] * 8))
    assert not any("load" in note for note in learn_queue(folder).notes if "loads" not in note)


def test_learned_class_has_the_drop_that_its_jobs_had(folder):
    (folder / "app").write_bytes(of_classes(["a"] * 3, **{DROP: "0.2"}))
    found = learn_queue(folder)
    assert found.values["class"][0]["drop"] == 0.2
    assert read_queue(tomllib.loads(found.toml())).classes[0].drop == 0.2
    (folder / "other").write_bytes(of_classes(["a"] * 3, **{DROP: "0.0"}))
    mixed = learn_queue(folder)
    assert "drop" not in mixed.values["class"][0]
    assert any("0, 0.2" in note for note in mixed.notes)


def test_log_without_a_whole_job_is_said_to_be_cut(folder):
    log, _ = made_up(n_low=60, n_high=40)
    packed = zstd(log.content)
    (folder / "app.zstd").write_bytes(packed[: len(packed) // 4])
    with pytest.raises(UsageError, match=r"app.zstd is cut"):
        learn_queue(folder)
    (folder / "app.zstd").unlink()
    lines = made_up()[0].lines
    started = next(i for i, line in enumerate(lines) if b"JobStart" in line)
    (folder / "app").write_bytes(b"".join(lines[: started + 3]))
    with pytest.raises(UsageError, match=r"no job ended well.*app is cut"):
        learn_queue(folder)
