"""Coordinators and leaders are killed under clients as they come: their work continues.

Three brokers, three replicas. The ids are chosen so that all of a test's groups, or transactions, have one
coordinator: whoever is killed, everybody is hit. `make test` kills a few times; in `make test-cluster` the
same runs for longer. No program is restarted from outside. Only kafka-python's need a new producer when
the library has dropped a request (integration/kafka_python_transactions.py), with Apache Kafka as with us.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from tests.cluster.copying import SOURCE_PARTITIONS, Copying
from tests.cluster.failover import (
    OFFSETS_PARTITIONS,
    IdempotentLoad,
    Source,
    WatchedGroup,
    append,
    fill,
    names_on_one_partition,
    open_transactions,
    read_committed,
)
from tests.cluster.failover_cluster import (
    IS_KAFKA,
    Victim,
    group_coordinator,
    kill_and_restart,
    make_topic,
    make_whole,
    three_brokers,
    transaction_coordinator,
)
from tests.integration.clients import wait_until
from tests.integration.libraries import LIBRARIES
from tests.integration.member_libraries import LIBRARIES as MEMBERS
from tests.integration.routed_transactions import RoutedProducer
from tests.integration.transaction_libraries import IN_A_CLUSTER
from tests.integration.transactions import END
from tests.integration.wire_transactions import CLASSIC, V2, Versions

from ottla.protocol.api_keys import ApiKey
from ottla.testing.cluster_process import ClusterProcess

DONE_WITHIN_S = 90.0
UNLISTED_WITHIN_S = 30.0
FOREVER_MS = 2**31 - 1
MANY = 8
"""So many records that every partition of a sink gets some."""

kills = pytest.mark.parametrize("kills", [2, pytest.param(9, marks=pytest.mark.cluster)])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three brokers, for all tests here; before each they are whole again."""
    with three_brokers(tmp_path_factory.mktemp("failover")) as started:
        yield started
        for number, broker in started.brokers.items():
            assert IS_KAFKA or "Traceback" not in broker.stderr_path.read_text(), f"broker {number}"


@pytest.fixture
def topics(cluster: ClusterProcess) -> str:
    """The beginning of the names of a test's topics."""
    make_whole(cluster)
    return f"t{next(_NUMBERS)}"


_NUMBERS = itertools.count()


@kills
def test_transactions_continue_when_their_coordinators_and_leaders_die(
    cluster: ClusterProcess, topics: str, tmp_path: Path, kills: int
) -> None:
    with Copying(cluster, topics, list(IN_A_CLUSTER), tmp_path) as copying:
        victims: list[Victim] = [
            copying.transaction_coordinator,
            copying.group_coordinator,
            copying.sink_leader,
        ]
        with Source(cluster.bootstrap, copying.source, SOURCE_PARTITIONS) as source:
            copying.wait_for_commits()
            for victim in itertools.islice(itertools.cycle(victims), kills):
                kill_and_restart(cluster, victim, copying.wait_for_commits)
        copying.finish()
    assert copying.problems(source.sent) == []
    wait_until(lambda: open_transactions(cluster) == {}, "every transaction to end")


@pytest.mark.parametrize("of", ["group", pytest.param("transaction", marks=pytest.mark.cluster)])
def test_programs_continue_that_had_nothing_to_do_when_their_coordinator_died(
    cluster: ClusterProcess, topics: str, tmp_path: Path, of: str
) -> None:
    """They learn of it only when it is long gone, and has left the list of brokers.

    With Apache Kafka 4.1.1 (OTTLA_TEST_CLUSTER=kafka) confluent-kafka 2.16 is stuck here; see
    api/support/recently_fenced_brokers.py for why, and why it is not with us.
    """
    with Copying(cluster, topics, list(IN_A_CLUSTER), tmp_path) as copying:
        sent: list[list[bytes]] = [[] for _ in range(SOURCE_PARTITIONS)]

        def copy_more(word: bytes) -> None:
            more = [
                [b"%s %d:%d" % (word, partition, number) for number in range(MANY)]
                for partition in range(SOURCE_PARTITIONS)
            ]
            append(cluster.bootstrap, copying.source, more)
            for values, added in zip(sent, more, strict=True):
                values += added
            copying.wait_for_all(sent)

        copy_more(b"before")
        victim = copying.group_coordinator() if of == "group" else copying.transaction_coordinator()
        cluster.kill(victim)
        wait_until(lambda: victim not in cluster.view().brokers, "the dead to be unlisted", UNLISTED_WITHIN_S)
        copy_more(b"without it")
        cluster.start(victim)
        copy_more(b"with it")
        fill(cluster.bootstrap, copying.source, SOURCE_PARTITIONS, END)
        copying.finish()
    assert copying.problems(sent) == []


