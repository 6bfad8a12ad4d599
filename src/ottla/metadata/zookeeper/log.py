"""The metadata log in ZooKeeper.

    /ottla/controller_epoch          the epoch of the newest election
    /ottla/log/head                  the version of the newest entry
    /ottla/log/entries/0000000042    one entry
    /ottla/log/snapshot              which snapshot readers start with, and the oldest entry that is kept
    /ottla/log/terms                 where each controller term began (history.py)
    /ottla/log/parts/NAME/0000       the parts of an entry or snapshot that is too large for one node

An append is one multi-operation: check that the epoch is still the controller's, advance the head by one,
create the entry. All three or none: that is the fence. If the connection is lost, the same multi-operation is
sent again. If the first one was applied, the second fails on the head, and the entry has our own id. The
first append of a controller also adds its term.

A snapshot is written beside the log, then published by one multi-operation; then obsolete nodes are deleted.
A reader whose nodes are deleted while it reads starts again.

An entry or snapshot:

    line 1   {"v":1,"controller_epoch":7,"id":"...","encoding":"text","body_bytes":321,"crc":123456,"parts":0}
    rest     the records: lines of JSON (records.py), deflated if `encoding` is "zlib"

A node may hold 1 MB. Larger contents are split into parts, which are nodes of their own, written first; then
the node has only line 1, with the number of parts. `id` is unique for every append: it tells a controller
that lost the response whether its own append was applied. `body_bytes` and `crc` (CRC32C) are those of the
encoded records.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ottla.common.ids import new_uuid, uuid_text
from ottla.metadata.history import Term, Terms, with_term
from ottla.metadata.records import MetadataError, MetadataRecord, decode_records, encode_records
from ottla.metadata.store import (
    ControllerFenced,
    MetadataEntry,
    StoreRolledBack,
    StoreUnavailable,
    VersionConflict,
)
from ottla.metadata.zookeeper.client import ZooKeeperClient
from ottla.metadata.zookeeper.types import Check, Create, NoNode, Operation, Put, RolledBack
from ottla.protocol.records.checksum import crc32c

DEFLATE_ABOVE_BYTES = 4096
PART_BYTES = 512 * 1024
MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Payload:
    """Encoded records: a node, and the parts that are written before it."""

    node: bytes
    parts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """Line 1 of a node, and the rest of it."""

    controller_epoch: int
    id: str
    encoding: str
    body_bytes: int
    crc: int
    parts: int
    body: bytes


def pack(text: str, controller_epoch: int, append_id: str) -> Payload:
    """Return what to write for records that are encoded as `text`."""
    body, encoding = text.encode(), "text"
    if len(body) > DEFLATE_ABOVE_BYTES:
        body, encoding = zlib.compress(body, 1), "zlib"
    parts: tuple[bytes, ...] = ()
    if len(body) > PART_BYTES:
        parts = tuple(body[start : start + PART_BYTES] for start in range(0, len(body), PART_BYTES))
    header: dict[str, Any] = {"v": 1, "controller_epoch": controller_epoch, "id": append_id}
    header |= {"encoding": encoding, "body_bytes": len(body), "crc": crc32c(body), "parts": len(parts)}
    line = json.dumps(header, separators=(",", ":")).encode() + b"\n"
    return Payload(line if parts else line + body, parts)


def read_header(node: bytes, path: str) -> Header:
    """Return line 1 of the node at `path`."""
    line, _, body = node.partition(b"\n")
    try:
        values: dict[str, Any] = json.loads(line)
        if values.pop("v") != 1:
            raise MetadataError(f"{path} was written by a newer Ottla; start that version")
        return Header(**values, body=body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MetadataError(f"{path} in ZooKeeper is not an entry of Ottla's metadata") from error


def unpack(header: Header, body: bytes, path: str) -> str:
    """Return the text of the records; `body` is the header's, or the joined parts."""
    if len(body) != header.body_bytes or crc32c(body) != header.crc:
        raise MetadataError(f"{path} in ZooKeeper is damaged: it fails its checksum")
    if header.encoding == "zlib":
        inflating = zlib.decompressobj()
        body = inflating.decompress(body, MAX_BYTES)
        if inflating.unconsumed_tail:
            raise MetadataError(f"{path} in ZooKeeper is larger than {MAX_BYTES} bytes")
    return body.decode()


