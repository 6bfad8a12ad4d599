"""The controller as the rest of the broker sees it: what can be asked of it, and when it answers.

Each method asks the machine (pure) and has its decisions carried out by the writer (IO). Requests for many
things are decided in chunks, with everyone else's work in between; one that is only to be validated is
decided on images that are then thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from ottla.common.broker_keys import BrokerConfig
from ottla.common.clock import Clock
from ottla.common.ids import new_uuid, uuid_text
from ottla.controller import machine
from ottla.controller.chunks import chunks
from ottla.controller.machine import ConfigAlteration, Decision, NewPartitions, NewTopic, TopicSelector
from ottla.controller.writer import MetadataWriter
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.metadata.records import Endpoint, MetadataError
from ottla.metadata.state import ClusterState
from ottla.metadata.store import MetadataStore, Session
from ottla.protocol.errors import KafkaError, RequestTimedOut

__all__ = ["ClusterState", "Controller"]

I = TypeVar("I")  # noqa: E741  an item of a request
R = TypeVar("R")

PRODUCER_IDS_PER_BLOCK = 1_000


class Controller:
    """Runs the cluster from this broker. `config` returns the broker's current configuration."""

    def __init__(
        self,
        store: MetadataStore,
        state: ClusterState,
        clock: Clock,
        node_id: int,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._node_id = node_id
        self._config = config
        self._writer = MetadataWriter(store, state)
        self._session: Session | None = None

    # Service

    async def start(self, cluster_id: str | None = None) -> None:
        """Load the image, become the controller, and create the cluster if there is none.

        `cluster_id` is the cluster that the logs of this broker belong to, if it has logs: without their
        metadata, or with that of another cluster, it must not start. Raise MetadataError for that, and
        for a store that cannot be trusted.
        """
        await self._store.open()
        try:
            await self._writer.catch_up()
            _check_cluster(self._state.image.cluster_id, cluster_id)
            self._session = await self._store.open_session(self._node_id)
            epoch = await self._store.stand_for_election(self._session)
            self._writer.start(epoch)
            new_id = uuid_text(new_uuid())
            await self._writer.change(lambda image: machine.create_cluster(image, new_id))
            await self._writer.change(lambda image: machine.elect_controller(image, self._node_id, epoch))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Finish the changes that are queued, refuse new ones, and close the store."""
        await self._writer.stop()
        await self._store.close()

    # Changes

    async def register_broker(
        self, endpoints: Sequence[Endpoint], rack: str | None = None, *, after_unclean_stop: bool = True
    ) -> int:
        """Tell the cluster where this broker is; return its broker epoch.

        Call it before partitions are served: after an unclean stop, leader epochs change.
        """
        assert self._session is not None, "start the controller first"
        node_id, broker_epoch = self._node_id, self._session.broker_epoch
        (result,) = await self._writer.change(
            lambda image: machine.register_broker(
                image, node_id, broker_epoch, rack, tuple(endpoints), after_unclean_stop=after_unclean_stop
            )
        )
        return _or_raise(result)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 60_000
    ) -> list[TopicImage | KafkaError]:
        """Create topics; return each of them, or why not."""
        refused = machine.refuse_new_topics(topics, self._config())

        def decide(image: ClusterImage, chunk: Sequence[NewTopic]) -> Decision[TopicImage]:
            return machine.create_topics(image, chunk, [new_uuid() for _ in chunk], self._config())

        def weight(topic: NewTopic) -> int:
            return max(topic.partition_count, len(topic.assignments), 1)

        return await self._in_chunks(topics, refused, weight, decide, validate_only, timeout_ms)

    async def delete_topics(
        self, selectors: Sequence[TopicSelector], *, timeout_ms: int = 60_000
    ) -> list[TopicImage | KafkaError]:
        """Delete topics; return what each of them was, or why not."""
        refused = machine.refuse_selectors(self._state.image, selectors, self._config())
        image = self._state.image

        def weight(selector: TopicSelector) -> int:
            topic = machine.find_topic(image, selector)
            return 1 if topic is None else len(topic.partitions)

        return await self._in_chunks(selectors, refused, weight, machine.delete_topics, False, timeout_ms)

    async def create_partitions(
        self, wanted: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int = 60_000
    ) -> list[TopicImage | KafkaError]:
        """Give topics more partitions; return each topic as it then is, or why not."""
        refused = machine.refuse_new_partitions(self._state.image, wanted)
        return await self._in_chunks(
            wanted,
            refused,
            lambda each: max(1, each.count),
            machine.create_partitions,
            validate_only,
            timeout_ms,
        )

    async def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False, replacing: bool = False
    ) -> list[KafkaError | None]:
        """Change configs of topics and brokers; `replacing` resets those that are not named."""
        refused = machine.refuse_alterations(alterations)
        decide_on = machine.replace_configs if replacing else machine.alter_configs

        def decide(image: ClusterImage, chunk: Sequence[ConfigAlteration]) -> Decision[None]:
            return decide_on(image, chunk, self._config())

        return await self._in_chunks(alterations, refused, lambda _: 1, decide, validate_only, None)

    async def allocate_producer_ids(self, count: int = PRODUCER_IDS_PER_BLOCK) -> range:
        """Return producer ids that nobody else ever gets."""
        (result,) = await self._writer.change(lambda image: machine.allocate_producer_ids(image, count))
        return _or_raise(result)

    # How

    async def _in_chunks(
        self,
        items: Sequence[I],
        refused: Sequence[KafkaError | None],
        weight: Callable[[I], int],
        decide: Callable[[ClusterImage, Sequence[I]], Decision[R]],
        validate_only: bool,
        timeout_ms: int | None,
    ) -> list[R | KafkaError]:
        """Decide what is not refused, a chunk at a time; what has not begun in time has timed out."""
        results: list[R | KafkaError | None] = list(refused)
        allowed = [index for index, error in enumerate(refused) if error is None]
        deadline_ms = None if timeout_ms is None else self._clock.mono_ms() + timeout_ms
        scratch = self._state.image
        for chunk in chunks(allowed, lambda index: weight(items[index])):
            part = [items[index] for index in chunk]
            if chunk[0] != allowed[0] and deadline_ms is not None and self._clock.mono_ms() >= deadline_ms:
                decided: Sequence[R | KafkaError] = [RequestTimedOut("not begun in time")] * len(chunk)
            elif validate_only:
                decision = decide(scratch, part)
                scratch, decided = scratch.apply(decision.records), decision.results
                await asyncio.sleep(0)
            else:
                outcome = await self._decide_part(decide, part)
                decided = outcome
            for index, result in zip(chunk, decided, strict=True):
                results[index] = result
        return cast("list[R | KafkaError]", results)

    async def _decide_part(
        self, decide: Callable[[ClusterImage, Sequence[I]], Decision[R]], part: Sequence[I]
    ) -> tuple[R | KafkaError, ...]:
        return await self._writer.change(lambda image: decide(image, part))


def _check_cluster(found: str, expected: str | None) -> None:
    if expected is not None and not found:
        raise MetadataError(
            f"the logs belong to cluster {expected}, whose metadata is missing; restore it from a backup"
        )
    if expected is not None and found != expected:
        raise MetadataError(f"the logs belong to cluster {expected}, the metadata to cluster {found}")


def _or_raise(result: R | KafkaError) -> R:
    if isinstance(result, KafkaError):
        raise result
    return result
