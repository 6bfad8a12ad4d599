"""The servers of a ZooKeeper ensemble: which of them serve, and in which role.

Every server is asked with the four-letter command `srvr`, the one that ZooKeeper allows by default. A server
without a quorum answers that it does not serve.
"""

from __future__ import annotations

import asyncio
import os
import ssl

from ottla.metadata.store import StoreServer
from ottla.metadata.zookeeper.types import ZooKeeperSettings

TIMEOUT_S = 2.0
DEFAULT_PORT = 2181
MAX_ANSWER_BYTES = 8_192
DETAILS = {
    "Zookeeper version": "version",
    "Latency min/avg/max": "latency",
    "Connections": "connections",
    "Outstanding": "outstanding",
    "Zxid": "zxid",
}
"""The lines of the answer that are kept, and their names."""
NOT_SERVING = "not currently serving requests"


def server_addresses(connect: str) -> list[tuple[str, int]]:
    """Return the servers of `zookeeper.connect`, without the chroot."""
    servers = []
    for text in connect.partition("/")[0].split(","):
        host, colon, port = text.strip().rpartition(":")
        if not colon or not port.isdecimal():
            host, port = text.strip(), str(DEFAULT_PORT)
        servers.append((host.strip("[]"), int(port)))
    return servers


async def ask_servers(settings: ZooKeeperSettings) -> list[StoreServer]:
    """Ask all servers at once."""
    tls = _tls(settings)
    asked = [ask_server(host, port, tls) for host, port in server_addresses(settings.connect)]
    return list(await asyncio.gather(*asked))


async def ask_server(host: str, port: int, tls: ssl.SSLContext | None = None) -> StoreServer:
    """Return what one server says of itself."""
    address = f"{host}:{port}"
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                writer.write(b"srvr")
                said = (await reader.read(MAX_ANSWER_BYTES)).decode(errors="replace")
            finally:
                writer.close()
    except TimeoutError:
        return StoreServer(address, problem=f"no answer within {TIMEOUT_S:g} s")
    except OSError as error:
        number = error.errno or 0  # asyncio puts words of its own around the text
        return StoreServer(address, problem=os.strerror(number).lower() if number > 0 else str(error))
    return parse_answer(address, said)


def parse_answer(address: str, said: str) -> StoreServer:
    """Return the server that gave this answer."""
    lines = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    if "Mode" in lines:
        details = tuple((name, lines[key]) for key, name in DETAILS.items() if key in lines)
        return StoreServer(address, lines["Mode"], details=details)
    if "whitelist" in said:
        return StoreServer(address, "unknown", "its role cannot be queried: srvr is not whitelisted")
    if NOT_SERVING in said:
        return StoreServer(address, problem="not serving: it has no quorum")
    return StoreServer(address, problem=f"not serving: {said.strip()[:60] or 'no response'}")


def _tls(settings: ZooKeeperSettings) -> ssl.SSLContext | None:
    options = settings.options
    if not options.get("use_ssl"):
        return None
    context = ssl.create_default_context(cafile=options.get("ca"))
    context.check_hostname = bool(options.get("check_hostname", True))
    if options.get("certfile"):
        context.load_cert_chain(options["certfile"], options.get("keyfile"), options.get("keyfile_password"))
    return context
