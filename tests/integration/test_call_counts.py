"""How many Python calls a request takes inside the broker, from its bytes to those of the response.

The limits are the counts of today: a change that adds a layer to the request path is noticed here. A lower
count is welcome; lower the limit with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.wire import Wire, batch, create_topic, fetch_fields, produce_fields
from tests.integration.wire_groups import stable_group
from tests.integration.wire_transactions import WireProducer

import ottla
from ottla.api.table import ROWS
from ottla.protocol.api_keys import ApiKey
from ottla.testing.local_broker import OttlaBroker

SOURCES = str(Path(ottla.__file__).parent)
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
"""Frames of their own in some versions of Python only."""
REPEATS = 8
PLACE = ("orders", 0)


class CallCounter:
    """Counts the calls of the broker's thread; the fewest of several are those without background work."""

    def __init__(self) -> None:
        self.calls = 0
        self.broker = OttlaBroker()

    def on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name not in COMPREHENSIONS:
            name = frame.f_code.co_filename
            self.calls += name.startswith(SOURCES) and not name.endswith("event_loop_thread.py")

    def fewest(self, request: Callable[[], object], prepare: Callable[[], object] | None = None) -> int:
        counts = []
        for _ in range(REPEATS):
            if prepare is not None:
                prepare()
            self._barrier()
            before = self.calls
            request()
            self._barrier()
            counts.append(self.calls - before)
        return min(counts)

    def _barrier(self) -> None:
        """Wait until the broker has returned from what sent the response."""

        async def nothing() -> None: ...

        self.broker._loop_thread.run(nothing(), 10)


@pytest.fixture(scope="module")
def counter() -> Iterator[CallCounter]:
    for row in ROWS:
        row.load()  # else the broker does it in the background, when it is ready
    counter = CallCounter()
    threading.setprofile(counter.on_event)
    try:
        with counter.broker:
            threading.setprofile(None)
            with Wire(counter.broker.bootstrap_servers) as wire:
                create_topic(wire, PLACE[0])
            yield counter
    finally:
        threading.setprofile(None)


def test_produce_and_fetch_take_few_calls(counter: CallCounter) -> None:
    with Wire(counter.broker.bootstrap_servers) as wire:
        produce = produce_fields("orders", batch(b"x" * 100))
        assert counter.fewest(lambda: wire.call(ApiKey.PRODUCE, 9, **produce)) <= 46
        fetch = fetch_fields("orders", (0, 0))
        assert counter.fewest(lambda: wire.call(ApiKey.FETCH, 12, **fetch)) <= 81


def test_requests_of_a_group_member_take_few_calls(counter: CallCounter) -> None:
    with Wire(counter.broker.bootstrap_servers) as wire:
        wire.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["counted"])
    with stable_group(counter.broker.bootstrap_servers, "counted") as member:
        assert counter.fewest(member.heartbeat) <= 45
        assert counter.fewest(lambda: member.commit({PLACE: 1})) <= 103
        assert counter.fewest(member.join, lambda: member.sync(member)) <= 129
        assert counter.fewest(lambda: member.sync(member), member.join) <= 142


def test_requests_of_a_transaction_take_few_calls(counter: CallCounter) -> None:
    def write() -> None:
        producer.add(PLACE)
        producer.add_offsets("counted-too")
        producer.commit_offsets("counted-too", {PLACE: 1})
        assert producer.produce(PLACE, b"x").error_code == ErrorCode.none

    with WireProducer(counter.broker.bootstrap_servers, "counted").start() as producer:
        assert counter.fewest(producer.end, write) <= 187
        assert counter.fewest(producer.init) <= 89
        producer.add_offsets("counted-too")
        offsets = {PLACE: 1}
        assert counter.fewest(lambda: producer.commit_offsets("counted-too", offsets)) <= 134
