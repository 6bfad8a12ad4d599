"""Coordinators and leaders are killed under clients as they come: their work goes on as if nothing was.

Three brokers, three replicas. The ids are chosen so that all of a test's groups, or transactions, have one
coordinator: whoever is killed, everybody is hit. `make test` kills a few times; in `make test-cluster` the
same goes on for longer.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from tests.cluster.failover import (
    OFFSETS_PARTITIONS,
    STATE_PARTITIONS,
    IdempotentLoad,
    Source,
    WatchedGroup,
    committed,
    names_on_one_partition,
    open_transactions,
    read_committed,
)
from tests.cluster.load import create_topic
from tests.integration.clients import Refused, wait_until
from tests.integration.confluent_transactions import CONFLUENT
from tests.integration.kafka_python_transactions import KAFKA_PYTHON
from tests.integration.libraries import LIBRARIES
from tests.integration.member_libraries import LIBRARIES as MEMBERS
from tests.integration.routed_transactions import RoutedProducer
from tests.integration.transaction_libraries import IN_A_CLUSTER
from tests.integration.transaction_pipeline import Pipeline, PipelineProcess
from tests.integration.transactions import Reader
from tests.integration.wire_transactions import CLASSIC, V2, Versions

from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.coordinator.placement import partition_for
from ottla.protocol.api_keys import ApiKey
from ottla.testing.cluster_process import ClusterProcess

DONE_WITHIN_S = 90.0
IN_SYNC_WITHIN_S = 60.0
STUCK_AFTER_S = 8.0
UNKNOWN = -1
FOREVER_MS = 2**31 - 1
SINK_PARTITIONS = 2

SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
    "transaction.two.phase.commit.enable": "true",
    "transaction.max.timeout.ms": "60000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}

Victim = Callable[[], int]
kills = pytest.mark.parametrize("kills", [2, pytest.param(9, marks=pytest.mark.cluster)])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three brokers, for all tests here; after each they are whole again."""
    with ClusterProcess(tmp_path_factory.mktemp("failover"), settings=SETTINGS) as started:
        yield started
        for number, broker in started.brokers.items():
            assert "Traceback" not in broker.stderr_path.read_text(), f"broker {number}"


@pytest.fixture
def topics(cluster: ClusterProcess) -> Iterator[str]:
    """The beginning of the names of a test's topics."""
    cluster.start_all()
    cluster.wait_until_in_sync(IN_SYNC_WITHIN_S)
    yield f"t{next(_NUMBERS)}"
    for broker in cluster.brokers.values():
        if not broker.is_running:
            broker.start()


_NUMBERS = itertools.count()


def make_topic(cluster: ClusterProcess, name: str, partitions: int) -> str:
    create_topic(cluster.bootstrap, name, partitions, {"min.insync.replicas": "2"}, replicas=3)
    return name


def transaction_coordinator(cluster: ClusterProcess, transactional_id: str) -> int:
    return cluster.leader_of(TRANSACTION_STATE_TOPIC, partition_for(transactional_id, STATE_PARTITIONS))


def group_coordinator(cluster: ClusterProcess, group: str) -> int:
    return cluster.leader_of(CONSUMER_OFFSETS_TOPIC, partition_for(group, OFFSETS_PARTITIONS))


def kill_and_restart(cluster: ClusterProcess, victim: Victim, meanwhile: Callable[[], None]) -> None:
    """Kill -9, let the work go on without that broker, and bring it back."""
    number = victim()
    cluster.kill(number)
    meanwhile()
    cluster.start(number)
    cluster.wait_until_in_sync(IN_SYNC_WITHIN_S)


@kills
def test_transactions_go_on_when_their_coordinators_and_leaders_die(
    cluster: ClusterProcess, topics: str, tmp_path: Path, kills: int
) -> None:
    ids = names_on_one_partition(f"{topics}.id", STATE_PARTITIONS, len(IN_A_CLUSTER))
    groups = names_on_one_partition(f"{topics}.group", OFFSETS_PARTITIONS, len(IN_A_CLUSTER))
    source = Source(cluster.bootstrap, make_topic(cluster, f"{topics}.source", 2), 2)
    pipelines = [
        Pipeline(
            library,
            cluster.bootstrap,
            *(source.topic, 2, make_topic(cluster, f"{topics}.sink.{number}", SINK_PARTITIONS)),
            *(SINK_PARTITIONS, groups[number], ids[number]),
            abort_every=4,
            within_s=DONE_WITHIN_S + 60 * kills,
        )
        for number, library in enumerate(IN_A_CLUSTER)
    ]
    processes = [PipelineProcess(each, tmp_path / f"{each.sink}.stderr") for each in pipelines]
    victims: list[Victim] = [
        lambda: transaction_coordinator(cluster, ids[0]),
        lambda: group_coordinator(cluster, groups[0]),
        lambda: cluster.leader_of(pipelines[0].sink, 0),
    ]

    def all_make_progress() -> None:
        wait_for_commits(cluster, processes)

    try:
        with source:
            for process in processes:
                process.start()
            all_make_progress()
            for victim in itertools.islice(itertools.cycle(victims), kills):
                kill_and_restart(cluster, victim, all_make_progress)
        for process in processes:
            process.wait(DONE_WITHIN_S)
    finally:
        for process in processes:
            process.kill()

    values = read_committed(cluster.bootstrap, source.topic, 2)
    assert values == source.sent
    for each in pipelines:
        sink = read_committed(cluster.bootstrap, each.sink, SINK_PARTITIONS)
        assert each.problems(values, sink) == [], each.library
        assert committed(cluster.bootstrap, each.group, each.places) == [
            len(of_partition) + 1 for of_partition in values
        ], each.library
    wait_until(lambda: open_transactions(cluster) == {}, "every transaction to end")


def wait_for_commits(cluster: ClusterProcess, processes: list[PipelineProcess]) -> None:
    """Wait until every pipeline has committed twice more; start it again if its library waits for ever.

    kafka-python 3.0 forgets a transactional request if the connection to the coordinator breaks while it is
    opened. librdkafka 2.16 remembers a group's coordinator, and if that is gone from the cluster when it
    has offsets for it, waits for it to come back. Neither minds its own timeout then.
    """
    with ExitStack() as stack:
        waiting = {
            process: (
                stack.enter_context(CONFLUENT.reader(cluster.bootstrap, process.pipeline.group)),
                set[int](),
            )
            for process in processes
        }
        patience_s = STUCK_AFTER_S
        stuck_at = time.monotonic() + patience_s

        def have_moved() -> bool:
            nonlocal stuck_at, patience_s
            is_late = time.monotonic() > stuck_at
            if is_late:
                patience_s *= 2
                stuck_at = time.monotonic() + patience_s
            for process, (reader, seen) in list(waiting.items()):
                process.is_done()
                if is_late and process.pipeline.library in (CONFLUENT.name, KAFKA_PYTHON.name):
                    print(f"{process.pipeline.library} is stuck")
                    process.kill()
                    process.start()
                seen.add(_progress(reader, process.pipeline))
                if len(seen - {UNKNOWN}) > 2:
                    del waiting[process]
            return not waiting

        names = ", ".join(process.pipeline.library for process in processes)
        wait_until(have_moved, f"one of {names} to commit offsets", DONE_WITHIN_S)


def _progress(reader: Reader, pipeline: Pipeline) -> int:
    try:
        return sum(reader.committed(place) or 0 for place in pipeline.places)
    except Refused:
        return UNKNOWN  # the library tells of a coordinator that moves


@kills
def test_groups_and_idempotent_producers_go_on_when_coordinators_and_leaders_die(
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
