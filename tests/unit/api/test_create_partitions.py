from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_partitions.v3 import CreatePartitionsRequest
from kio.schema.create_partitions.v3.request import CreatePartitionsAssignment, CreatePartitionsTopic
from kio.schema.errors import ErrorCode


def wanted(name: str, count: int, *assignments: tuple[int, ...]) -> CreatePartitionsTopic:
    placed = tuple(CreatePartitionsAssignment(broker_ids=each) for each in assignments)  # type: ignore[arg-type]
    return CreatePartitionsTopic(name=name, count=count, assignments=placed or None)  # type: ignore[arg-type]


def request(*topics: CreatePartitionsTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    timeout: Any = timedelta(seconds=30)
    return CreatePartitionsRequest(topics=topics, timeout=timeout, validate_only=validate_only)


@pytest.mark.parametrize("version", range(4))
async def test_topics_grow_in_every_version(bench: Any, version: int) -> None:
    await bench.create_topic("orders")
    await bench.create_topic("users")
    response = await bench.ask(
        request(wanted("orders", 4), wanted("users", 2, (1,)), wanted("nothing", 2)), version
    )
    assert [(each.name, each.error_code) for each in response.results] == [
        ("orders", ErrorCode.none),
        ("users", ErrorCode.none),
        ("nothing", ErrorCode.unknown_topic_or_partition),
    ]
    assert len(bench.image.topics["orders"].partitions) == 4
    assert len(bench.image.topics["users"].partitions) == 2


async def test_pitfall_25_validate_only_really_validates_and_grows_nothing(bench: Any) -> None:
    await bench.create_topic("orders")
    before = bench.image
    good = await bench.ask(request(wanted("orders", 4), validate_only=True))
    bad = await bench.ask(request(wanted("orders", 1), validate_only=True))
    assert [each.error_code for each in good.results] == [ErrorCode.none]
    assert [each.error_code for each in bad.results] == [ErrorCode.invalid_partitions]
    assert "has 1 partitions" in bad.results[0].error_message
    assert bench.image is before


async def test_pitfall_25_every_topic_is_answered_and_one_named_twice_is_refused(bench: Any) -> None:
    await bench.create_topic("orders")
    await bench.create_topic("users")
    response = await bench.ask(request(wanted("orders", 4), wanted("users", 2), wanted("orders", 5)))
    assert [(each.name, each.error_code) for each in response.results] == [
        ("orders", ErrorCode.invalid_request),
        ("users", ErrorCode.none),
    ]
    assert len(bench.image.topics["orders"].partitions) == 1


async def test_an_assignment_that_does_not_fit_is_refused(bench: Any) -> None:
    await bench.create_topic("orders")
    response = await bench.ask(request(wanted("orders", 4, (1,))))
    assert [each.error_code for each in response.results] == [ErrorCode.invalid_replica_assignment]
