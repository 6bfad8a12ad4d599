"""The roles of ZooKeeper servers, from their answers to `srvr`."""

from __future__ import annotations

import asyncio

import pytest

from ottla.metadata.zookeeper.ensemble import ask_server, ask_servers, parse_answer, server_addresses
from ottla.metadata.zookeeper.types import ZooKeeperSettings

ANSWER = """Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC
Latency min/avg/max: 0/0.6/12
Received: 512
Sent: 511
Connections: 4
Outstanding: 0
Zxid: 0x100000042
Mode: follower
Node count: 17
"""


def test_a_server_that_serves_has_a_role_and_details() -> None:
    found = parse_answer("z1:2181", ANSWER)
    assert (found.mode, found.problem) == ("follower", "")
    assert dict(found.details)["zxid"] == "0x100000042"
    assert dict(found.details)["connections"] == "4"


@pytest.mark.parametrize(
    ("said", "mode", "problem"),
    [
        ("This ZooKeeper instance is not currently serving requests\n", "", "no quorum"),
        ("srvr is not executed because it is not in the whitelist.\n", "unknown", "whitelisted"),
        ("", "", "no response"),
    ],
)
def test_a_server_without_a_role_says_why(said: str, mode: str, problem: str) -> None:
    found = parse_answer("z1:2181", said)
    assert found.mode == mode
    assert problem in found.problem


def test_the_chroot_is_no_part_of_the_addresses() -> None:
    assert server_addresses("z1:2181, z2 ,[::1]:2183/ottla") == [("z1", 2181), ("z2", 2181), ("::1", 2183)]


async def test_every_server_is_asked_and_one_that_is_away_is_named() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(4) == b"srvr"
        writer.write(ANSWER.encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        up, down = await ask_servers(ZooKeeperSettings(f"127.0.0.1:{port},127.0.0.1:1"))
    assert (up.mode, down.mode) == ("follower", "")
    assert "refused" in down.problem
    assert (await ask_server("127.0.0.1", port)).mode == ""
