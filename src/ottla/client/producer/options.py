"""The options of a producer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from ottla.client.client_options import ClientOptions
from ottla.client.producer.interceptors import ProducerInterceptor
from ottla.client.producer.partitioners import PARTITIONERS, STICKY, Partitioner
from ottla.common.config.declaration import ConfigError
from ottla.common.config.options import option
from ottla.common.config.types import FUNCTION, NUMBER, TEXT, TRUE_OR_FALSE, WHOLE, Kind, at_least, choice
from ottla.protocol.records.compression import CODEC_NAMES

ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
MAX_IN_FLIGHT = 5
"""How many batches of a producer a broker remembers; with more in flight it could not detect duplicates."""

Serializer = Callable[[Any], bytes | None]


def _acks(value: Any) -> int | str:
    if str(value).lower() in ACKS and not isinstance(value, bool):
        return value if isinstance(value, int) else str(value).lower()
    raise ValueError("must be 0, 1 or 'all'")


def _codec(value: Any) -> str:
    if value is None:
        return CODEC_NAMES[0]
    return choice(*CODEC_NAMES).parse(value)


def _interceptors(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Iterable) and not isinstance(value, str):
        found = tuple(value)
        if all(hasattr(each, "on_send") and hasattr(each, "on_acknowledgement") for each in found):
            return found
    raise ValueError("must be a list of objects that derive from ProducerInterceptor")


def _partitioner(value: Any) -> Any:
    return value if callable(value) else choice(*PARTITIONERS).parse(value)


_CODEC = Kind("codec", 0, _codec)
_INTERCEPTORS = Kind("interceptors", 0, _interceptors)
_PARTITIONER = Kind[Any]("partitioner", 0, _partitioner)


@dataclass(frozen=True)
class ProducerOptions(ClientOptions):
    """How a producer batches, and how sure it wants to be."""

    _: KW_ONLY
    acks: int | str = option(
        "all",
        Kind("acks", 0, _acks),
        "Which replicas must have a record before it is acknowledged: none (0), the leader (1), or all that "
        "are in sync (all).",
    )
    enable_idempotence: bool | None = option(
        None,
        TRUE_OR_FALSE,
        "Whether what is sent twice is stored once, and in order; by default, if acks is 'all'.",
    )
    compression_type: str | None = option("none", _CODEC, f"Of batches: {', '.join(CODEC_NAMES)}.")
    linger_ms: float = option(
        0,
        NUMBER,
        "How long a batch that is not full waits for more, even if the broker is free.",
        check=at_least(0),
        aliases=("queue_buffering_max_ms",),
    )
    batch_size: int = option(
        262_144, WHOLE, "How many bytes of records make a batch full.", check=at_least(0)
    )
    buffer_memory: int = option(
        33_554_432, WHOLE, "How many bytes may wait to be delivered; then send waits.", check=at_least(1)
    )
    max_request_size: int = option(
        1_048_576, WHOLE, "The largest record, and about the largest request.", check=at_least(1)
    )
    max_in_flight_requests_per_connection: int = option(
        MAX_IN_FLIGHT,
        WHOLE,
        "How many requests may be in flight to a broker; order is kept with any value.",
        check=at_least(1),
        aliases=("max_in_flight",),
    )
    delivery_timeout_ms: int = option(
        120_000,
        WHOLE,
        "How long it may take to deliver a record, all retries included.",
        check=at_least(1),
        aliases=("message_timeout_ms",),
    )
    retries: int = option(
        2**31 - 1,
        WHOLE,
        "How often a batch is sent again at most, within the delivery timeout.",
        check=at_least(0),
        aliases=("message_send_max_retries",),
    )
    max_block_ms: int = option(
        60_000,
        WHOLE,
        "How long send waits for a topic that it does not know, and for room in the buffer.",
        check=at_least(0),
    )
    partitioner: str | Partitioner = option(  # noqa: RUF009
        STICKY,
        _PARTITIONER,
        f"Which partition a record goes to: {', '.join(PARTITIONERS)}, or a function.",
    )
    key_serializer: Serializer | None = option(None, FUNCTION, "Turns keys into bytes.")  # noqa: RUF009
    value_serializer: Serializer | None = option(None, FUNCTION, "Turns values into bytes.")  # noqa: RUF009
    interceptors: Sequence[ProducerInterceptor] = option(
        (),
        _INTERCEPTORS,
        "Look at records before they are sent, and at what became of them.",
    )
    transactional_id: str | None = option(
        None, TEXT, "Whose transactions these are: one producer at a time has the name."
    )
    transaction_timeout_ms: int = option(
        60_000, WHOLE, "When the coordinator aborts a transaction that is still open.", check=at_least(1)
    )
    transaction_two_phase_commit_enable: bool = option(
        False, TRUE_OR_FALSE, "Whether transactions may be prepared, and then stay open until they are ended."
    )

    REFUSED: ClassVar = {
        **ClientOptions.REFUSED,
        "interceptor_classes": "give interceptors=[...], objects rather than names",
        "batch_num_messages": "batches are bounded by bytes: batch_size",
        "queue_buffering_max_messages": "the buffer is bounded by bytes: buffer_memory",
        "queue_buffering_max_kbytes": "the buffer is bounded by bytes: buffer_memory",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.enable_idempotence is None:
            object.__setattr__(self, "enable_idempotence", self.acks_number == -1)
        if self.enable_idempotence and self.acks_number != -1:
            raise ConfigError("acks", "must be 'all' with enable_idempotence")
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > MAX_IN_FLIGHT:
            raise ConfigError(
                "max_in_flight_requests_per_connection",
                f"must be between 1 and {MAX_IN_FLIGHT} with enable_idempotence",
            )
        if self.transactional_id == "":
            raise ConfigError(
                "transactional_id", "must not be empty: leave it out to send without transactions"
            )
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("transactional_id", "needs acks='all' and enable_idempotence")
        if self.transactional_id is None and self.transaction_two_phase_commit_enable:
            raise ConfigError("transaction_two_phase_commit_enable", "needs a transactional_id")

    @property
    def acks_number(self) -> int:
        """The acks as the protocol writes them."""
        return ACKS[str(self.acks)]

    @property
    def codec(self) -> int:
        """The number of the compression codec."""
        return CODEC_NAMES.index(self.compression_type or CODEC_NAMES[0])
