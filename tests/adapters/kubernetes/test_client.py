"""The connection to an API server: who cannot connect is told what to do."""

import json

import pytest
from kubernetes.config import kube_config

from foretell.adapters.kubernetes.client import ApiError, check_access, connect, own_namespace
from foretell.errors import UsageError

from .control_plane import free_port


def kubeconfig(folder, server):
    path = folder / "config"
    described = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }  # fmt: skip
    path.write_text(json.dumps(described))
    return path


def test_a_server_that_cannot_be_reached_is_named_with_what_to_do(tmp_path):
    port = free_port()
    api = connect(kubeconfig(tmp_path, f"https://127.0.0.1:{port}"))
    with api, pytest.raises(UsageError) as caught:
        check_access(api, {"nodes": "/api/v1/nodes"})
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "refused" in str(caught.value)
    assert "0x" not in str(caught.value)
    assert "kubectl get nodes" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "there is no such file"), ("", ""), ("a: 1\nclusters: [", "line 2 is not valid YAML"),
     ("{}", ""), ("garbage", "not a kubeconfig file"), ("[]", "not a kubeconfig file"),
     ("clusters: 3", "not a kubeconfig file")],
)  # fmt: skip
def test_a_kubeconfig_that_cannot_be_used_is_named_with_the_reason(tmp_path, text, why):
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match="there is no way to reach a cluster") as caught:
        connect(path)
    assert str(path) in str(caught.value)
    assert why in str(caught.value)


def test_a_file_that_the_environment_names_is_named(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/does/not/exist")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    # The client reads the variable when it is imported.
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", "/does/not/exist")
    with pytest.raises(UsageError, match="no file /does/not/exist, which KUBECONFIG names"):
        connect()


def test_an_unknown_context_is_named(tmp_path):
    with pytest.raises(UsageError, match="other"):
        connect(kubeconfig(tmp_path, "https://127.0.0.1:1"), "other")


def test_inside_a_pod_the_service_account_is_used(monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    # There is no account here, and the message is about that and not about a kubeconfig.
    with pytest.raises(UsageError, match=r"[Ss]ervice token file"):
        connect()
    assert own_namespace() == "default"


def test_credentials_that_cannot_be_read_anew_are_an_error_like_any_other(tmp_path):
    def renew(_settings):
        raise KeyError("no token in the file")

    with connect(kubeconfig(tmp_path, "https://127.0.0.1:1")) as api:
        api.client.configuration.refresh_api_key_hook = renew
        with pytest.raises(ApiError, match="no token in the file") as caught:
            api.get("/api/v1/nodes")
    assert caught.value.status is None
