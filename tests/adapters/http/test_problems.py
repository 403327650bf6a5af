"""Whatever is wrong with a request, it is told in one shape, and the next request works."""

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
FIXED = {"size": 40, "machine": "m4", "is_big": True}


def problem_of(response):
    assert response.headers["content-type"] == "application/problem+json", response.text
    problem = response.json()
    assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["status"] == response.status_code
    assert problem["detail"]
    return problem["type"].removeprefix("urn:foretell:problem:"), problem["detail"]


def problem_in(answer):
    """Read a problem from the bytes of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    problem = json.loads(body)
    assert int(head.split()[1]) == problem["status"]
    return problem["type"].removeprefix("urn:foretell:problem:")


def works(server):
    response = server.client.post(PREDICT, json={"rows": [ROW]})
    return response.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "kind", "words"),
    [
        ("GET", "/nothing", "not-found", "/docs"),
        ("GET", "/models/", "not-found", ""),
        ("PUT", "/models", "method", "PUT"),
        ("GET", PREDICT, "method", "GET"),
        ("GET", "/models/srt", "unknown-model", "Did you mean 'sort'?"),
        ("GET", "/jobs/none", "unknown-job", "none"),
        ("DELETE", "/jobs/none", "unknown-job", "none"),
        ("POST", PREDICT, "media-type", "application/json"),
        ("POST", "/models/sort/plan", "media-type", "application/json"),
    ],
)
def test_what_is_not_there_or_not_done(server, method, path, kind, words):
    found, detail = problem_of(server.client.request(method, path))
    assert found == kind
    assert words in detail


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({}, "no column"),
        ({"size": None}, "rows[0].size"),
        ({**ROW, "size": []}, "a value is a number, a text, true or false"),
        ({**ROW, "size": "big"}, "'big'"),
        ({**ROW, "size": 10**400}, "infinite"),
        ({**ROW, "size": 1e308 * 10}, ""),
        ({k: v for k, v in ROW.items() if k != "size"}, "no column 'size'"),
    ],
)
def test_a_wrong_row(server, row, words):
    content = json.dumps({"rows": [row]})
    for rows in (content, content.replace("[{", f"[{json.dumps(ROW)},{{", 1)):
        found, detail = problem_of(server.client.post(PREDICT, content=rows, headers=JSON))
        assert found == "wrong-input"
    assert words.replace("[0]", "[1]") in detail or "missing value (row 2)" in detail


def test_a_flag_is_no_number(server):
    body = {"rows": [{**ROW, "size": True}]}
    found, detail = problem_of(server.client.post(PREDICT, json=body))
    assert found == "wrong-input" and "numbers" in detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"rows": []}, "rows"),
        ([], ""),
        ({"rows": [ROW], "more": 1}, "more"),
        ({"rows": "x"}, "rows"),
        ({"rows": [ROW, {"size": 3}]}, "row 2"),
    ],
)
def test_a_wrong_body_of_a_prediction(server, body, words):
    found, detail = problem_of(server.client.post(PREDICT, json=body))
    assert found == "wrong-input"
    assert words in detail


@pytest.mark.parametrize("interval", ["1.5", "0", "x", "nan", ""])
def test_a_wrong_interval(server, interval):
    path = f"{PREDICT}?interval={interval}"
    found, detail = problem_of(server.client.post(path, json={"rows": [ROW]}))
    assert found == "wrong-input" and "interval" in detail


@pytest.mark.parametrize("path", [PREDICT, "/models/sort/curve", "/models/sort/plan"])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"null", b"[" * 99_999, b'{"a":' * 9_999, b"1e999", b'"\\ud800"'],
    ids=range(8),
)
def test_what_is_no_json(server, path, content):
    found, _ = problem_of(server.client.post(path, content=content, headers=JSON))
    assert found == "wrong-input"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"size,nodes\n1\0,2\n", "not text"),
        (b"size,nodes\n1,2\n", "machine"),
        (b"\x80\x04pickle", "UTF-8"),
        (b"size,nodes,machine,is_big\n", "no rows"),
        (b"size,size\n1,2\n", "more than one column"),
        (b"<html>", "HTML"),
    ],
)
def test_what_is_no_table(server, content, words):
    found, detail = problem_of(server.client.post(PREDICT, content=content, headers=CSV))
    assert found == "wrong-input"
    assert words in detail


def test_an_answer_as_csv_overwrites_no_column(server):
    body, headers = {"rows": [{**ROW, "trust": 1}]}, {"Accept": "text/csv"}
    found, detail = problem_of(server.client.post(PREDICT, json=body, headers=headers))
    assert found == "wrong-input" and "'trust'" in detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"row": ROW, "column": "machine"}, "no numeric column"),
        ({"row": ROW, "column": "siz"}, "Did you mean 'size'?"),
        ({"row": {}, "column": "size"}, "no column"),
        ({"row": ROW, "column": "size", "n_points": 10**9}, "n_points"),
    ],
)
def test_a_wrong_curve(server, body, words):
    found, detail = problem_of(server.client.post("/models/sort/curve", json=body))
    assert found == "wrong-input"
    assert words in detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"vary": {"nodes": [1]}, "deadline": "1x", "fix": FIXED}, "deadline"),
        ({"vary": {"nodes": [1], "nods": [2]}, "fix": FIXED}, "nods"),
        ({"vary": {"nodes": []}, "fix": FIXED}, "nodes"),
        ({"vary": {"nodes": {"from": 1, "to": 10**15, "step": 1}}, "fix": FIXED}, "nodes"),
        ({"vary": {}, "deadlin": "1s"}, "deadlin"),
        ({"vary": {"nodes": [1]}}, "size"),
        ({"models": "sort"}, "models"),
        ({"models": ["sort"] * 9}, "models"),
        ([], "object"),
    ],
)
def test_a_wrong_plan(server, body, words):
    found, detail = problem_of(server.client.post("/models/sort/plan", json=body))
    assert found == "wrong-input"
    assert words in detail and "--" not in detail


def test_a_plan_with_a_model_that_is_not_there(server):
    body = {"models": ["energy"], "vary": {"nodes": [1]}, "fix": FIXED}
    found, _ = problem_of(server.client.post("/models/sort/plan", json=body))
    assert found == "unknown-model"


def test_a_server_that_only_reads_fits_nothing(server):
    path = "/fit?name=a&target=b"
    found, _ = problem_of(server.client.post(path, content=b"a,b\n1,2\n", headers=CSV))
    assert found == "read-only"


@pytest.mark.parametrize(
    "path",
    [
        "/models/..", "/models/%2e%2e", "/models/..%2f..%2fetc%2fpasswd", "/models/%2fetc",
        "/models/sort%00", "/models/sort%2fbest.foretell", "/models/.jobs", "/models/sort%0a",
        "/models/" + "a" * 5000, "/models/%ff%fe", "/page/..%2fserver.py", "/page/%2e%2e",
        "/models/sort.", "/models/SORT", "/models/so%00rt/predict",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_directory(server, path):
    answer = server.exchange(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
    )
    assert problem_in(answer) in {"not-found", "unknown-model", "method"}
    assert b"root:" not in answer and str(server.models).encode() not in answer
    assert works(server)


def test_thousands_of_rows_of_garbage_are_refused_and_do_no_harm(server):
    garbage = [{"size": f"x{i}", "nodes": "?", "machine": "\x00", "is_big": "maybe"}
               for i in range(10_000)]  # fmt: skip
    kind, detail = problem_of(server.client.post(PREDICT, json={"rows": garbage}))
    assert kind == "wrong-input" and "10000" in detail.replace(",", "")
    text = b"\n".join(b"\x01%d;\xc3\xa9,," % i for i in range(10_000))
    kind, _ = problem_of(server.client.post(PREDICT, content=text, headers=CSV))
    assert kind == "wrong-input"
    assert works(server)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@x", ""])
def test_a_foreign_name_is_refused(server, host):
    kind, _ = problem_of(server.client.get("/models", headers={"Host": host}))
    assert kind == "host"


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
    kind, _ = problem_of(server.client.post(PREDICT, json={"rows": [ROW]}, headers=headers))
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
        assert problem_of(response)[0] == "token"
        assert response.headers["www-authenticate"] == "Bearer"
    assert strict.client.get("/", headers={"Authorization": value}).status_code == 200


def test_with_the_token_all_is_told(strict):
    assert works(strict)
    assert strict.client.get("/health").json()["needs_token"]


def test_a_body_that_says_it_is_too_large_is_not_read(strict):
    response = strict.client.post(PREDICT, content=b" " * 3_000_000, headers=JSON)
    assert problem_of(response)[0] == "too-large"
    assert works(strict)


def test_a_body_without_a_length_is_bounded_while_it_is_read(strict):
    def endless():
        for _ in range(30):
            yield b" " * 1000

    response = strict.client.post(PREDICT, content=endless(), headers=JSON)
    assert problem_of(response)[0] == "too-large"
    assert works(strict)


def test_too_many_rows_are_refused(strict):
    rows = "\n".join(["size,nodes,machine,is_big", *["1,1,m4,true"] * 51])
    response = strict.client.post(PREDICT, content=rows.encode(), headers=CSV)
    kind, detail = problem_of(response)
    assert kind == "too-large" and "51" in detail and "50" in detail


HEAD = (
    f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Authorization: Bearer a token that nobody guesses\r\n"
).encode()


def test_a_body_that_comes_too_slowly_is_given_up(strict):
    answer = strict.exchange(HEAD + b"Content-Length: 100\r\n\r\n", b"{")
    assert problem_in(answer) == "slow"
    assert works(strict)


def test_a_head_that_comes_too_slowly_is_given_up(strict):
    started = time.monotonic()
    assert strict.exchange(b"GET /health HTTP/1.1\r\nHost: local") == b""
    assert time.monotonic() - started < 30
    assert works(strict)


def test_a_client_that_leaves_does_no_harm(strict):
    for part in (HEAD, HEAD + b"Content-Length: 100\r\n\r\n{"):
        with strict.connect() as connection:
            connection.sendall(part)
    body = json.dumps({"rows": [ROW] * 40}).encode()
    with strict.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    assert works(strict)
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
    assert works(strict)


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01 this is TLS\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 20_000,
        b"POST /fit HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /fit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(server, request_):
    assert problem_in(server.exchange(request_)) == "malformed"
    assert works(server)
