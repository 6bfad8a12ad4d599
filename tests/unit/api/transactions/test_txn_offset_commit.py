"""Offsets in transactions, from the request to the log and back."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.api.groups.offset_requests import fetch, fetch_by_id, fetch_groups
from tests.unit.api.transactions.wire import TransactionalClient
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.protocol.errors import ConcurrentTransactions, KafkaError, NotCoordinator, ProducerFenced

OK = ErrorCode.none
UNSTABLE = ErrorCode.unstable_offset_commit


@pytest.fixture
async def client(bench: CoordinatorBench) -> TransactionalClient:
    await bench.groups.find("g")
    made = TransactionalClient(bench)
    await made.init()
    return made


async def committed(client: TransactionalClient) -> int:
    """Return the offset that the group has, whoever asks."""
    response = await client.bench.ask(fetch({"orders": (0,)}))
    (found,) = response.topics[0].partitions
    assert found.error_code == OK
    offset: int = found.committed_offset
    return offset


async def stable(client: TransactionalClient) -> tuple[ErrorCode, int]:
    """Return what somebody is told who asks for stable offsets."""
    response = await client.bench.ask(fetch_groups({"g": {"orders": (0,)}}))
    (found,) = response.groups[0].topics[0].partitions
    return found.error_code, found.committed_offset


@pytest.mark.parametrize("version", range(5))
async def test_an_offset_counts_when_the_transaction_commits(
    client: TransactionalClient, version: int
) -> None:
    await client.add_offsets()
    assert await client.commit_offset(7, version=version) == OK
    assert await committed(client) == -1
    assert await stable(client) == (UNSTABLE, -1)
    await client.end(commit=True)
    assert await committed(client) == 7
    assert await stable(client) == (OK, 7)


async def test_from_version_five_on_committing_adds_the_group(client: TransactionalClient) -> None:
    assert await client.commit_offset(7) == OK
    await client.end(commit=True, version=5)
    assert await committed(client) == 7
    assert await client.commit_offset(9) == OK
    await client.end(commit=False, version=5)
    assert await stable(client) == (OK, 7)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.invalid_txn_state), (4, ErrorCode.transaction_abortable)]
)
async def test_a_group_that_was_not_added_is_refused(
    client: TransactionalClient, version: int, code: ErrorCode
) -> None:
    await client.add(0)
    assert await client.commit_offset(7, version=version) == code
    assert await stable(client) == (OK, -1)


async def test_what_is_pending_survives_a_crash(client: TransactionalClient) -> None:
    await client.commit_offset(7)
    await client.end(commit=True, version=5)
    await client.commit_offset(8)
    bench = client.bench
    for _ in range(2):
        await bench.kill()
        await bench.start()
        await bench.loaded()
        assert await committed(client) == 7
        assert await stable(client) == (UNSTABLE, -1)
    await client.commit_offset(9)
    await client.end(commit=True, version=5)
    await bench.kill()
    await bench.start()
    await bench.loaded()
    assert await stable(client) == (OK, 9)


async def test_stable_offsets_can_be_asked_for_by_topic_id(client: TransactionalClient) -> None:
    await client.commit_offset(7)
    topic_id = client.bench.cluster.image.topics["orders"].topic_id
    asked: Any = fetch_by_id({topic_id: (0,)})
    response = await client.bench.ask(type(asked)(groups=asked.groups, require_stable=True))
    (found,) = response.groups[0].topics[0].partitions
    assert found.error_code == UNSTABLE


async def test_what_does_not_exist_is_refused(client: TransactionalClient) -> None:
    assert await client.commit_offset(1, topic="nowhere") == ErrorCode.unknown_topic_or_partition
    assert await client.commit_offset(1, group_id="") == ErrorCode.invalid_group_id
    assert await client.commit_offset(1, generation_id=4, member_id="x") == ErrorCode.illegal_generation


async def test_a_zombie_is_refused(client: TransactionalClient) -> None:
    zombie = TransactionalClient(client.bench)
    zombie.producer_id, zombie.epoch = client.producer_id, client.epoch
    await client.init()
    assert await zombie.commit_offset(5) == ErrorCode.invalid_producer_epoch
    assert await client.commit_offset(6) == OK


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [
        (NotCoordinator("x"), 5, ErrorCode.coordinator_load_in_progress),
        (NotCoordinator("x"), 1, ErrorCode.coordinator_not_available),
        (ConcurrentTransactions("x"), 5, ErrorCode.concurrent_transactions),
        (ConcurrentTransactions("x"), 3, ErrorCode.coordinator_load_in_progress),
        (ProducerFenced("x"), 3, ErrorCode.invalid_producer_epoch),
    ],
)
async def test_what_the_coordinator_says_reaches_the_client_as_it_can_understand_it(
    client: TransactionalClient,
    monkeypatch: pytest.MonkeyPatch,
    error: KafkaError,
    version: int,
    code: ErrorCode,
) -> None:
    async def verify(*args: Any, add: bool) -> dict[Any, KafkaError]:
        return dict.fromkeys(args[-1], error)

    monkeypatch.setattr("ottla.api.support.transaction_verification.RETRY_S", ())
    monkeypatch.setattr(client.bench.transactions, "verify", verify)
    assert await client.commit_offset(1, version=version) == code
