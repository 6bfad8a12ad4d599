"""Workers of one consumer group copy a topic in transactions while others come and go: everything once."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import pytest
from tests.integration.clients import HasAddress, wait_until
from tests.integration.transaction_libraries import ALL
from tests.integration.transaction_stage import BROKER_SETTINGS, Stage
from tests.integration.transaction_workers import WORKERS, WorkerThread

__all__ = ["BROKER_SETTINGS"]

PARTITIONS = 4
RECORDS = 25  # in each partition, in each of three phases


@pytest.mark.parametrize("library", WORKERS)
def test_workers_that_come_and_go_copy_everything_once(library: str, broker: HasAddress) -> None:
    with ExitStack() as stack:
        stage = Stage(broker, ALL[library], stack)
        source, sink, group = stage.topic(PARTITIONS), stage.topic(PARTITIONS), stage.name()
        places = [(source, partition) for partition in range(PARTITIONS)]

        def start() -> WorkerThread:
            make = partial(WORKERS[library], stage.address, group, source, stage.name())
            made = WorkerThread(make, sink, PARTITIONS)
            stack.callback(made.stop)
            return made

        def work(phase: int) -> None:
            values = [b"%d:%d" % (phase, number) for number in range(RECORDS)]
            for place in places:
                stage.fill(*place, [b"%d:%s" % (place[1], value) for value in values])

        workers = [start(), start()]
        work(0)
        wait_until(lambda: any(each.count for each in workers), "the first transaction")
        workers.append(start())
        wait_until(lambda: workers[2].has_partitions, "the third worker to have partitions")
        work(1)
        wait_until(lambda: bool(workers[2].count), "the third worker to work")
        workers[0].stop()
        work(2)
        ends = [3 * RECORDS] * PARTITIONS
        wait_until(lambda: stage.committed(group, *places) == ends, "everything to be copied")
        for worker in workers:
            worker.stop()
            assert worker.failure is None, worker.failure
        found = sorted(value for values in stage.read(sink, PARTITIONS) for value in values)
        wanted = [
            b"%d:%d:%d" % (partition, phase, number)
            for partition in range(PARTITIONS)
            for phase in range(3)
            for number in range(RECORDS)
        ]
        assert found == sorted(wanted)
