"""Connect's group protocol: its bytes, and who runs what."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.connect.group.assignor import assign
from ottla.connect.group.protocol import (
    CONNECTOR,
    Assignment,
    TaskId,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)


def test_the_bytes_are_those_of_kafka_connect() -> None:
    # Connector "c" with the connector itself and task 0; as IncrementalCooperativeConnectProtocol writes it.
    made = encode_assignment(
        Assignment("leader", "http://a/", 7, frozenset({TaskId("c", CONNECTOR), TaskId("c", 0)}))
    )
    assert made == (
        b"\x00\x01\x00\x00"
        b"\x00\x06leader\x00\x09http://a/"
        b"\x00\x00\x00\x00\x00\x00\x00\x07"
        b"\x00\x00\x00\x01\x00\x01c\x00\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00"
        b"\x00\x00\x00\x00"
        b"\x00\x00\x00\x00"
    )
    # A Java worker that has just started: no allocation (null bytes).
    fresh = b"\x00\x01\x00\x09http://a/\x00\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff"
    assert decode_metadata(fresh) == WorkerMetadata("http://a/", 3)


NAMES = st.sampled_from(["a", "b", "c"])
TASKS = st.frozensets(st.builds(TaskId, NAMES, st.integers(-1, 4)), max_size=12)


@settings(deadline=None)
@given(TASKS, TASKS, st.integers(-1, 2**40))
def test_what_is_written_is_read(
    assigned: frozenset[TaskId], revoked: frozenset[TaskId], offset: int
) -> None:
    assignment = Assignment("m", "http://h:1/", offset, assigned, revoked, 5)
    assert decode_assignment(encode_assignment(assignment)) == assignment
    metadata = WorkerMetadata("http://h:1/", offset, assigned)
    assert decode_metadata(encode_metadata(metadata)) == metadata


@settings(max_examples=200, deadline=None)
@given(
    st.lists(TASKS, min_size=1, max_size=4),
    TASKS,
)
def test_everything_ends_up_running_exactly_once_and_evenly(
    running: list[frozenset[TaskId]], wanted: frozenset[TaskId]
) -> None:
    # Any start, also one where two workers believe that they own the same task.
    workers = {f"m{place}": WorkerMetadata(f"http://{place}/", 1, each) for place, each in enumerate(running)}
    for _ in range(6):
        made = assign(workers, wanted, "m0", 1)
        for member, each in made.items():
            assert not each.assigned & each.revoked
            others = [workers[other].running for other in workers if other != member]
            # What another still runs is never given away in the same round.
            assert not any(each.assigned & other for other in others)
        if not any(each.revoked or each.assigned for each in made.values()):
            break
        workers = {
            member: WorkerMetadata(
                worker.url, 1, (worker.running | made[member].assigned) - made[member].revoked
            )
            for member, worker in workers.items()
        }
    owned = [each for worker in workers.values() for each in worker.running]
    assert sorted(owned) == sorted(wanted)
    loads = [len(worker.running) for worker in workers.values()]
    assert max(loads) - min(loads) <= 1
