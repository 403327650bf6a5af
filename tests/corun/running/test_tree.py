"""Trees of processes, on a made-up /proc."""

from foretell.corun.running.tree import Forest


def write_process(proc, pid, parent):
    """Write what the kernel tells of a process that runs and has used 7 ticks."""
    fields = ["R", parent, pid, pid, *[0] * 7, 7, *[0] * 5, 1, 0, 0, 0, 10, *[0] * 20]
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a job) {' '.join(map(str, fields))}")


def remove_process(proc, pid):
    (proc / str(pid) / "stat").unlink()
    (proc / str(pid)).rmdir()


def test_a_stranger_with_the_number_of_a_process_that_ended_is_of_no_job(tmp_path):
    write_process(tmp_path, 500, parent=1)
    write_process(tmp_path, 501, parent=500)
    forest = Forest(tmp_path)
    forest.add(500)
    forest.look()
    assert forest.members(500) == [500, 501]
    remove_process(tmp_path, 501)
    forest.look()
    write_process(tmp_path, 501, parent=1)
    write_process(tmp_path, 502, parent=501)
    forest.look()
    assert forest.members(500) == [500]
    # Once the whole tree has ended, its first number is free as well.
    remove_process(tmp_path, 500)
    forest.look()
    write_process(tmp_path, 500, parent=1)
    write_process(tmp_path, 503, parent=500)
    forest.look()
    assert forest.members(500) == []


def test_a_job_may_have_the_number_of_a_process_that_ended_before(tmp_path):
    write_process(tmp_path, 500, parent=1)
    forest = Forest(tmp_path)
    forest.look()  # a stranger
    forest.add(500)
    forest.look()
    assert forest.reading(500)["cpu_time_s"] > 0
