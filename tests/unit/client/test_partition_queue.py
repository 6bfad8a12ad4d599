import pytest

from ottla.client.producer.batch import Identity
from ottla.client.producer.partition_queue import MAX_EPOCH, PartitionQueue
from ottla.common.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
ME = Identity(7, 0)
LEADER = 1


def make(is_idempotent=True, batches=0, max_in_flight=5):
    queue = PartitionQueue(ORDERS, is_idempotent=is_idempotent, max_in_flight=max_in_flight)
    queue.leader = LEADER
    queue.identity = ME
    queue.is_known = True
    for _ in range(batches):
        fill(queue)
    return queue


def fill(queue, records=10, created_at=0.0):
    batch = queue.begin_batch(created_at)
    for _ in range(records):
        batch.add((0, None, b"x", ()), 30)
    return batch


def numbers(batches):
    return [(each.identity.producer_epoch, each.base_sequence) for each in batches]


def send_again(queue, *batches, may_be_stored):
    for batch in batches:
        queue.in_flight.remove(batch)
        batch.may_be_stored = may_be_stored
        queue.put_back(batch)


def test_batches_are_numbered_as_they_leave():
    queue = make(batches=3)
    assert numbers([queue.take() for _ in range(3)]) == [(0, 0), (0, 10), (0, 20)]


def test_numbers_begin_anew_after_the_last_one():
    queue = make(batches=2)
    queue.next_sequence = 2**31 - 10
    assert numbers([queue.take(), queue.take()]) == [(0, 2**31 - 10), (0, 0)]


def test_a_batch_that_is_sent_again_keeps_its_number_and_its_place_and_goes_alone():
    queue = make(batches=4)
    first, second, third = (queue.take() for _ in range(3))
    send_again(queue, second, may_be_stored=False)
    send_again(queue, first, may_be_stored=False)
    assert list(queue.unsent)[:2] == [first, second]
    assert queue.ready_at(9.0, 0) is None  # the third is still in flight
    send_again(queue, third, may_be_stored=False)
    assert list(queue.unsent)[:3] == [first, second, third]
    assert queue.take() is first
    assert queue.ready_at(9.0, 0) is None  # and so is the first, alone
    assert numbers([first]) == [(0, 0)]


def test_after_a_lost_number_what_waits_begins_a_new_epoch_once_nothing_is_in_flight():
    queue = make(batches=4)
    first, second = queue.take(), queue.take()
    queue.in_flight.remove(first)
    queue.lose(first)
    assert queue.ready_at(9.0, 0) is None
    send_again(queue, second, may_be_stored=False)
    assert numbers([queue.take(), queue.take()]) == [(1, 0), (1, 10)]


def test_a_batch_that_may_be_stored_is_asked_about_under_its_old_number_first():
    queue = make(batches=3)
    first, second = queue.take(), queue.take()
    queue.in_flight.remove(first)
    queue.lose(first)
    send_again(queue, second, may_be_stored=True)
    assert queue.take() is second
    assert numbers([second]) == [(0, 10)]  # a new number would store it twice, if it is stored
    send_again(queue, second, may_be_stored=False)  # now the broker has said that it is not
    assert numbers([queue.take()]) == [(1, 0)]


def test_when_the_epochs_are_used_up_another_producer_id_is_needed():
    queue = make(batches=2)
    queue.identity = Identity(7, MAX_EPOCH)
    first = queue.take()
    queue.in_flight.remove(first)
    queue.lose(first)
    assert queue.needs_identity()
    queue.start_over(Identity(8, 0))
    assert not queue.needs_identity()
    assert numbers([queue.take()]) == [(0, 0)]


def test_a_batch_of_an_old_identity_leaves_no_gap_in_a_new_one():
    queue = make(batches=1)
    old = queue.take()
    queue.in_flight.remove(old)
    queue.start_over(Identity(7, 1))
    queue.lose(old)
    assert not queue.has_gap


def test_an_open_batch_lingers_unless_somebody_waits_for_it():
    queue = make()
    batch = fill(queue, created_at=5.0)
    assert queue.ready_at(5.0, linger_s=2.0) == 7.0
    batch.is_flushed = True
    assert queue.ready_at(5.0, linger_s=2.0) == 5.0


def test_the_first_batch_under_a_producer_id_goes_alone_until_it_is_stored():
    queue = make(batches=4)
    queue.is_known = False
    first = queue.take()
    assert queue.ready_at(1.0, 0) is None
    queue.in_flight.remove(first)
    queue.is_known = True
    queue.take()
    assert queue.ready_at(1.0, 0) == 1.0
    queue.start_over(Identity(queue.identity.producer_id, 1))
    assert queue.is_known
    queue.start_over(Identity(queue.identity.producer_id + 1, 0))
    assert not queue.is_known


def test_an_open_batch_waits_while_another_is_in_flight_and_a_full_one_does_not():
    queue = make(batches=2)
    queue.take()
    assert queue.ready_at(1.0, 0) is None
    fill(queue)  # which closes the one before
    assert queue.ready_at(1.0, 0) == 1.0


def test_no_more_batches_are_in_flight_than_the_broker_remembers():
    queue = make(batches=4, max_in_flight=2)
    queue.take(), queue.take()
    assert queue.ready_at(1.0, 0) is None


def test_without_idempotence_one_batch_is_in_flight_at_a_time_and_none_is_numbered():
    queue = make(is_idempotent=False, batches=3)
    assert numbers([queue.take()]) == [(-1, -1)]
    assert queue.ready_at(1.0, 0) is None


def test_after_the_leader_has_moved_the_old_one_has_to_answer_first():
    queue = make(batches=3)
    queue.take()
    queue.leader = 2
    assert queue.ready_at(1.0, 0) is None


@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_batch_is_split_into_parts_that_keep_numbers_and_order(count):
    queue = make()
    whole = fill(queue, records=count)
    queue.seal()
    queue.take()
    fill(queue)
    whole.encode(0)
    queue.in_flight.remove(whole)
    parts = whole.split()
    queue.put_back(*parts)
    assert [each.count for each in parts] == [(count + 1) // 2, count // 2]
    assert numbers(parts) == [(0, 0), (0, (count + 1) // 2)]
    assert list(queue.unsent)[:2] == parts
    assert [whole.locate(place)[0] for place in (0, count - 1)] == parts
    for each in parts:
        assert not whole.is_settled
        each.settle(base_offset=100 if each is parts[0] else 500)
    assert whole.is_settled
    last, place = whole.locate(count - 1)
    assert last.metadata(place, 5).offset == 500 + count // 2 - 1
