"""A connection to an API server of Kubernetes: requests in JSON, and errors that say what to do."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from foretell._version import __version__
from foretell.closeable import Closeable
from foretell.errors import ForetellError, Option, UsageError, error_lines

#: An object of Kubernetes, as in its JSON.
Object = dict[str, Any]
Query = Mapping[str, str | int]

MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_CONNECT_S, _REQUEST_S = 5.0, 15.0
_POOL_SIZE = 32
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ApiError(ForetellError):
    """The API server refused a request, or could not be reached.

    Attributes
    ----------
    status
        The status of the answer; None if there was none.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Api(Closeable):
    """Sends requests to an API server.

    Attributes
    ----------
    client
        The client of the official package, for its typed interfaces.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.host: str = client.configuration.host.rstrip("/")

    def close(self) -> None:
        """Close its connections."""
        self.client.rest_client.pool_manager.clear()

    def get(self, path: str, query: Query | None = None) -> Object:
        """Read an object, or a list of them."""
        return self.request("GET", path, query=query)

    def post(self, path: str, body: Object, *, timeout_s: float = _REQUEST_S) -> Object:
        """Create an object."""
        return self.request("POST", path, body, timeout_s=timeout_s)

    def put(self, path: str, body: Object, *, timeout_s: float = _REQUEST_S) -> Object:
        """Replace an object."""
        return self.request("PUT", path, body, timeout_s=timeout_s)

    def patch(self, path: str, body: Object, form: str = MERGE) -> Object:
        """Change parts of an object."""
        return self.request("PATCH", path, body, form=form)

    def delete(self, path: str, body: Object | None = None) -> Object:
        """Delete an object."""
        return self.request("DELETE", path, body)

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Query | None = None,
        form: str = "application/json",
        timeout_s: float = _REQUEST_S,
    ) -> Object:
        """Send a request, and return the JSON of the answer; an ApiError if it is refused."""
        opened = self._answer(method, path, body, query=query, form=form, read_s=timeout_s)
        with opened as answer, self._told():
            content = answer.read()
        return _parsed(content) if content else {}

    @contextmanager
    def stream(self, path: str, query: Query, read_s: float) -> Iterator[Stream]:
        """Open a watch: the objects of an answer that goes on.

        ``read_s`` is the longest time without a byte.
        """
        with self._answer("GET", path, query=query, read_s=read_s) as answer:
            yield Stream(answer)

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Query | None = None,
        form: str = "application/json",
        read_s: float,
    ) -> Iterator[Any]:
        import urllib3

        url = self.host + path + (f"?{urlencode(query)}" if query else "")
        with self._told():
            answer = self.client.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": form, **self._headers()},
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=read_s),
                preload_content=False,
                retries=False,
            )
        try:
            if answer.status >= 300:
                with self._told():
                    content = answer.read()
                raise _refusal(answer.status, content, f"{method} {path}")
            yield answer
        finally:
            answer.close()  # its connection, too, unless the answer was read to the end
            answer.release_conn()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn whatever goes wrong, in credentials that are read anew as well, into an ApiError."""
        try:
            yield
        except Exception as error:
            raise ApiError(f"{self.host}: {_reason(error)}") from error

    def _headers(self) -> dict[str, str]:
        known = self.client.configuration.auth_settings().values()
        return {
            "Accept": "application/json",
            "User-Agent": f"foretell/{__version__}",
            **{part["key"]: part["value"] for part in known if part["value"]},
        }


