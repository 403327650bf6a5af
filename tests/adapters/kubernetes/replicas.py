"""Schedulers in processes of their own: started at once from one that has imported everything."""

import contextlib
import json
import os
import signal
import subprocess
import sys

from .control_plane import wait_until

#: A lease that a busy machine does not end: who takes one again lists everything again. One that is
#: to be taken over soon is short.
LASTING_S, SHORT_S = 60, 1
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/foretell"
#: Imports what the command needs, and then starts a process for each line that it reads.
_TEMPLATE = """
import json, os, signal, sys
import foretell.cli.cluster, foretell.adapters.kubernetes.standalone.run, kubernetes.client
import foretell.cli

signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
print("ready", flush=True)
for line in sys.stdin:
    words, log = json.loads(line)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = ["foretell", *words]
        try:
            foretell.cli.main()
        except SystemExit as end:
            os._exit(end.code or 0)
        finally:
            os._exit(70)
    print(pid, flush=True)
"""


class Replica:
    """A process of `foretell cluster schedule`."""

    def __init__(self, pid, log):
        self.pid, self._log = pid, log

    @property
    def text(self):
        """All that it printed."""
        return self._log.read_text(errors="replace")

    @property
    def decisions(self):
        """What it decided so far."""
        lines = (line for line in self.text.splitlines() if line.startswith('{"decision"'))
        return [json.loads(line)["decision"] for line in lines]

    def wait(self, text):
        """Wait until it has printed a text."""
        wait_until(lambda: text in self.text or not self.is_alive(), lambda: self.text)
        assert text in self.text, self.text

    def is_alive(self):
        """Whether it runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self, number=signal.SIGTERM):
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        wait_until(lambda: not self.is_alive(), lambda: self.text)


class Template:
    """A process that has imported everything, and starts others without doing so again."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TEMPLATE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._is_ready = False

    def start(self, words, log):
        """Start a process, and return its id."""
        if not self._is_ready:
            assert self._process.stdout.readline() == "ready\n"
            self._is_ready = True
        self._process.stdin.write(json.dumps([words, str(log)]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        """End it."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Replicas:
    """Starts schedulers for one cluster file."""

    def __init__(self, template, cluster, kubeconfig, folder):
        self._template, self._folder, self.all = template, folder, []
        self._words = ["cluster", "schedule", str(cluster), "--mode", "standalone", "--port", "0",
                       "--kubeconfig", str(kubeconfig), "--json"]  # fmt: skip

    def start(self, *options, lease_seconds=LASTING_S, is_ready=True):
        """Start a scheduler; return when it says that it is ready."""
        log = self._folder / f"replica-{len(self.all)}.log"
        log.touch()
        words = [*self._words, "--lease-namespace", "default", "--lease-seconds",
                 str(lease_seconds), *map(str, options)]  # fmt: skip
        found = Replica(self._template.start(words, log), log)
        self.all.append(found)
        if is_ready:
            found.wait('"url"')
        return found

    def close(self):
        """End all of them."""
        for replica in self.all:
            replica.stop(signal.SIGKILL)


def leader(api, replicas):
    """Wait until a replica that is alive has the lease; return it."""

    def found():
        lease = api.get(LEASE)
        holder = (lease or {"spec": {}})["spec"].get("holderIdentity") or ""
        alive = {str(replica.pid): replica for replica in replicas.all if replica.is_alive()}
        return alive.get([*holder.split("_"), "", ""][1])

    return wait_until(found, "a replica with the lease")
