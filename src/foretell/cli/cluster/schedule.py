"""`foretell cluster schedule`: choose the nodes of a live Kubernetes cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_unchanged
from foretell.errors import Option, UsageError

if TYPE_CHECKING:
    from foretell.adapters.kubernetes import extender
    from foretell.adapters.kubernetes.live import Live
    from foretell.adapters.kubernetes.moves.report import MoveReport
    from foretell.adapters.kubernetes.service import ServiceSettings
    from foretell.adapters.kubernetes.standalone import scheduler


#: How long a thread of the extender keeps Python to itself.
_SWITCH_S = 0.0005


@click.command()
@option.path_argument("cluster")
@click.option(
    "--mode",
    type=click.Choice(["extender", "standalone"]),
    default="extender",
    show_default=True,
    help="'extender': kube-scheduler keeps its filters, and asks for scores over HTTP. "
    "'standalone': a scheduler of its own.",
)
@click.option("--scheduler-name", default="foretell", show_default=True, metavar="NAME",
              help="Standalone: the schedulerName of its pods.")  # fmt: skip
@click.option("--lease-namespace", metavar="NAME",
              help="Standalone: where its lease is [default: the pod's namespace].")  # fmt: skip
@click.option(
    "--lease-seconds",
    type=click.IntRange(1, 3600),
    default=15,
    show_default=True,
    metavar="S",
    help="Standalone: how long other replicas wait for one that is silent.",
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
    if mode == "standalone":
        _run_standalone(live, settings, given, dry_run=dry_run, as_json=as_json)
    else:
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

    def on_ready(url: str) -> None:
        if as_json:
            told = {"url": url, **_nodes(live), "dry_run": dry_run}
            echo_unchanged(json.dumps(told) + "\n")  # in one line, for who reads a line
        else:
            what = "equal scores, as this is a dry run," if dry_run else "scores"
            echo(f"kube-scheduler gets {what} at {url}/prioritize.")
            echo(f"{live.described_types()}.")
            echo("Ctrl-C stops it.", err=True)

    # A thread keeps Python to itself for 5 ms unless told otherwise; answers must not wait so long
    # for predictions in the background.
    sys.setswitchinterval(_SWITCH_S)
    run_extender(live, settings, dry_run=dry_run, tell=_teller(as_json), on_ready=on_ready)


def _run_standalone(
    live: Live, service: ServiceSettings, given: dict[str, Any], *, dry_run: bool, as_json: bool
) -> None:
    from foretell.adapters.kubernetes.standalone.run import StandaloneSettings, run_standalone

    name = given["scheduler_name"]
    settings = StandaloneSettings(name, given["lease_namespace"], given["lease_seconds"], dry_run)

    def on_ready(url: str) -> None:
        if as_json:
            told = {"url": url, "scheduler": name, **_nodes(live), "dry_run": dry_run}
            echo_unchanged(json.dumps(told) + "\n")  # in one line, for who reads a line
        else:
            what = "is decided, and not bound" if dry_run else "gets a node"
            echo(f"Every pod with schedulerName {name} {what}.")
            echo(f"{live.described_types()}.")
            echo(f"Health and counts: {url}/healthz, {url}/metrics. Ctrl-C stops it.", err=True)

    run_standalone(live, service, settings, tell=_teller(as_json), on_ready=on_ready)


def _nodes(live: Live) -> dict[str, Any]:
    n_by_type = live.state.n_by_type()
    without = live.state.without_type()
    types = {table.name: n_by_type[table.name] for table in live.state.types.tables}
    return {"n_nodes": sum(n_by_type.values()), "types": types, "without_type": without}


def _teller(
    as_json: bool,
) -> Callable[[extender.Decision | scheduler.Decision | MoveReport], None]:
    from foretell.adapters.kubernetes.moves.report import MoveReport

    def tell(news: extender.Decision | scheduler.Decision | MoveReport) -> None:
        if as_json:
            kind = "move" if isinstance(news, MoveReport) else "decision"
            echo_unchanged(json.dumps({kind: news.to_json()}) + "\n")
        else:
            echo(str(news))

    return tell
