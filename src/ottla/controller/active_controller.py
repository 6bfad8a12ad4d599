"""The requests that the active controller accepts.

Each method lets the machine decide (pure) and the writer apply the decisions (IO). Large requests are decided
in chunks, with other requests in between, so that no part blocks the loop; a request that is only validated
is decided on images that are then discarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, cast

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition, new_nonce, new_uuid, uuid_text
from ottla.controller import machine
from ottla.controller.machine import (
    ConfigAlteration,
    Decision,
    IsrChange,
    NewPartitions,
    NewTopic,
    QuotaAlteration,
    Reassignment,
    ScramDeletion,
    ScramUpsertion,
    TopicSelector,
)
from ottla.controller.writer import MetadataWriter
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import KafkaError, RequestTimedOut
from ottla.security.acls import AclBinding, AclFilter
from ottla.security.delegation_tokens import DelegationToken

T = TypeVar("T")

ITEMS_PER_CHUNK = 50
WEIGHT_PER_CHUNK = 100


def chunks(items: Iterable[T], weight: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in order, in short and light lists; a heavy item gets its own list."""
    chunk: list[T] = []
    total = 0
    for item in items:
        each = weight(item)
        if chunk and (len(chunk) >= ITEMS_PER_CHUNK or total + each > WEIGHT_PER_CHUNK):
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += each
    if chunk:
        yield chunk


I = TypeVar("I")  # noqa: E741  an item of a request
R = TypeVar("R")

PRODUCER_IDS_PER_BLOCK = 1_000


