"""What kazoo raises, in our words: what went wrong, and what to do about it."""

from __future__ import annotations

from kazoo import exceptions as kz
from kazoo.handlers.threading import KazooTimeoutError

from ottla.metadata.records import MetadataError
from ottla.metadata.store import StoreUnavailable
from ottla.metadata.zookeeper.types import (
    NodeChanged,
    NodeExists,
    NoNode,
    NotAuthenticated,
    ZooKeeperSettings,
)

DISCONNECTED = (
    kz.ConnectionLoss,
    kz.SessionExpiredError,
    kz.SessionMovedError,
    kz.OperationTimeoutError,
    kz.ConnectionClosedError,
    kz.AuthFailedError,  # the connection ended with it; `refusal` says so to whoever opens the store
)
"""After these nobody knows whether the call happened."""

_TRANSLATED: dict[type[Exception], type[MetadataError]] = {
    kz.NoNodeError: NoNode,
    kz.NodeExistsError: NodeExists,
    kz.BadVersionError: NodeChanged,
}
_REFUSALS = (kz.AuthFailedError, kz.SessionClosedRequireSaslError, kz.SASLException)


def translated(error: Exception, settings: ZooKeeperSettings) -> Exception:
    """Return our exception for what a call of kazoo raised."""
    for theirs, ours in _TRANSLATED.items():
        if isinstance(error, theirs):
            return ours(str(error) or theirs.__name__)
    if isinstance(error, KazooTimeoutError):
        return StoreUnavailable("ZooKeeper does not answer")
    if isinstance(error, _REFUSALS):
        return refusal(error, settings)
    if isinstance(error, kz.NoAuthError):
        return MetadataError(
            f"ZooKeeper at {settings.connect} keeps the nodes of this cluster for another user than "
            f"{_user(settings)}. Set zookeeper.sasl.username and zookeeper.sasl.password to those of the "
            "brokers that made them (with zookeeper.set.acl=true), or use another path in zookeeper.connect"
        )
    return MetadataError(f"ZooKeeper refused: {error!r}")


def refusal(error: Exception, settings: ZooKeeperSettings) -> StoreUnavailable:
    """Return why there will be no connection: `error` is what kazoo gave up with."""
    where = f"ZooKeeper at {settings.connect}"
    if not isinstance(error, _REFUSALS):
        return StoreUnavailable(f"{where} cannot be talked to: {error!r}")
    if "sasl_options" not in settings.options:
        return NotAuthenticated(
            f"{where} serves only those who authenticate. Set zookeeper.sasl.mechanism=DIGEST-MD5, "
            "zookeeper.sasl.username and zookeeper.sasl.password"
        )
    return NotAuthenticated(
        f"{where} did not accept {_user(settings)}. Compare zookeeper.sasl.username and "
        "zookeeper.sasl.password with the users in its JAAS file (without one it accepts nobody); "
        "its log says more"
    )


def _user(settings: ZooKeeperSettings) -> str:
    """Name the user, never the password."""
    options = settings.options.get("sasl_options")
    if options is None:
        return "nobody (no zookeeper.sasl.mechanism is set)"
    return f"the user {options.get('username', 'of the Kerberos ticket')!r} ({options['mechanism']})"
