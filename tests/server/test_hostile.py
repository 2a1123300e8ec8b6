"""Any input is answered with a status and a sentence: the server never crashes and never stays silent."""

import gzip
import json
import socket
from urllib.parse import urlsplit

import pytest
from starlette.exceptions import HTTPException

from assay.server.payloads import decode_json

SCORE = "/v1/score"
GOOD = {"rollouts": [{"completion": "4", "answer": "4"}]}


def body_with_nesting(depth):
    return (
        b'{"rollouts": [{"completion": "4", "info": '
        + b'{"a":' * depth
        + b"1"
        + b"}" * depth
        + b"}]}"
    )


BODIES = {
    "nothing": (b"", 400, "not valid JSON"),
    "no JSON": (b"{rollouts: []}", 400, "not valid JSON"),
    "half of it": (json.dumps(GOOD).encode()[:-3], 400, "not valid JSON"),
    "two values": (b'{"rollouts": []} {}', 400, "not valid JSON"),
    "another shape": (b"[1, 2, 3]", 400, "Expected `object`, got `array`"),
    "no rollouts": (b"{}", 400, "missing required field `rollouts`"),
    "rollouts that are one": (b'{"rollouts": {"completion": "4"}}', 400, "Expected `array`"),
    "a number for a prompt": (
        b'{"rollouts": [{"completion": "4", "prompt": 4}]}',
        400,
        "$.rollouts[0].prompt",
    ),
    "null for a task": (b'{"rollouts": [{"completion": "4", "task": null}]}', 400, "got `null`"),
    "no completion": (b'{"rollouts": [{"answer": "4"}]}', 400, "has no completion"),
    "a typing error": (
        b'{"rollouts": [{"completion": "4", "anwser": "4"}]}',
        400,
        "unknown field `anwser`",
    ),
    "an unknown field": (b'{"rollouts": [], "reports": true}', 400, "unknown field `reports`"),
    "a key twice": (
        b'{"rollouts": [{"completion": "4", "completion": "5"}]}',
        400,
        "'completion' occurs 2 times",
    ),
    "a key twice, deep inside": (
        b'{"rollouts":[{"completion":"4","info":{"a":{"b":1,"b":2}}}]}',
        400,
        "'b' occurs 2 times",
    ),
    "NaN": (b'{"rollouts": [{"completion": "4", "answer": NaN}]}', 400, "not valid JSON"),
    "infinity": (
        b'{"rollouts": [{"completion": "4", "answer": -Infinity}]}',
        400,
        "not valid JSON",
    ),
    "a number beyond all bounds": (
        b'{"rollouts": [{"completion": "4", "answer": 1e999}]}',
        400,
        "not a finite number",
    ),
    "a number of 5,000 digits": (
        b'{"rollouts": [{"completion": "4", "answer": ' + b"1" * 5000 + b"}]}",
        400,
        "5000 digits",
    ),
    "lists without end": (b"[" * 100_000, 400, "nested too deep"),
    "nested in a field": (body_with_nesting(20_000), 400, "nested too deep"),
    "Latin-1": ('{"rollouts": [{"completion": "é"}]}'.encode("latin-1"), 400, "not valid JSON"),
    "UTF-16": ('{"rollouts": []}'.encode("utf-16"), 400, "not valid JSON"),
    "a mark of byte order": (b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), 400, "not valid JSON"),
    "too many rollouts": (
        json.dumps({"rollouts": [{"completion": "4"}] * 65}).encode(),
        413,
        "65 rollouts",
    ),
    "too many bytes": (b" " * 200_001, 413, "200000 are allowed"),
}


@pytest.mark.parametrize(("body", "status", "words"), BODIES.values(), ids=BODIES)
def test_an_invalid_body_is_answered_with_an_error_status_and_a_reason(server, body, status, words):
    answer = server.request(SCORE, body)
    assert answer.status == status
    assert words in answer.error


@pytest.mark.parametrize("path", ["/openrlhf", "/slime", "/verify"])
@pytest.mark.parametrize("body", [b"", b"[[]]", b"{}", b"3", b'"x"', b"null", b"[" * 50_000])
def test_trainer_routes_also_refuse_invalid_bodies(server, path, body):
    answer = server.request(path, body)
    assert answer.status == 400
    assert answer.error


HEADERS = {
    "no type": ({"Content-Type": ""}, "send JSON"),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, "send JSON"),
    "another alphabet": ({"Content-Type": "application/json; charset=utf-16"}, "send JSON"),
    "packed": ({"Content-Encoding": "gzip"}, "send it as it is"),
    "packed otherwise": ({"Content-Encoding": "br"}, "send it as it is"),
}


