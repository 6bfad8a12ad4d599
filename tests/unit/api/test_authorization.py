"""Every API x what it needs x (allowed, denied), on a whole broker: derived from the table of APIs.

Each request names one topic, one group and one transactional id (authorization_requests.py). With exactly
what `NEEDS` says, no authorization error is in the answer. Without one of the needs, the error of its
resource is; the exceptions, where another need suffices or a name is left out of a list, are spelled out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.api.authorization_requests import GROUP, TOPIC, TXN, build
from tests.unit.api.authorization_stage import Stage, acls_of, refusals

from ottla.api.support.authorization import REFUSALS
from ottla.api.table import APIS, BYTES, NEEDS, Need
from ottla.protocol.api_keys import ApiKey
from ottla.security.acls import (
    Operation,
    Permission,
    ResourceType,
)

_O, _R, _K = Operation, ResourceType, ApiKey

OTHERWISE: dict[tuple[ApiKey, Operation, ResourceType], str] = {
    (_K.PRODUCE, _O.CLUSTER_ACTION, _R.CLUSTER): "enough",
    (_K.FETCH, _O.CLUSTER_ACTION, _R.CLUSTER): "enough",
    (_K.METADATA, _O.CREATE, _R.TOPIC): "enough",
    (_K.METADATA, _O.CREATE, _R.CLUSTER): "enough",
    (_K.METADATA, _O.DESCRIBE, _R.CLUSTER): "enough",
    (_K.FIND_COORDINATOR, _O.DESCRIBE, _R.TRANSACTIONAL_ID): "enough",
    (_K.LIST_GROUPS, _O.DESCRIBE, _R.CLUSTER): "enough",
    (_K.LIST_GROUPS, _O.DESCRIBE, _R.GROUP): "enough",
    (_K.CREATE_TOPICS, _O.CREATE, _R.CLUSTER): "enough",
    (_K.CREATE_TOPICS, _O.CREATE, _R.TOPIC): "enough",
    (_K.CREATE_TOPICS, _O.DESCRIBE_CONFIGS, _R.TOPIC): "enough",
    (_K.INIT_PRODUCER_ID, _O.TWO_PHASE_COMMIT, _R.TRANSACTIONAL_ID): "enough",
    (_K.INIT_PRODUCER_ID, _O.IDEMPOTENT_WRITE, _R.CLUSTER): "enough",
    (_K.INIT_PRODUCER_ID, _O.WRITE, _R.TOPIC): "enough",
    (_K.OFFSET_FOR_LEADER_EPOCH, _O.CLUSTER_ACTION, _R.CLUSTER): "enough",
    (_K.OFFSET_FOR_LEADER_EPOCH, _O.DESCRIBE, _R.TOPIC): "enough",
    (_K.ADD_PARTITIONS_TO_TXN, _O.WRITE, _R.TRANSACTIONAL_ID): "old",
    (_K.ADD_PARTITIONS_TO_TXN, _O.WRITE, _R.TOPIC): "old",
    (_K.ADD_PARTITIONS_TO_TXN, _O.CLUSTER_ACTION, _R.CLUSTER): "new",
    (_K.CREATE_DELEGATION_TOKEN, _O.CREATE_TOKENS, _R.USER): "new",
    (_K.WRITE_TXN_MARKERS, _O.CLUSTER_ACTION, _R.CLUSTER): "enough",
    (_K.WRITE_TXN_MARKERS, _O.ALTER, _R.CLUSTER): "enough",
    (_K.DESCRIBE_CONFIGS, _O.DESCRIBE_CONFIGS, _R.CLUSTER): "enough",
    (_K.DESCRIBE_CONFIGS, _O.DESCRIBE_CONFIGS, _R.GROUP): "enough",
    (_K.ALTER_CONFIGS, _O.ALTER_CONFIGS, _R.CLUSTER): "enough",
    (_K.ALTER_CONFIGS, _O.ALTER_CONFIGS, _R.GROUP): "enough",
    (_K.INCREMENTAL_ALTER_CONFIGS, _O.ALTER_CONFIGS, _R.CLUSTER): "enough",
    (_K.INCREMENTAL_ALTER_CONFIGS, _O.ALTER_CONFIGS, _R.GROUP): "enough",
    (_K.DESCRIBE_DELEGATION_TOKEN, _O.DESCRIBE, _R.DELEGATION_TOKEN): "enough",
    (_K.DESCRIBE_DELEGATION_TOKEN, _O.DESCRIBE_TOKENS, _R.USER): "enough",
    (_K.DESCRIBE_CLUSTER, _O.DESCRIBE, _R.CLUSTER): "enough",
    (_K.DESCRIBE_TRANSACTIONS, _O.DESCRIBE, _R.TOPIC): "enough",
    (_K.LIST_TRANSACTIONS, _O.DESCRIBE, _R.TRANSACTIONAL_ID): "enough",
}
"""Needs whose absence alone refuses nothing: another suffices, or something is left out of the answer; tests
below show it. "old" and "new" concern only versions before or from that of FIRST_OF_NEW."""

FIRST_OF_NEW = {_K.ADD_PARTITIONS_TO_TXN: 4, _K.CREATE_DELEGATION_TOKEN: 3}
NOT_ASKED_HERE = frozenset({_K.SASL_HANDSHAKE, _K.SASL_AUTHENTICATE})


def each_row() -> Iterator[tuple[ApiKey, int]]:
    """Yield the first and the last version of every row of the table."""
    for row in APIS.values():
        for each in row.ranges:
            for version in sorted({each.min_version, each.max_version}):
                if row.key not in NOT_ASKED_HERE:
                    yield row.key, version


def rows() -> list[Any]:
    return [pytest.param(*row, id=f"{row[0].name}-v{row[1]}") for row in each_row()]


def newest_of_row(key: ApiKey, version: int) -> int:
    found = APIS[key].range_for(version)
    assert found is not None
    return version if found.kind == BYTES else found.max_version


def denied_rows() -> list[Any]:
    found = []
    for key, version in each_row():
        for need in NEEDS[key]:
            rule = OTHERWISE.get((key, need.operation, need.resource), "")
            is_old = version < FIRST_OF_NEW.get(key, 0)
            if rule == "enough" or (rule == "old" and not is_old) or (rule == "new" and is_old):
                continue
            label = f"{key.name}-v{version}-{need.operation.name}-{need.resource.name}"
            found.append(pytest.param(key, version, need, id=label))
    return found


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("key", "version"), rows())
async def test_what_the_table_says_is_enough(stage: Stage, key: ApiKey, version: int) -> None:
    stage.allow(*NEEDS[key])
    response = await stage.ask(build(key, newest_of_row(key, version), **ids_for(stage, key)), version)
    assert refusals(response) == set(), response


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("key", "version", "need"), denied_rows())
async def test_without_one_need_the_request_is_refused(
    stage: Stage, key: ApiKey, version: int, need: Need
) -> None:
    stage.allow(*NEEDS[key], deny=tuple(acls_of(need, Permission.DENY)))
    response = await stage.ask(build(key, newest_of_row(key, version), **ids_for(stage, key)), version)
    if key is ApiKey.DESCRIBE_LOG_DIRS and version < 3:
        assert response.results == ()  # these versions have no place for the error
    else:
        assert refusals(response) == {REFUSALS[need.resource].code}, response
    assert TOPIC in stage.broker.cluster.image.topics


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("key", "version"), rows())
async def test_who_may_do_nothing_changes_and_learns_nothing(stage: Stage, key: ApiKey, version: int) -> None:
    stage.allow()
    before = stage.broker.cluster.image
    request = build(key, newest_of_row(key, version), **ids_for(stage, key))
    response = await stage.ask(request, version)
    image = stage.broker.cluster.image
    if key is ApiKey.CREATE_DELEGATION_TOKEN and version < 3:
        assert image.tokens.keys() > before.tokens.keys()  # for oneself, which needs nothing
        return
    assert (image.topics, image.configs, image.acls, image.tokens) == (
        before.topics,
        before.configs,
        before.acls,
        before.tokens,
    )
    named = repr(request)
    for secret in (TOPIC, GROUP, TXN):
        assert secret in named or secret not in repr(response), response
    if NEEDS[key] and key not in LISTS:
        assert refusals(response) or (key is ApiKey.DESCRIBE_LOG_DIRS and not response.results), response


LISTS = frozenset(
    {
        _K.LIST_GROUPS,
        _K.LIST_TRANSACTIONS,
        _K.DESCRIBE_CLUSTER,
        _K.DESCRIBE_DELEGATION_TOKEN,
    }
)
"""APIs that leave out what may not be seen, and refuse nothing."""


def ids_for(stage: Stage, key: ApiKey) -> dict[str, Any]:
    """Return the id of the topic, for versions that have no name for it."""
    if key in (ApiKey.METADATA, ApiKey.DELETE_TOPICS):
        return {}
    return {"topic_id": stage.topic_id}


def test_every_api_says_what_it_needs() -> None:
    assert set(NEEDS) >= set(APIS)
