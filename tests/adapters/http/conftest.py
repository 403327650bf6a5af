"""Real servers on loopback, with small models."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace

import httpx
import numpy as np
import pandas as pd
import psutil
import pytest

import foretell

PATIENCE_S = 60


def runs():
    """Sizes, nodes and machines, and a flag."""
    rows = [(s, n, m) for s in (10, 20, 40, 80) for n in (1, 2, 4, 8) for m in ("m4", "c4")]
    frame = pd.DataFrame(rows, columns=["size", "nodes", "machine"])
    frame["is_big"] = frame["size"] > 30
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    factor = np.where(frame["machine"] == "m4", 1.0, 2.0)
    return frame.assign(time_s=(5 + 3 * frame["size"] / frame["nodes"]) * factor * noise)


#: A campaign of one technique.
PLAIN = {
    "data": {"target": "time_s", "use_columns": ["size", "nodes"]},
    "features": {"inverse": ["nodes"]},
    "search": {"splits": {"method": "KFold", "folds": 3}},
    "techniques": {"LRRidge": {"alpha": 0.001}},
}


class Server:
    """`foretell serve` in a process of its own."""

    def __init__(self, models, *options, token=None, environment=()):
        self.models = models
        environment = {**os.environ, **dict(environment)}
        environment.pop("FORETELL_TOKEN", None)
        if token is not None:
            environment["FORETELL_TOKEN"] = token
        self._errors = models.with_name(f"{models.name}-stderr-{time.monotonic_ns()}")
        command = ["serve", models, "--port", "0", "--json", *options]
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "foretell", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                start_new_session=True,
            )
        told = self.process.stdout.readline()
        assert told, self.printed()
        self.url = json.loads(told)["url"]
        self.port = int(self.url.rpartition(":")[2])
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S)

    def connect(self):
        """Open a plain connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def exchange(self, *parts):
        """Send bytes as they are, and return all that comes back."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
            return read_all(connection)

    def workers(self):
        """Return the processes of the server."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def wait_for(self, condition):
        """Ask again and again until the answer is the one that is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert time.monotonic() < deadline, "nothing happened for long"
            time.sleep(0.02)
        return found

    def ended(self, job):
        """Wait until a job has ended."""

        def look():
            found = self.client.get(f"/jobs/{job['id']}").json()
            return found if found["state"] not in ("queued", "running") else None

        return self.wait_for(look)

    def printed(self):
        """Return what was written to stderr so far."""
        return self._errors.read_text()

    def works(self):
        """Whether a prediction is answered."""
        row = {"size": 33, "nodes": 3, "machine": "m4", "is_big": True}
        return self.client.post("/models/sort/predict", json={"rows": [row]}).status_code == 200

    @staticmethod
    def problem_of(response):
        """Return the kind and the detail of a problem, and check its shape."""
        assert response.headers["content-type"] == "application/problem+json", response.text
        problem = response.json()
        assert {"type", "title", "status", "detail"} <= set(problem)
        assert set(problem) <= {"type", "title", "status", "detail", "option", "remedy"}
        assert problem["status"] == response.status_code
        assert all(problem.values())
        assert "Traceback" not in response.text and "--" not in problem["detail"]
        return problem["type"].removeprefix("urn:foretell:problem:"), problem["detail"]

    @staticmethod
    def problem_in(answer):
        """Read the kind of a problem from the bytes of an answer."""
        head, _, body = answer.partition(b"\r\n\r\n")
        problem = json.loads(body)
        assert int(head.split()[1]) == problem["status"]
        return problem["type"].removeprefix("urn:foretell:problem:")

    def close(self):
        """End it with all its processes."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_S / 4)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process.stdout.close()
            sys.stderr.write(self.printed())  # pytest shows it when a test fails


def read_all(connection):
    """Read until the other side closes the connection."""
    parts = []
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A directory with two models: one of automatic mode, one without intervals."""
    folder = tmp_path_factory.mktemp("fitted")
    foretell.fit_model(runs(), target="time_s", output=folder / "sort")
    with_plain = foretell.fit_model(PLAIN, runs(), output=folder / "work")
    replace(with_plain.best, calibration=None).save(folder / "plain.foretell")
    shutil.rmtree(folder / "work")
    return folder


@pytest.fixture(scope="session")
def model(fitted):
    """The model that the server calls sort."""
    return foretell.load_model(fitted / "sort")


@pytest.fixture(scope="session")
def server(fitted):
    """A server with usual limits, for tests that change nothing."""
    started = Server(fitted, "--read-only")
    yield started
    started.close()


TOKEN = "a token that nobody guesses"


@pytest.fixture(scope="session")
def strict(fitted):
    """A server with a token and narrow limits."""
    options = ["--max-body", "0.02", "--max-rows", "50", "--time-limit", "2", "-j", "1"]
    started = Server(fitted, "--read-only", "--allow-host", "jobs.example", *options, token=TOKEN)
    yield started
    started.close()


@pytest.fixture
def serve(tmp_path, fitted):
    """Start servers on a copy of the models, which tests may change."""
    models = tmp_path / "models"
    shutil.copytree(fitted, models)
    started = []

    def start(*options, **more):
        started.append(Server(models, *options, **more))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture(scope="session")
def table():
    """A table of so few runs that a fit of it takes no time, as CSV."""
    few = runs()[["size", "nodes", "time_s"]].iloc[:30:3]
    return few.to_csv(index=False).encode()
