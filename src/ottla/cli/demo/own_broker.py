"""The broker of the demo: a running one, or a temporary one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ottla.cli.support.problems import Problem
from ottla.common.processes import die_with_parent
from ottla.wire.address import parse_addresses

LOOK_FOR_S = 1.0
READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 10.0
ARGUMENTS = ("serve", "--ephemeral", "--listen", "127.0.0.1:0", "--log-level", "error")


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
async def own_broker() -> AsyncIterator[str]:
    """Run a temporary broker; yield its address."""
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
        yield await _address(process)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOPPED_WITHIN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(READY_WITHIN_S):
            async for line in process.stdout:
                if line.startswith(b"ready "):
                    return line.decode().split()[1]
    raise Problem(
        "the demo's broker did not start", "to see why:  ottla serve --ephemeral --listen 127.0.0.1:0"
    )