@kills
def test_groups_and_idempotent_producers_continue_when_coordinators_and_leaders_die(
    cluster: ClusterProcess, topics: str, kills: int
) -> None:
    partitions = len(LIBRARIES)
    topic = make_topic(cluster, f"{topics}.events", partitions)
    names = names_on_one_partition(f"{topics}.group", OFFSETS_PARTITIONS, len(MEMBERS))
    victims: list[Victim] = [
        lambda: group_coordinator(cluster, names[0]),
        lambda: cluster.leader_of(topic, 0),
    ]
    groups = [
        WatchedGroup(library, cluster.bootstrap, name, topic, partitions)
        for library, name in zip(MEMBERS.values(), names, strict=True)
    ]
    loads = [
        IdempotentLoad(library(cluster.bootstrap), topic, partition)
        for partition, library in enumerate(LIBRARIES.values())
    ]

    def all_make_progress() -> None:
        for load in loads:
            load.wait_for_more()
        for group in groups:
            group.wait_for_commits()

    try:
        for worker in (*loads, *groups):
            worker.start()
        all_make_progress()
        for victim in itertools.islice(itertools.cycle(victims), kills):
            kill_and_restart(cluster, victim, all_make_progress)
        for load in loads:
            load.stop()
        sent = [load.sent for load in loads]
        for group in groups:
            group.wait_for_all([len(each) for each in sent])
            assert group.lost_commits() == [], group.name
    finally:
        for worker in (*loads, *groups):
            worker.stop()
    assert read_committed(cluster.bootstrap, topic, partitions) == sent
    for group in groups:
        assert list(group.ownership.overlaps()) == [], group.name
        assert group.problems(sent) == [], group.name


@pytest.mark.parametrize(
    ("versions", "commit"),
    [(V2, True), pytest.param(CLASSIC, False, marks=pytest.mark.cluster)],
    ids=["v2-commit", "classic-abort"],
)
def test_a_prepared_transaction_outlives_its_coordinators_and_leaders(
    cluster: ClusterProcess, topics: str, versions: Versions, commit: bool
) -> None:
    """Both are killed; then the next coordinator and leader are, and only then it is decided."""
    place = (make_topic(cluster, f"{topics}.sink", 1), 0)
    transactional_id = f"{topics}.sink"
    first = RoutedProducer(cluster.bootstrap, transactional_id, versions)
    first.start(version=6, timeout_ms=FOREVER_MS, enable2_pc=True)
    first.write(place, b"one", b"two")
    prepared = {
        "transactional_id": transactional_id,
        "producer_id": first.producer_id,
        "producer_epoch": first.epoch,
    }
    assert first.wire.call(ApiKey.PREPARE_TRANSACTION, 0, **prepared).error_code == ErrorCode.none
    first.wire.__exit__()

    second = RoutedProducer(cluster.bootstrap, transactional_id, versions)
    kill_and_restart(
        cluster, lambda: transaction_coordinator(cluster, transactional_id), lambda: take_over(second, first)
    )
    cluster.kill(cluster.leader_of(*place))
    second.finish(commit)
    second.write(place, b"three")
    second.finish()
    cluster.start_all()
    expected = [b"one", b"two", b"three"] if commit else [b"three"]
    assert read_committed(cluster.bootstrap, place[0], 1) == [expected]
    wait_until(lambda: open_transactions(cluster) == {}, "every transaction to end")


def take_over(second: RoutedProducer, first: RoutedProducer) -> None:
    """Find the transaction that `first` left, and keep it."""

    def is_done() -> bool:
        answer = second.init(6, FOREVER_MS, enable2_pc=True, keep_prepared_txn=True)
        if answer.error_code != ErrorCode.none:
            return False
        found = answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch
        assert found == (first.producer_id, first.epoch)
        return True

    wait_until(is_done, "the transaction to be taken over", DONE_WITHIN_S)
    assert second.epoch > first.epoch
