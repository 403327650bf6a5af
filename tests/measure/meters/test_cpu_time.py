import subprocess
import sys

import psutil

from foretell.measure.meters import Tree
from foretell.measure.meters.cpu_time import CpuAccount, cpu_seconds

# A parent that ignores how its children end, with one that works until it is told to stop.
PARENT = """
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(child.pid, flush=True)
sys.stdin.readline()
child.kill()
while True:
    try:
        child.send_signal(0)
    except ProcessLookupError:
        break
    if child.poll() is not None:
        break
print("ended", flush=True)
sys.stdin.readline()
"""


def test_cpu_time_of_children_whose_parent_ignores_their_end_is_counted():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        child = psutil.Process(int(parent.stdout.readline()))
        tree = Tree(psutil.Process(parent.pid), is_job=True)
        account = CpuAccount(tree)
        before = cpu_seconds(tree)
        while child.cpu_times().user < 0.5:
            account.look()
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "ended\n"
        # The kernel has forgotten the child, and the account has not.
        assert cpu_seconds(tree) - before < 0.2
        assert account.used_s() >= 0.2
    finally:
        parent.communicate("\n")
