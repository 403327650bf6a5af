"""A real Kubernetes control plane on loopback: etcd, an API server, and others on request."""

import contextlib
import ctypes
import gc
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import urllib3

#: Nothing here takes so long; it only keeps a failure from hanging.
PATIENCE_S = 120
SERVERS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
#: Users by name, each with the group that decides what it may do; anybody else is unauthorized.
USERS = {
    "admin": "system:masters",
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "system:masters",
    "nobody": "",
}
#: What tests make, owners first; all of it is deleted after each test.
_KINDS = (
    "/apis/apps/v1/deployments",
    "/apis/batch/v1/jobs",
    "/apis/apps/v1/replicasets",
    "/apis/policy/v1beta1/poddisruptionbudgets",
    "/api/v1/pods",
    "/api/v1/nodes",
    "/apis/coordination.k8s.io/v1/leases",
)
_RIGHTS = tuple(
    f"/apis/rbac.authorization.k8s.io/v1/{kind}"
    for kind in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
)
_NOW = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


def find_servers():
    """Return the folder with the servers; None if they are not there."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foretell"
    folders = [Path(named)] if named else sorted(caches.glob("kubernetes-*"), reverse=True)
    for folder in folders:
        if all(os.access(folder / server, os.X_OK) for server in SERVERS):
            return folder
    return None


def free_port():
    """Return a port that nobody listens on now, and that no client is given by the system."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Wait until a condition holds, and return what it returned."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, (
            f"waited long, in vain: {what() if callable(what) else what}"
        )
        time.sleep(0.02)
    return found


class Server:
    """One server in a process of its own, which ends with this one; its output is in a file."""

    def __init__(self, command, log):
        libc = ctypes.CDLL(None)

        def die_with_parent():  # pragma: no cover - runs between fork and exec
            libc.prctl(1, signal.SIGKILL)

        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def text(self):
        """The end of what it printed."""
        return self._log.read_text(errors="replace")[-4000:]

    def has_said(self, words):
        """Whether it printed some words."""
        return words in self._log.read_text(errors="replace")

    def is_alive(self):
        """Whether it still runs."""
        return self.process.poll() is None

    def stop(self, number=signal.SIGTERM):
        """End it, by its id; one that does not end is killed."""
        if self.is_alive():
            self.process.send_signal(number)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait(PATIENCE_S)


class RefusedError(AssertionError):
    """The API server refused a request."""

    def __init__(self, method, path, status, body):
        super().__init__(f"{method} {path}: {status} {body[:500]!r}")
        self.status = status


