"""The words for what a cluster's ACLs do not allow: who may not, what it is about, who can change that."""

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
    """A kind of thing that one may have rights on: in words, and for kafka-acls.sh."""

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
    "produce": ("Write",),
    "consume": ("Read",),
    "group seek": ("Read",),
    "topic create": ("Create",),
    "topic alter": ("Alter", "AlterConfigs"),
    "topic delete": ("Delete",),
    "group delete": ("Delete",),
    "config describe": ("DescribeConfigs",),
    "config alter": ("AlterConfigs",),
    "cluster elect": ("Alter",),
    "cluster reassign": ("Alter",),
    "cluster decommission": ("Alter",),
    "txn abort": ("Write",),
    "bench": ("Create", "Write", "Read"),
    "demo": ("Create", "Write", "Read"),
}
"""What a command needs, where it is more than to look; most rights include the right to look."""
_TO_LOOK = ("Describe",)
_NAME = re.compile(r"[\w.-]{1,249}")


def user() -> str | None:
    """Return as whom this command logs in, if it does."""
    return client_settings().get("sasl.username")


def visible() -> str:
    """Return what to say after `no topics`: a user is not told of those that it may not see."""
    return f" that {name} may see" if (name := user()) else " yet"


def not_allowed(error: KafkaError, topic: str | None = None) -> Problem:
    """Return the words for a refusal. `topic` is the one that the command is about."""
    code = error.code
    if code == ErrorCode.cluster_authorization_failed and topic is not None and _command() == "produce":
        # An idempotent producer asks the cluster for an id, and gets one who may write to any topic.
        code = ErrorCode.topic_authorization_failed
    resource = _RESOURCES[code]
    about_topic = code == ErrorCode.topic_authorization_failed and topic is not None
    name = topic if about_topic else _named(str(error))
    who = user()
    operations = " ".join(f"--operation {each}" for each in _operations())
    words = resource.words.format(name or "that it needs")
    return Problem(
        f"{who or 'you'} may not do this with {words}: the ACLs of the cluster do not allow it",
        "an administrator can allow it, with Kafka's own tool:",
        f"  kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:{who or 'NAME'} "
        f"{operations} {resource.option.format(name or 'NAME')}",
        "or log in as somebody else:  -X sasl.username=NAME -X sasl.password=SECRET, or --profile NAME",
        f"see which cluster it is:  ottla doctor{same_cluster()}",
        kind=NOT_AUTHORISED,
    )


def _named(said: str) -> str | None:
    """Return the name in what a broker or the client said: all of it, or what stands before a colon."""
    name = said.partition(":")[0]
    return name if _NAME.fullmatch(name) else None


def _operations() -> tuple[str, ...]:
    return _OPERATIONS.get(_command(), _TO_LOOK)


def _command() -> str:
    """Return the command that runs: `topic create`."""
    context = click.get_current_context(silent=True)
    return "" if context is None else context.command_path.partition(" ")[2]
