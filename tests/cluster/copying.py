"""Programs of every library that copy one topic in transactions, all with the same two coordinators.

They run without a watchdog: whoever waits forever, fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.cluster.failover import (
    OFFSETS_PARTITIONS,
    STATE_PARTITIONS,
    committed,
    names_on_one_partition,
    read_committed,
)
from tests.cluster.failover_cluster import group_coordinator, make_topic, transaction_coordinator
from tests.integration.clients import Refused, wait_until
from tests.integration.confluent_transactions import CONFLUENT
from tests.integration.transaction_pipeline import Pipeline, PipelineProcess
from tests.integration.transactions import Reader

from ottla.testing.cluster_process import ClusterProcess

SOURCE_PARTITIONS = 2
SINK_PARTITIONS = 3
"""Every broker leads one."""
PROGRESS_WITHIN_S = 90.0
PROGRAM_WITHIN_S = 3_600.0
UNKNOWN = -1


class Copying:
    """A program of each library, from the topic `prefix`.source to a sink of its own."""

    def __init__(self, cluster: ClusterProcess, prefix: str, libraries: list[str], folder: Path) -> None:
        ids = names_on_one_partition(f"{prefix}.id", STATE_PARTITIONS, len(libraries))
        groups = names_on_one_partition(f"{prefix}.group", OFFSETS_PARTITIONS, len(libraries))
        self._cluster = cluster
        self.source = make_topic(cluster, f"{prefix}.source", SOURCE_PARTITIONS)
        self.pipelines = [
            Pipeline(
                library,
                cluster.bootstrap,
                *(self.source, SOURCE_PARTITIONS),
                *(make_topic(cluster, f"{prefix}.sink.{number}", SINK_PARTITIONS), SINK_PARTITIONS),
                *(groups[number], ids[number]),
                abort_every=4,
                within_s=PROGRAM_WITHIN_S,
                watched=False,
            )
            for number, library in enumerate(libraries)
        ]
        self._processes = [PipelineProcess(each, folder / f"{each.sink}.stderr") for each in self.pipelines]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()

    def transaction_coordinator(self) -> int:
        """Return the broker that coordinates all these transactions."""
        return transaction_coordinator(self._cluster, self.pipelines[0].transactional_id)

    def group_coordinator(self) -> int:
        """Return the broker that coordinates all these groups."""
        return group_coordinator(self._cluster, self.pipelines[0].group)

    def sink_leader(self) -> int:
        """Return the leader of the first partition of the first sink."""
        return self._cluster.leader_of(self.pipelines[0].sink, 0)

    def wait_for_commits(self, commits: int = 2) -> None:
        """Wait until every program has committed so many more times."""
        with ExitStack() as stack:
            waiting = {
                process: (
                    stack.enter_context(CONFLUENT.reader(self._cluster.bootstrap, process.pipeline.group)),
                    set[int](),
                )
                for process in self._processes
            }

            def have_moved() -> bool:
                for process, (reader, seen) in list(waiting.items()):
                    process.is_done()
                    seen.add(_progress(reader, process.pipeline))
                    if len(seen - {UNKNOWN}) > commits:
                        del waiting[process]
                return not waiting

            self._wait(have_moved, waiting)

    def wait_for_all(self, sent: list[list[bytes]]) -> None:
        """Wait until every program has committed all that was sent so far."""
        ends = [len(values) for values in sent]
        waiting = dict.fromkeys(self._processes)

        def are_there() -> bool:
            for process in list(waiting):
                process.is_done()
                if (
                    committed(self._cluster.bootstrap, process.pipeline.group, process.pipeline.places)
                    == ends
                ):
                    del waiting[process]
            return not waiting

        self._wait(are_there, waiting)

    def finish(self) -> None:
        """Wait until all have come to the source's end, and stopped."""
        for process in self._processes:
            process.wait(PROGRESS_WITHIN_S)

    def problems(self, sent: list[list[bytes]]) -> list[str]:
        """Return what is wrong with the source, with what they have copied, and with their offsets."""
        bootstrap = self._cluster.bootstrap
        values = read_committed(bootstrap, self.source, SOURCE_PARTITIONS)
        ends = [len(each) + 1 for each in values]
        found = [] if values == sent else [f"the source has {values}, not {sent}"]
        for each in self.pipelines:
            sink = read_committed(bootstrap, each.sink, SINK_PARTITIONS)
            found += [f"{each.library}: {problem}" for problem in each.problems(values, sink)]
            if (offsets := committed(bootstrap, each.group, each.places)) != ends:
                found.append(f"{each.library} has committed {offsets}, not {ends}")
        return found

    def _wait(self, condition: Callable[[], bool], waiting: Iterable[PipelineProcess]) -> None:
        try:
            wait_until(condition, "progress of every program", PROGRESS_WITHIN_S)
        except AssertionError as error:
            for process in waiting:
                error.add_note(f"{process.pipeline.library} is stuck; it said:\n{process.stderr_tail()}")
            raise


def _progress(reader: Reader, pipeline: Pipeline) -> int:
    try:
        return sum(reader.committed(place) or 0 for place in pipeline.places)
    except Refused:
        return UNKNOWN  # the library tells of a coordinator that moves
