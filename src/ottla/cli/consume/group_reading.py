"""Read as a member of a consumer group: partitions are shared with the other members, offsets are committed.

Records count as processed once they are written to standard output; then their offsets are committed. After a
kill, the records since the last commit are written again: at least once.
"""

from __future__ import annotations

import asyncio
import re
import sys

from ottla.cli.consume.reading import ConsumeOptions, until_signal
from ottla.cli.support.offset_range import FROM_START
from ottla.cli.support.options import is_terminal
from ottla.cli.support.output import count, echo_err, write_bytes
from ottla.cli.support.session import settings_for
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions

END_CHECK_MS = 500.0
"""How long to wait for records before `--exit` looks whether the end is reached."""


async def read_as_member(cluster: Cluster, group: str, options: ConsumeOptions) -> None:
    """Join the group, read until the end or Ctrl-C, commit, and leave."""
    reset = "earliest" if options.span.start is FROM_START else "latest"
    consumer = AsyncConsumer.on(
        cluster,
        settings_for(
            ConsumerOptions,
            group_id=group,
            auto_offset_reset=reset,
            enable_auto_commit=False,
            isolation_level=options.isolation,
        ),
    )
    for topic in () if options.is_regex else options.topics:
        await cluster.topic(topic)  # an unknown topic is an error now, not a silent wait
    reader = _MemberReader(options)
    try:
        await until_signal(reader.run(consumer))
    except asyncio.CancelledError:
        echo_err(f"stopped; {group} continues after the last record that was written")
    if is_terminal(sys.stderr):
        echo_err(f"Read {count(reader.written, 'record')} as a member of {group}")


class _MemberReader:
    """One membership: what was written."""

    def __init__(self, options: ConsumeOptions) -> None:
        self.options = options
        self.written = 0

    async def run(self, consumer: AsyncConsumer) -> None:
        """Read, write and commit until the limit, or the end with `--exit`."""
        options = self.options
        wait_ms = END_CHECK_MS if options.exit_at_end else None
        async with consumer:
            self._subscribe(consumer)
            while self.written != options.max_records:
                most = None if options.max_records is None else options.max_records - self.written
                fetched = await consumer.getmany(timeout_ms=wait_ms, max_records=most)
                records = [record for each in fetched.values() for record in each]
                if records:
                    write_bytes(b"".join(map(options.write, records)))
                    self.written += len(records)
                    await consumer.commit()
                elif options.exit_at_end and await self._is_at_end(consumer):
                    return

    def _subscribe(self, consumer: AsyncConsumer) -> None:
        topics = self.options.topics
        if self.options.is_regex:
            consumer.subscribe(pattern=re.compile("|".join(f"(?:{each})" for each in topics)))
        else:
            consumer.subscribe(list(topics))

    @staticmethod
    async def _is_at_end(consumer: AsyncConsumer) -> bool:
        """Return whether every assigned partition was read to its end; False before there are any."""
        assigned = consumer.assignment()
        if not assigned:
            return False
        ends = await consumer.end_offsets(assigned)
        return all([await consumer.position(each) >= ends[each] for each in assigned])
