"""Whatever is sent, the answer is a status and a sentence: never a crash, never silence."""

import gzip
import json
import socket
from urllib.parse import urlsplit

import pytest
from starlette.exceptions import HTTPException

from assay.server.payloads import decode_json

SCORE = "/v1/score"
GOOD = {"rollouts": [{"completion": "4", "answer": "4"}]}


def nested(depth):
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
    "nested in a field": (nested(20_000), 400, "nested too deep"),
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
def test_a_body_that_makes_no_sense_is_answered_with_a_sentence(server, body, status, words):
    """The sentence says what was wrong with it."""
    answer = server.ask(SCORE, body)
    assert answer.status == status
    assert words in answer.error


@pytest.mark.parametrize("path", ["/openrlhf", "/slime", "/verify"])
@pytest.mark.parametrize("body", [b"", b"[[]]", b"{}", b"3", b'"x"', b"null", b"[" * 50_000])
def test_so_it_is_on_every_route(server, path, body):
    """What is wrong on one is wrong on all."""
    answer = server.ask(path, body)
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
def test_only_plain_json_is_taken(server, headers, words):
    """415, whatever is inside."""
    answer = server.ask(SCORE, GOOD, headers=headers)
    assert answer.status == 415
    assert words in answer.error


def test_a_client_may_wait_to_be_told_to_go_on(server):
    """It announces a body, hears 100, sends the body, and hears its scores on the same connection."""
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
        heard = b"".join(iter(lambda: connection.recv(65536), b""))
    assert heard.startswith(b"HTTP/1.1 200")
    assert b'"reward":3.5' in heard


def test_a_reply_without_a_body_is_sent(server):
    """HEAD is answered by a head, and the next request on the connection after it."""
    asked = b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    heard = raw(server, asked + last, wait=False)
    assert heard.count(b"HTTP/1.1 200") == 2
    assert heard.endswith(b'{"status":"ok"}')


def test_json_may_say_that_it_is_utf_8(server):
    """As some clients do."""
    kind = {"Content-Type": 'application/json; charset="UTF-8"'}
    assert server.ask(SCORE, GOOD, headers=kind).status == 200


def test_a_gzip_bomb_is_never_unpacked(server):
    """20 MB in 20 kB."""
    bomb = gzip.compress(b" " * 20_000_000)
    answer = server.ask(SCORE, bomb, headers={"Content-Encoding": "gzip"})
    assert answer.status == 415


@pytest.mark.slow
def test_an_announced_size_is_refused_before_it_is_sent(server):
    """A connection that says it will send a terabyte is told no, and not waited for."""
    head = (
        f"POST {SCORE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 1099511627776\r\nConnection: close\r\n\r\n"
    )
    assert raw(server, head.encode() + b"{", wait=False).startswith(b"HTTP/1.1 413")


def test_pieces_are_counted_as_they_come(server):
    """A body that announces no size is refused once it has too many bytes."""
    head = (
        f"POST {SCORE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    piece = b"2710\r\n" + b" " * 10_000 + b"\r\n"
    said = raw(server, head.encode() + piece * 25 + b"0\r\n\r\n", wait=False)
    assert said.startswith(b"HTTP/1.1 413")


def test_a_body_in_pieces_is_as_good_as_any(server):
    """Some clients announce no size."""
    body = json.dumps(GOOD).encode()
    head = (
        f"POST {SCORE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    pieces = b"".join(b"%x\r\n%b\r\n" % (1, body[i : i + 1]) for i in range(len(body)))
    assert b'"reward":3.5' in raw(server, head.encode() + pieces + b"0\r\n\r\n", wait=False)


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"\0" * 100],
)
def test_what_is_no_http_is_refused_or_shown_the_door(server, garbage):
    """And the server goes on."""
    said = raw(server, garbage + b"\r\n\r\n")
    assert said == b"" or said.startswith(b"HTTP/1.1 4")
    assert server.ask("/health", method="GET").status == 200


def test_a_head_without_end_is_cut(server):
    """Far more headers than anybody needs."""
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-Long: " + b"y" * 1_000_000
    said = raw(server, head)
    assert said == b"" or said.startswith(b"HTTP/1.1 4")
    assert server.ask("/health", method="GET").status == 200


def test_what_is_not_there_is_said(server):
    """With a pointer to what is."""
    answer = server.ask("/v1/scores", GOOD)
    assert answer.status == 404
    assert "/openapi.json" in answer.error


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_scoring_takes_post_alone(server, method):
    """405, and which one would be right."""
    answer = server.ask(SCORE, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def raw(server, said, *, wait=True):
    """What a server says to these bytes until it hangs up, or has said something."""
    netloc = urlsplit(server.url)
    heard = b""
    with socket.create_connection((netloc.hostname, netloc.port), timeout=30) as connection:
        try:
            connection.sendall(said)
            if wait:
                connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(65536):
                heard += more
        except OSError:
            pass  # it has hung up
    return heard


def test_a_repeated_key_is_found_in_linear_time():
    """Comparing each of the 300,000 keys with all keys before it would take half an hour."""
    members = [f'"{number}":0' for number in range(300_000)]
    body = "{" + ",".join([*members, members[-1]]) + "}"
    with pytest.raises(HTTPException, match="'299999' occurs 2 times"):
        decode_json(body.encode())
