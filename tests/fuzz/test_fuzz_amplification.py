"""Small requests for huge answers: what is named again and again is answered once, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.fuzz.harness import MAX_PARTITIONS, FuzzBroker

from ottla.protocol.api_keys import ApiKey

MANY = 5000
GROUP = "group-a"
TOPIC = "fuzz-plain"


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzBroker]:
    with FuzzBroker(tmp_path_factory.mktemp("amplification") / "data") as started:
        yield started


@pytest.mark.parametrize(
    ("api_key", "version", "fields", "answers"),
    [
        (ApiKey.METADATA, 8, {"topics": [{"name": TOPIC}] * MANY}, "topics"),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": [GROUP] * MANY}, "coordinators"),
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": [GROUP] * MANY}, "groups"),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": [GROUP] * MANY}, "groups"),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": [GROUP] * MANY}, "results"),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": TOPIC}] * MANY}, "topics"),
    ],
)
def test_what_is_named_again_and_again_is_answered_once(
    fuzzed: FuzzBroker, api_key: ApiKey, version: int, fields: dict[str, Any], answers: str
) -> None:
    assert len(getattr(fuzzed.ask(api_key, version, **fields), answers)) == 1


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offsets_of_a_group_that_is_named_again_and_again_are_refused(
    fuzzed: FuzzBroker, version: int
) -> None:
    groups = [{"group_id": GROUP, "topics": None}] * MANY + [{"group_id": "group-b", "topics": None}]
    answer = fuzzed.ask(ApiKey.OFFSET_FETCH, version, groups=groups)
    assert {each.group_id: each.error_code for each in answer.groups} == {
        GROUP: ErrorCode.invalid_request,
        "group-b": ErrorCode.none,
    }


@pytest.mark.parametrize("version", [7, 9])
def test_offsets_of_a_partition_that_is_named_again_and_again_are_reported_once(
    fuzzed: FuzzBroker, version: int
) -> None:
    topics = [{"name": TOPIC, "partition_indexes": [0, 1] * MANY}] * 2
    asked = {"group_id": GROUP, "topics": topics}
    fields = asked if version < 8 else {"groups": [asked]}
    answer = fuzzed.ask(ApiKey.OFFSET_FETCH, version, **fields)
    (topic,) = answer.topics if version < 8 else answer.groups[0].topics
    assert [each.partition_index for each in topic.partitions] == [0, 1]


def test_asking_for_many_topics_creates_no_more_than_one_request_may(fuzzed: FuzzBroker) -> None:
    fuzzed.reset()
    few = [{"name": f"auto-{number}"} for number in range(MAX_PARTITIONS)]
    many = [{"name": f"auto-more-{number}"} for number in range(MAX_PARTITIONS + 1)]
    for wanted, code in ((few, ErrorCode.none), (many, ErrorCode.unknown_topic_or_partition)):
        answer = fuzzed.ask(ApiKey.METADATA, 8, topics=wanted, allow_auto_topic_creation=True)
        assert {each.error_code for each in answer.topics} == {code}
    assert "auto-more-0" not in fuzzed.broker.cluster.image.topics
