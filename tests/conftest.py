"""Helpers for tests that run, watch and kill real processes."""

import os
import random
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

import foretell as package


def _load_with_one_thread():
    """Load the two libraries for linear algebra so that neither starts threads.

    Tests run in as many processes as there are cores. Threads of these libraries then wait for one
    another, and waiting takes more processor time than the work. The environment stays as it was:
    processes that tests start must see to it themselves.
    """
    name = "OPENBLAS_NUM_THREADS"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, "1")
        import numpy  # noqa: F401
        import scipy.linalg  # noqa: F401


_load_with_one_thread()

# A busy machine is slow, and that is no failure.
settings.register_profile("foretell", deadline=None)
settings.load_profile("foretell")

#: Nothing here takes so long; it only keeps a failure from hanging.
PATIENCE_S = 60


class Run:
    """A command in a process group of its own, with its output in files."""

    def __init__(self, command, directory, *, most_file_bytes=None):
        def prepare():  # pragma: no cover - runs between fork and exec
            # A shell starts its background jobs, and so the tests in one, with SIGINT ignored.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if most_file_bytes is not None:
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_bytes, hard))

        self._output = directory / f"output-{time.monotonic_ns()}"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare,
            )

    @property
    def text(self):
        """All that was printed so far."""
        return self._output.read_text()

    def members(self):
        """Return the processes of the group that still run, the command's own among them."""
        return [pid for pid in _pids() if _group_of(pid) == self.process.pid]

    def reaches(self, condition, patience_s=PATIENCE_S):
        """Wait until a condition holds; return False when the command ends before."""
        deadline = time.monotonic() + patience_s
        while not condition():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"nothing happened for long: {self.text}"
            time.sleep(0.001)
        return True

    def kill(self):
        """Kill the command, and it alone; return whether it was still running."""
        self.process.send_signal(signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def interrupt(self):
        """Do what Ctrl-C does: interrupt every process of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self, patience_s=PATIENCE_S):
        """Wait for the end; return the exit code."""
        return self.process.wait(patience_s)

    def leaves_nobody_behind(self):
        """Whether all processes of the group end, within a moment."""
        deadline = time.monotonic() + PATIENCE_S / 6
        while self.members() and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self.members()

    def close(self):
        """End whatever still runs."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)


def _pids():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _group_of(pid):
    """Return the group of a process that runs; None when it is gone, or only waits for burial."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, _parent, group = stat.rpartition(")")[2].split()[:3]
    return None if state in "ZX" else int(group)


@pytest.fixture
def launch(tmp_path):
    """Start commands that are surely ended when the test is."""
    runs = []

    def start(*command, directory=tmp_path, **options):
        runs.append(Run(command, directory, **options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


@pytest.fixture
def foretell(launch):
    """Start `foretell` with some arguments."""

    def start(*arguments, **options):
        return launch(sys.executable, "-m", "foretell", *arguments, **options)

    return start


class RayNode:
    """One node of a cluster: `ray start` in a process group of its own."""

    def __init__(self, address, folder, environment, *, is_head=False):
        self.ip = "127.0.0.1" if is_head else "127.0.0.2"
        agents = ["object-manager", "node-manager", "dashboard-agent-listen"]
        agents += ["dashboard-agent-grpc", "runtime-env-agent", "metrics-export"]
        ports = [f"--{name}-port={free_port()}" for name in agents]
        place = [f"--address={address}"]
        if is_head:
            place = ["--head", f"--port={address.split(':')[1]}", "--include-dashboard=false"]
        self._folder = Path(tempfile.mkdtemp(dir=folder))  # of a short name: sockets lie in it
        self._printed = self._folder / "printed"
        with self._printed.open("wb") as printed:
            self.process = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("ray")), "start", "--block", *place, *ports,
                    f"--node-ip-address={self.ip}", f"--temp-dir={self._folder}", "--num-cpus=1",
                    "--object-store-memory=100000000", "--include-log-monitor=false",
                    "--min-worker-port=0", "--max-worker-port=0", "--disable-usage-stats",
                ],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    @property
    def text(self):
        """All that was printed so far."""
        return self._printed.read_text()

    def is_ready(self):
        """Wait until the node has joined; return False when it ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while "Ray runtime started" not in self.text:
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"the node does not start: {self.text}"
            time.sleep(0.05)
        return True

    def family(self):
        """Return the processes of the node, what its tasks started among them."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def runs(self, name):
        """Whether a process of this name runs on the node."""
        for process in self.family():
            with suppress(psutil.Error):
                if process.name() == name or process.cmdline()[:1] == [name]:
                    return True
        return False

    def is_caught_running(self, name):
        """Whether a process of this name runs on the node; if so, the node is stopped now."""
        if not self.runs(name):
            return False
        # One by one: workers may be in groups of their own.
        family = self.family()
        for process in family:
            with suppress(psutil.Error):
                process.suspend()
        if self.runs(name):  # it can no longer end by itself
            return True
        for process in family:
            with suppress(psutil.Error):
                process.resume()
        return False

    def kill(self):
        """Lose the node, as when its machine is switched off."""
        family = self.family()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        for process in family:
            with suppress(psutil.Error):
                process.kill()


class RayCluster:
    """Two nodes with one CPU each on loopback; the second may be lost, and comes back."""

    def __init__(self, folder):
        self._folder = folder
        self.environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "PYTHONPATH": str(Path(package.__file__).parents[1]),
            # So that the loss of a node is noticed within seconds.
            "RAY_health_check_initial_delay_ms": "500",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "4",
        }
        self.address = f"127.0.0.1:{free_port()}"
        self.head = RayNode(self.address, folder, self.environment, is_head=True)
        self.second = None

    def complete(self):
        """Start the second node if there is none."""
        if self.second is None or self.second.process.poll() is not None:
            self.second = RayNode(self.address, self._folder, self.environment)
            assert self.second.is_ready(), self.second.text

    def close(self):
        """End all processes."""
        for node in (self.second, self.head):
            if node is not None:
                node.kill()


def free_port():
    """Return a port nobody listens on, away from those that Ray gives its workers."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session")
def _lasting_cluster():
    pytest.importorskip("ray")
    folder = tempfile.mkdtemp(prefix="ft", dir="/tmp")
    cluster = RayCluster(folder)
    try:
        for _ in range(2):  # another process may have taken a port meanwhile
            if cluster.head.is_ready():
                break
            cluster.close()
            cluster = RayCluster(folder)
        assert cluster.head.is_ready(), cluster.head.text
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def ray_cluster(_lasting_cluster, monkeypatch):
    """A real Ray cluster of two nodes, whose token our commands know."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, _lasting_cluster.environment[name])
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    _lasting_cluster.complete()
    return _lasting_cluster


@pytest.fixture(scope="session")
def browser():
    """A real Chromium without a window; one for all tests of a process."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("there is no chromium with its chromedriver here")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync",
        "disable-dev-shm-usage", "window-size=1200,900",
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(PATIENCE_S)
    yield driver
    driver.quit()
