"""The options of a consumer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from ottla.client.client_options import ClientOptions
from ottla.client.consumer.fetching.record import Deserializer
from ottla.common.config.declaration import ConfigError
from ottla.common.config.options import option
from ottla.common.config.types import (
    FUNCTION,
    TEXT,
    TRUE_OR_FALSE,
    WHOLE,
    WORDS,
    Kind,
    at_least,
    choice,
    read_words,
)

CLASSIC, CONSUMER = "classic", "consumer"
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"
RESETS = ("earliest", "latest", "none")
ASSIGNOR_NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")

_DURATION = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_OLD_RESETS = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
_JAVA_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


def _reset(value: Any) -> str:
    given = str(value).strip()
    found = _OLD_RESETS.get(given.lower(), given.lower())
    if found in RESETS or duration_ms(given) is not None:
        return found if found in RESETS else given
    raise ValueError("must be earliest, latest, none, or by_duration:P... such as by_duration:PT1H30M")


def duration_ms(reset: str) -> int | None:
    """Return how far back a reset `by_duration:...` goes; None if it is another one."""
    found = _DURATION.fullmatch(reset)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _assignors(value: Any) -> tuple[str, ...]:
    names = tuple(_JAVA_ASSIGNORS.get(each, each) for each in read_words(value))
    if not names:
        raise ValueError(f"must name at least one of {', '.join(ASSIGNOR_NAMES)}")
    return tuple(map(choice(*ASSIGNOR_NAMES).parse, names))


@dataclass(frozen=True)
class ConsumerOptions(ClientOptions):
    """What a consumer reads, with whom, and how much at a time."""

    _: KW_ONLY
    topics: Sequence[str] | str = option((), WORDS, "Topics to subscribe to from the start.")
    group_id: str | None = option(None, TEXT, "The group that shares the work, and keeps the offsets.")
    group_instance_id: str | None = option(
        None, TEXT, "A name of its own in the group: coming back within the session is no rebalance."
    )
    group_protocol: str = option(
        CLASSIC,
        choice(CLASSIC, CONSUMER),
        "classic: the members deal partitions out; consumer: the broker does (KIP-848).",
    )
    group_remote_assignor: str | None = option(
        None,
        TEXT,
        "With group_protocol consumer: how the broker deals partitions out; by default, as it likes.",
    )
    partition_assignment_strategy: Sequence[str] | str = option(
        ("range", "cooperative-sticky"),
        Kind("assignors", 0, _assignors),
        f"With group_protocol classic, in order of preference: {', '.join(ASSIGNOR_NAMES)}.",
    )
    session_timeout_ms: int = option(
        45_000, WHOLE, "The group gives up a member that is silent for this long.", check=at_least(1)
    )
    heartbeat_interval_ms: int = option(
        3_000, WHOLE, "How often to tell the group that we are here.", check=at_least(1)
    )
    max_poll_interval_ms: int = option(
        300_000,
        WHOLE,
        "A member that does not ask for records for this long gives up its share.",
        check=at_least(1),
    )
    auto_offset_reset: str = option(
        "latest",
        Kind("reset", 0, _reset),
        "Where to begin without an offset: earliest, latest, none (an error), by_duration:P...",
    )
    enable_auto_commit: bool = option(
        True, TRUE_OR_FALSE, "Whether what has been handed out, and dealt with since, is committed by itself."
    )
    auto_commit_interval_ms: int = option(5_000, WHOLE, "How often.", check=at_least(1))
    isolation_level: str = option(
        READ_UNCOMMITTED,
        choice(READ_UNCOMMITTED, READ_COMMITTED),
        "Whether records of open and aborted transactions are seen (read_uncommitted) or not.",
    )
    max_poll_records: int = option(
        500, WHOLE, "How many records one call returns at most, unless it says otherwise.", check=at_least(1)
    )
    fetch_min_bytes: int = option(1, WHOLE, "A broker waits until it has this much.", check=at_least(0))
    fetch_max_wait_ms: int = option(
        500, WHOLE, "But no longer than this.", check=at_least(0), aliases=("fetch_wait_max_ms",)
    )
    fetch_max_bytes: int = option(
        52_428_800, WHOLE, "The most that one broker sends at once.", check=at_least(1)
    )
    max_partition_fetch_bytes: int = option(
        1_048_576,
        WHOLE,
        "The most of one partition at once; a larger batch comes whole.",
        check=at_least(1),
        aliases=("fetch_message_max_bytes",),
    )
    prefetch_max_bytes: int = option(
        67_108_864, WHOLE, "How much may wait, fetched, to be handed out.", check=at_least(0)
    )
    check_crcs: bool = option(True, TRUE_OR_FALSE, "Whether the checksums of batches are checked.")
    client_rack: str = option(
        "", TEXT, "Where this client is: a replica in the same rack is read, if brokers allow."
    )
    allow_auto_create_topics: bool = option(
        False, TRUE_OR_FALSE, "Whether subscribing to a topic may create it, if the broker does that."
    )
    key_deserializer: Deserializer | None = option(  # noqa: RUF009
        None, FUNCTION, "Makes something of the bytes of keys."
    )
    value_deserializer: Deserializer | None = option(  # noqa: RUF009
        None, FUNCTION, "Makes something of the bytes of values."
    )

    REFUSED: ClassVar = {
        **ClientOptions.REFUSED,
        "exclude_internal_topics": "is not needed: patterns never match internal topics",
        "consumer_timeout_ms": "give poll, getmany or getone a timeout",
        "interceptor_classes": "is not supported: process the records that are returned",
        "queued_max_messages_kbytes": "write prefetch_max_bytes, in bytes",
        "default_offset_commit_callback": "give commit_async a callback",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group_instance_id", "needs a group_id")
        if self.group_id == "":
            raise ConfigError("group_id", "must not be empty: leave it out to read without a group")
        if self.group_protocol == CLASSIC and self.group_remote_assignor is not None:
            raise ConfigError("group_remote_assignor", "needs group_protocol consumer")
        if self.group_protocol == CLASSIC and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("heartbeat_interval_ms", "must be below session_timeout_ms")

    @property
    def reads_committed(self) -> bool:
        """Whether records of open and aborted transactions stay hidden."""
        return self.isolation_level == READ_COMMITTED

    @property
    def assignors(self) -> tuple[str, ...]:
        """The assignors, in order of preference."""
        return tuple(self.partition_assignment_strategy)
