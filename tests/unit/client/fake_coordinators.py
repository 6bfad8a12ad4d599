"""Coordinators that answer a transactional producer what a test says."""

from collections import defaultdict, deque

from ottla.client.producer.batch import Identity
from ottla.client.producer.transaction_calls import Initiated


class FakeCalls:
    """Coordinators: answer well, unless told otherwise, and take notes."""

    def __init__(self):
        self.made = []
        self.errors = defaultdict(deque)
        self.gates = {}
        self.epoch = -1
        self.ongoing = None

    async def _call(self, name, *details):
        self.made.append((name, *details))
        if name in self.gates:
            await self.gates[name].wait()
        if self.errors[name]:
            raise self.errors[name].popleft()

    async def init(self, current, *, keep_prepared=False):
        await self._call("init", current.producer_epoch)
        self.epoch += 1
        return Initiated(Identity(7, self.epoch), self.ongoing if keep_prepared else None)

    async def add_partitions(self, identity, partitions):
        await self._call("add", sorted(partitions))

    async def add_group(self, identity, group_id):
        await self._call("add group", group_id)

    async def commit_offsets(self, identity, offsets, group, *, is_implicit):
        await self._call("offsets", dict(offsets), group)

    async def end(self, identity, *, commit, is_implicit):
        await self._call("end", "commit" if commit else "abort")
        if not is_implicit:
            return identity
        self.epoch += 1
        return Identity(7, self.epoch)

    async def prepare(self, identity):
        await self._call("prepare")
