from ottla.metadata.entities import PartitionImage
from ottla.replication.counters import PartitionEvents, Traffic


def test_the_total_never_goes_down_when_topics_are_deleted():
    traffic = Traffic()
    traffic.of("a").records_in += 5
    traffic.of("b").records_in += 2
    assert traffic.total().records_in == 7
    traffic.forget("a")
    assert list(traffic.topics) == ["b"]
    assert traffic.total().records_in == 7
    traffic.of("a").records_in += 1
    assert traffic.total().records_in == 8


def test_names_that_clients_make_up_take_no_memory():
    traffic = Traffic()
    for number in range(1_000):
        traffic.for_client(f"no-topic-{number}").failed_fetches += 1
    assert traffic.topics == {}
    assert traffic.total().failed_fetches == 1_000


def partition(leader: int, *isr: int, elr: tuple[int, ...] = ()) -> PartitionImage:
    return PartitionImage(0, leader, 1, (1, 2, 3), isr, 1, elr)


def seen(before: PartitionImage, after: PartitionImage, *, is_controller: bool = True) -> tuple[int, ...]:
    events = PartitionEvents()
    events.count_change(before, after, 1, is_controller=is_controller)
    return events.isr_shrinks, events.isr_expands, events.elections, events.unclean_elections


def test_the_leader_counts_changes_of_its_isr():
    assert seen(partition(1, 1, 2, 3), partition(1, 1, 2)) == (1, 0, 0, 0)
    assert seen(partition(1, 1), partition(1, 1, 3)) == (0, 1, 0, 0)
    assert seen(partition(2, 2, 3), partition(2, 2)) == (0, 0, 0, 0)


def test_the_controller_counts_elections():
    assert seen(partition(1, 1, 2), partition(2, 2)) == (0, 0, 1, 0)
    assert seen(partition(1, 1, 2), partition(2, 2), is_controller=False) == (0, 0, 0, 0)
    assert seen(partition(-1, elr=(2,)), partition(2, 2)) == (0, 0, 1, 0)
    assert seen(partition(1, 1), partition(-1)) == (0, 0, 0, 0)


def test_a_leader_that_was_not_in_sync_was_elected_uncleanly():
    assert seen(partition(1, 1), partition(3, 3)) == (0, 0, 1, 1)
