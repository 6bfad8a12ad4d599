"""Broker keys of authorization: the authorizer, delegation tokens, and the audit log."""

from __future__ import annotations

from typing import Final

from ottla.common.config.declaration import Config, Importance, Key
from ottla.common.config.types import BOOLEAN, INT, LONG, PASSWORD, STRING, Check, at_least
from ottla.common.units import DAY_MS, HOUR_MS

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZERS: Final = frozenset(
    {
        STANDARD_AUTHORIZER,
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    }
)
"""Class names that name the one authorizer; the last two are those of Kafka's ZooKeeper times."""


def parse_super_users(text: str) -> tuple[str, ...]:
    """Return the principals of `super.users`: `User:alice;User:CN=bob,OU=x`."""
    return tuple(each.strip() for each in text.split(";") if each.strip())


class AuthorizationKeys(Config):
    """Who may do what, and what is written down about it."""

    authorizer_class_name = Key(
        "authorizer.class.name",
        STRING,
        "",
        "The authorizer: Kafka's `org.apache.kafka.metadata.authorizer.StandardAuthorizer` turns ACLs on; "
        "`kafka.security.authorizer.AclAuthorizer` of older files means the same. Without it every client "
        "may do everything, and requests for ACLs are answered with SECURITY_DISABLED.",
        check=Check(f"empty or {STANDARD_AUTHORIZER}", lambda value: value == "" or value in AUTHORIZERS),
    )
    super_users = Key(
        "super.users",
        STRING,
        "",
        "Principals that may do everything, separated by semicolons: `User:admin;User:broker`. With more "
        "than one broker, the principal that brokers use between themselves belongs here.",
        check=Check(
            "principals like User:name, separated by semicolons",
            lambda value: all(0 < each.find(":") < len(each) - 1 for each in parse_super_users(value)),
        ),
    )
    allow_everyone_if_no_acl_found = Key(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "Whether a resource that no ACL matches is open to every principal. Otherwise only super users may "
        "use it.",
    )
    delegation_token_secret_key: Key[str | None] = Key(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "The secret from which delegation tokens are derived, the same on every broker. Without it there are "
        "no delegation tokens.",
    )
    delegation_token_max_lifetime_ms = Key(
        "delegation.token.max.lifetime.ms",
        LONG,
        7 * DAY_MS,
        "How long a delegation token can be renewed at most.",
        check=at_least(1),
    )
    delegation_token_expiry_time_ms = Key(
        "delegation.token.expiry.time.ms",
        LONG,
        DAY_MS,
        "How long a delegation token is valid before it has to be renewed.",
        check=at_least(1),
    )
    delegation_token_expiry_check_interval_ms = Key(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        HOUR_MS,
        "How often the controller removes expired delegation tokens.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    ottla_audit_enable = Key(
        "ottla.audit.enable",
        BOOLEAN,
        True,
        "Whether denied requests and administrative changes are written to the audit log. Without an "
        "authorizer that needs `ottla.audit.file` or `ottla.audit.topic` too.",
    )
    ottla_audit_file: Key[str | None] = Key(
        "ottla.audit.file",
        STRING,
        None,
        "The file that the audit log is appended to, one JSON object per line. Without it the lines go to "
        "the broker's log, as the logger `ottla.audit`.",
    )
    ottla_audit_topic = Key(
        "ottla.audit.topic",
        BOOLEAN,
        False,
        "Whether the audit log is also written to the topic `__audit`.",
    )
    ottla_audit_denials_per_second = Key(
        "ottla.audit.denials.per.second",
        INT,
        10,
        "How many denials of a user the audit log takes per second; further ones are counted, and the next "
        "line says how many were left out. Administrative changes are always written.",
        check=at_least(1),
    )
