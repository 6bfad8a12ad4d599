"""Messages for authorization errors: which user, which resource, how to allow it."""

from __future__ import annotations

import re
from typing import NamedTuple

import click
from kio.schema.errors import ErrorCode

from ottla.cli.support.options import client_settings, same_cluster
from ottla.cli.support.problem_kinds import NOT_AUTHORISED
from ottla.cli.support.problems import Problem
from ottla.protocol.errors import KafkaError


class _Resource(NamedTuple):
    """A resource type: as text, and as an option of `ottla acl`."""

    words: str
    option: str


_RESOURCES = {
    ErrorCode.topic_authorization_failed: _Resource("the topic {}", "--topic {}"),
    ErrorCode.group_authorization_failed: _Resource("the group {}", "--group {}"),
    ErrorCode.transactional_id_authorization_failed: _Resource(
        "the transactional id {}", "--transactional-id {}"
    ),
    ErrorCode.cluster_authorization_failed: _Resource("the cluster", "--cluster"),
}
CODES = frozenset(_RESOURCES)
_OPERATIONS = {
    "produce": ("write",),
    "consume": ("read",),
    "group seek": ("read",),
    "topic create": ("create",),
    "topic alter": ("alter", "alter_configs"),
    "topic delete": ("delete",),
    "group delete": ("delete",),
    "config describe": ("describe_configs",),
    "config alter": ("alter_configs",),
    "acl create": ("alter",),
    "acl delete": ("alter",),
    "user create": ("alter",),
    "user delete": ("alter",),
    "user set-password": ("alter",),
    "quota list": ("describe_configs",),
    "quota set": ("alter_configs",),
    "quota remove": ("alter_configs",),
    "cluster backup": ("alter",),
    "cluster elect": ("alter",),
    "cluster reassign": ("alter",),
    "cluster decommission": ("alter",),
    "txn abort": ("write",),
    "bench": ("create", "write", "read"),
    "demo": ("create", "write", "read"),
}
"""The operation that a command needs, if it is more than Describe; most operations imply Describe."""
_TO_LOOK = ("describe",)
_NAME = re.compile(r"[\w.-]{1,249}")


def user() -> str | None:
    """Return the user name of this command, if it logs in."""
    return client_settings().get("sasl.username")


def visible() -> str:
    """Return the text after `no topics`: brokers hide resources that a user may not see."""
    return f" that {name} may see" if (name := user()) else " yet"


def not_allowed(error: KafkaError, topic: str | None = None) -> Problem:
    """Return the message for an authorization error. `topic` is the topic of the command."""
    code = error.code
    if code == ErrorCode.cluster_authorization_failed and topic is not None and _command() == "produce":
        # InitProducerId without a transactional id needs Write on any topic, or IdempotentWrite on the
        # cluster.
        code = ErrorCode.topic_authorization_failed
    resource = _RESOURCES[code]
    about_topic = code == ErrorCode.topic_authorization_failed and topic is not None
    name = topic if about_topic else _named(str(error))
    who = user()
    operations = " ".join(f"--operation {each}" for each in _operations())
    words = resource.words.format(name or "that it needs")
    return Problem(
        f"{who or 'this client'} is not authorized for {words}: the ACLs of the cluster do not allow it",
        f"an administrator can allow it:  ottla acl create --principal {who or 'NAME'} {operations} "
        f"{resource.option.format(name or 'NAME')}",
        "or log in as another user:  -X sasl.username=NAME -X sasl.password=SECRET, or --profile NAME",
        f"check the connection:  ottla doctor{same_cluster()}",
        kind=NOT_AUTHORISED,
    )


def _named(said: str) -> str | None:
    """Return the resource name in an error message: all of it, or the part before a colon."""
    name = said.partition(":")[0]
    return name if _NAME.fullmatch(name) else None


def _operations() -> tuple[str, ...]:
    return _OPERATIONS.get(_command(), _TO_LOOK)


def _command() -> str:
    """Return the running command: `topic create`."""
    context = click.get_current_context(silent=True)
    return "" if context is None else context.command_path.partition(" ")[2]
