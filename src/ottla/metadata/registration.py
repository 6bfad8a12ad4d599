"""What a broker says about itself for as long as its session lives.

It is written as JSON (the payload of the broker's ephemeral node in ZooKeeper):

    {"v":1,"endpoints":[["PLAINTEXT","10.0.0.1",9092,"PLAINTEXT"]],"rack":"eu-1a","incarnation_id":"...",
     "directory_id":"...","after_unclean_stop":false,"may_have_lost_records":true,"seems_whole":false,
     "wants_shutdown":false}

A field may be added if it has a default; a reader passes over fields that it does not know, so that
brokers of two versions can form one cluster while they are upgraded.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from ottla.metadata.records import Endpoint, MetadataError


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """What a broker says about itself."""

    endpoints: tuple[Endpoint, ...] = ()
    """Where it is reached; none while it is still starting and wants no part in the cluster yet."""
    rack: str | None = None
    incarnation_id: str = ""
    """New with every start of the process."""
    directory_id: str = ""
    """The id of its data directory, which only one process at a time can hold."""
    after_unclean_stop: bool = True
    """Whether it no longer knows how far it had committed, because the process was killed."""
    may_have_lost_records: bool = True
    """Whether, with that, its logs may have lost what was not flushed: the machine lost power, too."""
    seems_whole: bool = False
    """Whether, for all that, they seem to be whole: only the disk failed, and the machine has run on."""
    wants_shutdown: bool = False
    """Whether it asks for its leaderships to be moved, because it is about to stop, or its disk is full."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A live session, as everyone sees it."""

    node_id: int
    broker_epoch: int
    registration: BrokerRegistration


_NAMES = frozenset(each.name for each in fields(BrokerRegistration))


def encode_registration(registration: BrokerRegistration) -> bytes:
    """Return the registration as JSON."""
    return json.dumps({"v": 1, **asdict(registration)}, separators=(",", ":")).encode()


def decode_registration(payload: bytes) -> BrokerRegistration:
    """Return the registration that `encode_registration` wrote."""
    try:
        values: dict[str, Any] = json.loads(payload)
        known = {name: value for name, value in values.items() if name in _NAMES}
        known["endpoints"] = tuple(Endpoint(*each) for each in known.get("endpoints", ()))
        return BrokerRegistration(**known)
    except (ValueError, TypeError, AttributeError) as error:
        raise MetadataError(f"not the registration of a broker: {payload[:200]!r}") from error


def may_take_over(
    newcomer: BrokerRegistration, holder: BrokerRegistration, *, is_first_session: bool
) -> bool:
    """Return whether a broker may end the live session of another process with its node id.

    A process that has just started on the holder's own directory holds the lock of that directory, so
    the holder is dead and only its session lives on. A process that had a session before must not:
    it may be the holder's living twin, on a copy of the directory, and the two would throw each other out
    for ever.
    """
    if newcomer.incarnation_id == holder.incarnation_id:
        return True
    return is_first_session and newcomer.directory_id == holder.directory_id