class ActiveController:
    """Changes the cluster. `config` returns the broker's current configuration."""

    def __init__(
        self, writer: MetadataWriter, state: ClusterState, clock: Clock, config: Callable[[], BrokerConfig]
    ) -> None:
        self._writer = writer
        self._state = state
        self._clock = clock
        self._config = config

    # Topics and configs

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 60_000
    ) -> list[TopicImage | KafkaError]:
        """Create topics; return each topic, or the error."""
        refused = machine.check_new_topics(topics, self._config())

        def decide(image: ClusterImage, chunk: Sequence[NewTopic]) -> Decision[TopicImage]:
            return machine.create_topics(image, chunk, [new_uuid() for _ in chunk], self._config())

        def weight(topic: NewTopic) -> int:
            return max(topic.partition_count, len(topic.assignments), 1)

        return await self._in_chunks(topics, refused, weight, decide, validate_only, timeout_ms)

    async def delete_topics(
        self, selectors: Sequence[TopicSelector], *, timeout_ms: int = 60_000
    ) -> list[TopicImage | KafkaError]:
        """Delete topics; return each deleted topic, or the error."""
        refused = machine.check_selectors(self._state.image, selectors, self._config())
        image = self._state.image

        def weight(selector: TopicSelector) -> int:
            topic = machine.find_topic(image, selector)
            return 1 if topic is None else len(topic.partitions)

        return await self._in_chunks(selectors, refused, weight, machine.delete_topics, False, timeout_ms)

    async def create_partitions(
        self, wanted: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int = 60_000
    ) -> list[TopicImage | KafkaError]:
        """Add partitions to topics; return each topic afterwards, or the error."""
        refused = machine.check_new_partitions(self._state.image, wanted)
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
        refused = machine.check_alterations(alterations)
        decide_on = machine.replace_configs if replacing else machine.alter_configs

        def decide(image: ClusterImage, chunk: Sequence[ConfigAlteration]) -> Decision[None]:
            return machine.with_elections(image, decide_on(image, chunk, self._config()), self._config())

        return await self._in_chunks(alterations, refused, lambda _: 1, decide, validate_only, None)

    async def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Set and remove quotas of users, client ids and addresses."""
        refused: list[KafkaError | None] = [None] * len(alterations)
        return await self._in_chunks(
            alterations, refused, lambda _: 1, machine.alter_client_quotas, validate_only, None
        )

    # Security

    async def create_acls(self, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Add ACLs; return the error of each."""
        return await self._in_chunks(
            bindings, [None] * len(bindings), lambda _: 1, machine.create_acls, False, None
        )

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[tuple[AclBinding, ...] | KafkaError]:
        """Remove ACLs; return those that each filter matched, or the error."""
        results = await self._writer.change(lambda image: machine.delete_acls(image, filters))
        return list(results)

    async def create_token(
        self, owner: str, requester: str, renewers: tuple[str, ...], max_lifetime_ms: int
    ) -> DelegationToken:
        """Create a delegation token."""
        token_id, now_ms = uuid_text(new_uuid()), self._clock.wall_ms()
        return await self._one(
            lambda image: machine.create_token(
                image, token_id, owner, requester, renewers, max_lifetime_ms, now_ms, self._config()
            )
        )

    async def renew_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Extend the validity of a delegation token; return when it ends."""
        now_ms = self._clock.wall_ms()
        return await self._one(
            lambda image: machine.renew_token(image, hmac, principal, period_ms, now_ms, self._config())
        )

    async def expire_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Change when the validity of a delegation token ends; return it."""
        now_ms = self._clock.wall_ms()
        return await self._one(
            lambda image: machine.expire_token(image, hmac, principal, period_ms, now_ms, self._config())
        )

    async def remove_expired_tokens(self) -> None:
        """Remove the delegation tokens that are not valid any more."""
        now_ms = self._clock.wall_ms()
        if machine.remove_expired_tokens(self._state.image, now_ms).records:
            await self._writer.change(lambda image: machine.remove_expired_tokens(image, now_ms))

    async def alter_scram_credentials(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError | None]:
        """Set and remove SCRAM credentials; return the error of each user, or None."""
        secret = new_nonce()
        (result,) = await self._writer.change(
            lambda image: machine.alter_scram_credentials(image, changes, secret)
        )
        if isinstance(result, KafkaError):
            raise result
        return result

    # Partitions and brokers

    async def alter_partitions(
        self, node_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> list[PartitionImage | KafkaError]:
        """Change ISRs as a leader requests; return each partition afterwards, or the error."""
        results = await self._writer.change(
            lambda image: machine.alter_partitions(image, node_id, broker_epoch, changes, self._config())
        )
        return list(results)

    async def elect_leaders(
        self, kind: int, wanted: Sequence[TopicPartition]
    ) -> list[PartitionImage | KafkaError]:
        """Elect leaders of these partitions; return each partition afterwards, or the error."""
        results = await self._writer.change(
            lambda image: machine.elect_leaders(image, kind, wanted, self._config())
        )
        return list(results)

    async def reassign(
        self, moves: Sequence[Reassignment], *, may_change_factor: bool = True
    ) -> list[KafkaError | None]:
        """Start, replace or cancel reassignments."""
        results = await self._writer.change(
            lambda image: machine.reassign(image, moves, self._config(), may_change_factor=may_change_factor)
        )
        return list(results)

    async def unregister_broker(self, node_id: int) -> None:
        """Remove a broker that is gone permanently."""
        await self._one(lambda image: machine.unregister_broker(image, node_id))

    async def allocate_producer_ids(self, count: int = PRODUCER_IDS_PER_BLOCK) -> range:
        """Return producer ids that are never allocated again."""
        return await self._one(lambda image: machine.allocate_producer_ids(image, count))

    async def restore_metadata(
        self, backup: ClusterImage, *, overwrite: bool, validate_only: bool
    ) -> list[machine.Restored]:
        """Create what `backup` has and the cluster has not; return what became of each thing."""

        def decide(image: ClusterImage) -> Decision[machine.Restored]:
            return machine.restore_metadata(image, backup, self._config(), overwrite=overwrite)

        if validate_only:
            return _made(decide(self._state.image).results)
        written = await self._writer.change(decide)
        return _made(written)

    # How

    async def _one(self, decide: Callable[[ClusterImage], Decision[R]]) -> R:
        """Apply a decision with one result; raise it if it is an error."""
        (result,) = await self._writer.change(decide)
        if isinstance(result, KafkaError):
            raise result
        return result

    async def _in_chunks(
        self,
        items: Sequence[I],
        refused: Sequence[KafkaError | None],
        weight: Callable[[I], int],
        decide: Callable[[ClusterImage, Sequence[I]], Decision[R]],
        validate_only: bool,
        timeout_ms: int | None,
    ) -> list[R | KafkaError]:
        """Decide the items without errors, a chunk at a time; chunks that start after the timeout get an
        error.
        """
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
                outcome = await self._write_chunk(decide, part)
                decided = outcome
            for index, result in zip(chunk, decided, strict=True):
                results[index] = result
        return cast("list[R | KafkaError]", results)

    async def _write_chunk(
        self, decide: Callable[[ClusterImage, Sequence[I]], Decision[R]], part: Sequence[I]
    ) -> tuple[R | KafkaError, ...]:
        return await self._writer.change(lambda image: decide(image, part))


def _made(results: Sequence[machine.Restored | KafkaError]) -> list[machine.Restored]:
    return [each for each in results if not isinstance(each, KafkaError)]
