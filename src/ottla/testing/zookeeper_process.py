"""A ZooKeeper in a process of its own, which tests start, pause, kill and start again.

with ZooKeeperProcess(tmp_path / "zookeeper") as zookeeper:
    store = ZooKeeperStore(ZooKeeperSettings(zookeeper.address))
    ...
    zookeeper.pause()      # nobody is answered, and nobody is told why
    zookeeper.resume()
    zookeeper.kill()
    zookeeper.start()      # the same data, the same address, the same sessions
"""

from __future__ import annotations

import atexit
import signal
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from ottla.broker.zookeeper_server import Member, ZooKeeperServer
from ottla.testing.broker_process import free_port

_started: weakref.WeakSet[ZooKeeperProcess] = weakref.WeakSet()


class ZooKeeperProcess(ZooKeeperServer):
    """A ZooKeeper server on a free port of the loopback interface."""

    def __init__(
        self,
        data: Path,
        *,
        settings: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            data,
            host=host,
            port=port or free_port(),
            settings=settings,
            environment=environment,
            wrapper=wrapper,
        )

    def launch(self, *, dies_with_us: bool = False) -> None:
        """Start the process; it does not outlive this one."""
        _started.add(self)
        super().launch(dies_with_us=dies_with_us)

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP)."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        if not self.is_running:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def ensemble(data: Path, size: int) -> list[ZooKeeperProcess]:
    """Return the servers of an ensemble, not yet started: `launch` all, then `wait_until_ready`."""
    members = [Member(number, "127.0.0.1", free_port(), free_port()) for number in range(1, size + 1)]
    servers = []
    for member in members:
        server = ZooKeeperProcess(data / f"zookeeper-{member.number}")
        server.members, server.number = tuple(members), member.number
        servers.append(server)
    return servers


@atexit.register
def _kill_what_is_left() -> None:
    for server in tuple(_started):
        server.kill()
