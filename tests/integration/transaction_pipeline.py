"""Consume, transform, produce: a program that copies a topic in transactions, and what must come out of it.

It reads the partitions of a source that it assigned itself, from the offsets that its group has committed,
and in every transaction writes some records to the sink and commits the offsets after them. Every now and
then it aborts and does the work again. Whatever fails, it starts anew from what is committed; so it can be
killed and started again at any time. It ends when it has seen `END` in every partition of the source.

As a program: `python -m tests.integration.transaction_pipeline OPTIONS`, the options being JSON. There it has
a watchdog unless told otherwise, as programs should that must go on: when the only broker is away for a
second at the wrong moment, libraries wait forever, be it Apache Kafka's broker or ours.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.clients import Outgoing, Place, Refused, wait_until
from tests.integration.transaction_libraries import BY_NAME
from tests.integration.transactions import END, Reader, TransactionalProducer

ROOT = Path(__file__).parents[2]
RETRY_S = 0.02
HUNG_AFTER_S = 6.0
HUNG = 75
"""The exit code of a program that the watchdog has ended."""
POLL_S = 0.2


@dataclass(frozen=True)
class Pipeline:
    """What to copy, and how."""

    library: str
    address: str
    source: str
    source_partitions: int
    sink: str
    sink_partitions: int
    group: str
    transactional_id: str
    chunk: int = 4  # records of one transaction
    abort_every: int = 0  # 3: the third one, the sixth one...
    within_s: float = 120
    transaction_timeout_ms: int = 60_000
    request_timeout_ms: int = 5_000
    watched: bool = True  # by the watchdog, when it is a program

    @property
    def places(self) -> list[Place]:
        """The partitions of the source."""
        return [(self.source, partition) for partition in range(self.source_partitions)]

    def transformed(self, value: bytes) -> Outgoing:
        """Return the record of the sink for a value of the source."""
        return Outgoing(b"<" + value + b">", partition=zlib.crc32(value) % self.sink_partitions)

    def problems(self, source: Sequence[Sequence[bytes]], sink: Iterable[Iterable[bytes]]) -> list[str]:
        """Return what is wrong with a sink: what is missing, what is there more than once or out of place."""
        found = []
        for partition, values in enumerate(sink):
            values = list(values)
            wanted = Counter(
                record.value
                for each in source
                for record in map(self.transformed, each)
                if record.partition == partition
            )
            counted = Counter(values)
            found += [f"sink {partition} lacks {value!r}" for value in wanted - counted]
            found += [f"sink {partition} has {value!r} too often" for value in counted - wanted]
            for each in source:
                order = {self.transformed(value).value: index for index, value in enumerate(each)}
                mine = [order[value] for value in values if value in order]
                if mine != sorted(mine):
                    found.append(f"sink {partition} is out of order")
        return found

    def run(self, pat: Callable[[], None] = lambda: None) -> None:
        """Copy everything up to the end; `pat` the watchdog after every step."""
        library = BY_NAME[self.library]
        deadline = time.monotonic() + self.within_s
        options = {"timeout_ms": self.transaction_timeout_ms, "request_timeout_ms": self.request_timeout_ms}
        while True:
            try:
                with (
                    library.producer(self.address, self.transactional_id, **options) as producer,
                    library.reader(self.address, self.group) as reader,
                ):
                    return self._copy(producer, reader, deadline, pat)
            except (Refused, AssertionError, TimeoutError, OSError) as error:
                if time.monotonic() > deadline:
                    raise
                pat()
                print(f"starting anew: {error!r}", file=sys.stderr, flush=True)
                time.sleep(RETRY_S)

    def _copy(
        self, producer: TransactionalProducer, reader: Reader, deadline: float, pat: Callable[[], None]
    ) -> None:
        positions = {place: reader.committed(place) or 0 for place in self.places}
        # From one record before: the END of a partition may be committed already.
        reader.assign({place: max(0, position - 1) for place, position in positions.items()})
        waiting = set(self.places)
        pending: list[tuple[Place, int, bytes]] = []
        turn = 0
        while waiting or pending:
            pat()
            if not pending:
                read = reader.poll(POLL_S)
                pending = [each for each in read if each[1] >= positions[each[0]]]
                waiting -= {
                    place for place, offset, value in read if offset < positions[place] and value == END
                }
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{waiting} did not end in time")
                continue
            chunk, pending = pending[: self.chunk], pending[self.chunk :]
            waiting -= {place for place, _, value in chunk if value == END}
            turn += 1
            if self.abort_every and turn % self.abort_every == 0:
                self._write(producer, chunk)
                producer.abort()
            self._write(producer, chunk)
            producer.commit()

    def _write(self, producer: TransactionalProducer, chunk: Sequence[tuple[Place, int, bytes]]) -> None:
        producer.begin()
        records = [self.transformed(value) for _, _, value in chunk if value != END]
        if records:
            producer.send(self.sink, records)
        producer.send_offsets(self.group, {place: offset + 1 for place, offset, _ in chunk})


class Watchdog:
    """Ends the program when it was not patted for a while."""

    def __init__(self) -> None:
        self.pat()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def pat(self) -> None:
        """Say that things are going on."""
        self._patted = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() < self._patted + HUNG_AFTER_S:
            time.sleep(0.2)
        faulthandler.dump_traceback()
        os._exit(HUNG)


class PipelineProcess:
    """A pipeline in a process of its own, to be killed and started again."""

    def __init__(self, pipeline: Pipeline, stderr_path: Path) -> None:
        self.pipeline = pipeline
        self._stderr_path = stderr_path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it; its complaints are kept."""
        command = [sys.executable, "-m", __name__, json.dumps(dataclasses.asdict(self.pipeline))]
        with self._stderr_path.open("ab") as stderr:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=stderr)

    def kill(self) -> None:
        """End it without a word to the broker."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def is_done(self) -> bool:
        """Return whether all its work is done; if the watchdog has ended it, start it again."""
        code = None if self._process is None else self._process.poll()
        if code == HUNG:
            self.start()
            return False
        assert not code, f"the pipeline failed with {code}:\n{self.stderr_tail()}"
        return code == 0

    def wait(self, within_s: float) -> None:
        """Wait until it has done all its work."""
        try:
            wait_until(self.is_done, "the pipeline to be done", within_s)
        except AssertionError as error:
            error.add_note(self.stderr_tail())
            raise

    def stderr_tail(self) -> str:
        """Return the end of what it said."""
        return "\n".join(self._stderr_path.read_text(errors="replace").splitlines()[-40:])


if __name__ == "__main__":
    given = Pipeline(**json.loads(sys.argv[1]))
    given.run(Watchdog().pat if given.watched else lambda: None)
