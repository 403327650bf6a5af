"""The script that builds a control plane: what it does where there is nothing to build."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("install-kubernetes")
SERVERS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")


@pytest.fixture
def install(tmp_path):
    """Run the script in an environment of its own, in which no package can be installed."""

    def run(**environment):
        tools = tmp_path / "bin"
        if not tools.exists():
            tools.mkdir()
            for tool in ("sh", "rm", "mkdir", "flock"):
                found = next(p for p in ("/bin", "/usr/bin") if (Path(p) / tool).exists())
                (tools / tool).symlink_to(Path(found) / tool)
        known = {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}
        return subprocess.run(["/bin/sh", SCRIPT], env=known, capture_output=True, text=True)

    return run


def servers_in(folder, names=SERVERS):
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def cache_of_the_script(tmp_path):
    line = next(x for x in SCRIPT.read_text().splitlines() if x.startswith("version="))
    return tmp_path / "cache" / "foretell" / f"kubernetes-{line.removeprefix('version=')}"


def test_servers_in_a_named_folder_are_taken_as_they_are(install, tmp_path):
    folder = servers_in(tmp_path / "own")
    done = install(KUBEBUILDER_ASSETS=str(folder))
    assert done.returncode == 0
    assert str(folder) in done.stdout
    assert not (tmp_path / "cache").exists()


def test_a_named_folder_that_lacks_a_server_is_no_failure_and_one_line_says_so(install, tmp_path):
    folder = servers_in(tmp_path / "own", SERVERS[:-1])
    done = install(KUBEBUILDER_ASSETS=str(folder))
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert "KUBEBUILDER_ASSETS" in done.stderr
    assert "skipped" in done.stderr


def test_a_complete_cache_is_used_again(install, tmp_path):
    folder = servers_in(cache_of_the_script(tmp_path))
    done = install()
    assert (done.returncode, done.stderr) == (0, "")
    assert str(folder) in done.stdout


def test_an_incomplete_cache_is_not_used_and_without_apt_one_line_says_why(install, tmp_path):
    servers_in(cache_of_the_script(tmp_path), SERVERS[:2])
    done = install()
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert "apt-get" in done.stderr
    assert done.stdout == ""


def test_a_step_that_fails_ends_the_build_and_the_end_of_its_log_is_shown(install, tmp_path):
    if "bookworm" not in Path("/etc/os-release").read_text():
        pytest.skip("the servers are built on Debian 12 only")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "rm", "mkdir", "flock", "sed", "basename", "tail", "chmod"):
        (tools / tool).symlink_to(shutil.which(tool))
    asked = tmp_path / "asked"
    (tools / "apt-get").write_text(
        f'#!/bin/sh\necho "$@" >> {asked}\ncase "$*" in *update) exit 0;; esac\n'
        "echo no such package; exit 100\n"
    )
    (tools / "apt-get").chmod(0o755)
    done = install()
    assert done.returncode == 0
    assert "no such package" in done.stderr
    assert "its build failed" in done.stderr
    assert len(asked.read_text().splitlines()) == 2  # the lists, and the step that failed
    assert not list((tmp_path / "cache" / "foretell").glob("kubernetes-*"))


def test_the_script_names_no_host():
    assert "://" not in SCRIPT.read_text()
    assert os.access(SCRIPT, os.R_OK)
