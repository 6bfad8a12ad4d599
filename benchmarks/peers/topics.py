"""Topics for workloads, made through librdkafka's admin client, the same for every peer that speaks Kafka."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.peers.servers import Server, wait_until

AT_A_TIME = 10


def create(
    server: Server,
    names: list[str],
    partitions: int,
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create topics, and return when all their partitions have leaders and replicas in sync."""
    admin = AdminClient({"bootstrap.servers": server.address})
    for first in range(0, len(names), AT_A_TIME):
        some = [
            NewTopic(name, partitions, replicas, config=dict(config or {}))
            for name in names[first : first + AT_A_TIME]
        ]
        for future in admin.create_topics(some, operation_timeout=60, request_timeout=90).values():
            future.result(90)

    def are_led() -> bool:
        topics = admin.list_topics(timeout=30).topics
        return all(
            name in topics
            and len(topics[name].partitions) == partitions
            and all(len(each.isrs) == replicas for each in topics[name].partitions.values())
            for name in names
        )

    wait_until(are_led, f"leaders of {len(names)} topics")


def create_on(server: Server, name: str, leader: int) -> None:
    """Create a topic of one partition on one broker."""
    admin = AdminClient({"bootstrap.servers": server.address})
    for future in admin.create_topics([NewTopic(name, 1, replica_assignment=[[leader]])]).values():
        future.result(30)
    wait_until(lambda: name in admin.list_topics(timeout=30).topics, f"the leader of {name}")


def delete(server: Server, name: str) -> None:
    """Delete a topic, so that the page cache is free for the next one."""
    admin = AdminClient({"bootstrap.servers": server.address})
    for future in admin.delete_topics([name]).values():
        future.result(30)


def forget_pages(folder: Path) -> None:
    """Take a server's log files out of the page cache, so that they are read from the disk."""
    for path in folder.rglob("*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