ROOT = "/ottla"
EPOCH = f"{ROOT}/controller_epoch"
HEAD = f"{ROOT}/log/head"
ENTRIES = f"{ROOT}/log/entries"
SNAPSHOT = f"{ROOT}/log/snapshot"
PARTS = f"{ROOT}/log/parts"
TERMS = f"{ROOT}/log/terms"

READ_ATTEMPTS = 10
MAX_CONCURRENT_CALLS = 50
ENTRIES_KEPT = 500
"""How many entries are kept behind a snapshot, so that brokers that are slightly behind need not read it."""

A = TypeVar("A")
B = TypeVar("B")


class _Snapshot(NamedTuple):
    version: int
    name: str
    first_entry: int


class ZooKeeperLog:
    """Appends to the log, reads it and compacts it."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client
        # The version that ZooKeeper counts for a node, known for one content of it.
        self._epoch_node: tuple[int, int] | None = None
        self._head_node: tuple[int, int] | None = None
        self._noted_epoch: int | None = None
        """The controller epoch whose term this broker has added."""
        self._term_id: tuple[int, str] | None = None
        """The controller epoch of the last append, and the id of its term."""

    async def prepare(self) -> None:
        """Create the permanent nodes."""
        await self._client.ensure(EPOCH, b"0")
        await self._client.ensure(HEAD, b"0")
        await self._client.ensure(ENTRIES)
        await self._client.ensure(PARTS)
        await self._client.ensure(TERMS, b"[]")
        await self._client.ensure(SNAPSHOT, json.dumps(_Snapshot(0, "", 1)._asdict()).encode())

    async def version(self, watch: Callable[[], None] | None = None) -> int:
        """Return the version of the newest entry."""
        node = await self._client.get(HEAD, watch)
        self._head_node = (_number(node.data, HEAD), node.version)
        return self._head_node[0]

    async def append(
        self, records: Sequence[MetadataRecord], expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version."""
        version, append_id = expected_version + 1, uuid_text(new_uuid())
        payload = pack(encode_records(records), controller_epoch, append_id)
        epoch_check = await self._fence(controller_epoch)
        head_version = await self._head_node_version(expected_version)
        await self._write_parts(_entry_parts(version, append_id), payload)
        operations: list[Operation] = [
            epoch_check,
            Put(HEAD, b"%d" % version, head_version),
            Create(_entry_path(version), payload.node),
        ]
        if controller_epoch != self._noted_epoch:
            operations += await self._new_term(version, controller_epoch)
        try:
            results = await self._client.transact(operations, retrying=True)
            self._head_node, self._noted_epoch = (version, results[1]), controller_epoch
        except RolledBack as error:
            self._epoch_node = self._head_node = None
            if await self._is_ours(version, append_id):
                self._noted_epoch = controller_epoch
                return version
            if error.index == 0:
                raise ControllerFenced(f"controller epoch {controller_epoch} is over") from error
            raise VersionConflict(f"the metadata has moved on from version {expected_version}") from error
        return version

    async def _new_term(self, version: int, controller_epoch: int) -> list[Operation]:
        """Return what adds the term of a controller, unless an append without a response has added it.

        A controller has one term: brokers read the terms only with the first entry of a controller.
        """
        if self._term_id is None or self._term_id[0] != controller_epoch:
            self._term_id = controller_epoch, uuid_text(new_uuid())
        node = await self._client.get(TERMS)
        terms, term_id = _terms(node.data), self._term_id[1]
        if any(each.term_id == term_id for each in terms):
            return []
        return [Put(TERMS, json.dumps(with_term(terms, version, term_id)).encode(), node.version)]

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot."""
        for _ in range(READ_ATTEMPTS):
            try:
                return await self._read(after_version)
            except NoNode:
                continue  # compacted under our eyes: there is a newer snapshot
        raise StoreUnavailable("the metadata log is compacted faster than it can be read")

    async def terms(self) -> Terms:
        """Return the controller terms, oldest first."""
        try:
            return _terms((await self._client.get(TERMS)).data)
        except NoNode:
            return ()

    async def compact(self, version: int, records: Iterable[MetadataRecord], controller_epoch: int) -> None:
        """Replace the entries up to `version` by a snapshot."""
        if version > await self.version():
            raise VersionConflict(f"a snapshot of version {version}, which is not written yet")
        epoch_check = await self._fence(controller_epoch)
        loop, snapshot_id = asyncio.get_running_loop(), uuid_text(new_uuid())
        payload = await loop.run_in_executor(
            None, lambda: pack(encode_records(records), controller_epoch, snapshot_id)
        )
        name = f"snapshot-{version:010}-{snapshot_id}"
        await self._client.ensure(f"{PARTS}/{name}", payload.node)
        await self._write_parts(name, payload)
        node = await self._client.get(SNAPSHOT)
        first_entry = max(_snapshot(node.data).first_entry, version - ENTRIES_KEPT + 1)
        pointer = json.dumps(_Snapshot(version, name, first_entry)._asdict()).encode()
        try:
            await self._client.transact([epoch_check, Put(SNAPSHOT, pointer, node.version)])
        except RolledBack as error:
            self._epoch_node = None
            raise ControllerFenced(f"controller epoch {controller_epoch} is over") from error
        await self._delete_obsolete(version, first_entry)

    async def replace(self, version: int, records: Iterable[MetadataRecord], controller_epoch: int) -> None:
        """Replace the whole log by one snapshot, which must be newer; the next controller has a newer epoch.

        For a cluster that is rebuilt, while no broker runs.
        """
        await self.prepare()
        head, epoch = await self._client.get(HEAD), await self._client.get(EPOCH)
        pointer, terms = await self._client.get(SNAPSHOT), await self._client.get(TERMS)
        if _number(head.data, HEAD) >= version:
            raise VersionConflict(f"the log is at version {_number(head.data, HEAD)}, not before {version}")
        newest_epoch = max(controller_epoch, _number(epoch.data, EPOCH))
        snapshot_id = uuid_text(new_uuid())
        payload = pack(encode_records(records), newest_epoch, snapshot_id)
        name = f"snapshot-{version:010}-{snapshot_id}"
        await self._client.ensure(f"{PARTS}/{name}", payload.node)
        await self._write_parts(name, payload)
        target = json.dumps(_Snapshot(version, name, version + 1)._asdict()).encode()
        await self._client.transact(
            [
                Put(EPOCH, b"%d" % newest_epoch, epoch.version),
                Put(HEAD, b"%d" % version, head.version),
                Put(SNAPSHOT, target, pointer.version),
                Put(TERMS, json.dumps([Term(version, snapshot_id)]).encode(), terms.version),
            ]
        )
        await self._delete_obsolete(version, version + 1)

    # How

    async def _read(self, after_version: int) -> list[MetadataEntry]:
        newest = await self._version_since(after_version)
        if after_version == newest:
            return []
        start, entries = after_version, []
        snapshot = _snapshot((await self._client.get(SNAPSHOT)).data)
        if snapshot.version and (after_version == 0 or after_version < snapshot.first_entry - 1):
            if after_version >= snapshot.version:
                raise MetadataError(f"{SNAPSHOT} contradicts itself: {snapshot}")
            path = f"{PARTS}/{snapshot.name}"
            entries.append(await self._entry(path, snapshot.name, snapshot.version, is_snapshot=True))
            start = snapshot.version
        entries += await _gather_bounded(range(start + 1, newest + 1), self._entry_of)
        return entries

    async def _version_since(self, known: int) -> int:
        """Return the version of the newest entry; raise StoreRolledBack if it is below `known`."""
        try:
            if (newest := await self.version()) >= known:
                return newest
            await self._client.sync(HEAD)  # or this server is only behind the others
            if (newest := await self.version()) >= known:
                return newest
        except NoNode:
            newest = 0
        raise StoreRolledBack(known, newest)

    async def _entry_of(self, version: int) -> MetadataEntry:
        return await self._entry(_entry_path(version), None, version)

    async def _entry(
        self, path: str, parts: str | None, version: int, is_snapshot: bool = False
    ) -> MetadataEntry:
        header = read_header((await self._client.get(path)).data, path)
        body = header.body
        if header.parts:
            name = parts or _entry_parts(version, header.id)
            nodes = await _gather_bounded(
                [f"{PARTS}/{name}/{index:04}" for index in range(header.parts)], self._client.get
            )
            body = b"".join(node.data for node in nodes)
        records = tuple(decode_records(unpack(header, body, path)))
        return MetadataEntry(version, header.controller_epoch, records, is_snapshot)

    async def _is_ours(self, version: int, append_id: str) -> bool:
        try:
            node = await self._client.get(_entry_path(version))
        except NoNode:
            return False
        return read_header(node.data, _entry_path(version)).id == append_id

    async def _fence(self, controller_epoch: int) -> Check:
        """Return the operation that fails if there has been another election."""
        if self._epoch_node is None or self._epoch_node[0] != controller_epoch:
            node = await self._client.get(EPOCH)
            self._epoch_node = (_number(node.data, EPOCH), node.version)
        newest, version = self._epoch_node
        if newest != controller_epoch:
            raise ControllerFenced(f"controller epoch {controller_epoch} is over: epoch {newest} was elected")
        return Check(EPOCH, version)

    async def _head_node_version(self, expected_version: int) -> int:
        """Return ZooKeeper's own version of the head node."""
        if self._head_node is None or self._head_node[0] != expected_version:
            await self.version()
        assert self._head_node is not None
        newest, node_version = self._head_node
        if newest != expected_version:
            raise VersionConflict(f"the metadata is at version {newest}, not {expected_version}")
        return node_version

    async def _write_parts(self, name: str, payload: Payload) -> None:
        if not payload.parts:
            return
        await self._client.ensure(f"{PARTS}/{name}")
        for index, part in enumerate(payload.parts):
            await self._client.ensure(f"{PARTS}/{name}/{index:04}", part)

    async def _delete_obsolete(self, snapshot_version: int, first_entry: int) -> None:
        """Delete the entries and parts that no reader needs any more.

        Only what is older than our own snapshot: another controller may be writing a newer one.
        """
        entries = await self._client.children(ENTRIES)
        gone = [f"{ENTRIES}/{name}" for name in entries if int(name) < first_entry]
        await _gather_bounded(gone, self._client.delete)
        oldest = {"snapshot": snapshot_version, "entry": first_entry}
        for name in await self._client.children(PARTS):
            kind, version, _ = name.split("-", 2)
            if int(version) < oldest[kind]:
                path = f"{PARTS}/{name}"
                children = [f"{path}/{child}" for child in await self._client.children(path)]
                await _gather_bounded([*children], self._client.delete)
                await self._client.delete(path)


