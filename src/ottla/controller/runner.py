"""The controller as the rest of the broker sees it, whichever broker is the controller.

When it is this one, requests are decided here (active.py); when it is another, those that this broker has
of its own (more producer ids, an ISR, a topic that clients ask for) are sent to it (remote.py).
All others are passed on to the controller as they come, and asked of its office there.
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
from ottla.metadata.image import PartitionImage, TopicImage
from ottla.metadata.records import Endpoint, MetadataError
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.state import ClusterState, MetadataFollower, Subscriber
from ottla.metadata.store import MetadataStore, SessionLost, StoreUnavailable
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

__all__ = ["ClusterState", "Controller"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_MS = 10_000
"""How long a request of this broker waits for a controller."""
RETRY_S = 0.1
COMPLAIN_S = 10.0
LEAVING_S = 15.0
"""How long a broker that stops waits for others to lead its partitions."""
ASKING_S = 2.0
"""How long it tries to ask for that: if the store is away, nobody can lead in its place."""


class Controller:
    """Runs the cluster, or knows who does. `config` returns the broker's current configuration."""

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
            store, node_id, self._new_term, lambda: self.on_session_lost(), self._follower.republish
        )
        incarnation_id = uuid_text(new_uuid())
        self._identity = BrokerRegistration(incarnation_id=incarnation_id, directory_id=incarnation_id)
        self.on_session_lost: Callable[[], None] = lambda: None
        """Called at once when this broker must no longer lead."""

    # Service

    async def start(self, cluster_id: str | None = None, directory_id: str | None = None) -> None:
        """Load the image and take a session; if there is no cluster, take part in creating it.

        `cluster_id` is the cluster that the logs of this broker belong to, if it has logs: without their
        metadata, or with that of another cluster, it must not start. `directory_id` is that of the
        directory, which this process has locked. Raise MetadataError for that, and for a store that
        cannot be trusted.
        """
        await self._store.open()
        try:
            await self._patiently(self._follower.catch_up)
            _check_cluster(self._state.image.cluster_id, cluster_id)
            if directory_id is not None:
                self._identity = replace(self._identity, directory_id=directory_id)
            await self._patiently(lambda: self._members.open(self._identity))
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
        directory_id: str | None = None,
        after_unclean_stop: bool = True,
        may_have_lost_records: bool = True,
        seems_whole: bool = False,
    ) -> int:
        """Tell the cluster where this broker is; return its broker epoch once it is in the cluster.

        Call it when partitions can be served: the broker may be given some to lead. `directory_id` is that of
        the log directory, if it was made since `start`.
        """
        if directory_id is not None:
            self._identity = replace(self._identity, directory_id=directory_id)
        registration = replace(
            self._identity,
            endpoints=tuple(endpoints),
            rack=rack,
            after_unclean_stop=after_unclean_stop,
            may_have_lost_records=may_have_lost_records,
            seems_whole=seems_whole,
        )
        await self._members.register(registration)
        self._members.stand_for_election()
        while not self.is_registered:
            try:
                async with asyncio.timeout(COMPLAIN_S):
                    await self._state.wait_until(lambda _: self.is_registered)
            except TimeoutError:
                logger.warning("this broker waits for a controller to let it into the cluster")
        self._members.registration_accepted()
        return self.broker_epoch

    async def follow(self, subscriber: Subscriber) -> Callable[[], None]:
        """Show `subscriber` the cluster as it is, then every change; return what ends that."""
        return await self._follower.subscribe(subscriber)

    async def move_leaders_away(self) -> None:
        """Let others lead this broker's partitions, as far as there are any that can, before it stops."""
        if not self.is_registered or not self._others_can_lead:
            return
        try:
            async with asyncio.timeout(ASKING_S):
                await self._members.set_draining()
            async with asyncio.timeout(LEAVING_S):
                await self._state.wait_until(
                    lambda image: not machine.has_leaders_to_move(image, self._node_id)
                )
        except (TimeoutError, MetadataError):
            pass  # it stops all the same; the end of its session has the same effect

    async def set_draining(self, aside: bool) -> None:
        """Let others lead this broker's partitions, if there are any that can; or be ready to lead again."""
        if not aside or self._others_can_lead:
            await self._members.set_draining(aside)

    async def stop(self) -> None:
        """Finish the changes that are queued, refuse new ones, and close the store."""
        await self._members.close()
        await self._follower.stop()
        await self._store.close()

    # Who is who

    @property
    def is_active(self) -> bool:
        """Return whether this broker is the controller, as far as it knows."""
        return self._active_controller is not None

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker's session; -1 while it has none."""
        return self._members.broker_epoch

    @property
    def is_registered(self) -> bool:
        """Return whether this broker is in the cluster and alive: only then may it lead."""
        broker = self._state.image.brokers.get(self._node_id)
        return broker is not None and not broker.fenced and broker.epoch == self.broker_epoch

    @property
    def active_controller(self) -> ActiveController:
        """Return where the controller is asked; raise NotController if that is not here."""
        active = self._active_controller
        if active is None:
            raise NotController(f"broker {self._node_id} is not the controller")
        return active

    async def catch_up(self) -> None:
        """See what has been written to the metadata until now."""
        try:
            await self._follower.catch_up()
        except MetadataError as error:
            raise RequestTimedOut(f"the metadata cannot be read: {error}") from error

    # Changes that this broker may need of its own

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 60_000
    ) -> list[TopicImage | KafkaError]:
        """Create topics; return each of them, or why not."""

        async def elsewhere(controller: RemoteController) -> list[TopicImage | KafkaError]:
            made = await controller.create_topics(topics)
            await self.catch_up()
            return [self._created(topic.name, made.get(topic.name)) for topic in topics]

        return await self._ask(
            lambda active: active.create_topics(topics, validate_only=validate_only, timeout_ms=timeout_ms),
            elsewhere,
        )

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> list[PartitionImage | KafkaError]:
        """Ask for other ISRs of partitions that this broker leads; return each as it then is, or why not."""
        node_id, broker_epoch = self._node_id, self.broker_epoch

        async def elsewhere(controller: RemoteController) -> list[PartitionImage | KafkaError]:
            epochs = await controller.alter_partitions(changes)
            if any(isinstance(each, int) for each in epochs.values()):
                await self.catch_up()
            return [self._altered(each, epochs.get((each.topic_id, each.partition))) for each in changes]

        return await self._ask(
            lambda active: active.alter_partitions(node_id, broker_epoch, changes), elsewhere
        )

    async def allocate_producer_ids(self, count: int = PRODUCER_IDS_PER_BLOCK) -> range:
        """Return producer ids that nobody else ever gets."""
        return await self._ask(
            lambda active: active.allocate_producer_ids(count),
            lambda controller: controller.allocate_producer_ids(),
        )

    # How

    async def _patiently(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask the store at the start, and again for as long as it may be away then."""
        deadline_ms = self._clock.mono_ms() + self._config().connection_timeout_ms
        while True:
            try:
                return await ask()
            except (StoreUnavailable, SessionLost) as error:
                if self._clock.mono_ms() >= deadline_ms:
                    raise
                logger.warning("the start waits for the store of the metadata: %s", error)
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

    async def _ask(
        self,
        here: Callable[[ActiveController], Awaitable[T]],
        elsewhere: Callable[[RemoteController], Awaitable[T]],
    ) -> T:
        """Ask the controller, wherever it is; wait a while if there is none that answers."""
        deadline_ms = self._clock.mono_ms() + PATIENCE_MS
        while True:
            try:
                active = self._active_controller
                if active is not None:
                    return await here(active)
                return await elsewhere(self._remote())
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
            "If not, restore the metadata from a backup"
        )
    if expected is not None and found != expected:
        raise MetadataError(
            f"the logs belong to cluster {expected}, the metadata to cluster {found}. "
            "Use the --data of this cluster, or the --zookeeper of that one"
        )
