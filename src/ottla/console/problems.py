"""Errors as people read them: what happened, what to do, and the HTTP status."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from ottla.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError, TimedOut
from ottla.console.access.oidc import OidcError
from ottla.console.messages.expression import BadExpression
from ottla.console.services.http_json import ServiceRefused, ServiceUnavailable
from ottla.console.table import UserError
from ottla.protocol.errors import KafkaError

NOT_AUTHORIZED = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.delegation_token_authorization_failed,
    }
)
NOT_FOUND = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.group_id_not_found,
        ErrorCode.transactional_id_not_found,
        ErrorCode.resource_not_found,
    }
)
HINTS = {
    ErrorCode.topic_already_exists: "Choose another name.",
    ErrorCode.invalid_topic_exception: "A name has 1 to 249 letters, digits, dots, dashes or underscores.",
    ErrorCode.invalid_replication_factor: "There must be at least as many brokers as replicas.",
    ErrorCode.unknown_member_id: "Stop the group's members first: they would commit their own offsets again.",
    ErrorCode.non_empty_group: "Stop the group's members first.",
    ErrorCode.message_too_large: "Raise max.message.bytes of the topic.",
    ErrorCode.topic_deletion_disabled: "The brokers have delete.topic.enable=false.",
    ErrorCode.not_enough_replicas: "Too few replicas are in sync for min.insync.replicas.",
    ErrorCode.security_disabled: "The brokers have no authorizer (authorizer.class.name).",
}
EXPECTED = (
    UserError,
    KafkaError,
    ClientError,
    BadExpression,
    ServiceRefused,
    ServiceUnavailable,
    OidcError,
)


def as_user_error(error: Exception) -> UserError:
    """Return an expected error as it is shown."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, KafkaError):
        return _of_broker(error)
    if isinstance(error, BadExpression):
        return UserError(f"The expression cannot be read: {error}", status=400)
    if isinstance(error, ServiceUnavailable):
        return UserError(f"{_sentence(str(error))}", "Start the service, or correct its URL.", 503)
    if isinstance(error, ServiceRefused):
        return UserError(_sentence(str(error)), "", 404 if error.status == 404 else 422)
    if isinstance(error, AuthenticationFailed):
        return UserError(f"The brokers do not accept the login: {error}", "Log in again.", 401)
    hint = "The page recovers by itself as soon as a broker answers."
    if isinstance(error, TimedOut | BrokerUnreachable):
        return UserError(_sentence(str(error)), hint, 503)
    return UserError(_sentence(str(error) or type(error).__name__), "", 503)


def _of_broker(error: KafkaError) -> UserError:
    name = error.code.name.upper()
    said, meaning = str(error), (type(error).__doc__ or "").strip().splitlines()[0]
    if " " not in said:  # nothing, or only what it is about
        said = f"{said}: {meaning}" if said else meaning
    status = 403 if error.code in NOT_AUTHORIZED else 404 if error.code in NOT_FOUND else 422
    hint = HINTS.get(error.code, "")
    if status == 403:
        hint = "The broker's ACLs do not allow it. The page ACLs explains why to admins."
    return UserError(f"{_sentence(said)} ({name})", hint, status)


def _sentence(text: str) -> str:
    """Return a text that begins with a capital letter, unless it begins with a name."""
    text = text.strip()
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text