def _entry_path(version: int) -> str:
    return f"{ENTRIES}/{version:010}"


def _entry_parts(version: int, append_id: str) -> str:
    return f"entry-{version:010}-{append_id}"


def _number(data: bytes, path: str) -> int:
    try:
        return int(data)
    except ValueError as error:
        raise MetadataError(f"{path} in ZooKeeper holds no number but {data[:50]!r}") from error


def _terms(data: bytes) -> Terms:
    try:
        return tuple(Term(int(start), str(term_id)) for start, term_id in json.loads(data))
    except (ValueError, TypeError) as error:
        raise MetadataError(f"{TERMS} in ZooKeeper cannot be read: {data[:200]!r}") from error


def _snapshot(data: bytes) -> _Snapshot:
    try:
        return _Snapshot(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise MetadataError(f"{SNAPSHOT} in ZooKeeper cannot be read: {data[:200]!r}") from error


async def _gather_bounded(items: Sequence[A], call: Callable[[A], Awaitable[B]]) -> list[B]:
    """Call for every item, a bounded number at a time; return the results in order."""
    answers: list[Any] = []
    for start in range(0, len(items), MAX_CONCURRENT_CALLS):
        answers += await asyncio.gather(*(call(item) for item in items[start : start + MAX_CONCURRENT_CALLS]))
    return answers
