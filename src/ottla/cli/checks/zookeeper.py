"""Check a ZooKeeper ensemble: each server, and whether there is a quorum."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator

from ottla.cli.checks.findings import FAILED, OK, WARNING, Finding
from ottla.cli.support.problem_kinds import NO_PACKAGE, NO_ZOOKEEPER
from ottla.wire.address import parse_address
from ottla.wire.errors import reason_of

DEFAULT_PORT = 2181
TIMEOUT_S = 5.0


async def check_zookeeper(connect: str) -> AsyncIterator[Finding]:
    """Ask each server of `host:port,host:port/chroot` for its state."""
    servers = [each.strip() for each in connect.partition("/")[0].split(",") if each.strip()]
    serving = 0
    for server in servers:
        found = await _server(server if ":" in server else f"{server}:{DEFAULT_PORT}")
        serving += found.state == OK
        yield found
    if serving * 2 <= len(servers):
        what = f"{serving} of {len(servers)} servers are serving: no quorum"
        yield Finding("ZooKeeper", FAILED, what, "start the others, or: ottla zookeeper start", NO_ZOOKEEPER)
    if importlib.util.find_spec("kazoo") is None:
        fix = "pip install 'ottla[zookeeper]'"
        yield Finding("ZooKeeper", FAILED, "kazoo is not installed", fix, NO_PACKAGE)


async def _server(text: str) -> Finding:
    try:
        address = parse_address(text)
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"srvr")
            said = (await reader.read(4096)).decode(errors="replace")
            writer.close()
    except ValueError as error:
        return Finding("ZooKeeper", FAILED, str(error), "write HOST:PORT,HOST:PORT", NO_ZOOKEEPER)
    except (OSError, TimeoutError) as error:
        reason = "no answer" if isinstance(error, TimeoutError) else reason_of(error)
        return Finding("ZooKeeper", WARNING, f"{text}: {reason}", "is it running?", NO_ZOOKEEPER)
    mode = next((line.split(": ")[1] for line in said.splitlines() if line.startswith("Mode: ")), None)
    if mode is not None:
        return Finding("ZooKeeper", OK, f"{text} is serving, {mode}")
    if "whitelist" in said:
        return Finding("ZooKeeper", OK, f"{text} responds (its state cannot be queried)")
    what = f"{text} is not serving: {said.strip()[:60] or 'no response'}"
    return Finding("ZooKeeper", WARNING, what, None, NO_ZOOKEEPER)