class Stream:
    """Objects as they come, each on a line of its own, until the server or ``end`` ends it."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[Object]:
        rest = b""
        try:
            for chunk in self._answer.stream(2**16):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    if line.strip():
                        yield _parsed(line)
        except ApiError:
            raise
        except Exception as error:
            raise ApiError(_reason(error)) from error

    def end(self) -> None:
        """End it from another thread, which does not wait for the next object."""
        with contextlib.suppress(Exception):  # it may have ended by itself just now
            self._answer.shutdown()


def connect(kubeconfig: Path | None = None, context: str | None = None) -> Api:
    """Connect to an API server: by a kubeconfig file, or from inside the cluster.

    Without arguments, a process in a pod uses its service account, and any other process the usual
    kubeconfig file.
    """
    try:
        import yaml  # which the client needs, too
        from kubernetes import client, config
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Kubernetes needs {error.name}, which is not installed: "
            "pip install 'foretell[kubernetes]'"
        ) from None

    settings = client.Configuration()
    is_inside = "KUBERNETES_SERVICE_HOST" in os.environ and kubeconfig is None and context is None
    try:
        if is_inside:
            config.load_incluster_config(client_configuration=settings)
        else:
            config.load_kube_config(
                None if kubeconfig is None else str(kubeconfig),
                context,
                client_configuration=settings,
                persist_config=False,
            )
    except (
        config.ConfigException, OSError, ValueError, yaml.YAMLError,
        TypeError, AttributeError, LookupError,  # of the client, where a file has another shape
    ) as error:  # fmt: skip
        raise UsageError(
            f"there is no way to reach a cluster: {_why_unread(error, kubeconfig, is_inside)}",
            option=None if kubeconfig is None else Option("kubeconfig", str(kubeconfig)),
            remedy=("name a kubeconfig file with ", Option("kubeconfig", "FILE"),
                    ", or run in a pod with a service account"),
        ) from None  # fmt: skip
    settings.connection_pool_maxsize = _POOL_SIZE
    settings.socket_options = _keep_alive()
    return Api(client.ApiClient(settings))


def _why_unread(error: Exception, kubeconfig: Path | None, is_inside: bool) -> str:
    """Say what is wrong with a kubeconfig file, or with the account of a pod."""
    if kubeconfig is not None and not kubeconfig.exists():
        return "there is no such file"
    named = "" if kubeconfig or is_inside else os.environ.get("KUBECONFIG", "")
    if named and not any(map(os.path.exists, named.split(os.pathsep))):
        return f"there is no file {named}, which KUBECONFIG names"
    if isinstance(error, TypeError | AttributeError | LookupError) and not is_inside:
        file = kubeconfig or named or "~/.kube/config"
        return f"{file} is not a kubeconfig file: an entry is missing, or of another type"
    mark = getattr(error, "problem_mark", None)  # of the parser of YAML
    if mark is not None:
        return f"line {mark.line + 1} is not valid YAML ({getattr(error, 'problem', error)})"
    return error_lines(error)[0].rstrip(".")


def check_access(api: Api, paths: Mapping[str, str]) -> None:
    """Raise a UsageError that says what to do unless all lists can be read, by what they are."""
    for what, path in paths.items():
        try:
            api.get(path, {"limit": 1})
        except ApiError as error:
            raise _no_access(api, what, error) from error


@dataclass(frozen=True)
class Right:
    """What a user may do with a kind of object, in one namespace or in all."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{where}"

    def is_granted(self, api: Api) -> bool:
        """Ask the API server whether this user has it."""
        resource, _, part = self.resource.partition("/")
        asked = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": part,
                 "namespace": self.namespace, "name": self.name}  # fmt: skip
        body = {"spec": {"resourceAttributes": asked}}
        review = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return bool(review["status"].get("allowed"))


def check_rights(api: Api, rights: Sequence[Right], manifest: str = "standalone.yaml") -> None:
    """Raise a UsageError that says what to do unless this user has all rights of a manifest."""
    try:
        missing = [str(right) for right in rights if not right.is_granted(api)]
    except ApiError as error:
        raise _no_access(api, "its own rights", error) from error
    if missing:
        raise UsageError(
            f"the API server does not let this user {', '.join(missing)}",
            remedy=(f"give it the rights in deploy/kubernetes/{manifest}",),
        )


def own_namespace() -> str:
    """Return the namespace of the pod that this process runs in; ``default`` outside of one."""
    try:
        return _NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:
        return "default"


def _no_access(api: Api, what: str, error: ApiError) -> UsageError:
    configured: tuple[str | Option, ...] = (
        "check the address and the credentials with `kubectl get nodes`, or name another "
        "kubeconfig file with ",
        Option("kubeconfig", "FILE"),
    )
    if error.status is None:
        return UsageError(f"the API server cannot be reached: {error}", remedy=configured)
    if error.status == 401:
        return UsageError(
            f"the API server at {api.host} does not accept the credentials (401)",
            remedy=configured,
        )
    if error.status == 403:
        return UsageError(
            f"the API server does not let this user list {what} (403): {error}",
            remedy=("give it the rights in deploy/kubernetes/rbac.yaml",),
        )
    return UsageError(f"the API server at {api.host} cannot list {what}: {error}")


def _keep_alive() -> list[tuple[int, int, int]]:
    """Return socket options by which a connection to a lost server ends within half a minute."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
               (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]  # fmt: skip
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def _parsed(content: bytes) -> Object:
    try:
        found = json.loads(content)
    except ValueError:
        raise ApiError(f"the answer is not JSON: {content[:80]!r}") from None
    if not isinstance(found, dict):
        raise ApiError(f"the answer is no object: {content[:80]!r}")
    return found


def _refusal(status: int, content: bytes, what: str) -> ApiError:
    try:
        message = json.loads(content)["message"]
    except (ValueError, KeyError, TypeError):
        message = content[:200].decode(errors="replace").strip()
    return ApiError(f"{message or what} ({status})", status)


def _reason(error: BaseException) -> str:
    """Say why a connection failed, without the wrappers that urllib3 puts around the reason."""
    inner = getattr(error, "reason", None)
    if isinstance(inner, BaseException):
        error = inner
    text = error_lines(error)[0]
    return text.rpartition("object at 0x")[2].partition(">: ")[2] or text
