"""Topics and their configs, as an admin client changes them, of the client tests' broker in memory."""

from __future__ import annotations

from typing import Any

from kio.schema.create_partitions.v3 import response as create_partitions
from kio.schema.create_topics.v7 import response as create_topics
from kio.schema.delete_topics.v5 import response as delete_topics
from kio.schema.describe_configs.v4 import response as describe_configs
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import response as alter_configs
from tests.unit.client.fake_log import FakePartition

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.types import NO_THROTTLE


def create_topic(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    asked = request.topics[0]
    bad = next((each.name for each in asked.configs if each.name != "retention.ms"), None)
    error, message = fault or ErrorCode.none, None
    if asked.name in broker.topics:
        error, message = ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists."
    elif bad:
        error, message = ErrorCode.invalid_config, f"Unknown topic config name: {bad}"
    count = 1 if asked.num_partitions == -1 else asked.num_partitions
    if not error and not request.validate_only:
        broker.add_topic(asked.name, count).configs.update({each.name: each.value for each in asked.configs})
    result = create_topics.CreatableTopicResult(
        name=asked.name,
        topic_id=broker.topics[asked.name].topic_id if asked.name in broker.topics else None,
        error_code=error,
        error_message=message,
        num_partitions=count,
        replication_factor=1,
        configs=(),
    )
    return create_topics.CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=(result,))


def delete_topic(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    name = request.topic_names[0]
    error = fault or (ErrorCode.none if name in broker.topics else ErrorCode.unknown_topic_or_partition)
    if not error:
        del broker.topics[name]
    result = delete_topics.DeletableTopicResult(name=name, error_code=error)
    return delete_topics.DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=(result,))


def add_partitions(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    asked = request.topics[0]
    partitions = broker.topics[asked.name].partitions
    error, message = fault or ErrorCode.none, None
    if asked.count <= len(partitions):
        error, message = (
            ErrorCode.invalid_partitions,
            f"{asked.name} has {len(partitions)} partitions already",
        )
    elif not request.validate_only:
        partitions.extend(FakePartition() for _ in range(asked.count - len(partitions)))
    result = create_partitions.CreatePartitionsTopicResult(
        name=asked.name, error_code=error, error_message=message
    )
    return create_partitions.CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=(result,))


def describe_topic(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    name = request.resources[0].resource_name
    overrides = broker.topics[name].configs
    values = {"cleanup.policy": "delete", "retention.ms": "604800000", **overrides}
    result = describe_configs.DescribeConfigsResult(
        error_code=fault or ErrorCode.none,
        error_message=None,
        resource_type=2,
        resource_name=name,
        configs=tuple(
            describe_configs.DescribeConfigsResourceResult(
                name=key,
                value=value,
                read_only=False,
                config_source=1 if key in overrides else 5,
                is_sensitive=False,
                synonyms=(),
                documentation=None,
            )
            for key, value in values.items()
        ),
    )
    return describe_configs.DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=(result,))


def alter_topic(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    resource = request.resources[0]
    error, message = fault or ErrorCode.none, None
    for each in resource.configs:
        if each.name not in ("retention.ms", "cleanup.policy"):
            error, message = ErrorCode.invalid_config, f"Unknown topic config name: {each.name}"
    if not error and not request.validate_only:
        configs = broker.topics[resource.resource_name].configs
        for each in resource.configs:
            configs.pop(each.name, None)
            if each.config_operation == 0:
                configs[each.name] = each.value
    result = alter_configs.AlterConfigsResourceResponse(
        error_code=error, error_message=message, resource_type=2, resource_name=resource.resource_name
    )
    return alter_configs.IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=(result,))


VERSIONS = {
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 5),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
}
NEWEST = {
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
}
HANDLERS: dict[ApiKey, Any] = {
    ApiKey.CREATE_TOPICS: create_topic,
    ApiKey.DELETE_TOPICS: delete_topic,
    ApiKey.CREATE_PARTITIONS: add_partitions,
    ApiKey.DESCRIBE_CONFIGS: describe_topic,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_topic,
}