@pytest.mark.parametrize(("headers", "words"), HEADERS.values(), ids=HEADERS)
def test_other_content_types_and_encodings_are_answered_with_415(server, headers, words):
    """Whatever the body contains."""
    answer = server.request(SCORE, GOOD, headers=headers)
    assert answer.status == 415
    assert words in answer.error


def test_expect_100_continue_is_supported(server):
    """The client announces a body, receives 100, sends the body, and gets its scores on the same connection."""
    body = json.dumps(GOOD).encode()
    head = (
        f"POST {SCORE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    netloc = urlsplit(server.url)
    with socket.create_connection((netloc.hostname, netloc.port), timeout=30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    assert response.startswith(b"HTTP/1.1 200")
    assert b'"reward":3.5' in response


def test_a_head_request_is_answered_without_a_body(server):
    """The next request on the connection is answered after it."""
    head_request = b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    get_request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    response = exchange_bytes(server, head_request + get_request, close_writing=False)
    assert response.count(b"HTTP/1.1 200") == 2
    assert response.endswith(b'{"status":"ok"}')


@pytest.mark.parametrize("parameters", ['charset="UTF-8"', "charset=utf-8; profile=x"])
def test_a_content_type_may_name_the_charset_utf_8(server, parameters):
    """Some clients send it."""
    headers = {"Content-Type": f"application/json; {parameters}"}
    assert server.request(SCORE, GOOD, headers=headers).status == 200


def test_a_gzip_bomb_is_never_decompressed(server):
    """20 MB in 20 kB."""
    bomb = gzip.compress(b" " * 20_000_000)
    answer = server.request(SCORE, bomb, headers={"Content-Encoding": "gzip"})
    assert answer.status == 415


@pytest.mark.slow
def test_a_content_length_above_the_limit_is_refused_before_the_body_is_sent(server):
    """A request that announces a terabyte gets 413 immediately."""
    head = (
        f"POST {SCORE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 1099511627776\r\nConnection: close\r\n\r\n"
    )
    assert exchange_bytes(server, head.encode() + b"{", close_writing=False).startswith(
        b"HTTP/1.1 413"
    )


def test_a_chunked_body_is_refused_once_it_exceeds_the_limit(server):
    """It has no content length, so its bytes are counted as they arrive."""
    head = (
        f"POST {SCORE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"2710\r\n" + b" " * 10_000 + b"\r\n"
    response = exchange_bytes(
        server, head.encode() + chunk * 25 + b"0\r\n\r\n", close_writing=False
    )
    assert response.startswith(b"HTTP/1.1 413")


def test_a_chunked_body_is_accepted(server):
    """Some clients do not send a content length."""
    body = json.dumps(GOOD).encode()
    head = (
        f"POST {SCORE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    chunks = b"".join(b"%x\r\n%b\r\n" % (1, body[i : i + 1]) for i in range(len(body)))
    assert b'"reward":3.5' in exchange_bytes(
        server, head.encode() + chunks + b"0\r\n\r\n", close_writing=False
    )


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"\0" * 100],
)
def test_garbage_on_the_socket_is_refused_or_the_connection_is_closed(server, garbage):
    """The server keeps running."""
    response = exchange_bytes(server, garbage + b"\r\n\r\n")
    assert response == b"" or response.startswith(b"HTTP/1.1 4")
    assert server.request("/health", method="GET").status == 200


def test_an_endless_header_is_refused_or_the_connection_is_closed(server):
    """The server keeps running."""
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-Long: " + b"y" * 1_000_000
    response = exchange_bytes(server, head)
    assert response == b"" or response.startswith(b"HTTP/1.1 4")
    assert server.request("/health", method="GET").status == 200


def test_an_unknown_path_is_answered_with_404(server):
    """The error names the document that lists all paths."""
    answer = server.request("/v1/scores", GOOD)
    assert answer.status == 404
    assert "/openapi.json" in answer.error


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_scoring_with_another_method_is_answered_with_405(server, method):
    """The `Allow` header names the right method."""
    answer = server.request(SCORE, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def exchange_bytes(server, sent, *, close_writing=True):
    """Send bytes, and return what the server sends until it closes the connection."""
    netloc = urlsplit(server.url)
    received = b""
    with socket.create_connection((netloc.hostname, netloc.port), timeout=30) as connection:
        try:
            connection.sendall(sent)
            if close_writing:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                received += chunk
        except OSError:
            pass  # the server closed the connection
    return received


def test_a_repeated_key_is_found_in_linear_time():
    """Comparing each of the 300,000 keys with all earlier ones would take half an hour."""
    members = [f'"{number}":0' for number in range(300_000)]
    body = "{" + ",".join([*members, members[-1]]) + "}"
    with pytest.raises(HTTPException, match="'299999' occurs 2 times"):
        decode_json(body.encode())
