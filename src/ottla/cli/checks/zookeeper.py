"""Check a ZooKeeper ensemble: each server, and whether there is a quorum."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator

from ottla.cli.checks.findings import FAILED, OK, WARNING, Finding
from ottla.cli.support.problem_kinds import NO_PACKAGE, NO_ZOOKEEPER
from ottla.metadata.zookeeper.ensemble import ask_server, server_addresses


async def check_zookeeper(connect: str) -> AsyncIterator[Finding]:
    """Ask each server of `host:port,host:port/chroot` for its state."""
    servers = server_addresses(connect)
    serving = 0
    for host, port in servers:
        found = await _server(host, port)
        serving += found.state == OK
        yield found
    if serving * 2 <= len(servers):
        what = f"{serving} of {len(servers)} servers are serving: no quorum"
        yield Finding("ZooKeeper", FAILED, what, "start the others, or: ottla zookeeper start", NO_ZOOKEEPER)
    if importlib.util.find_spec("kazoo") is None:
        fix = "pip install 'ottla[zookeeper]'"
        yield Finding("ZooKeeper", FAILED, "kazoo is not installed", fix, NO_PACKAGE)


async def _server(host: str, port: int) -> Finding:
    found = await ask_server(host, port)
    if found.mode:
        role = found.problem or f"is serving, {found.mode}"
        return Finding("ZooKeeper", OK, f"{found.address} {role}")
    return Finding("ZooKeeper", WARNING, f"{found.address}: {found.problem}", "is it running?", NO_ZOOKEEPER)
