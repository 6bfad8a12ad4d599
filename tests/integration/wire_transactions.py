"""A transactional producer of bare bytes, for both generations of the protocol and for steps out of order.

The classic protocol adds partitions and groups to a transaction before it uses them (AddPartitionsToTxn,
AddOffsetsToTxn). With transaction.version=2 (KIP-890) Produce v12 and TxnOffsetCommit v5 add them on the way,
and EndTxn v5 answers with the epoch of the next transaction.
"""

from __future__ import annotations

import datetime
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from kio.schema.errors import ErrorCode
from tests.integration.clients import Place, Refused, wait_until
from tests.integration.wire import Wire, batch, produce_fields

from ottla.protocol.api_keys import ApiKey

TRANSACTION = 1
"""The type of coordinator to find."""

WAIT = (
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_topic_or_partition,
)
"""What a client answers by trying again."""


class Versions(NamedTuple):
    """Which versions of the requests a producer speaks."""

    add_partitions: int
    produce: int
    add_offsets: int
    commit_offsets: int
    end: int


CLASSIC = Versions(add_partitions=3, produce=11, add_offsets=3, commit_offsets=3, end=3)
OLDEST = Versions(add_partitions=0, produce=3, add_offsets=0, commit_offsets=0, end=0)
V2 = Versions(add_partitions=3, produce=12, add_offsets=4, commit_offsets=5, end=5)


