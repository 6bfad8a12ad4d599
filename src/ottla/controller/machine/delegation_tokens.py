"""Decisions about delegation tokens: create, renew, expire, and remove those whose time is over.

Every authenticated user may create tokens, without any ACL, and every broker keeps all of them in memory: so
their number and size are limited.
"""

from __future__ import annotations

from typing import Any

from ottla.common.config.broker import BrokerConfig
from ottla.common.units import MAX_LONG
from ottla.controller.machine.requests import Decision
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import DelegationTokenDeleted, DelegationTokenSet
from ottla.protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
)
from ottla.security.delegation_tokens import DelegationToken, token_by_hmac

MAX_TOKENS_PER_REQUESTER = 10_000
MAX_PRINCIPAL_CHARS = 4_096
"""Of the principals in a token together; Kafka has no such limits."""


def create_token(
    image: ClusterImage,
    token_id: str,
    owner: str,
    requester: str,
    renewers: tuple[str, ...],
    max_lifetime_ms: int,
    now_ms: int,
    config: BrokerConfig,
) -> Decision[DelegationToken]:
    """Create a token; a lifetime that is not positive stands for the longest."""
    if not config.delegation_token_secret_key:
        return _refuse(_disabled())
    if sum(map(len, (owner, *renewers))) > MAX_PRINCIPAL_CHARS:
        return _refuse(InvalidRequest(f"a token's principals have at most {MAX_PRINCIPAL_CHARS} characters"))
    if sum(each.requester == requester for each in image.tokens.values()) >= MAX_TOKENS_PER_REQUESTER:
        return _refuse(PolicyViolation(f"{requester} has created {MAX_TOKENS_PER_REQUESTER} tokens already"))
    lifetime_ms = config.delegation_token_max_lifetime_ms
    if max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, max_lifetime_ms)
    max_ms = _sum(now_ms, lifetime_ms)
    expiry_ms = min(max_ms, _sum(now_ms, config.delegation_token_expiry_time_ms))
    token = DelegationToken(token_id, owner, requester, renewers, now_ms, expiry_ms, max_ms)
    return Decision((DelegationTokenSet(*token),), (token,))


def renew_token(
    image: ClusterImage, hmac: bytes, principal: str, period_ms: int, now_ms: int, config: BrokerConfig
) -> Decision[int]:
    """Extend a token's validity; return when it ends now."""
    try:
        token = _find(image, hmac, principal, now_ms, config)
    except KafkaError as error:
        return _refuse(error)
    lifetime_ms = config.delegation_token_expiry_time_ms
    if period_ms > 0:
        lifetime_ms = min(lifetime_ms, period_ms)
    expiry_ms = min(token.max_ms, _sum(now_ms, lifetime_ms))
    return Decision((DelegationTokenSet(*token._replace(expiry_ms=expiry_ms)),), (expiry_ms,))


def expire_token(
    image: ClusterImage, hmac: bytes, principal: str, period_ms: int, now_ms: int, config: BrokerConfig
) -> Decision[int]:
    """Change when a token's validity ends; a negative period removes it now."""
    try:
        token = _find(image, hmac, principal, now_ms if period_ms >= 0 else None, config)
    except KafkaError as error:
        return _refuse(error)
    if period_ms < 0:
        return Decision((DelegationTokenDeleted(token.token_id),), (now_ms,))
    expiry_ms = min(token.max_ms, _sum(now_ms, period_ms))
    return Decision((DelegationTokenSet(*token._replace(expiry_ms=expiry_ms)),), (expiry_ms,))


def remove_expired_tokens(image: ClusterImage, now_ms: int) -> Decision[None]:
    """Remove the tokens that are not valid any more."""
    expired = [token for token in image.tokens.values() if token.is_expired(now_ms)]
    return Decision(tuple(DelegationTokenDeleted(token.token_id) for token in expired), ())


def _find(
    image: ClusterImage, hmac: bytes, principal: str, valid_at_ms: int | None, config: BrokerConfig
) -> DelegationToken:
    secret_key = config.delegation_token_secret_key
    if not secret_key:
        raise _disabled()
    token = token_by_hmac(image.tokens, hmac, secret_key)
    if token is None:
        raise DelegationTokenNotFound("there is no such delegation token")
    if not token.belongs_to(principal):
        raise DelegationTokenOwnerMismatch(f"{principal} is neither the owner nor a renewer of the token")
    if valid_at_ms is not None and token.is_expired(valid_at_ms):
        raise DelegationTokenExpired("the delegation token is expired")
    return token


def _disabled() -> DelegationTokenAuthDisabled:
    return DelegationTokenAuthDisabled("delegation tokens need delegation.token.secret.key on every broker")


def _refuse(error: KafkaError) -> Decision[Any]:
    return Decision((), (error,))


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(MAX_LONG, now_ms + duration_ms)