class Api:
    """Plain requests to the API server as one user; independent of any client under test."""

    def __init__(self, url, ca, token):
        self.url, self._headers = url, {"Authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(ca_certs=str(ca), maxsize=16, retries=False)

    def request(self, method, path, body=None, *, kind="application/json"):
        """Send a request; return the parsed answer, or raise RefusedError."""
        headers = {**self._headers, "Content-Type": kind, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        answer = self._pool.request(method, self.url + path, body=data, headers=headers)
        if answer.status >= 300:
            raise RefusedError(method, path, answer.status, answer.data)
        return json.loads(answer.data) if answer.data[:1] == b"{" else answer.data

    def get(self, path):
        """Read an object, or None if there is none."""
        try:
            return self.request("GET", path)
        except RefusedError as refused:
            if refused.status == 404:
                return None
            raise

    def list(self, path):
        """Return the items of a list."""
        return self.request("GET", path)["items"]

    def create(self, path, body):
        """Create an object."""
        return self.request("POST", path, body)

    def patch(self, path, body, kind="application/merge-patch+json"):
        """Change an object."""
        return self.request("PATCH", path, body, kind=kind)

    def delete(self, path, **options):
        """Delete an object, unless it is gone."""
        with contextlib.suppress(RefusedError):
            self.request("DELETE", path, options or None)

    def watch(self, path, version):
        """Watch changes since a version."""
        url = f"{self.url}{path}{'&' if '?' in path else '?'}watch=1&resourceVersion={version}"
        options = {"headers": self._headers, "preload_content": False, "timeout": None}
        return Watch(self._pool.request("GET", url, **options))


class Watch:
    """Changes as they come, until the server ends the watch or another thread closes it."""

    def __init__(self, answer):
        self._answer = answer

    def __iter__(self):
        rest = b""
        try:
            with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
                while part := self._answer.read1(2**16):
                    *lines, rest = (rest + part).split(b"\n")
                    yield from map(json.loads, lines)
        finally:  # also if the rest is not asked for
            self._answer.close()

    def close(self):
        """End it from another thread."""
        with contextlib.suppress(Exception):
            self._answer.shutdown()


class ControlPlane:
    """etcd and an API server on loopback ports, with everything in one folder."""

    def __init__(self, servers, folder):
        self.servers, self.folder = Path(servers), Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._tokens = {user: os.urandom(16).hex() for user in USERS}
        rows = [f'{self._tokens[user]},{user},{user},"{group}"' for user, group in USERS.items()]
        (self.folder / "tokens.csv").write_text("\n".join(rows) + "\n")
        key = ["openssl", "genrsa", "-out", str(self.folder / "accounts.key"), "2048"]
        subprocess.run(key, check=True, capture_output=True)
        self.etcd = self.api_server = None
        self._running, self._numbers = [], itertools.count()

    @property
    def ca(self):
        """The certificate of the API server, which signs itself."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def url(self):
        """The address of the API server."""
        return f"https://127.0.0.1:{self._port}"

    def token(self, user="admin"):
        """Return the token of a user."""
        return self._tokens[user]

    def api(self, user="admin", *, token=None):
        """Return plain requests as a user."""
        return Api(self.url, self.ca, token or self._tokens[user])

    def kubeconfig(self, user="admin", *, token=None):
        """Write a kubeconfig for a user; return its path."""
        path = self.folder / f"{user.replace(':', '-')}-{os.urandom(4).hex()}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        described = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token or self._tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(described))
        return path

    def client(self, user="admin"):
        """Return an ApiClient of the official Python client, as a user."""
        from kubernetes import client

        settings = client.Configuration(host=self.url)
        settings.ssl_ca_cert = str(self.ca)
        settings.api_key = {"authorization": f"Bearer {self._tokens[user]}"}
        return client.ApiClient(settings)

    def start(self):
        """Start both servers, on other ports if another process took one meanwhile."""
        for attempt in range(3):
            self._etcd_port, self._peer_port, self._port = free_port(), free_port(), free_port()
            shutil.rmtree(self.folder / "etcd", ignore_errors=True)
            try:
                self.start_etcd()
                self.start_api_server()
                return self
            except AssertionError:
                self.close()
                if attempt == 2:
                    raise
        return self

    def start_etcd(self):
        """Start etcd, with the data it had."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        self.etcd = self._start(
            "etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", client,
            "--advertise-client-urls", client, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            "--log-level", "error",
        )  # fmt: skip
        self._await(self.etcd, f"{client}/health", b'"health":"true"')

    def start_api_server(self):
        """Start the API server, and wait until it is ready for requests."""
        key = self.folder / "accounts.key"
        self.api_server = self._start(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1", f"--secure-port={self._port}",
            f"--cert-dir={self.ca.parent}", "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}",
            # No controller makes default accounts here.
            "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24",
        )  # fmt: skip
        wait_until(lambda: self.ca.exists() or not self.api_server.is_alive(), "a certificate")
        self._await(self.api_server, f"{self.url}/readyz", b"ok")
        api = self.api()
        # The server is ready before its own follow-up work is done, which makes this namespace.
        wait_until(lambda: api.get("/api/v1/namespaces/default"), "the namespace default")
        gc.collect()  # connections that a killed server reset, before a later test finds them

    def _await(self, server, url, expected):
        """Wait until an address answers with success and the expected text."""
        pool = urllib3.PoolManager(
            ca_certs=str(self.ca) if url.startswith("https") else None, retries=False
        )
        headers = {"Authorization": f"Bearer {self._tokens['admin']}"}

        def is_ready():
            assert server.is_alive(), server.text
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                answer = pool.request("GET", url, headers=headers, timeout=5)
                return answer.status == 200 and expected in answer.data
            return False

        wait_until(is_ready, lambda: server.text)

    def scheduler(self, configuration=None, user="system:kube-scheduler"):
        """Start kube-scheduler; ``configuration`` has its profiles and extenders."""

        def options():
            # Its plain ports are fixed ones unless the configuration has others.
            plain = f"127.0.0.1:{free_port()}"
            described = {
                "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
                "kind": "KubeSchedulerConfiguration",
                **(configuration or {}),
                "clientConnection": {
                    "kubeconfig": str(self.kubeconfig(user)),
                    "qps": 500,
                    "burst": 1000,
                },
                "leaderElection": {"leaderElect": False},
                "healthzBindAddress": plain,
                "metricsBindAddress": plain,
            }
            path = self.folder / f"scheduler-{os.urandom(4).hex()}.json"
            path.write_text(json.dumps(described))
            return [f"--config={path}"]

        return self._start_serving("kube-scheduler", options)

    def controllers(self, names="*"):
        """Start kube-controller-manager, with all or some of its controllers."""
        options = [
            "--leader-elect=false", f"--controllers={names}", "--port=0",
            f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}",
            "--kube-api-qps=500", "--kube-api-burst=1000",
        ]  # fmt: skip
        return self._start_serving("kube-controller-manager", lambda: options)

    def _start_serving(self, name, options):
        """Start a server, on other ports if another process took one of them meanwhile."""
        for _ in range(3):
            server = self._start(
                name, *options(), "--bind-address=127.0.0.1", f"--secure-port={free_port()}",
                f"--cert-dir={self.folder / name}", "--v=2",
            )  # fmt: skip
            wait_until(
                lambda server=server: not server.is_alive() or server.has_said("Serving securely"),
                name,
            )
            if server.is_alive():
                return server
        raise AssertionError(server.text)

    def _start(self, name, *options):
        # Each has a file of its own, so that what an earlier one said is not taken for its words.
        log = self.folder / f"{name}-{next(self._numbers)}.log"
        server = Server([self.servers / name, *options], log)
        self._running.append(server)
        return server

    def clear(self):
        """Stop what was started besides etcd and the API server, and delete what tests made."""
        for server in self._running:
            if server not in (self.etcd, self.api_server):
                server.stop(signal.SIGKILL)
        self._running = [self.etcd, self.api_server]
        if not self.etcd.is_alive():
            self.start_etcd()
        if not self.api_server.is_alive():
            self.start_api_server()
        api = self.api()
        for kind in _KINDS:
            for item in api.list(kind):
                api.delete(_path(kind, item), **_NOW)
        for item in api.list("/api/v1/namespaces"):
            api.delete(f"/api/v1/namespaces/{item['metadata']['name']}/events")
        self._take_rights_back(api)

    def _take_rights_back(self, api):
        for kind in _RIGHTS:
            for item in api.list(kind):
                if item["metadata"]["name"].startswith("foretell"):
                    api.delete(_path(kind, item))

    def close(self):
        """End all servers."""
        for server in reversed(self._running):
            server.stop(signal.SIGKILL)
        self._running = []


def _path(kind, item):
    meta = item["metadata"]
    if "namespace" not in meta:
        return f"{kind}/{meta['name']}"
    group, _, plural = kind.rpartition("/")
    return f"{group}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
