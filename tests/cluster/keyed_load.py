"""Load on a compacted topic: a few keys over and over, and what of it has to be there whatever happens."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from tests.cluster.load import DEADLINE_S, client_config
from tests.cluster.reading import Reader

KEYS = 40
PLACE = ("compacted", 0)
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
    "file.delete.delay.ms": "50",
    "index.interval.bytes": "1000",
}


class KeyedLoad:
    """A producer of numbered values for a few keys that records the acknowledgements."""

    def __init__(self, address: str) -> None:
        self.sent = 0
        self.value_at: dict[int, tuple[bytes, bytes | None]] = {}
        """What was acknowledged, by offset."""
        self.last: dict[bytes, int] = {}
        """The offset of the newest acknowledged record of each key."""
        self._producer = Producer(
            client_config(address, {"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 10})
        )

    def send(self, count: int, choose: random.Random) -> None:
        for _ in range(count):
            key = b"key %d" % choose.randrange(KEYS)
            value = b"%d " % self.sent + choose.randbytes(100) if choose.random() < 0.95 else None
            self.sent += 1
            self._producer.produce(PLACE[0], value, key, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)

    def send_until_the_cleaner_writes(self, partition: Path, choose: random.Random) -> None:
        """Trickle on until the cleaner is seen at work."""
        deadline = time.monotonic() + DEADLINE_S
        while not any(name.endswith((".cleaned", ".swap")) for name in os.listdir(partition)):
            assert time.monotonic() < deadline, f"the cleaner does nothing for {DEADLINE_S:g} s"
            self.send(1, choose)
            self._producer.poll(0.002)

    def settle(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        key, offset = message.key(), message.offset()
        assert isinstance(key, bytes)
        assert offset is not None
        self.value_at[offset] = (key, message.value())
        self.last[key] = max(offset, self.last.get(key, -1))


def assert_newest_of_each_key_is_there(address: str, load: KeyedLoad, when: str) -> int:
    """Return how many records there are."""
    with Reader(address) as reader:
        start, _ = reader.ends(PLACE)
        records = reader.read({PLACE: start})[PLACE]
    offsets = [offset for offset, _ in records]
    assert offsets == sorted(set(offsets)), when
    for offset, value in records:
        assert load.value_at[offset][1] == value, f"offset {offset} {when}"
    newest = {load.value_at[offset][0]: offset for offset in offsets}
    for key, offset in load.last.items():
        if load.value_at[offset][1] is None and key not in newest:
            continue  # its tombstone may be gone, if nothing older of the key came back
        assert newest.get(key) == offset, f"{key!r} {when}: {load.value_at[offset]}"
    return len(records)
