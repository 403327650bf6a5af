"""A real control plane for all tests of a process, emptied after each test; and fake kubelets."""

import shutil
import tempfile

import pytest

from .control_plane import ControlPlane, find_servers
from .kubelets import Kubelets
from .replicas import Template


@pytest.fixture(scope="session")
def _lasting_control_plane():
    servers = find_servers()
    if servers is None:
        pytest.skip("there is no Kubernetes control plane here; `make kubernetes` builds one")
    folder = tempfile.mkdtemp(prefix="foretell-kubernetes-")
    plane = ControlPlane(servers, folder)
    try:
        yield plane.start()
    finally:
        plane.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def control_plane(_lasting_control_plane):
    """An API server without nodes and pods."""
    yield _lasting_control_plane
    _lasting_control_plane.clear()


@pytest.fixture
def kubelets(control_plane):
    """Fake kubelets: nodes that are ready and run pods, by keeping time or as real processes."""
    with Kubelets(control_plane.api()) as found:
        yield found


@pytest.fixture(scope="session")
def template():
    """What schedulers in processes of their own are started from."""
    found = Template()
    yield found
    found.close()
