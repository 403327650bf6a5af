"""`foretell serve` as a command: how it starts, what it refuses, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import psutil
import pytest

pytest.importorskip("fastapi")

from foretell.adapters.http.models.settings import Limits
from foretell.adapters.http.server.run import listen, token_required
from foretell.errors import UsageError


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def refused(tmp_path):
    """Run `foretell serve` to its end; return the exit code and what it said."""

    def run(*arguments, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "foretell", "serve", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **environment},
            timeout=60,
        )
        assert done.stdout == ""
        return done.returncode, done.stderr

    return run


def started(foretell, models, *options):
    run = foretell("serve", models, "--port", "0", "--json", "-j", "1", *options)
    assert run.reaches(lambda: "\n" in run.text), run.text
    return run, json.loads(run.text.splitlines()[0])["url"]


def answers(url):
    with urllib.request.urlopen(f"{url}/health", timeout=60) as response:
        return json.load(response)["status"] == "ok"


def test_the_library_writes_its_options_in_python(tmp_path):
    with pytest.raises(UsageError, match=r"max_rows=0: must be a positive number"):
        Limits(max_rows=0)
    with pytest.raises(UsageError, match=r"token_file='token'$"):
        listen("0.0.0.0", 0, refusal=token_required("0.0.0.0"))


@pytest.mark.parametrize("way", ["Ctrl-C", "SIGTERM"])
def test_it_ends_when_told_to_with_all_its_processes(foretell, models, way):
    run, url = started(foretell, models)
    assert answers(url)
    assert len(run.members()) == 2
    if way == "Ctrl-C":
        run.interrupt()
    else:
        run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 0, run.text
    assert run.leaves_nobody_behind()
    assert "Traceback" not in run.text


def test_it_ends_while_clients_hold_connections(foretell, models):
    run, url = started(foretell, models)
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(100).startswith(b"HTTP/1.1 200")
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0, run.text


def test_workers_do_not_outlive_a_server_that_is_killed(foretell, models):
    run, url = started(foretell, models)
    assert answers(url)
    workers = psutil.Process(run.process.pid).children(recursive=True)
    assert workers
    assert run.kill()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive


def test_it_says_where_it_is(foretell, models):
    run = foretell("serve", models, "--port", "0", "-j", "1")
    assert run.reaches(lambda: "/docs" in run.text)
    assert "is served at http://127.0.0.1:" in run.text
    assert "no model yet" in run.text


def test_another_address_demands_a_token(refused, models, foretell, tmp_path):
    code, said = refused(models, "--host", "0.0.0.0", "--port", "0")
    assert code == 2
    assert "token" in said and "--token-file" in said
    (tmp_path / "token").write_text("0123456789abcdef\n")
    _, url = started(foretell, models, "--host", "0.0.0.0", "--token-file", tmp_path / "token")
    local = url.replace("0.0.0.0", "127.0.0.1")
    assert answers(local)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{local}/models", timeout=60)
    asked = urllib.request.Request(
        f"{local}/models", headers={"Authorization": "Bearer 0123456789abcdef"}
    )
    assert json.load(urllib.request.urlopen(asked, timeout=60)) == {"models": []}


def test_what_cannot_be_is_refused_with_a_reason(refused, models, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for arguments, facts in [
            ((tmp_path / "none",), [str(tmp_path / "none")]),
            ((models, "--port", port), [str(port), "--port"]),
            ((models, "--port", 99999), ["99999", "--port"]),
            ((models, "--host", "no.such.host.invalid"), ["no.such.host.invalid", "--host"]),
            ((models, "--max-rows", 0), ["--max-rows", "0"]),
            ((models, "--max-body", -1), ["--max-body", "-1"]),
            ((models, "--time-limit", -1), ["--time-limit", "-1"]),
            ((models, "--workers", 0), ["--workers", "0"]),
            ((models, "--token-file", tmp_path / "none"), ["--token-file", str(tmp_path / "none")]),
        ]:
            code, said = refused(*arguments)
            assert code == 2, said
            assert said.startswith("error: ") and "Traceback" not in said
            for fact in facts:
                assert fact in said


def test_a_token_that_can_be_guessed_is_refused(refused, models):
    code, said = refused(models, FORETELL_TOKEN="short")
    assert code == 2
    assert "16 characters" in said


def test_without_the_extra_it_says_how_to_install_it(refused, models, tmp_path):
    (tmp_path / "fastapi.py").write_text("raise ModuleNotFoundError('no', name='fastapi')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    code, said = refused(models, PYTHONPATH=path)
    assert code == 2
    assert "pip install 'foretell[serve]'" in said
