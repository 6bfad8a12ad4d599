"""One controller term: from the election of this broker until it is replaced or stops.

The controller follows the sessions in the store, and periodically returns partitions to their preferred
leaders.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition, new_nonce, new_salt, new_uuid, uuid_text
from ottla.controller import machine
from ottla.controller.active_controller import ActiveController
from ottla.controller.machine.scram import parse_new_users
from ottla.controller.writer import MetadataWriter
from ottla.metadata.records import MetadataError
from ottla.metadata.state import ClusterState, MetadataFollower
from ottla.metadata.store import MetadataStore, SessionLost
from ottla.protocol.errors import KafkaError, NotController

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""How long to wait after the store failed."""
MAX_NAMED = 20
"""How many partitions one log line names."""


class ControllerTerm:
    """The controller's periodic work, and its request interface."""

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
        self._is_announced = False
        self._balance_at_ms = self._next_balance_ms()
        self._expire_tokens_at_ms = 0
        self._state = state
        self._waiting: dict[int, list[TopicPartition]] = {}
        """Partitions without a leader whose records are in a missing log directory, as last logged."""

    @property
    def active_controller(self) -> ActiveController | None:
        """Return the request interface, once the metadata says that this broker is the controller."""
        return self._active_controller if self._is_announced and not self._writer.is_fenced else None

    async def run(self) -> None:
        """Be the controller; return when another broker is."""
        self._writer.start()
        unwatch = self._store.watch_sessions(self._wake.set)
        try:
            while not self._writer.is_fenced:
                try:
                    await self._become_controller()
                    await self._sync_sessions()
                    await self._balance_if_due()
                    await self._expire_tokens_if_due()
                except (NotController, SessionLost):
                    return
                except (KafkaError, MetadataError) as error:
                    logger.warning("the controller failed, retrying: %s", error)
                    await asyncio.sleep(RETRY_S)
                    continue
                await self._idle()
        finally:
            unwatch()

    async def stop(self) -> None:
        """Finish the queued changes, then stop being the controller."""
        await self._writer.stop()

    async def step_down(self) -> None:
        """Stop being the controller immediately: queued changes are rejected."""
        await self._writer.step_down()

    async def _become_controller(self) -> None:
        if self._is_announced:
            return
        new_id = uuid_text(new_uuid())
        await self._writer.change(
            lambda image: machine.become_controller(image, self._node_id, self._epoch, new_id)
        )
        await self._add_bootstrap_users()
        self._is_announced = True

    async def _add_bootstrap_users(self) -> None:
        """Add the SCRAM users of the configuration that do not exist yet."""
        text = self._config().ottla_bootstrap_scram
        if text is None:
            return
        known = self._state.image.scram_credentials
        missing = [each for each in parse_new_users(text) if (each.mechanism, each.name) not in known]
        if not missing:
            return
        users = [each.upsertion(new_salt()) for each in missing]
        secret = new_nonce()
        await self._writer.change(lambda image: machine.add_missing_scram_users(image, users, secret))
        logger.info("added the SCRAM users %s", ", ".join(sorted({each.name for each in missing})))

    async def _sync_sessions(self) -> None:
        self._wake.clear()
        sessions = await self._store.sessions()
        await self._writer.change(lambda image: machine.sync_sessions(image, sessions, self._config()))
        self._log_lost_directories()

    def _log_lost_directories(self) -> None:
        waiting = machine.partitions_awaiting_directory(self._state.image)
        for node_id, partitions in waiting.items():
            if partitions != self._waiting.get(node_id):
                logger.error(
                    "%d partitions have no leader: their last leader, broker %d, restarted with another log "
                    "directory. Start it with the former one, or accept that records are lost: "
                    "ottla cluster elect --unclean. Partitions: %s",
                    len(partitions), node_id, _named(partitions),
                    extra={"event": "lost-disk", "broker": node_id, "partitions": len(partitions)},
                )  # fmt: skip
        self._waiting = waiting

    async def _balance_if_due(self) -> None:
        if self._clock.mono_ms() < self._balance_at_ms:
            return
        if self._config().auto_leader_rebalance_enable:
            (moved,) = await self._writer.change(lambda image: machine.balance_leaders(image, self._config()))
            if moved:
                logger.info("moved %s partitions to their preferred leaders", moved)
        if self._config().ottla_auto_balance_enable:
            (moving,) = await self._writer.change(
                lambda image: machine.balance_replicas(image, self._config())
            )
            if moving:
                logger.info("moving %s partitions to balance the brokers", moving)
        self._balance_at_ms = self._next_balance_ms()

    async def _expire_tokens_if_due(self) -> None:
        now_ms = self._clock.mono_ms()
        if now_ms >= self._expire_tokens_at_ms:
            await self._active_controller.remove_expired_tokens()
            self._expire_tokens_at_ms = now_ms + self._config().delegation_token_expiry_check_interval_ms

    async def _idle(self) -> None:
        """Wait until the sessions change, periodic work is due, or another controller is elected."""
        wait_ms = max(0, min(self._balance_at_ms, self._expire_tokens_at_ms) - self._clock.mono_ms())
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
