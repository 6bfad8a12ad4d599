"""The port of the metrics, seen by clients that are odd, slow or hostile, and by operators."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.scraping import get, get_json, scrape

from ottla.common.listeners import Address
from ottla.metrics import http_server
from ottla.testing.broker_process import BrokerFailed, BrokerProcess, free_port
from ottla.testing.local_broker import OttlaBroker


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with OttlaBroker(settings={"ottla.metrics.listen": "127.0.0.1:0"}) as broker:
        addresses = broker.broker(1).addresses
        assert addresses is not None
        assert addresses.metrics is not None
        yield addresses.metrics


def talk(address: Address, *pieces: bytes) -> bytes:
    """Send bytes as they are; return all that is answered until the connection is closed."""
    with socket.create_connection(address, timeout=30) as connection:
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        try:
            while chunk := connection.recv(1 << 16):
                answer += chunk
        except ConnectionError:
            pass
        return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


CLOSE = b"Host: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "path", ["/nothing", "/metrics/", "/../etc/passwd", "//metrics", "/%2e%2e/etc/passwd", "/METRICS"]
)
def test_there_is_nothing_else(address: Address, path: str) -> None:
    code, body, _ = get(address, path)
    assert code == 404
    assert b"/metrics, /healthz or /readyz" in body


def test_a_query_is_ignored(address: Address) -> None:
    assert get(address, "/healthz?verbose=1")[0] == 200


@pytest.mark.parametrize("method", [b"POST", b"DELETE", b"PUT", b"OPTIONS", b"TRACE", b"BREW"])
def test_only_get_and_head_are_answered(address: Address, method: bytes) -> None:
    answer = talk(address, method + b" /metrics HTTP/1.1\r\n" + CLOSE)
    assert status(answer) == 405
    assert b"allow: get, head" in answer.lower()


def test_head_is_answered_without_a_body(address: Address) -> None:
    answer = talk(address, b"HEAD /metrics HTTP/1.1\r\n" + CLOSE)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert status(head) == 200
    assert body == b""


def test_a_connection_serves_several_requests_one_after_the_other_or_at_once(address: Address) -> None:
    request = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = talk(address, request + request, request, b"GET /readyz HTTP/1.1\r\n" + CLOSE)
    assert answer.count(b"HTTP/1.1 200") == 4
    assert answer.count(b'"ready": true') == 4


def test_a_request_of_http_1_0_is_answered_and_the_connection_closed(address: Address) -> None:
    assert status(talk(address, b"GET /healthz HTTP/1.0\r\n\r\n")) == 200


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x00\x00\x10\x00\x12\x00\x03\x00\x00\x00\x01\x00\x00",  # a Kafka client at the wrong port
        b"GET /metrics\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n\r\n",  # without a host
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost : x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS
        b"\r\n" * 40_000,
    ],
)
def test_garbage_is_refused_and_the_connection_closed(address: Address, garbage: bytes) -> None:
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while chunk := connection.recv(1 << 16):
                answer += chunk
        except ConnectionError:
            pass
    assert not answer or 400 <= status(answer) < 500
    assert get(address, "/healthz")[0] == 200


def test_a_head_without_end_is_refused_at_a_limit(address: Address) -> None:
    answer = talk(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n", b"X: " + b"y" * (1 << 17))
    assert not answer or status(answer) == 431


def test_a_large_body_is_refused(address: Address) -> None:
    head = b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    answer = talk(address, head, b"z" * 40_000)
    assert not answer or status(answer) == 413


def test_many_silent_connections_are_bounded_and_do_not_hurt(address: Address) -> None:
    silent = [socket.create_connection(address, timeout=30) for _ in range(http_server.MAX_CONNECTIONS - 1)]
    try:
        assert get(address, "/healthz")[0] == 200
        more = [socket.create_connection(address, timeout=30) for _ in range(10)]
        answers = []
        for each in more:
            try:
                each.sendall(b"GET /healthz HTTP/1.1\r\n" + CLOSE)
                answers.append(each.recv(100))
            except ConnectionError:
                answers.append(b"")
            each.close()
        assert b"" in answers
    finally:
        for each in silent:
            each.close()
    assert scrape(address).value("ottla_ready") == 1


def test_a_slow_client_is_let_go(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_WITHIN_S", 0.1)
    assert talk(address, b"GET /metr") == b""


# The port


def test_a_port_that_was_asked_for_must_be_free(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        broker = BrokerProcess(tmp_path / "data", settings={"ottla.metrics.listen": at})
        with pytest.raises(BrokerFailed, match="exit code"):
            broker.start()
        said = broker.stderr_tail()
    assert f"cannot serve metrics on {at}" in said
    assert "--metrics" in said
    assert "Traceback" not in said


def test_without_the_usual_port_a_broker_continues_and_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = {"ottla.metrics.listen": f"auto:{port}"}
        with BrokerProcess(tmp_path / "data", settings=settings) as broker:
            said = broker.stderr_tail()
            assert f"cannot listen on 127.0.0.1:{port}" in said
            assert "--metrics HOST:PORT" in said


def test_logs_are_json_and_the_metrics_are_named_in_them(tmp_path: Path) -> None:
    port = free_port()
    settings = {"ottla.metrics.listen": f"127.0.0.1:{port}", "ottla.slow.request.ms": "0"}
    arguments = ["--log-format", "json", "--node-id", "7"]
    with BrokerProcess(tmp_path / "data", settings=settings, arguments=arguments) as broker:
        assert get_json(f"127.0.0.1:{port}", "/readyz")[0] == 200
    lines = [json.loads(line) for line in broker.stderr_path.read_text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    assert {line["node_id"] for line in lines} == {"7"}
    assert f"metrics: http://127.0.0.1:{port}/metrics" in [line["message"] for line in lines]
