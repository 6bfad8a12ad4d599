"""Delegation tokens: create, renew, expire and list them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar, cast

from kio.schema.create_delegation_token.v3 import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kio.schema.create_delegation_token.v3.request import CreatableRenewers
from kio.schema.describe_delegation_token.v3 import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenOwner
from kio.schema.expire_delegation_token.v2 import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kio.schema.renew_delegation_token.v2 import RenewDelegationTokenRequest, RenewDelegationTokenResponse

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.protocol.types import i64Timedelta

if TYPE_CHECKING:
    from kio.static.protocol import Payload

_DEFAULT_MS = -1

Answer = TypeVar(
    "Answer",
    CreateDelegationTokenResponse,
    RenewDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    DescribeDelegationTokenResponse,
)


@dataclass(frozen=True, slots=True)
class DelegationTokenInfo:
    """A delegation token. To log in: SCRAM with the token id, `password` and `tokenauth=true`."""

    token_id: str
    hmac: bytes
    owner: str
    renewers: tuple[str, ...]
    issued_at_ms: int
    expires_at_ms: int
    max_expires_at_ms: int

    @property
    def password(self) -> str:
        """Return the HMAC as the password of the token."""
        return b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        return f"DelegationTokenInfo({self.token_id!r}, owner={self.owner!r}, hmac=...)"


class DelegationTokens:
    """Asks for delegation tokens, and for changes to them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(
        self, owner: str | None, renewers: Iterable[str], max_lifetime_ms: int | None
    ) -> DelegationTokenInfo:
        """Create a token."""
        names = tuple(renewers)
        owner_type, owner_name = (None, None) if owner is None else _parts(owner)
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=tuple(
                CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_parts, names)
            ),
            max_lifetime=_period(_DEFAULT_MS if max_lifetime_ms is None else max_lifetime_ms),
        )
        made = await self._ask(request, CreateDelegationTokenResponse, "the token was not created")
        return DelegationTokenInfo(
            made.token_id,
            made.hmac,
            f"{made.principal_type}:{made.principal_name}",
            names,
            _ms(made.issue_timestamp),
            _ms(made.expiry_timestamp),
            _ms(made.max_timestamp),
        )

    async def renew(self, hmac: bytes, period_ms: int | None) -> int:
        """Extend the validity of a token; return when it ends."""
        period = _period(_DEFAULT_MS if period_ms is None else period_ms)
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period=period)
        renewed = await self._ask(request, RenewDelegationTokenResponse, "the token was not renewed")
        return _ms(renewed.expiry_timestamp)

    async def expire(self, hmac: bytes, period_ms: int | None) -> int:
        """End the validity of a token after `period_ms`, or (None) now; return when it ends."""
        period = _period(_DEFAULT_MS if period_ms is None else period_ms)
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=period)
        expired = await self._ask(request, ExpireDelegationTokenResponse, "the token was not expired")
        return _ms(expired.expiry_timestamp)

    async def describe(self, owners: Iterable[str] | None) -> list[DelegationTokenInfo]:
        """Return the tokens of these owners, or all that the client may see."""
        asked = None
        if owners is not None:
            asked = tuple(
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_parts, owners)
            )
        request = DescribeDelegationTokenRequest(owners=asked)
        found = await self._ask(request, DescribeDelegationTokenResponse, "the tokens were not listed")
        return [
            DelegationTokenInfo(
                each.token_id,
                each.hmac,
                f"{each.principal_type}:{each.principal_name}",
                tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
                each.issue_timestamp,
                each.expiry_timestamp,
                each.max_timestamp,
            )
            for each in found.tokens
        ]

    async def _ask(self, request: Payload, response_type: type[Answer], what: str) -> Answer:
        async def attempt() -> Answer:
            connection = await self._cluster.any_broker()
            response = await connection.request(request, response_type)
            raise_for(response.error_code)
            return response

        return await self._cluster.retrying(attempt, what=what)


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not colon:
        raise ValueError(f"{principal!r} is not a principal like User:alice")
    return kind, name


def _period(period_ms: int) -> i64Timedelta:
    return cast("i64Timedelta", timedelta(milliseconds=period_ms))


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
