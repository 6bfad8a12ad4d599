"""Where a denial is no error: names are left out of lists, another permission suffices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.api.authorization_requests import GROUP, TOPIC, TXN, build
from tests.unit.api.authorization_stage import Stage, codes, refusals

from ottla.api.table import Need
from ottla.common.ids import parse_uuid
from ottla.controller.machine import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.records import Record, encode_batch
from ottla.security.acls import ALL_OPERATIONS, AclFilter, Operation, ResourceType

pytestmark = pytest.mark.asyncio(loop_scope="module")

_O, _R, _K = Operation, ResourceType, ApiKey
CLUSTER_AUTHORIZATION_FAILED = ErrorCode.cluster_authorization_failed
TOPIC_AUTHORIZATION_FAILED = ErrorCode.topic_authorization_failed
DESCRIBE_TOPIC = Need(_O.DESCRIBE, _R.TOPIC)


def bits(*operations: Operation) -> int:
    return sum(1 << each for each in operations)


@pytest.mark.parametrize("version", [0, 1, 9, 12, 13])
async def test_the_list_of_all_topics_has_those_that_may_be_described(stage: Stage, version: int) -> None:
    everything = () if version == 0 else None

    async def names() -> set[str]:
        request_version = 10 if version < 11 else 13
        response = await stage.ask(build(_K.METADATA, request_version, topics=everything), version)
        assert refusals(response) == set()
        return {each.name for each in response.topics}

    stage.allow()
    assert await names() == set()
    stage.allow(DESCRIBE_TOPIC)
    assert await names() == {TOPIC}
    stage.client.principal = "User:root"
    assert await names() >= {TOPIC, "__consumer_offsets", "__transaction_state"}


async def test_pages_of_all_topics_have_those_that_may_be_described(stage: Stage) -> None:
    stage.allow()
    assert (await stage.send(_K.DESCRIBE_TOPIC_PARTITIONS, 0, topics=())).topics == ()
    stage.allow(DESCRIBE_TOPIC)
    (found,) = (await stage.send(_K.DESCRIBE_TOPIC_PARTITIONS, 0, topics=())).topics
    assert (found.name, found.topic_authorized_operations) == (TOPIC, bits(_O.DESCRIBE))


async def test_a_topic_that_is_named_by_id_keeps_its_name(stage: Stage) -> None:
    stage.allow()
    (found,) = (await stage.send(_K.METADATA, 13, name=None, topic_id=stage.topic_id)).topics
    assert (found.error_code, found.name, found.topic_id) == (
        TOPIC_AUTHORIZATION_FAILED,
        None,
        stage.topic_id,
    )
    (found,) = (await stage.send(_K.DELETE_TOPICS, 6, name=None, topic_id=stage.topic_id)).responses
    assert (found.error_code, found.name) == (TOPIC_AUTHORIZATION_FAILED, None)
    assert TOPIC not in repr(found)
    stage.allow(DESCRIBE_TOPIC)
    (found,) = (await stage.send(_K.DELETE_TOPICS, 6, name=None, topic_id=stage.topic_id)).responses
    assert found.error_code is TOPIC_AUTHORIZATION_FAILED
    unknown = parse_uuid("2b1xZ0pTQbGk4m0aG3r9Xw")
    (found,) = (await stage.send(_K.DELETE_TOPICS, 6, name=None, topic_id=unknown)).responses
    assert found.error_code is ErrorCode.unknown_topic_id


async def test_a_missing_topic_looks_like_one_that_may_not_be_seen(stage: Stage) -> None:
    stage.allow()
    answers = [
        (await stage.send(_K.METADATA, 13, name=name, topic_id=None)).topics[0] for name in (TOPIC, "missing")
    ]
    assert [(each.error_code, each.topic_id) for each in answers] == [(TOPIC_AUTHORIZATION_FAILED, None)] * 2


async def test_a_missing_topic_is_created_by_those_who_may(stage: Stage) -> None:
    missing: Any = {"name": "missing", "topic_id": None, "allow_auto_topic_creation": True}
    stage.client.principal = "User:maker"
    acls = stage.acls("User:maker", (_R.TOPIC, "missing", _O.DESCRIBE))
    stage.use(acls)
    (found,) = (await stage.send(_K.METADATA, 13, **missing)).topics
    assert found.error_code is TOPIC_AUTHORIZATION_FAILED
    assert "missing" not in stage.broker.cluster.image.topics
    stage.use([*acls, *stage.acls("User:maker", (_R.TOPIC, "missing", _O.CREATE))])
    (found,) = (await stage.send(_K.METADATA, 13, **missing)).topics
    assert found.error_code is ErrorCode.none


async def test_topics_are_created_with_permission_on_the_cluster_or_on_the_topic(stage: Stage) -> None:
    async def create(name: str) -> Any:
        (made,) = (await stage.send(_K.CREATE_TOPICS, 7, name=name)).topics
        return made

    stage.allow()
    assert (await create("one")).error_code is TOPIC_AUTHORIZATION_FAILED
    stage.use(stage.acls(stage.client.principal, (_R.TOPIC, "one", _O.CREATE)))
    made = await create("one")
    assert (made.error_code, made.configs, made.num_partitions) == (ErrorCode.none, None, -1)
    assert made.topic_config_error_code == TOPIC_AUTHORIZATION_FAILED.value
    assert (await create("two")).error_code is TOPIC_AUTHORIZATION_FAILED
    stage.allow(Need(_O.CREATE, _R.CLUSTER))
    assert (await create("two")).error_code is ErrorCode.none


async def test_groups_and_transactions_are_listed_for_those_who_may_see_them(stage: Stage) -> None:
    async def listed() -> tuple[set[str], set[str]]:
        groups = (await stage.send(_K.LIST_GROUPS, 5)).groups
        transactions = (await stage.send(_K.LIST_TRANSACTIONS, 2)).transaction_states
        return {each.group_id for each in groups}, {each.transactional_id for each in transactions}

    stage.allow()
    assert await listed() == (set(), set())
    stage.use(stage.acls(stage.client.principal, (_R.GROUP, GROUP, _O.READ)))
    assert await listed() == ({GROUP}, set())
    stage.allow(Need(_O.DESCRIBE, _R.TRANSACTIONAL_ID))
    assert await listed() == (set(), {TXN})
    stage.allow(Need(_O.DESCRIBE, _R.CLUSTER))
    assert await listed() == ({GROUP, "consumers"}, set())


async def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_seen(stage: Stage) -> None:
    may_see_group = Need(_O.DESCRIBE, _R.GROUP)
    stage.allow(may_see_group)
    (group,) = (await stage.send(_K.OFFSET_FETCH, 9, topics=None)).groups
    assert (group.error_code, group.topics) == (ErrorCode.none, ())
    (group,) = (await stage.send(_K.OFFSET_FETCH, 9)).groups
    assert group.topics[0].partitions[0].error_code is TOPIC_AUTHORIZATION_FAILED
    stage.allow(may_see_group, DESCRIBE_TOPIC)
    (group,) = (await stage.send(_K.OFFSET_FETCH, 9, topics=None)).groups
    assert [each.name for each in group.topics] == [TOPIC]


async def test_an_idempotent_producer_needs_the_cluster_or_any_topic(stage: Stage) -> None:
    async def init() -> ErrorCode:
        response = await stage.send(_K.INIT_PRODUCER_ID, 5, transactional_id=None)
        return response.error_code  # type: ignore[no-any-return]

    stage.allow(Need(_O.READ, _R.TOPIC))
    assert await init() is CLUSTER_AUTHORIZATION_FAILED
    stage.allow(Need(_O.WRITE, _R.TOPIC))
    assert await init() is ErrorCode.none
    stage.allow(Need(_O.IDEMPOTENT_WRITE, _R.CLUSTER))
    assert await init() is ErrorCode.none


async def test_two_phase_commit_is_a_permission_of_its_own(stage: Stage) -> None:
    may_write, may_prepare = (
        Need(_O.WRITE, _R.TRANSACTIONAL_ID),
        Need(_O.TWO_PHASE_COMMIT, _R.TRANSACTIONAL_ID),
    )
    stage.allow(may_write)
    init = await stage.send(_K.INIT_PRODUCER_ID, 6, enable2_pc=True)
    assert init.error_code is ErrorCode.transactional_id_authorization_failed
    stage.allow(may_write, may_prepare)
    init = await stage.send(_K.INIT_PRODUCER_ID, 6, enable2_pc=True)
    assert init.error_code is ErrorCode.none


async def test_a_topic_that_may_not_be_written_is_not_added_to_a_transaction(stage: Stage) -> None:
    stage.allow(Need(_O.WRITE, _R.TRANSACTIONAL_ID))
    init = await stage.send(_K.INIT_PRODUCER_ID, 5)
    batch = encode_batch(
        [Record(0, 1_000, None, b"value")],
        producer_id=init.producer_id,
        producer_epoch=init.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    answer = await stage.send(_K.PRODUCE, 12, records=bytes(batch))
    assert refusals(answer) == {ErrorCode.topic_authorization_failed}
    assert not (await stage.broker.transactions.describe(TXN)).partitions


async def test_a_fetch_as_a_follower_needs_the_cluster(stage: Stage) -> None:
    as_follower: Any = {"replica_id": 5, "topic_id": stage.topic_id, "max_wait": timedelta(0)}
    stage.allow(Need(_O.READ, _R.TOPIC))
    (topic,) = (await stage.send(_K.FETCH, 14, **as_follower)).responses
    assert topic.partitions[0].error_code is TOPIC_AUTHORIZATION_FAILED
    stage.allow(Need(_O.CLUSTER_ACTION, _R.CLUSTER))
    (topic,) = (await stage.send(_K.FETCH, 14, **as_follower)).responses
    assert topic.partitions[0].error_code not in (TOPIC_AUTHORIZATION_FAILED, ErrorCode.none)


@pytest.mark.parametrize("need", [Need(_O.CLUSTER_ACTION, _R.CLUSTER), Need(_O.ALTER, _R.CLUSTER)])
async def test_markers_are_written_for_brokers_and_administrators(stage: Stage, need: Need) -> None:
    stage.allow()
    assert refusals(await stage.send(_K.WRITE_TXN_MARKERS, 2)) == {CLUSTER_AUTHORIZATION_FAILED}
    stage.allow(need)
    assert refusals(await stage.send(_K.WRITE_TXN_MARKERS, 2)) == set()


@pytest.mark.parametrize("need", [Need(_O.CLUSTER_ACTION, _R.CLUSTER), DESCRIBE_TOPIC])
async def test_ends_of_epochs_are_reported_to_followers_and_consumers(stage: Stage, need: Need) -> None:
    stage.allow()
    assert refusals(await stage.send(_K.OFFSET_FOR_LEADER_EPOCH, 4)) == {TOPIC_AUTHORIZATION_FAILED}
    stage.allow(need)
    assert refusals(await stage.send(_K.OFFSET_FOR_LEADER_EPOCH, 4)) == set()


@pytest.mark.parametrize(
    ("resource_type", "name", "resource", "code"),
    [
        (4, "1", _R.CLUSTER, CLUSTER_AUTHORIZATION_FAILED),
        (16, "metrics", _R.CLUSTER, CLUSTER_AUTHORIZATION_FAILED),
        (32, GROUP, _R.GROUP, ErrorCode.group_authorization_failed),
    ],
)
async def test_configs_belong_to_their_resource(
    stage: Stage, resource_type: int, name: str, resource: ResourceType, code: ErrorCode
) -> None:
    of_it: Any = {"resource_type": resource_type, "resource_name": name}
    for key, version, operation in (
        (_K.DESCRIBE_CONFIGS, 4, _O.DESCRIBE_CONFIGS),
        (_K.INCREMENTAL_ALTER_CONFIGS, 1, _O.ALTER_CONFIGS),
        (_K.ALTER_CONFIGS, 2, _O.ALTER_CONFIGS),
    ):
        stage.allow(*(Need(operation, each) for each in (_R.TOPIC, _R.GROUP, _R.CLUSTER) if each != resource))
        assert refusals(await stage.send(key, version, **of_it)) == {code}
        stage.allow(Need(operation, resource))
        assert refusals(await stage.send(key, version, **of_it)) == set()


async def test_the_coordinator_of_a_transactional_id_is_a_secret_too(stage: Stage) -> None:
    of_transaction: Any = {"key_type": 1, "coordinator_keys": (TXN,)}
    stage.allow(Need(_O.DESCRIBE, _R.GROUP))
    found = await stage.send(_K.FIND_COORDINATOR, 6, **of_transaction)
    assert refusals(found) == {ErrorCode.transactional_id_authorization_failed}
    stage.allow(Need(_O.DESCRIBE, _R.TRANSACTIONAL_ID))
    assert set(codes(await stage.send(_K.FIND_COORDINATOR, 6, **of_transaction))) == {ErrorCode.none}


async def test_tokens_are_seen_by_their_owner_and_with_permission(stage: Stage) -> None:
    async def seen() -> int:
        return len((await stage.send(_K.DESCRIBE_DELEGATION_TOKEN, 3)).tokens)

    stage.allow()
    assert await seen() == 0
    stage.allow(Need(_O.DESCRIBE_TOKENS, _R.USER))
    assert await seen() == 1
    stage.allow(Need(_O.DESCRIBE, _R.DELEGATION_TOKEN))
    assert await seen() == 1
    stage.allow()
    stage.client.principal = "User:bob"
    assert await seen() == 1


async def test_who_creates_a_token_for_another_may_use_it_as_its_owner(stage: Stage) -> None:
    stage.allow(Need(_O.CREATE_TOKENS, _R.USER))
    token = await stage.send(_K.CREATE_DELEGATION_TOKEN, 3)
    assert token.principal_name != "alice"
    stage.allow()
    described = (await stage.send(_K.DESCRIBE_DELEGATION_TOKEN, 3)).tokens
    assert token.token_id in {each.token_id for each in described}
    now = {"hmac": token.hmac, "expiry_time_period": timedelta(milliseconds=-1)}
    assert (await stage.send(_K.EXPIRE_DELEGATION_TOKEN, 2, **now)).error_code is ErrorCode.none
    again = await stage.send(_K.EXPIRE_DELEGATION_TOKEN, 2, **now)
    assert again.error_code is ErrorCode.delegation_token_not_found
    assert again.expiry_timestamp.timestamp() == 0


async def test_what_is_refused_as_a_whole_is_refused_per_item_too(stage: Stage) -> None:
    stage.allow()
    response = await stage.send(_K.ELECT_LEADERS, 2)
    assert list(codes(response)) == [CLUSTER_AUTHORIZATION_FAILED] * 2
    response = await stage.send(_K.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    assert list(codes(response)) == [CLUSTER_AUTHORIZATION_FAILED] * 2


async def test_the_transactional_id_counts_before_the_topic(stage: Stage) -> None:
    stage.allow()
    response = await stage.send(_K.PRODUCE, 12)
    assert refusals(response) == {ErrorCode.transactional_id_authorization_failed}
    stage.allow(Need(_O.WRITE, _R.TRANSACTIONAL_ID))
    assert refusals(await stage.send(_K.PRODUCE, 12)) == {TOPIC_AUTHORIZATION_FAILED}


async def test_authorized_operations_are_those_of_the_client(stage: Stage) -> None:
    asking: Any = {
        "name": TOPIC,
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
        "include_authorized_operations": True,
    }

    async def told() -> tuple[int, int, int, int, int]:
        metadata = await stage.send(_K.METADATA, 10, **asking)
        cluster = await stage.send(_K.DESCRIBE_CLUSTER, 2, **asking)
        classic = await stage.send(_K.DESCRIBE_GROUPS, 6, **asking)
        consumers = await stage.send(_K.CONSUMER_GROUP_DESCRIBE, 1, **asking)
        return (
            metadata.topics[0].topic_authorized_operations,
            metadata.cluster_authorized_operations,
            cluster.cluster_authorized_operations,
            classic.groups[0].authorized_operations,
            consumers.groups[0].authorized_operations,
        )

    stage.allow(Need(_O.WRITE, _R.TOPIC), Need(_O.READ, _R.GROUP))
    topic, group = bits(_O.WRITE, _O.DESCRIBE), bits(_O.READ, _O.DESCRIBE)
    assert await told() == (topic, 0, 0, group, group)
    stage.allow(Need(_O.ALL, _R.TOPIC), Need(_O.ALL, _R.GROUP), Need(_O.ALTER, _R.CLUSTER))
    cluster = bits(_O.ALTER, _O.DESCRIBE)
    all_of_group = ALL_OPERATIONS[_R.GROUP]
    assert await told() == (ALL_OPERATIONS[_R.TOPIC], cluster, cluster, all_of_group, all_of_group)


async def test_a_regular_expression_matches_topics_that_may_be_described(stage: Stage) -> None:
    await stage.broker.controller.active_controller.create_topics([NewTopic("other", 1)])
    topics = stage.broker.cluster.image.topics
    principal = stage.client.principal

    async def beat(epoch: int) -> Any:
        first = {
            "subscribed_topic_regex": ".*",
            "rebalance_timeout": timedelta(minutes=1),
            "topic_partitions": (),
        }
        more: Any = first if epoch == 0 else {"subscribed_topic_regex": None, "topic_partitions": None}
        more |= {"group_id": "matching", "member_epoch": epoch, "subscribed_topic_names": None}
        answer = await stage.send(_K.CONSUMER_GROUP_HEARTBEAT, 1, **more)
        assert answer.error_code is ErrorCode.none, answer
        return answer

    def assigned(answer: Any) -> set[Any]:
        return {each.topic_id for each in answer.assignment.topic_partitions}

    may_join = (_R.GROUP, "matching", _O.READ)
    stage.use(stage.acls(principal, may_join, (_R.TOPIC, TOPIC, _O.DESCRIBE)))
    joined = await beat(0)
    assert assigned(joined) == {topics[TOPIC].topic_id}
    # A new ACL comes with a new image, at which the expression is matched again.
    acls = stage.acls(principal, may_join, (_R.TOPIC, TOPIC, _O.READ), (_R.TOPIC, "other", _O.READ))
    assert await stage.broker.controller.active_controller.create_acls(acls) == [None] * 3
    later = await beat(joined.member_epoch)
    assert assigned(later) == {topics[TOPIC].topic_id, topics["other"].topic_id}
    await stage.broker.controller.active_controller.delete_acls([AclFilter()])


async def test_requests_are_forwarded_over_the_listener_of_brokers_only(stage: Stage) -> None:
    stage.allow(Need(_O.CLUSTER_ACTION, _R.CLUSTER))
    stage.client.listener_name = "EXTERNAL"
    assert refusals(await stage.send(_K.ENVELOPE, 0)) == {ErrorCode.cluster_authorization_failed}
    stage.client.listener_name = stage.broker.config.inter_broker_listener.name
    assert refusals(await stage.send(_K.ENVELOPE, 0)) == set()
