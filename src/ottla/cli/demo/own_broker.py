"""The broker of the demo: a running one, or a temporary one with a schema registry and the console."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from ottla.cli.support.problems import Problem
from ottla.common.processes import die_with_parent, terminate
from ottla.wire.address import parse_addresses

LOOK_FOR_S = 1.0
READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 10.0
ANY_PORT = "127.0.0.1:0"
SERVICES = ("--registry", ANY_PORT, "--console", ANY_PORT, "--metrics", "off")
ARGUMENTS = ("up", "--ephemeral", "--listen", ANY_PORT, *SERVICES, "--log-level", "error")


class Addresses(NamedTuple):
    """Where the broker is, and the services beside it that are known."""

    bootstrap: str
    services: Mapping[str, str]
    """The URL of each: registry, console."""


async def answers(bootstrap: str) -> bool:
    """Return whether something listens at one of the addresses."""
    for address in parse_addresses(bootstrap):
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LOOK_FOR_S):
                _, writer = await asyncio.open_connection(address.host, address.port)
            writer.close()
            return True
    return False


@asynccontextmanager
async def own_broker() -> AsyncIterator[Addresses]:
    """Run a temporary broker, a registry and the console, as far as they are installed; yield where."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ottla.cli.main",
        *ARGUMENTS,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the demo, which stops the broker last
        preexec_fn=die_with_parent,
    )
    try:
        yield await _addresses(process)
    finally:
        await terminate(process, STOPPED_WITHIN_S)


async def _addresses(process: asyncio.subprocess.Process) -> Addresses:
    assert process.stdout is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(READY_WITHIN_S):
            async for line in process.stdout:
                if line.startswith(b"ready "):
                    _, bootstrap, *services = line.decode().split()
                    return Addresses(bootstrap, dict(each.split("=", 1) for each in services))
    raise Problem("the demo's broker did not start", f"to see why:  ottla {' '.join(ARGUMENTS)}")
