"""What jobs print: its end is there, its beginning takes no room."""

import os
import subprocess
import sys
from contextlib import closing

import pytest

from foretell.measure.running.printed import Printed

from ..conftest import script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="holes are made as on Linux")

MIB = 2**20

#: Prints 64 MiB, waits until most of it takes no room any more, and prints how much does.
FLOOD = """
    import os, time

    for _ in range(64):
        os.write(1, (b"x" * 63 + b"\\n") * 2**14)
    deadline = time.monotonic() + 50
    while os.fstat(1).st_blocks * 512 > 6 * 2**20 and time.monotonic() < deadline:
        time.sleep(0.01)
    print("kept", os.fstat(1).st_blocks * 512, flush=True)
"""


def test_a_command_that_prints_much_is_searched_at_its_end_and_fills_no_disk(measured):
    table = measured(
        {"use": "command", "run": script(FLOOD), "extract": {"kept": r"^kept (\d+)"}},
        {"n": [1]},
    )
    assert list(table["status"]) == ["ok"]
    assert 0 < table["kept"][0] <= 8 * MIB


def test_a_function_that_prints_much_fills_no_disk(measured, folder):
    lines = script(FLOOD)[-1].replace("\n", "\n    ")
    (folder / "flood.py").write_text(
        f"def flood(n):\n    {lines}\n    return {{'kept': os.fstat(1).st_blocks * 512}}\n"
    )
    table = measured({"use": "python", "call": "flood:flood"}, {"n": [1]})
    assert list(table["status"]) == ["ok"]
    assert 0 <= table["kept"][0] <= 8 * MIB


def test_the_end_is_what_was_printed_last_whatever_was_given_back():
    with closing(Printed(2 * MIB)) as printed:
        lines = [f"{i:015d}\n".encode() for i in range(6 * MIB // 16)]
        subprocess.run(["cat"], input=b"".join(lines), stdout=printed.file, check=True)
        printed.trim()
        assert os.fstat(printed.file.fileno()).st_blocks * 512 <= 3 * MIB
        assert printed.n_bytes == 6 * MIB
        assert printed.end(1000) == b"".join(lines).decode()[-1000:]
        assert printed.end(9 * MIB) == b"".join(lines).decode()[-2 * MIB :]
        assert printed.end(1000, since=6 * MIB - 16) == lines[-1].decode()
        subprocess.run(["echo", "more"], stdout=printed.file, check=True)
        assert printed.end(5) == "more\n"  # it goes on where it stood


def test_a_process_that_stays_does_not_hold_up_the_run(measured):
    job = {"use": "command", "run": ["sh", "-c", "sleep 300 & echo {n}"]}
    assert list(measured(job, {"n": [1]}, time_limit_s=60)["status"]) == ["ok"]
