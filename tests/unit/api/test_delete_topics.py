from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_topics.v5 import DeleteTopicsRequest as DeleteByNameRequest
from kio.schema.delete_topics.v6 import DeleteTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.errors import ErrorCode

SOON: Any = timedelta(seconds=30)


def by_name(*names: str) -> DeleteByNameRequest:
    return DeleteByNameRequest(topic_names=names, timeout=SOON)  # type: ignore[arg-type]


def state(name: str | None = None, topic_id: UUID | None = None) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=topic_id)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(1, 6))
async def test_topics_are_deleted_by_name_in_every_version(bench: Any, version: int) -> None:
    await bench.create_topic("orders")
    response = await bench.ask(by_name("orders", "nothing"), version)
    assert [(each.name, each.error_code) for each in response.responses] == [
        ("orders", ErrorCode.none),
        ("nothing", ErrorCode.unknown_topic_or_partition),
    ]
    assert not bench.image.topics
    if version >= 5:
        assert "nothing" in response.responses[1].error_message


async def test_topics_are_deleted_by_name_and_by_id(bench: Any) -> None:
    orders = await bench.create_topic("orders")
    users = await bench.create_topic("users")
    unknown = UUID(int=5)
    response = await bench.ask(
        DeleteTopicsRequest(
            topics=(
                state("orders"),
                state(topic_id=users.topic_id),
                state("nothing"),
                state(topic_id=unknown),
                state(),
                state("both", unknown),
            ),
            timeout=SOON,
        )
    )
    assert [(each.name, each.topic_id, each.error_code) for each in response.responses] == [
        ("orders", orders.topic_id, ErrorCode.none),
        ("users", users.topic_id, ErrorCode.none),
        ("nothing", None, ErrorCode.unknown_topic_or_partition),
        (None, unknown, ErrorCode.unknown_topic_id),
        (None, None, ErrorCode.invalid_request),
        ("both", unknown, ErrorCode.invalid_request),
    ]
    assert not bench.image.topics


async def test_a_topic_meant_twice_is_refused_and_stays(bench: Any) -> None:
    orders = await bench.create_topic("orders")
    twice = DeleteTopicsRequest(topics=(state("orders"), state(topic_id=orders.topic_id)), timeout=SOON)
    response = await bench.ask(twice)
    assert [each.error_code for each in response.responses] == [ErrorCode.invalid_request] * 2
    assert "orders" in bench.image.topics


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)]
)
async def test_where_deletion_is_off_each_version_hears_it_in_its_own_words(
    make_bench: Any, version: int, code: ErrorCode
) -> None:
    bench = make_bench(delete_topic_enable="false")
    await bench.start()
    await bench.create_topic("orders")
    response = await bench.ask(by_name("orders"), version)
    assert [each.error_code for each in response.responses] == [code]
    assert "orders" in bench.image.topics
    await bench.controller.stop()
