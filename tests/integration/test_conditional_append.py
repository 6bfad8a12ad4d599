"""ConditionalAppend against a real broker: appended once, where expected, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ottla.client import AsyncAdmin
from ottla.protocol.own_messages import ConditionalAppendRequest, ConditionalAppendResponse
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.local_broker import OttlaBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


def batch_of(*values: bytes, **options: Any) -> bytes:
    return bytes(encode_batch([Record(at, 1, b"k", value, ()) for at, value in enumerate(values)], **options))


async def ask(admin: AsyncAdmin, topic: str, expected: int, batch: bytes) -> ConditionalAppendResponse:
    timeout: Any = timedelta(seconds=5)
    name: Any = topic
    index: Any = 0
    offset: Any = expected
    request = ConditionalAppendRequest(
        topic=name, partition_index=index, expected_end_offset=offset, batch=batch, timeout=timeout
    )
    connection = await admin.cluster.any_broker()
    return await connection.request(request, ConditionalAppendResponse)


async def test_a_batch_is_appended_where_it_is_expected_to_be(broker: OttlaBroker) -> None:
    async with AsyncAdmin(broker.bootstrap_servers) as admin:
        await admin.create_topic("cas", partitions=1)
        first = await ask(admin, "cas", 0, batch_of(b"a", b"b"))
        assert (first.error_code, first.base_offset, first.end_offset) == (ErrorCode.none, 0, 2)
        again = await ask(admin, "cas", 0, batch_of(b"a", b"b"))
        assert (again.error_code, again.base_offset, again.end_offset) == (
            ErrorCode.invalid_update_version,
            -1,
            2,
        )
        assert again.error_message == "cas-0 ends at 2, not at 0"
        third = await ask(admin, "cas", 2, batch_of(b"c"))
        assert (third.error_code, third.base_offset, third.end_offset) == (ErrorCode.none, 2, 3)


async def test_of_many_at_once_one_is_appended(broker: OttlaBroker) -> None:
    async with AsyncAdmin(broker.bootstrap_servers) as admin:
        await admin.create_topic("race", partitions=1)
        answers = await asyncio.gather(*(ask(admin, "race", 0, batch_of(b"%d" % each)) for each in range(20)))
        codes = [each.error_code for each in answers]
        assert codes.count(ErrorCode.none) == 1
        assert codes.count(ErrorCode.invalid_update_version) == 19


@pytest.mark.parametrize(
    ("topic", "batch", "code"),
    [
        ("nowhere", batch_of(b"a"), ErrorCode.unknown_topic_or_partition),
        ("__consumer_offsets", batch_of(b"a"), ErrorCode.invalid_topic_exception),
        (
            "refused",
            batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0),
            ErrorCode.invalid_record,
        ),
        ("refused", batch_of(b"a", control=True), ErrorCode.invalid_record),
        ("refused", batch_of(b"a", codec=1), ErrorCode.invalid_record),
        ("refused", batch_of(b"a")[:-1], ErrorCode.corrupt_message),
        ("refused", b"", ErrorCode.invalid_record),
        ("refused", batch_of(b"x" * 2_000_000), ErrorCode.message_too_large),
    ],
)
async def test_what_is_not_appended(broker: OttlaBroker, topic: str, batch: bytes, code: ErrorCode) -> None:
    async with AsyncAdmin(broker.bootstrap_servers) as admin:
        if topic == "refused" and "refused" not in await admin.list_topics():
            await admin.create_topic("refused", partitions=1)
        answer = await ask(admin, topic, 0, batch)
        assert answer.error_code == code
        if topic == "refused":
            assert answer.end_offset == 0, "nothing was appended"


async def test_a_topic_that_validates_schemas_is_written_by_produce_alone() -> None:
    settings = {"confluent.schema.registry.url": "http://127.0.0.1:1"}
    with OttlaBroker(settings=settings) as broker:
        await _check_refusal(broker)


async def _check_refusal(broker: OttlaBroker) -> None:
    async with AsyncAdmin(broker.bootstrap_servers) as admin:
        await admin.create_topic(
            "checked", partitions=1, configs={"confluent.value.schema.validation": "true"}
        )
        answer = await ask(admin, "checked", 0, batch_of(b"no schema"))
    assert (answer.error_code, answer.end_offset) == (ErrorCode.invalid_record, 0)
    assert "validates schemas" in (answer.error_message or "")


async def test_a_conditional_append_counts_for_the_quota_of_producers(broker: OttlaBroker) -> None:
    async with AsyncAdmin(broker.bootstrap_servers, client_id="hoarder") as admin:
        await admin.create_topic("limited", partitions=1)
        await admin.alter_quotas({"client-id": "hoarder"}, set_to={"producer_byte_rate": 10_000.0})
        answer = await ask(admin, "limited", 0, batch_of(bytes(40_000)))
        assert answer.error_code is ErrorCode.none
        assert answer.throttle_time > timedelta(seconds=1)
