"""Run a dispatcher until a signal stops it, or until no job is left; with HTTP or without."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.adapters.dispatcher.dispatcher import Dispatcher
from foretell.adapters.dispatcher.events import Event
from foretell.decide.queueing.queue_file import Queue
from foretell.errors import StorageError

if TYPE_CHECKING:
    from foretell.adapters.dispatcher.metrics import DispatcherMetrics

ADDRESS, TOKEN = "address", "token"

Tell = Callable[[Event], None]


@dataclass(frozen=True)
class Service:
    """Where jobs are taken over HTTP.

    Attributes
    ----------
    token
        What clients must send; by default one is made, and written to the folder of the state,
        for whoever reaches this address can run commands.
    """

    host: str = "127.0.0.1"
    port: int = 8010
    token: str | None = field(default=None, repr=False)
    allowed_hosts: frozenset[str] = frozenset()


def run_dispatcher(
    queue: Path | str | Mapping[str, Any] | Queue,
    *,
    service: Service | None = None,
    until_empty: bool = False,
    tell: Tell = lambda _: None,
    on_ready: Callable[[Dispatcher, str | None], None] = lambda _, __: None,
    **options: Any,
) -> bool:
    """Run jobs; ``on_ready`` gets the dispatcher and its address, and ``options`` are its own.

    Returns whether it was stopped by a signal, rather than out of jobs.
    """
    if service is None:
        with Dispatcher(queue, tell=tell, **options) as dispatcher:
            on_ready(dispatcher, None)
            with _stopped_by_signals(dispatcher):
                dispatcher.run(until_empty=until_empty)
            return dispatcher.is_stopping
    from foretell.adapters.dispatcher.metrics import DispatcherMetrics

    metrics = DispatcherMetrics()

    def tell_both(event: Event) -> None:
        metrics.observe(event)
        tell(event)

    with Dispatcher(queue, tell=tell_both, **options) as dispatcher:
        metrics.watch(dispatcher.status)
        return _serve(dispatcher, metrics, service, until_empty=until_empty, on_ready=on_ready)


def _serve(
    dispatcher: Dispatcher,
    metrics: DispatcherMetrics,
    service: Service,
    *,
    until_empty: bool,
    on_ready: Callable[[Dispatcher, str | None], None],
) -> bool:
    from foretell.adapters.dispatcher.http import LIMITS, make_app
    from foretell.adapters.http.server.run import listen, run_server, token_required, url_of
    from foretell.adapters.http.server.settings import Access

    refusal = token_required(service.host) if service.token is None else None
    opened = listen(service.host, service.port, refusal=refusal)
    with opened, _told(dispatcher.folder, url_of(opened), service.token) as token:
        app = make_app(dispatcher, metrics, Access(token, service.allowed_hosts))
        failures: list[BaseException] = []

        def work() -> None:
            try:
                dispatcher.run(until_empty=until_empty)
            except BaseException as error:  # the server must not go on without it
                failures.append(error)
            if not dispatcher.is_stopping:
                os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=work, name="dispatcher")
        is_emptied = False

        def start() -> None:
            on_ready(dispatcher, url_of(opened))
            thread.start()

        try:
            run_server(app, LIMITS, opened, start)
        finally:
            is_emptied = thread.ident is not None and not thread.is_alive()
            dispatcher.stop()
            if thread.ident is not None:
                with _ignored(signal.SIGTERM):  # the thread sends it when it ends
                    thread.join()
    if failures:
        raise failures[0]
    return not is_emptied


@contextmanager
def _told(folder: Path, url: str, token: str | None) -> Iterator[str]:
    """Write the address, and a token if none is given, for other commands of the same user."""
    made = secrets.token_hex(32) if token is None else None
    files = {ADDRESS: url} if made is None else {ADDRESS: url, TOKEN: made}
    try:
        for name, text in files.items():
            _write_private(folder / name, text)
        yield token or made or ""
    finally:
        for name in files:
            with suppress(OSError):
                (folder / name).unlink()


def _write_private(path: Path, text: str) -> None:
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def _stopped_by_signals(dispatcher: Dispatcher) -> Iterator[None]:
    """Stop the dispatcher on Ctrl-C, or when it is asked to end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(n, lambda *_: dispatcher.stop()) for n in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _ignored(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)