class WireProducer:
    """One producer on one connection; `producer_id` and `epoch` are those of the last response."""

    def __init__(self, address: str, transactional_id: str, versions: Versions = CLASSIC) -> None:
        self.address = address
        self.wire = Wire(address)
        self.transactional_id = transactional_id
        self.versions = versions
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[Place, int] = defaultdict(int)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.__exit__()

    def reconnect(self) -> None:
        """Go on over a new connection."""
        self.wire.__exit__()
        self.wire = Wire(self.address)

    @property
    def is_v2(self) -> bool:
        """Whether partitions are added on the way."""
        return self.versions.produce >= V2.produce

    def find(self) -> ErrorCode:
        """Find the coordinator, which also makes its topic."""
        answer = self.wire.call(
            ApiKey.FIND_COORDINATOR, 4, key_type=TRANSACTION, coordinator_keys=[self.transactional_id]
        )
        return answer.coordinators[0].error_code

    def init(self, version: int = 4, timeout_ms: int = 60_000, **fields: Any) -> Any:
        """Ask for a producer id once; return the answer."""
        wanted = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": datetime.timedelta(milliseconds=timeout_ms),
            "producer_id": -1,
            "producer_epoch": -1,
            **fields,
        }
        answer = self.wire.call(ApiKey.INIT_PRODUCER_ID, version, **wanted)
        if answer.error_code == ErrorCode.none:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def start(self, **fields: Any) -> Self:
        """Find the coordinator and get a producer id, with all the patience that this takes."""
        wait_until(lambda: self.find() == ErrorCode.none, "the coordinator")
        wait_until(lambda: self._is_done([self.init(**fields).error_code]), "a producer id")
        return self

    def add(self, *places: Place, **fields: Any) -> list[ErrorCode]:
        """Add partitions to the transaction once; return the codes."""
        topics = defaultdict(list)
        for topic, partition in places:
            topics[topic].append(partition)
        named = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        answer = self.wire.call(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            self.versions.add_partitions,
            **{**self._who("v3_and_below_"), "v3_and_below_topics": named, **fields},
        )
        results = answer.results_by_topic_v3_and_below
        return [each.partition_error_code for topic in results for each in topic.results_by_partition]

    def produce(self, place: Place, *values: bytes, **fields: Any) -> Any:
        """Produce one transactional batch; return the partition's answer."""
        wanted = self.batch_fields(place, *values, **fields)
        answer = self.wire.call(ApiKey.PRODUCE, self.versions.produce, **wanted)
        return answer.responses[0].partition_responses[0]

    def batch_fields(self, place: Place, *values: bytes, **fields: Any) -> dict[str, Any]:
        """Return the fields of a Produce request with the next batch for a partition."""
        topic, partition = place
        identity = {"producer_id": self.producer_id, "producer_epoch": self.epoch, **fields}
        sequence = identity.pop("base_sequence", self.sequences[place])
        # Of now: a marker that comes a week after its data would go to a segment of its own.
        now_ms = time.time_ns() // 1_000_000
        records = batch(*values, timestamp=now_ms, transactional=True, base_sequence=sequence, **identity)
        self.sequences[place] = sequence + len(values)
        wanted = produce_fields(topic, records, acks=-1, partition=partition)
        return {"transactional_id": self.transactional_id, **wanted}

    def add_offsets(self, group: str, **fields: Any) -> ErrorCode:
        """Add a group to the transaction once."""
        wanted = {**self._who(), "group_id": group, **fields}
        return self.wire.call(ApiKey.ADD_OFFSETS_TO_TXN, self.versions.add_offsets, **wanted).error_code

    def commit_offsets(self, group: str, offsets: Mapping[Place, int], **fields: Any) -> list[ErrorCode]:
        """Commit offsets with the transaction once; return the codes."""
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                ],
            }
            for (topic, partition), offset in offsets.items()
        ]
        wanted = {**self._who(), "group_id": group, "generation_id": -1, "member_id": "", "topics": topics}
        answer = self.wire.call(
            ApiKey.TXN_OFFSET_COMMIT, self.versions.commit_offsets, **{**wanted, **fields}
        )
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    def end(self, commit: bool = True, **fields: Any) -> ErrorCode:
        """End the transaction once, and take over the next epoch if there is one."""
        answer = self.wire.call(ApiKey.END_TXN, self.versions.end, **self.end_fields(commit, **fields))
        if answer.error_code == ErrorCode.none and self.versions.end >= V2.end and answer.producer_id >= 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer.error_code

    def end_fields(self, commit: bool = True, **fields: Any) -> dict[str, Any]:
        """Return the fields of an EndTxn request."""
        return {**self._who(), "committed": commit, **fields}

    def write(self, place: Place, *values: bytes) -> None:
        """Produce within the transaction, with all the steps that this takes."""
        if not self.is_v2:
            wait_until(lambda: self._is_done(self.add(place)), "the partition to be added")
        wait_until(lambda: self._is_written(place, values), "the batch to be written")

    def _is_written(self, place: Place, values: tuple[bytes, ...]) -> bool:
        sequence, code = self.sequences[place], None
        try:
            code = self.produce(place, *values).error_code
        finally:
            if code != ErrorCode.none:
                self.sequences[place] = sequence  # to be sent again as it was
        return self._is_done([code])

    def write_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Commit offsets within the transaction, with all the steps that this takes."""
        if not self.is_v2:
            wait_until(lambda: self._is_done([self.add_offsets(group)]), "the group to be added")
        wait_until(lambda: self._is_done(self.commit_offsets(group, offsets)), "the offsets")

    def finish(self, commit: bool = True) -> None:
        """End the transaction, with the patience that this takes."""
        wait_until(lambda: self._is_done([self.end(commit)]), "the transaction to end")

    @staticmethod
    def _is_done(codes: list[ErrorCode]) -> bool:
        for code in codes:
            if code != ErrorCode.none and code not in WAIT:
                raise Refused(code, code.name)
        return set(codes) == {ErrorCode.none}

    def _who(self, prefix: str = "") -> dict[str, Any]:
        identity = (self.transactional_id, self.producer_id, self.epoch)
        names = ("transactional_id", "producer_id", "producer_epoch")
        return {f"{prefix}{name}": value for name, value in zip(names, identity, strict=True)}


def fetch_offsets(wire: Wire, group: str, *, require_stable: bool) -> dict[Place, int | ErrorCode]:
    """Return a group's committed offsets, or why there is none to be had; Refused by a wrong coordinator."""
    wanted = {"group_id": group, "topics": None, "member_epoch": -1}
    (answer,) = wire.call(ApiKey.OFFSET_FETCH, 9, groups=[wanted], require_stable=require_stable).groups
    if answer.error_code != ErrorCode.none:
        raise Refused(answer.error_code, answer.error_code.name)
    return {
        (topic.name, each.partition_index): each.committed_offset
        if each.error_code == ErrorCode.none
        else each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }
