"""`foretell cluster schedule`: choose the nodes of a live Kubernetes cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_unchanged
from foretell.errors import Option, UsageError

if TYPE_CHECKING:
    from foretell.adapters.kubernetes.extender import Decision
    from foretell.adapters.kubernetes.live import Live
    from foretell.adapters.kubernetes.service import ServiceSettings


@click.command()
@option.path_argument("cluster")
@click.option(
    "--mode",
    type=click.Choice(["extender"]),
    default="extender",
    show_default=True,
    help="'extender': kube-scheduler keeps its filters, and asks for scores over HTTP.",
)
@click.option("--dry-run", is_flag=True, help="Print decisions, and change nothing.")
@click.option("--policy", metavar="POLICY", help="How nodes are scored, instead of the file's way.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides among equals.")
@option.path(
    "--kubeconfig",
    metavar="FILE",
    help="How to reach the API server [default: the pod's account, or as kubectl].",
)
@click.option("--context", metavar="NAME", help="The context of the kubeconfig file.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True,
              help="Port to listen on; 0 takes a free one.")  # fmt: skip
@option.path("--cert", metavar="FILE", help="Certificate for HTTPS (PEM).")
@option.path("--key", metavar="FILE", help="Key of the certificate (PEM).")
@option.path("--client-ca", metavar="FILE",
             help="Let in only clients with a certificate of this authority (PEM).")  # fmt: skip
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Name under which kube-scheduler reaches this, besides the address; repeatable.",
)
@option.json("Print decisions as JSON, one per line.")
def schedule(
    cluster: Path,
    mode: str,
    dry_run: bool,
    policy: str | None,
    seed: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Choose nodes on a live Kubernetes cluster, by predicted time and energy.

    Each decision is printed. H, the class and the features of a task are annotations of its pod, or
    of its namespace: foretell/H, foretell/class, foretell/iterations, ...
    """
    try:
        from foretell.adapters.kubernetes.live import Connection, Live
    except ModuleNotFoundError as error:
        raise UsageError(
            f"scheduling needs {error.name}, which is not installed: "
            "pip install 'foretell[kubernetes]'"
        ) from None
    settings = _service(given)
    connection = Connection(given["kubeconfig"], given["context"])
    live = Live(cluster, connection, policy, seed=seed)
    _run_extender(live, settings, dry_run=dry_run, as_json=as_json)


def _service(given: dict[str, Any]) -> ServiceSettings:
    from foretell.adapters.http.server.run import Tls
    from foretell.adapters.http.server.settings import Access
    from foretell.adapters.kubernetes.service import ServiceSettings

    cert, key, client_ca = given["cert"], given["key"], given["client_ca"]
    if (cert is None) != (key is None) or (client_ca is not None and cert is None):
        raise UsageError(
            "a certificate and its key are given together",
            remedy=("name both files with ", Option("cert", "tls.crt"), " and ",
                    Option("key", "tls.key")),
        )  # fmt: skip
    names = frozenset(name.lower() for name in given["allow_host"])
    tls = None if cert is None else Tls(cert, key, client_ca)
    return ServiceSettings(given["host"], given["port"], tls, Access(None, names))


def _run_extender(live: Live, settings: ServiceSettings, *, dry_run: bool, as_json: bool) -> None:
    from foretell.adapters.kubernetes.extender import run_extender

    def tell(decision: Decision) -> None:
        if as_json:
            echo_unchanged(json.dumps({"decision": decision.to_json()}) + "\n")
        else:
            echo(str(decision))

    def on_ready(url: str) -> None:
        n_nodes = len(live.state.nodes)
        if as_json:
            told = {"url": url, "n_nodes": n_nodes, "dry_run": dry_run}
            echo_unchanged(json.dumps(told) + "\n")  # in one line, for who reads a line
        else:
            what = "equal scores, as this is a dry run," if dry_run else "scores"
            echo(f"kube-scheduler gets {what} at {url}/prioritize; {n_nodes} nodes are known.")
            echo("Ctrl-C stops it.", err=True)

    run_extender(live, settings, dry_run=dry_run, tell=tell, on_ready=on_ready)
