"""What is said when the ACLs of a cluster do not allow something; tests/interop provokes it on a real one."""

from __future__ import annotations

import click
import pytest

from ottla.cli.support.not_authorized import CODES, not_allowed, visible
from ottla.cli.support.options import SETTINGS
from ottla.cli.support.problem_kinds import NOT_AUTHORISED
from ottla.cli.support.session import error_response
from ottla.client.errors import error_for

TOPIC, GROUP, CLUSTER, TRANSACTION = 29, 30, 31, 53


def words(code: int, said: str, topic: str | None = None, command: str = "produce", **login: str) -> str:
    """Return all that is said, while a command runs."""
    context = click.Context(click.Command(command), info_name=f"ottla {command}")
    context.meta[SETTINGS] = {key.replace("_", "."): value for key, value in login.items()}
    with context:
        problem = not_allowed(error_for(code, said), topic)
        assert error_response(error_for(code, said), topic).message == problem.message
    assert problem.kind is NOT_AUTHORISED
    return "\n".join([problem.message, *problem.hints])


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_refusal_has_a_right_that_would_help(code: int) -> None:
    said = words(code, "thing")
    assert said.startswith("this client is not authorized for the ")
    assert "ottla acl create --principal NAME --operation write --" in said


def test_the_name_is_taken_from_what_the_broker_said_unless_the_command_knows_it() -> None:
    assert "for the group billing:" in words(GROUP, "billing")
    assert "for the topic mine:" in words(TOPIC, "mine: Authorization failed.")
    assert "for the topic orders:" in words(TOPIC, "orders-1", topic="orders")
    assert "--topic NAME" in words(TOPIC, "Topic authorization failed.")


def test_what_a_broker_says_of_itself_is_not_shown() -> None:
    assert "Session@" not in words(CLUSTER, "Request(session=Session@6c807c85) needs DESCRIBE", command="x")


def test_an_idempotent_producer_that_gets_no_id_lacks_the_right_to_write() -> None:
    said = words(CLUSTER, "", topic="orders")
    assert "for the topic orders:" in said
    assert "--operation write --topic orders" in said


def test_the_user_is_named() -> None:
    said = words(TRANSACTION, "payments", command="txn describe", sasl_username="bob")
    assert said.startswith("bob is not authorized for the transactional id payments:")
    assert "--principal bob --operation describe --transactional-id payments" in said


def test_without_a_login_lists_say_that_there_is_nothing_yet() -> None:
    assert visible() == " yet"
