"""The controller for the rest of the broker, whichever broker is elected.

If it is this one, requests are decided here (active_controller.py); otherwise those of the broker itself
(producer ids, an ISR change, an automatically created topic) are sent to it (remote.py). Requests of clients
are forwarded to the controller unchanged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import new_uuid, uuid_text
from ottla.controller import machine
from ottla.controller.active_controller import PRODUCER_IDS_PER_BLOCK, ActiveController
from ottla.controller.machine import IsrChange, NewTopic
from ottla.controller.membership import Membership
from ottla.controller.term import ControllerTerm
from ottla.metadata.history import Term
from ottla.metadata.image import PartitionImage, TopicImage
from ottla.metadata.records import Endpoint, MetadataError
from ottla.metadata.registration import BrokerRegistration, GroupedReplicas
from ottla.metadata.state import ClusterState, MetadataFollower, Subscriber
from ottla.metadata.store import (
    MetadataStore,
    SessionLost,
    StoreContact,
    StoreRolledBack,
    StoreServer,
    StoreUnavailable,
)
from ottla.protocol.errors import (
    BrokerNotAvailable,
    KafkaError,
    NetworkException,
    NotController,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownServerError,
)

if TYPE_CHECKING:
    from ottla.controller.remote import RemoteController, RequestSender

logger = logging.getLogger(__name__)


__all__ = ["ClusterState", "Controller"]


T = TypeVar("T")

CONTROLLER_WAIT_MS = 10_000
"""How long a request of this broker waits for a controller."""
RETRY_S = 0.1
LOG_INTERVAL_S = 10.0
MOVE_LEADERS_TIMEOUT_S = 15.0
"""How long a stopping broker waits until others lead its partitions."""
REQUEST_TIMEOUT_S = 2.0
"""How long it tries to request that: without the store no other broker can take over."""


class Controller:
    """Runs the controller, or knows which broker does. `config` returns the broker's current
    configuration.
    """

    def __init__(
        self,
        store: MetadataStore,
        state: ClusterState,
        clock: Clock,
        node_id: int,
        config: Callable[[], BrokerConfig],
        peers: RequestSender | None = None,
    ) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._node_id = node_id
        self._config = config
        self._peers = peers
        self._follower = MetadataFollower(store, state)
        self._members = Membership(
            store,
            node_id,
            self._new_term,
            lambda: self.on_session_lost(),
            self._follower.republish,
            self._follower.verify,
        )
        self._follower.on_rolled_back = lambda: self.on_session_lost()
        incarnation_id = uuid_text(new_uuid())
        self._identity = BrokerRegistration(incarnation_id=incarnation_id, directory_id=incarnation_id)
        self.on_session_lost: Callable[[], None] = lambda: None
        """Called immediately when this broker must stop leading."""

    # Service

    async def start(
        self,
        cluster_id: str | None = None,
        directory_ids: Sequence[str] = (),
        applied_version: int = 0,
        applied_term: Term | None = None,
    ) -> None:
        """Load the image and open a session; if there is no cluster yet, take part in creating it.

        `cluster_id` is the cluster that the logs of this broker belong to, if it has logs: without the
        metadata of that cluster, or with that of another one, it must not start. `directory_ids` are the ids
        of the data directories, which this process has locked, `applied_version` the metadata version that
        this broker had before, with its controller term: a store with an older one, or with another history,
        was restored. Raise MetadataError in those cases, and if the store cannot be trusted.
        """
        await self._store.open()
        try:
            await self._retry_until_available(self._follower.catch_up)
            _check_cluster(self._state.image.cluster_id, cluster_id)
            await self._retry_until_available(
                lambda: self._follower.check_applied(applied_version, applied_term)
            )
            self._identify(directory_ids)
            await self._retry_until_available(lambda: self._members.open(self._identity))
            self._follower.start()
            if not self._state.image.cluster_id:
                self._members.stand_for_election()
                await self._state.wait_until(lambda image: bool(image.cluster_id))
        except BaseException:
            await self.stop()
            raise

    async def register_broker(
        self,
        endpoints: Sequence[Endpoint],
        rack: str | None = None,
        *,
        directory_ids: Sequence[str] = (),
        after_unclean_stop: bool = True,
        may_have_lost_records: bool = True,
        seems_whole: bool = False,
        lost_replicas: GroupedReplicas = (),
        offline_replicas: GroupedReplicas = (),
    ) -> int:
        """Register this broker's addresses; return its broker epoch once it is part of the cluster.

        Call it when partitions can be served: the broker may become a leader. `directory_ids` are the ids of
        the log directories, some of which may have been created since `start`.
        """
        self._identify(directory_ids)
        registration = replace(
            self._identity,
            endpoints=tuple(endpoints),
            rack=rack,
            after_unclean_stop=after_unclean_stop,
            may_have_lost_records=may_have_lost_records,
            seems_whole=seems_whole,
            lost_replicas=lost_replicas,
            offline_replicas=offline_replicas,
        )
        await self._members.register(registration)
        self._members.stand_for_election()
        while not self.is_registered:
            try:
                async with asyncio.timeout(LOG_INTERVAL_S):
                    await self._state.wait_until(lambda _: self.is_registered)
            except TimeoutError:
                logger.warning("waiting for a controller to register this broker")
        self._members.registration_accepted()
        return self.broker_epoch

    async def follow(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with the current image, then with every change; return a function that stops
        it.
        """
        return await self._follower.subscribe(subscriber)

    async def move_leaders_away(self) -> None:
        """Move the leadership of this broker's partitions to others, if possible, before it stops."""
        if not self.is_registered or not self._others_can_lead:
            return
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._members.set_draining()
            async with asyncio.timeout(MOVE_LEADERS_TIMEOUT_S):
                await self._state.wait_until(
                    lambda image: not machine.has_leaders_to_move(image, self._node_id)
                )
        except (TimeoutError, MetadataError):
            pass  # it stops all the same; the end of its session has the same effect

    async def set_full(self, *, draining: bool, replicas: GroupedReplicas) -> None:
        """Let others lead, if possible: this broker's partitions (`draining`), or those in full directories;
        or allow it to lead them again.
        """
        if not draining or self._others_can_lead:
            await self._members.set_full(draining=draining, replicas=replicas)

    async def set_offline_replicas(self, replicas: GroupedReplicas) -> None:
        """Report the replicas whose log directory is offline, so that others lead them."""
        await self._members.set_offline_replicas(replicas)

    async def stop(self) -> None:
        """Finish the queued changes, reject new ones, and close the store."""
        await self._members.close()
        await self._follower.stop()
        await self._store.close()

    # Brokers

    @property
    def is_active(self) -> bool:
        """Return whether this broker is the controller, as far as it knows."""
        return self._active_controller is not None

    @property
    def can_act(self) -> bool:
        """Return whether this broker is the controller and can change something: the store answers."""
        return self.is_active and self.contact.is_trusted

    @property
    def contact(self) -> StoreContact:
        """Return whether the metadata store answers this broker."""
        return self._store.contact()

    @property
    def metadata_age_ms(self) -> int:
        """Return for how long the image may have been outdated; 0 if it is the newest one."""
        return max(self.contact.silent_ms, self._follower.behind_ms)

    @property
    def rolled_back(self) -> StoreRolledBack | None:
        """Return why the store is not followed, if it went back."""
        return self._follower.rolled_back

    def term_at(self, version: int) -> Term | None:
        """Return the controller term in which a metadata version was written; None if it is not known."""
        return self._follower.term_at(version)

    async def ensemble(self) -> list[StoreServer]:
        """Ask the servers of the metadata store for their roles."""
        return await self._store.ensemble()

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker's session; -1 while it has none."""
        return self._members.broker_epoch

    @property
    def is_registered(self) -> bool:
        """Return whether this broker is registered and alive: only then may it lead."""
        if self._follower.rolled_back is not None:
            return False
        broker = self._state.image.brokers.get(self._node_id)
        return broker is not None and not broker.fenced and broker.epoch == self.broker_epoch

    @property
    def active_controller(self) -> ActiveController:
        """Return the active controller; raise NotController if it is another broker."""
        active = self._active_controller
        if active is None:
            raise NotController(f"broker {self._node_id} is not the controller")
        return active

    async def catch_up(self) -> None:
        """Read everything that has been written to the metadata until now."""
        try:
            await self._follower.catch_up()
        except MetadataError as error:
            raise RequestTimedOut(f"the metadata cannot be read: {error}") from error

    # Changes that this broker may need of its own

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 60_000
    ) -> list[TopicImage | KafkaError]:
        """Create topics; return each topic, or the error."""

        async def on_remote(controller: RemoteController) -> list[TopicImage | KafkaError]:
            made = await controller.create_topics(topics)
            await self.catch_up()
            return [self._created(topic.name, made.get(topic.name)) for topic in topics]

        return await self._call_controller(
            lambda active: active.create_topics(topics, validate_only=validate_only, timeout_ms=timeout_ms),
            on_remote,
        )

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> list[PartitionImage | KafkaError]:
        """Request ISR changes of partitions that this broker leads; return each afterwards, or the error."""
        node_id, broker_epoch = self._node_id, self.broker_epoch

        async def on_remote(controller: RemoteController) -> list[PartitionImage | KafkaError]:
            epochs = await controller.alter_partitions(changes)
            if any(isinstance(each, int) for each in epochs.values()):
                await self.catch_up()
            return [self._altered(each, epochs.get((each.topic_id, each.partition))) for each in changes]

        return await self._call_controller(
            lambda active: active.alter_partitions(node_id, broker_epoch, changes), on_remote
        )

    async def allocate_producer_ids(self, count: int = PRODUCER_IDS_PER_BLOCK) -> range:
        """Return producer ids that are never allocated again."""
        return await self._call_controller(
            lambda active: active.allocate_producer_ids(count),
            lambda controller: controller.allocate_producer_ids(),
        )

    # How

    def _identify(self, directory_ids: Sequence[str]) -> None:
        if directory_ids:
            first, *others = directory_ids
            self._identity = replace(self._identity, directory_id=first, other_directories=tuple(others))

    async def _retry_until_available(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Call the store during the start, and retry while it is unavailable."""
        deadline_ms = self._clock.mono_ms() + self._config().connection_timeout_ms
        while True:
            try:
                return await ask()
            except (StoreUnavailable, SessionLost) as error:
                if self._clock.mono_ms() >= deadline_ms:
                    raise
                logger.warning("waiting for the metadata store: %s", error)
            await asyncio.sleep(RETRY_S)

    @property
    def _others_can_lead(self) -> bool:
        brokers = self._state.image.brokers.values()
        return any(each.can_lead and each.node_id != self._node_id for each in brokers)

    @property
    def _active_controller(self) -> ActiveController | None:
        term = self._members.term
        return None if term is None else term.active_controller

    def _new_term(self, controller_epoch: int) -> ControllerTerm:
        return ControllerTerm(
            self._store,
            self._state,
            self._follower,
            self._clock,
            self._node_id,
            self._config,
            controller_epoch,
        )

    async def _call_controller(
        self,
        here: Callable[[ActiveController], Awaitable[T]],
        on_remote: Callable[[RemoteController], Awaitable[T]],
    ) -> T:
        """Call the controller, wherever it is; wait if none responds."""
        deadline_ms = self._clock.mono_ms() + CONTROLLER_WAIT_MS
        while True:
            try:
                active = self._active_controller
                if active is not None:
                    return await here(active)
                return await on_remote(self._remote())
            except (NotController, BrokerNotAvailable, NetworkException):
                if self._peers is None or self._clock.mono_ms() >= deadline_ms:
                    raise
            await asyncio.sleep(RETRY_S)

    def _remote(self) -> RemoteController:
        # A broker that stands alone never needs it: it starts without these message classes.
        from ottla.controller.remote import RemoteController

        controller_id = self._state.image.controller_id
        if self._peers is None or controller_id in (self._node_id, -1):
            raise NotController("there is no controller at the moment")
        return RemoteController(self._peers, controller_id, self._node_id, self.broker_epoch)

    def _created(self, name: str, error: KafkaError | None) -> TopicImage | KafkaError:
        topic = self._state.image.topics.get(name)
        if error is None or (isinstance(error, TopicAlreadyExists) and topic is not None):
            return topic or error or UnknownServerError(f"{name} was created but is not there")
        return error

    def _altered(self, change: IsrChange, outcome: KafkaError | int | None) -> PartitionImage | KafkaError:
        if isinstance(outcome, KafkaError):
            return outcome
        topic = self._state.image.topic_by_id(change.topic_id)
        partition = None if topic is None else self._state.image.partition(topic.name, change.partition)
        if outcome is None or partition is None:
            return UnknownServerError("the controller did not answer for this partition")
        return partition


def _check_cluster(found: str, expected: str | None) -> None:
    if expected is not None and not found:
        raise MetadataError(
            f"the logs belong to cluster {expected}, whose metadata is missing here. "
            "Was --zookeeper forgotten, or does it name another ensemble or path? "
            "If its data are lost, rebuild them from the brokers' data: ottla cluster rebuild"
        )
    if expected is not None and found != expected:
        raise MetadataError(
            f"the logs belong to cluster {expected}, the metadata to cluster {found}. "
            "Use the --data of this cluster, or the --zookeeper of that one"
        )
