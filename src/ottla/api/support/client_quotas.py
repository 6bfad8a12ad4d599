"""Enforce the quotas of users and client ids: measure requests, and throttle connections that exceed one.

An answer leaves at once and carries the throttle time; then no more requests of its connection are read for
that time. A Fetch of a client that has used up its quota is answered without records. A request that changes
the cluster is refused (THROTTLING_QUOTA_EXCEEDED), or in its older versions throttled.

Requests between brokers have no quota; those of a client that may not send them count. While no quota is
set, `Services.quotas` is None, and a request costs one comparison.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ottla.api.support.authorization import may
from ottla.common.clock import Clock
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError, ThrottlingQuotaExceeded
from ottla.protocol.fetch_codec import FetchRequest
from ottla.protocol.frames import SIZE, encode_response_header
from ottla.protocol.schema.messages import response_class
from ottla.security.acls import Operation, ResourceType
from ottla.security.principal import user_name
from ottla.security.quota_entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaKey,
    QuotaMap,
)
from ottla.security.quota_rates import Measurements, QuotaWindows

if TYPE_CHECKING:
    from ottla.api.support.context import RequestContext

I = TypeVar("I")  # noqa: E741  an item of a request
R = TypeVar("R")

BETWEEN_BROKERS = frozenset(
    {
        ApiKey.ENVELOPE,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.MEASURE_LAG,
    }
)
"""APIs that only brokers call."""
AUTHENTICATION = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
FOLLOWER = "FetchFollower"
PERCENT = 100


class ClientQuotas:
    """The quotas in force on this broker, and what they are compared with."""

    def __init__(self, clock: Clock, windows: QuotaWindows, controller_windows: QuotaWindows) -> None:
        self._clock = clock
        self._windows = windows
        self._produce = Measurements(PRODUCER_BYTE_RATE, windows.window_ms)
        self._fetch = Measurements(CONSUMER_BYTE_RATE, windows.window_ms)
        self._requests = Measurements(REQUEST_PERCENTAGE, windows.window_ms)
        self._mutations = Measurements(CONTROLLER_MUTATION_RATE, controller_windows.total_ms)

    def apply(self, quotas: QuotaMap) -> ClientQuotas | None:
        """Apply the quotas of an image; return None if users and client ids have none."""
        for each in (self._produce, self._fetch, self._requests, self._mutations):
            each.change_quotas(quotas)
        return self if any(IP not in dict(entity) for entity in quotas) else None

    # Produce and Fetch

    def produced(self, ctx: RequestContext, size_bytes: int, *, is_answered: bool) -> None:
        """Record a Produce request, and throttle its connection if necessary."""
        user, client_id, now_ms = self._client(ctx)
        bucket = self._produce.find(user, client_id, now_ms)
        throttle_ms = 0 if bucket is None else bucket.take(size_bytes, now_ms)
        self._throttle(ctx, PRODUCER_BYTE_RATE, throttle_ms, self._request_throttle_ms(ctx) * is_answered)

    def appended(self, ctx: RequestContext, size_bytes: int) -> None:
        """Record what a conditional append writes; its answer has the throttle time (`throttled`)."""
        user, client_id, now_ms = self._client(ctx)
        bucket = self._produce.find(user, client_id, now_ms)
        ctx.throttle_ms = 0 if bucket is None else bucket.take(size_bytes, now_ms)

    def limited(self, ctx: RequestContext, request: FetchRequest) -> FetchRequest:
        """Return a Fetch request that is answered with no more than one window of its quota."""
        bucket = self._fetch.find(*self._client(ctx))
        if bucket is None:
            return request
        max_bytes = max(1, min(request.max_bytes, int(bucket.bound * self._windows.window_ms / 1000)))
        return request._replace(max_bytes=max_bytes, min_bytes=min(request.min_bytes, max_bytes))

    def fetched(self, ctx: RequestContext, size_bytes: int) -> bool:
        """Record a Fetch, and throttle its connection if necessary; return whether its records may be sent.

        They may not while the quota is used up by earlier ones. (Kafka also withholds those that use it up:
        if they are more than fits into its windows, they are never sent.)
        """
        user, client_id, now_ms = self._client(ctx)
        bucket = self._fetch.find(user, client_id, now_ms)
        used_up_ms = throttle_ms = 0
        if bucket is not None:
            used_up_ms = bucket.throttle_ms(now_ms)
            throttle_ms = used_up_ms or bucket.take(size_bytes, now_ms)
        self._throttle(ctx, CONSUMER_BYTE_RATE, throttle_ms, self._request_throttle_ms(ctx))
        return not used_up_ms

    # Every request

    def spent(self, ctx: RequestContext, seconds: float) -> None:
        """Record the time that a request took on the event loop."""
        if _is_exempt(ctx) or ctx.times.api == FOLLOWER:
            return
        user, client_id, now_ms = self._client(ctx)
        bucket = self._requests.find(user, client_id, now_ms)
        if bucket is not None:
            bucket.take(seconds * PERCENT, now_ms)

    def throttled(self, ctx: RequestContext, response: Any) -> Any:
        """Return the response with its throttle time, and throttle its connection."""
        if _is_exempt(ctx):
            return response
        own_ms, ctx.throttle_ms = ctx.throttle_ms, 0
        is_append = ctx.api_key == ApiKey.CONDITIONAL_APPEND
        key = PRODUCER_BYTE_RATE if is_append else CONTROLLER_MUTATION_RATE
        self._throttle(ctx, key, own_ms, self._request_throttle_ms(ctx))
        if not ctx.throttle_ms:
            return response
        if isinstance(response, bytes):
            return _with_throttle_ms(response, ctx)
        if not hasattr(response, "throttle_time"):
            return response
        return replace(response, throttle_time=timedelta(milliseconds=ctx.throttle_ms))

    def take_mutations(
        self, ctx: RequestContext, partitions: Sequence[int], *, is_strict: bool
    ) -> list[KafkaError | None]:
        """Record how many partitions each item of a request creates or deletes; return the errors."""
        user, client_id, now_ms = self._client(ctx)
        bucket = self._mutations.find(user, client_id, now_ms)
        if bucket is None:
            return [None] * len(partitions)
        results: list[KafkaError | None] = []
        for count in partitions:
            if is_strict and count and bucket.throttle_ms(now_ms):
                results.append(ThrottlingQuotaExceeded("The throttling quota has been exceeded."))
                ctx.throttle_ms = bucket.throttle_ms(now_ms)
                continue
            bucket.take(count, now_ms)
            results.append(None)
        if not is_strict:
            ctx.throttle_ms = bucket.throttle_ms(now_ms)
        return results

    def give_back_mutations(self, ctx: RequestContext, partitions: int, *, is_strict: bool) -> None:
        """Record that partitions were not created or deleted after all."""
        user, client_id, now_ms = self._client(ctx)
        bucket = self._mutations.find(user, client_id, now_ms)
        if bucket is not None:
            bucket.take(-partitions, now_ms)
            if not is_strict:
                ctx.throttle_ms = bucket.throttle_ms(now_ms)

    # How

    def _client(self, ctx: RequestContext) -> tuple[str, str, int]:
        return user_name(ctx.connection.principal), ctx.client_id or "", self._clock.mono_ms()

    def _request_throttle_ms(self, ctx: RequestContext) -> int:
        """Return the throttle time for the use of the event loop: one window at most, as in Kafka."""
        user, client_id, now_ms = self._client(ctx)
        bucket = self._requests.find(user, client_id, now_ms)
        return 0 if bucket is None else min(bucket.throttle_ms(now_ms), self._windows.window_ms)

    def _throttle(self, ctx: RequestContext, key: QuotaKey, own_ms: int, request_ms: int) -> None:
        throttle_ms = max(own_ms, request_ms)
        if throttle_ms <= 0:
            return
        name = key.name if own_ms > request_ms else REQUEST_PERCENTAGE.name
        ctx.services.throttles[name] += 1
        ctx.services.throttle_ms[name] += throttle_ms
        ctx.throttle_ms = throttle_ms
        ctx.connection.mute(throttle_ms)


def _is_exempt(ctx: RequestContext) -> bool:
    """Return whether a request has no quota: it authenticates, or comes from a broker."""
    if ctx.api_key in BETWEEN_BROKERS:
        return may(ctx, ResourceType.CLUSTER, operation=Operation.CLUSTER_ACTION)
    return ctx.api_key in AUTHENTICATION


async def within_mutation_quota(
    ctx: RequestContext,
    items: Sequence[I],
    partitions_of: Callable[[I], int],
    change: Callable[[Sequence[I]], Awaitable[list[R | KafkaError]]],
    first_strict_version: int,
) -> list[R | KafkaError]:
    """Change the items that the client's quota of changes allows; return one result per item.

    What is refused for another reason does not count.
    """
    quotas = ctx.services.quotas
    if quotas is None:
        return await change(items)
    is_strict = ctx.version >= first_strict_version
    counts = [partitions_of(each) for each in items]
    refused = quotas.take_mutations(ctx, counts, is_strict=is_strict)
    allowed = [item for item, error in zip(items, refused, strict=True) if error is None]
    changed = iter(await change(allowed) if allowed else ())
    results = [error or next(changed) for error in refused]
    unused = sum(
        count
        for count, error, result in zip(counts, refused, results, strict=True)
        if error is None and isinstance(result, KafkaError)
    )
    if unused:
        quotas.give_back_mutations(ctx, unused, is_strict=is_strict)
    return results


def throttle_ms_of(frame: bytes, ctx: RequestContext) -> int:
    """Return the throttle time in an encoded response whose first field it is, or 0."""
    at = _throttle_at(ctx)
    return 0 if at is None else SIZE.unpack_from(frame, at)[0]


def _with_throttle_ms(frame: bytes, ctx: RequestContext) -> bytes:
    at = _throttle_at(ctx)
    if at is None:
        return frame
    return b"".join((frame[:at], SIZE.pack(ctx.throttle_ms), frame[at + SIZE.size :]))


def _throttle_at(ctx: RequestContext) -> int | None:
    """Return where the throttle time is in a response frame; None if it is not the first field."""
    first, *_ = fields(cast(Any, response_class(ctx.api_key, ctx.version)))
    if first.name != "throttle_time":
        return None
    return SIZE.size + len(encode_response_header(ctx.api_key, ctx.version, 0))
