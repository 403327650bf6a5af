"""The guard refuses foreign names and pages, wrong tokens, and what is too large or too slow."""

import json
import select
import socket
import time
from contextlib import suppress

import pytest

ROW = {"size": 33, "nodes": 3, "machine": "m4", "is_big": True}
JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}
PREDICT = "/models/sort/predict"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost@x",
        "",
        "[::1].evil.example",
        "[::1]evil.example:80",
        "[::1",
        "localhost:80:80",
        "localhost/x",
        "[::1]]",
    ],
)
def test_a_foreign_name_is_refused(server, host):
    kind, detail = server.problem_of(server.client.get("/models", headers={"Host": host}))
    assert kind == "host"
    assert "allow_host" in detail


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "[::1]:8000", "192.0.2.1"])
def test_addresses_cannot_be_rebound_and_are_allowed(server, host):
    assert server.client.get("/health", headers={"Host": host}).status_code == 200


def test_further_names_can_be_allowed(strict):
    assert strict.client.get("/health", headers={"Host": "Jobs.Example:80"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_foreign_pages_may_not_post(server, headers):
    kind, _ = server.problem_of(server.client.post(PREDICT, json={"rows": [ROW]}, headers=headers))
    assert kind == "foreign-page"


def test_the_own_page_may_post(server):
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert server.client.post(PREDICT, json={"rows": [ROW]}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer wrong", "Bearer", "Basic a token that nobody guesses", "Bearer \u00e9" * 9],
)
def test_without_the_token_nothing_is_told(strict, authorization):
    value = b"" if authorization is None else authorization.encode("latin-1")
    for path in ("/models", "/metrics", "/jobs", "/models/sort"):
        response = strict.client.get(path, headers={"Authorization": value})
        assert strict.problem_of(response)[0] == "token"
        assert response.headers["www-authenticate"] == "Bearer"
    assert strict.client.get("/", headers={"Authorization": value}).status_code == 200


def test_with_the_token_all_is_told(strict):
    assert strict.works()
    assert strict.client.get("/health").json()["needs_token"]


def test_a_body_that_says_it_is_too_large_is_not_read(strict):
    response = strict.client.post(PREDICT, content=b" " * 3_000_000, headers=JSON)
    assert strict.problem_of(response)[0] == "too-large"
    assert strict.works()


def test_a_body_without_a_length_is_bounded_while_it_is_read(strict):
    def endless():
        for _ in range(30):
            yield b" " * 1000

    response = strict.client.post(PREDICT, content=endless(), headers=JSON)
    assert strict.problem_of(response)[0] == "too-large"
    assert strict.works()


def test_too_many_rows_are_refused(strict):
    rows = "\n".join(["size,nodes,machine,is_big", *["1,1,m4,true"] * 51])
    response = strict.client.post(PREDICT, content=rows.encode(), headers=CSV)
    kind, detail = strict.problem_of(response)
    assert kind == "too-large" and "51" in detail and "50" in detail


HEAD = (
    f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Authorization: Bearer a token that nobody guesses\r\n"
).encode()


def test_a_body_that_comes_too_slowly_is_given_up(strict):
    answer = strict.exchange(HEAD + b"Content-Length: 100\r\n\r\n", b"{")
    assert strict.problem_in(answer) == "slow"
    assert strict.works()


def test_a_head_that_comes_too_slowly_is_given_up(strict):
    started = time.monotonic()
    assert strict.exchange(b"GET /health HTTP/1.1\r\nHost: local") == b""
    assert time.monotonic() - started < 30
    assert strict.works()


def test_a_client_that_leaves_does_no_harm(strict):
    for part in (HEAD, HEAD + b"Content-Length: 100\r\n\r\n{"):
        with strict.connect() as connection:
            connection.sendall(part)
    body = json.dumps({"rows": [ROW] * 40}).encode()
    with strict.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    assert strict.works()
    assert strict.client.get("/health").json()["status"] == "ok"


def test_a_client_that_reads_nothing_is_given_up(strict):
    request = b"GET /page/chart.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with strict.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        with suppress(BlockingIOError):
            for _ in range(5_000):  # more than any buffer holds of the answers
                connection.send(request)
        gone = select.poll()
        gone.register(connection, select.POLLHUP | select.POLLERR)
        assert gone.poll(30_000)
    assert strict.works()


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01 this is TLS\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"POST /fit HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /fit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(server, request_):
    assert server.problem_in(server.exchange(request_)) == "malformed"
    assert server.works()


@pytest.mark.parametrize("n_bytes", [20_000, 60_000])
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["unfinished", "whole"])
def test_headers_that_are_too_large_are_refused(server, n_bytes, end):
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nA: "
    assert server.problem_in(server.exchange(head + b"b" * n_bytes + end)) == "head-too-large"
    assert server.works()


def test_an_address_that_is_too_long_is_refused(server):
    head = b"GET /models/" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n"
    answer = server.exchange(head + b"Connection: close\r\n\r\n")
    assert server.problem_in(answer) == "head-too-large"


def test_an_upload_that_is_aborted_leaves_no_traceback(serve):
    server = serve("-j", "1", "--read-only")
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with server.connect() as connection:
        connection.sendall(head.encode() + b"Content-Length: 1000\r\n\r\n{")
    route = f'route="{PREDICT.replace("sort", "{name}")}"'
    server.wait_for(lambda: route in server.client.get("/metrics").text)
    assert server.works()
    server.close()
    assert "Traceback" not in server.printed()
