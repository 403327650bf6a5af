"""Watches: lists in pages, changes, and what happens when the server ends or forgets them."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client

from foretell.adapters.kubernetes.client import Api, ApiError
from foretell.adapters.kubernetes.watching import ADDED, DELETED, BackOff, Watch, list_all

from .control_plane import wait_until


def item(name, version):
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def page(*items, version=1, more=""):
    return {"items": list(items), "metadata": {"resourceVersion": str(version), "continue": more}}


class Script:
    """A server that answers lists and watches as a test says, and remembers what it was asked."""

    def __init__(self):
        self.lists, self.watches, self.asked = [], [], []
        self.is_over = threading.Event()
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                query = {
                    key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()
                }
                script.asked.append(query)
                answers = script.watches if "watch" in query else script.lists
                answer = answers.pop(0) if answers else None
                if isinstance(answer, int):
                    self.send_error(answer)
                    return
                self.send_response(200)
                self.end_headers()
                if isinstance(answer, bytes):  # the connection is cut
                    self.wfile.write(answer)
                elif answer is None:  # a watch in which nothing happens
                    script.is_over.wait()
                elif isinstance(answer, dict):
                    self.wfile.write(json.dumps(answer).encode())
                else:
                    for event in answer:
                        self.wfile.write(json.dumps(event).encode() + b"\n")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.is_over.set()
        self.server.shutdown()
        self.server.server_close()


class Seen:
    """A handler that keeps what it gets."""

    def __init__(self):
        self.names, self.n_lists = set(), 0

    def replace(self, items):
        self.n_lists += 1
        self.names = {found["metadata"]["name"] for found in items}

    def change(self, kind, found):
        if kind == DELETED:
            self.names.discard(found["metadata"]["name"])
        else:
            self.names.add(found["metadata"]["name"])


@pytest.fixture
def script():
    with contextlib.closing(Script()) as found:
        yield found


@pytest.fixture
def api(script):
    with Api(client.ApiClient(client.Configuration(host=script.url))) as found:
        yield found


@pytest.fixture
def watch(api):
    found = Watch(api, "/things", Seen(), BackOff(0.01, 0.05))
    yield found
    found.stop()
    found._thread.join()


def test_lists_are_read_page_by_page(script, api):
    script.lists = [page(item("a", 1), more="next"), page(item("b", 2), version=7)]
    items, version = list_all(api, "/things")
    assert [found["metadata"]["name"] for found in items] == ["a", "b"]
    assert version == "7"
    assert script.asked[1]["continue"] == "next"


def test_a_watch_that_ends_goes_on_from_the_last_version(script, watch):
    script.lists = [page(item("a", 1), version=5)]
    script.watches = [
        [{"type": ADDED, "object": item("b", 6)},
         {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}],
        [{"type": DELETED, "object": item("a", 10)}],
    ]  # fmt: skip
    watch.start()
    wait_until(lambda: watch.handler.names == {"b"} and watch.is_current, "the changes")
    assert [asked["resourceVersion"] for asked in script.asked if "watch" in asked][:3] == [
        "5", "9", "10"
    ]  # fmt: skip
    assert watch.handler.n_lists == 1


@pytest.mark.parametrize(
    "gone", [[{"type": "ERROR", "object": {"code": 410, "message": "too old"}}], 410, 500]
)
def test_a_version_that_the_server_has_forgotten_leads_to_a_new_list(script, watch, gone):
    script.lists = [page(item("a", 1)), page(item("b", 8), version=8)]
    script.watches = [gone]
    watch.start()
    wait_until(lambda: watch.handler.names == {"b"} and watch.is_current, "a new list")
    assert watch.handler.n_lists == 2


def test_a_server_that_is_away_is_asked_again(script, watch):
    script.lists = [503, 503, page(item("a", 1))]
    watch.start()
    assert watch.synced.wait(60)
    assert watch.handler.names == {"a"}


def test_a_refresh_lists_everything_again_and_until_then_nothing_is_current(script, watch):
    script.lists = [page(item("a", 1)), page(item("b", 2))]
    watch.start()
    assert watch.synced.wait(60)
    watch.refresh()
    assert not watch.is_current or watch.handler.n_lists == 2
    wait_until(lambda: watch.is_current, "a new list")
    assert watch.handler.names == {"b"}


def test_a_refresh_whose_list_is_cut_is_not_forgotten(script, watch):
    script.lists = [page(item("a", 1)), b'{"items": [', page(item("b", 2))]
    watch.start()
    assert watch.synced.wait(60)
    watch.refresh()
    wait_until(lambda: watch.is_current, "a new list")
    assert watch.handler.names == {"b"}


def test_a_mistake_in_a_handler_does_not_end_the_watch(script, watch, caplog):
    script.lists = [page(item("a", 1)), page(item("b", 2))]
    script.watches = [[{"type": ADDED, "object": {"metadata": {"resourceVersion": "2"}}}]]
    watch.start()
    wait_until(lambda: watch.handler.names == {"b"}, "a new list")
    assert "starts again" in caplog.text


def test_what_is_no_json_is_an_error_of_the_server(script, api):
    script.lists = [[1]]
    with pytest.raises(ApiError, match="no object"):
        api.get("/things")


def test_a_watch_that_is_left_early_is_closed(api):
    with api.stream("/things", {"watch": "true"}, read_s=60) as stream:
        assert not stream._answer.closed
    assert stream._answer.closed
