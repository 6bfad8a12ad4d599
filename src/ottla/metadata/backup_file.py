"""The file of a backup, and of the copy that each broker keeps: the metadata as lines of JSON.

    line 1      {"format":"ottla-backup","v":1,"cluster_id":"...","version":42,"created_ms":...,"ottla":"..."}
    lines       the records that create the metadata, one each (records.py)
    lines       {"type":"GroupOffset","v":1,"group":"billing","topic":"orders","partition":0,"offset":7}
    last line   {"format":"ottla-backup-end","lines":123,"sha256":"..."}

`version` is that of the metadata log; a broker's copy also has its controller term, as `"term":[40,"..."]`.
The checksum is that of all lines before the last, with their ends. A reader refuses a file that is cut off,
changed, or of a newer version. The file has the keys of SCRAM users: it is written for its owner only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ottla.metadata.history import Term
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import MetadataError, decode_record, encode_record

FORMAT, END_FORMAT, VERSION = "ottla-backup", "ottla-backup-end", 1
_OFFSET = '{"type":"GroupOffset"'


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A committed offset of a group."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a file contains."""

    image: ClusterImage
    offsets: tuple[GroupOffset, ...] = ()
    created_ms: int = 0
    written_by: str = ""
    """The version of Ottla that wrote it."""
    term: Term | None = None
    """In a broker's copy: the controller term of the newest version."""


def encode_backup(backup: Backup) -> bytes:
    """Return the contents of the file."""
    head = {
        "format": FORMAT,
        "v": VERSION,
        "cluster_id": backup.image.cluster_id,
        "version": backup.image.version,
        "created_ms": backup.created_ms,
        "ottla": backup.written_by,
        **({} if backup.term is None else {"term": backup.term}),
    }
    lines = [_json(head), *map(encode_record, backup.image.records())]
    lines += [_json({"type": "GroupOffset", "v": VERSION, **asdict(each)}) for each in backup.offsets]
    body = "".join(f"{line}\n" for line in lines).encode()
    end = {"format": END_FORMAT, "lines": len(lines), "sha256": hashlib.sha256(body).hexdigest()}
    return body + f"{_json(end)}\n".encode()


def is_backup(data: bytes) -> bool:
    """Return whether this is the content of a backup, as far as its first line says."""
    return _object(data.partition(b"\n")[0]).get("format") == FORMAT


def decode_backup(data: bytes) -> Backup:
    """Return what the file contains; raise MetadataError if it cannot be trusted."""
    head = _object(data.partition(b"\n")[0])
    if not is_backup(data):
        raise MetadataError("this is not a backup of Ottla")
    if head.get("v") != VERSION:
        raise MetadataError(f"this backup has version {head.get('v')}: it was written by a newer Ottla")
    at = data.rstrip(b"\n").rfind(b"\n") + 1
    body, end = data[:at], _object(data[at:].strip())
    if end.get("format") != END_FORMAT:
        raise MetadataError("this backup is cut off: its last line is missing")
    if end.get("sha256") != hashlib.sha256(body).hexdigest():
        raise MetadataError("this backup is damaged or was changed: it fails its checksum")
    try:
        return _decoded(head, body.decode().split("\n")[1:-1])
    except (KeyError, TypeError, ValueError) as error:
        raise MetadataError(f"this backup cannot be read: {error!r}") from error


def _decoded(head: dict[str, Any], lines: Iterable[str]) -> Backup:
    records, offsets = [], []
    for line in lines:
        if line.startswith(_OFFSET):
            values = json.loads(line)
            offsets.append(GroupOffset(**{key: values[key] for key in values if key not in ("type", "v")}))
        else:
            records.append(decode_record(line))
    image = EMPTY.apply(records, int(head["version"]))
    term = Term(*head["term"]) if "term" in head else None
    return Backup(image, tuple(offsets), int(head["created_ms"]), str(head["ottla"]), term)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
