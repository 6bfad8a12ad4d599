"""Requests are dispatched in order, replies leave in order, whatever happens in between."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.unit.network.harness import (
    BROKEN,
    BROKEN_LATER,
    ECHO,
    FILE,
    GOODBYE,
    PARKED,
    PRODUCE,
    PRODUCE_NOW,
    SILENT,
    WRONG,
    DiskFile,
    Harness,
    request,
    until,
)

from ottla.common.file_range import FileRange


async def test_pipelined_requests_are_answered_in_order(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(b"".join(request(ECHO, number, b"x" * number) for number in range(200)))
    assert [await client.reply() for _ in range(200)] == [(number, b"x" * number) for number in range(200)]
    assert net.server.stats.requests == 200


async def test_a_request_without_an_answer_does_not_hold_up_the_next(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(SILENT, 1) + request(ECHO, 2) + request(SILENT, 3) + request(ECHO, 4))
    assert await client.replies(2) == [2, 4]
    assert net.handler.seen == [1, 2, 3, 4]


async def test_an_awaitable_without_an_answer_does_not_hold_up_the_next(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(PRODUCE, 1) + request(ECHO, 2))
    await until(lambda: 1 in net.handler.parked)
    net.handler.parked[1].set_result(None)
    assert await client.replies(1) == [2]


async def test_requests_that_do_not_overlap_wait_for_each_other(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(PARKED, 1) + request(PARKED, 2) + request(ECHO, 3))
    await until(lambda: net.handler.seen)
    await net.check_echo()
    assert net.handler.seen == [1, 77]
    net.handler.answer(1)
    assert await client.replies(1) == [1]
    await until(lambda: 2 in net.handler.parked)
    assert 3 not in net.handler.seen
    net.handler.answer(2)
    assert await client.replies(2) == [2, 3]


async def test_overlapping_requests_run_side_by_side_and_are_answered_in_order(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(PRODUCE, 1) + request(PRODUCE_NOW, 2) + request(PRODUCE, 3) + request(ECHO, 4))
    await until(lambda: 3 in net.handler.parked)
    assert net.server.requests.used == 2
    net.handler.answer(3)
    await net.check_echo()
    assert net.handler.seen == [1, 2, 3, 77], "Echo does not overlap, so it has to wait"
    assert net.server.stats.bytes_out == len(request(ECHO, 77, b"still here")) - 4
    net.handler.answer(1)
    assert await client.replies(4) == [1, 2, 3, 4]
    assert net.server.requests.used == 0


async def test_an_overlapping_request_waits_for_an_earlier_one_that_does_not_overlap(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(PARKED, 1) + request(PRODUCE, 2))
    await until(lambda: 1 in net.handler.parked)
    await net.check_echo()
    assert 2 not in net.handler.seen
    net.handler.answer(1)
    await until(lambda: 2 in net.handler.parked)
    net.handler.answer(2)
    assert await client.replies(2) == [1, 2]


async def test_no_more_than_the_limit_overlap_on_one_connection(net: Harness) -> None:
    await net.serve(max_requests_per_connection=3)
    client = await net.connect()
    await client.send(b"".join(request(PRODUCE, number) for number in range(5)))
    await until(lambda: len(net.handler.parked) == 3)
    await net.check_echo()
    assert len(net.handler.parked) == 3
    for number in range(5):
        await until(lambda number=number: number in net.handler.parked)  # type: ignore[misc]
        net.handler.answer(number)
    assert await client.replies(5) == [0, 1, 2, 3, 4]


async def test_a_file_reply_keeps_its_place(net: Harness) -> None:
    await net.serve()
    file = DiskFile(100_000)
    net.handler.chunks = [b"head", FileRange(file, 10, 90_000), b"", FileRange(file, 0, 0), b"tail"]
    client = await net.connect()
    await client.send(request(ECHO, 1) + request(FILE, 2) + request(ECHO, 3))
    assert await client.reply() == (1, b"")
    assert await client.reply() == (2, b"head" + file.content[10:90_010] + b"tail")
    assert await client.reply() == (3, b"")


async def test_a_long_pipeline_leaves_turns_to_other_connections(net: Harness) -> None:
    await net.serve()
    long, short = await net.connect(), await net.connect()
    await net.check_echo()
    net.handler.seen.clear()
    long.sock.send(b"".join(request(ECHO, number) for number in range(1000)))
    short.sock.send(request(ECHO, -1))
    assert await short.replies(1) == [-1]
    assert net.handler.seen.index(-1) <= 64
    assert await long.replies(1000) == list(range(1000))


@pytest.mark.parametrize("api_key", [BROKEN, BROKEN_LATER])
async def test_a_bug_in_a_handler_closes_that_connection_only_and_is_logged(
    net: Harness, api_key: int, caplog: pytest.LogCaptureFixture
) -> None:
    await net.serve()
    client, other = await net.connect(), await net.connect()
    await client.send(request(ECHO, 1) + request(api_key, 2) + request(ECHO, 3))
    assert await client.replies(1) == [1]
    assert await client.is_closed()
    host, port = client.sock.getsockname()
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"{host}:{port}" in record.getMessage()
    assert record.exc_info is not None
    await other.send(request(ECHO, 4))
    assert await other.replies(1) == [4]
    assert net.handler.seen == [1, 2, 4]


async def test_a_mistake_of_the_peer_closes_its_connection_with_one_line_and_no_traceback(
    net: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(WRONG, 1))
    assert await client.is_closed()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert "nonsense" in record.getMessage()


async def test_a_handler_may_answer_and_close(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(GOODBYE, 1, b"bye") + request(ECHO, 2))
    assert await client.reply() == (1, b"bye")
    assert await client.is_closed()
    assert net.handler.seen == [1]


async def test_what_a_lost_client_waited_for_is_not_cancelled_and_keeps_its_place(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(PRODUCE, 1))
    await until(lambda: 1 in net.handler.parked)
    client.close()
    await until(lambda: net.handler.lost)
    future = net.handler.parked[1]
    assert not future.done()
    assert net.server.stats.connections == 1
    net.handler.answer(1)
    await until(lambda: net.server.stats.connections == 0)
    assert net.server.requests.used == 0


async def test_a_coroutine_is_awaited_like_a_future(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    gate = asyncio.Event()

    async def slow(connection: object, frame: memoryview) -> bytes:
        await gate.wait()
        return bytes([0, 0, 0, 4]) + bytes(frame[4:8])

    net.handler.handle = slow  # type: ignore[method-assign, assignment]
    await client.send(request(ECHO, 5))
    await until(lambda: net.server.stats.requests)
    gate.set()
    assert await client.replies(1) == [5]
