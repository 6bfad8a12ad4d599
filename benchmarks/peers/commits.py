"""Load of offset commits: members of groups that commit a few hundred times a second and wait for it."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.peers.load import Figures, Go, Options
from benchmarks.peers.servers import wait_until


def commit(options: Options, go: Go) -> Figures:
    """Commit `records` times, `rate` a second, and return how long a commit took."""
    consumer = Consumer(
        {
            "bootstrap.servers": options["address"],
            "group.id": options["group"],
            "enable.auto.commit": False,
            "socket.nagle.disable": True,
        }
    )
    place = (options["topic"], 0)
    wait_until(lambda: _is_committed(consumer, TopicPartition(*place, 0)), "a coordinator")
    times = []
    go()
    began = time.perf_counter()
    for number in range(options["records"]):
        due = began + number / options["rate"]
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        asked = time.perf_counter()
        consumer.commit(offsets=[TopicPartition(*place, number)], asynchronous=False)
        times.append(time.perf_counter() - asked)
    times.sort()
    consumer.close()
    return {"p50_ms": times[len(times) // 2] * 1000, "p99_ms": times[int(len(times) * 0.99)] * 1000}


def _is_committed(consumer: Consumer, place: TopicPartition) -> bool:
    try:
        consumer.commit(offsets=[place], asynchronous=False)
    except KafkaException:  # the topic of the offsets is only now being made
        return False
    return True
