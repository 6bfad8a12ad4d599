"""One broker of a simulated cluster: a process that runs the real `Broker`, with a disk that outlives it.

node.start()                     # and again after every end
node.kill()                      # SIGKILL; with power_cut=True the disk loses what was not synced
node.pause() / node.resume()     # SIGSTOP / SIGCONT
node.starve(0.001)               # every callback takes a millisecond, until starve(0)
node.stop()                      # as the operator does it: leaders move, logs are closed
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ottla.broker.broker import Broker
from ottla.broker.data_directory import PreparedDirectories, StartError
from ottla.metadata.memory import MemoryServer, MemoryStore
from ottla.metadata.records import MetadataError, MetadataRecord
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store import NO_REGISTRATION, Session, StoreUnavailable
from ottla.protocol.errors import KafkaError
from ottla.testing.simulation.client import PORT, host_of
from ottla.testing.simulation.disk import SimDisk
from ottla.testing.simulation.loop import SimClock, SimLoop, SimProcess

# One broker's connection to the metadata store of a simulation: it takes time, both ways.
#
# A call takes effect somewhere between its beginning and its end. A broker that dies in between may have
# changed the metadata without knowing it; one that is cut off meanwhile waits for the answer.


class SimStore(MemoryStore):
    """A `MemoryStore` whose answers take their time."""

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version."""
        version = await super().append(
            records, expected_version=expected_version, controller_epoch=controller_epoch
        )
        await self._answer_arrives()
        return version

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Take a lease for a broker."""
        session = await super().open_session(node_id, registration)
        await self._answer_arrives()
        return session

    async def _answer_arrives(self) -> None:
        await asyncio.sleep(self.server.latency())
        cut = self.server.cut_until(self.node_id)
        if cut is not None:
            # The connection is broken, and with it the answer.
            await asyncio.sleep(self.server.session_timeout_s / 2)
            raise StoreUnavailable("the answer of the store was lost")


START_AGAIN_S = 0.3
RECOVERY_S = (0.0, 0.03)
"""How long a broker takes to recover its logs, between its session and its registration."""
NOTICES_S = (0.0, 0.05)
"""How long a process that was paused takes to hear from the store again."""


class SimBroker(Broker):
    """A broker whose recovery takes time."""

    recovery_s = 0.0

    async def _open_logs(self, prepared: PreparedDirectories) -> None:
        await super()._open_logs(prepared)
        await asyncio.sleep(self.recovery_s)


class SimNode:
    """A host with a disk, a clock and perhaps a broker; `{host}` in its settings is its name."""

    def __init__(
        self, loop: SimLoop, server: MemoryServer, node_id: int, settings: Mapping[str, str]
    ) -> None:
        self.node_id = node_id
        self.host = host_of(node_id)
        self.disk = SimDisk()
        self.clock = SimClock(loop)
        self.broker: Broker | None = None
        """The broker, once it has started, until it ends."""
        self.process: SimProcess | None = None
        self.ended: list[SimProcess] = []
        """Processes that were killed."""
        self.recovery_s = RECOVERY_S
        """From which range the time that a recovery takes is drawn."""
        self.start_problems: list[str] = []
        self.left_running: list[str] = []
        """Tasks that a broker left behind when it stopped."""
        self._loop = loop
        self._server = server
        self._cut_off_by: dict[str, None] = {}
        self._settings = {
            "node.id": str(node_id),
            "log.dirs": f"/data/{self.host}",
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{PORT}",
            **{key: value.replace("{host}", self.host) for key, value in settings.items()},
        }

    def configure(self, key: str, value: str) -> None:
        """Set a key of this broker's own configuration, from its next start on."""
        self._settings[key] = value

    @property
    def directories(self) -> list[str]:
        """The log directories, one for each disk."""
        return self._settings["log.dirs"].split(",")

    @property
    def is_up(self) -> bool:
        """Whether there is a process, be it paused."""
        return self.process is not None

    @property
    def is_paused(self) -> bool:
        """Whether there is a process that does not run."""
        return self.process is not None and self.process.is_halted

    def start(self) -> None:
        """Start the process; it tries again if the broker cannot start, as a supervisor would."""
        if self.process is None:
            self._loop.network.host_is_back(self.host)
            self.heal_store("death")
            self.process = SimProcess(self._loop, self.host)
            self.process.spawn(self._run(), f"broker {self.node_id}")

    async def _run(self) -> None:
        while True:
            broker = SimBroker(
                self._settings, self.clock, store=SimStore(self._server, self.node_id), disk=self.disk
            )
            broker.recovery_s = self._loop.chance.uniform(*self.recovery_s)
            try:
                await broker.start()
            except (StartError, MetadataError, KafkaError) as error:
                self.start_problems.append(f"{self._loop.now:.3f} s: {error!r}")
                await asyncio.sleep(START_AGAIN_S)
            else:
                self.broker = broker
                return

    def kill(self, *, power_cut: bool = False) -> None:
        """End the process without a word."""
        if self.process is None:
            return
        self.cut_store("death")
        self.heal_store("pause")
        session = self._server.session_of(self.node_id)
        if session is not None:  # it outlives the process, but not for long, even if there is a new process
            self._loop.call_later(self._server.session_timeout_s, self._server.expire, session)
        self.process.kill()
        self.ended.append(self.process)
        self.process = self.broker = None
        self._loop.network.host_is_gone(self.host, silently=power_cut)
        if power_cut:
            self.disk.crash(self._loop.chance)
        else:
            self.disk.kill()

    def pause(self) -> None:
        """Let the process stand still; its session will end."""
        if self.process is not None and not self.process.is_halted:
            self.cut_store("pause")
            self.process.pause()

    def resume(self) -> None:
        """Let it run again; of its session it hears a little later."""
        if self.process is not None and self.process.is_halted:
            self.process.resume()
            self._loop.call_later(self._loop.chance.uniform(*NOTICES_S), self.heal_store, "pause")

    def starve(self, callback_s: float) -> None:
        """Let every callback of the process take so long; 0 ends that."""
        if self.process is not None:
            self.process.starve(callback_s)

    def cut_store(self, reason: str = "cut") -> None:
        """Let the broker not reach the store; its session ends after a while."""
        self._cut_off_by[reason] = None
        self._server.cut(self.node_id)

    def heal_store(self, reason: str = "cut") -> None:
        """Undo it, unless there is another reason."""
        self._cut_off_by.pop(reason, None)
        if not self._cut_off_by:
            self._server.heal(self.node_id)

    async def stop(self) -> None:
        """Stop the broker in good order; kill it if it has not started yet."""
        self.resume()
        process, broker = self.process, self.broker
        if process is None:
            return
        if broker is None:
            self.kill()
            return
        self.broker = None
        stopping = process.spawn(broker.stop(), f"stop broker {self.node_id}")
        await asyncio.wait([stopping, process.died], return_when=asyncio.FIRST_COMPLETED)
        if stopping.done() and not process.is_dead:
            await asyncio.sleep(0)  # tasks that were cancelled end in the next round
            self.left_running += [
                f"broker {self.node_id} has stopped, but {task.get_name()} runs: {task.get_coro()}"
                for task in self._loop.living_tasks()
                if task.process is process
            ]
        if self.process is process:
            self.kill()
