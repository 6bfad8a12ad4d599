"""One time in office: from an election of this broker until it is replaced or stops.

The controller follows the sessions of the store (who lives, who wants to stop), and every few minutes
gives brokers back the leadership of their partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition, new_uuid, uuid_text
from ottla.controller import machine
from ottla.controller.active_controller import ActiveController
from ottla.controller.writer import MetadataWriter
from ottla.metadata.records import MetadataError
from ottla.metadata.state import ClusterState, MetadataFollower
from ottla.metadata.store import MetadataStore, SessionLost
from ottla.protocol.errors import KafkaError, NotController

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""How long to wait before the store is asked again after it failed."""
MAX_NAMED = 20
"""How many partitions one line of the log names."""


class ControllerTerm:
    """What the controller does of its own accord, and the office where it is asked."""

    def __init__(
        self,
        store: MetadataStore,
        state: ClusterState,
        follower: MetadataFollower,
        clock: Clock,
        node_id: int,
        config: Callable[[], BrokerConfig],
        controller_epoch: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._node_id = node_id
        self._config = config
        self._epoch = controller_epoch
        self._wake = asyncio.Event()
        self._writer = MetadataWriter(store, state, follower, controller_epoch, self._wake.set)
        self._active_controller = ActiveController(self._writer, state, clock, config)
        self._is_in_office = False
        self._balance_at_ms = self._next_balance_ms()
        self._state = state
        self._waiting: dict[int, list[TopicPartition]] = {}
        """Partitions without a leader whose records are in a log directory that is away: as last logged."""

    @property
    def active_controller(self) -> ActiveController | None:
        """Return where the controller is asked, once everybody may know that it is this one."""
        return self._active_controller if self._is_in_office and not self._writer.is_fenced else None

    async def run(self) -> None:
        """Be the controller; return when another one is."""
        self._writer.start()
        unwatch = self._store.watch_sessions(self._wake.set)
        try:
            while not self._writer.is_fenced:
                try:
                    await self._become_controller()
                    await self._follow_sessions()
                    await self._balance_if_due()
                except (NotController, SessionLost):
                    return
                except (KafkaError, MetadataError) as error:
                    logger.warning("the controller could not do its work, trying again: %s", error)
                    await asyncio.sleep(RETRY_S)
                    continue
                await self._idle()
        finally:
            unwatch()

    async def stop(self) -> None:
        """Finish what was asked, then be the controller no longer."""
        await self._writer.stop()

    async def step_down(self) -> None:
        """Be the controller no longer, at once: what was asked is refused."""
        await self._writer.step_down()

    async def _become_controller(self) -> None:
        if self._is_in_office:
            return
        new_id = uuid_text(new_uuid())
        await self._writer.change(
            lambda image: machine.become_controller(image, self._node_id, self._epoch, new_id)
        )
        self._is_in_office = True

    async def _follow_sessions(self) -> None:
        self._wake.clear()
        sessions = await self._store.sessions()
        await self._writer.change(lambda image: machine.follow_sessions(image, sessions, self._config()))
        self._log_lost_directories()

    def _log_lost_directories(self) -> None:
        waiting = machine.partitions_awaiting_directory(self._state.image)
        for node_id, partitions in waiting.items():
            if partitions != self._waiting.get(node_id):
                logger.error(
                    "%d partitions have no leader: broker %d, their last one, came back with another log "
                    "directory. Start it with the former one, or accept that records are lost: "
                    "ottla cluster elect --unclean. The partitions: %s",
                    len(partitions), node_id, _named(partitions),
                )  # fmt: skip
        self._waiting = waiting

    async def _balance_if_due(self) -> None:
        if self._clock.mono_ms() < self._balance_at_ms:
            return
        if self._config().auto_leader_rebalance_enable:
            (moved,) = await self._writer.change(lambda image: machine.balance_leaders(image, self._config()))
            if moved:
                logger.info("%s partitions were given back to their preferred leaders", moved)
        self._balance_at_ms = self._next_balance_ms()

    async def _idle(self) -> None:
        """Wait until the sessions change, leadership is to be balanced, or another controller is seen."""
        wait_ms = max(0, self._balance_at_ms - self._clock.mono_ms())
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _next_balance_ms(self) -> int:
        return self._clock.mono_ms() + self._config().leader_imbalance_check_interval_seconds * 1000


def _named(partitions: list[TopicPartition]) -> str:
    names = ", ".join(map(str, partitions[:MAX_NAMED]))
    return names if len(partitions) <= MAX_NAMED else f"{names} and {len(partitions) - MAX_NAMED} more"
