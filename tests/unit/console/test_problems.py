"""Errors as people read them."""

from __future__ import annotations

import pytest

from ottla.console.problems import as_user_error
from ottla.protocol.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (TopicAuthorizationFailed("secret"), "secret: The principal may not do this with the topic."),
        (TopicAuthorizationFailed(), "The principal may not do this with the topic."),
        (UnknownTopicOrPartition("there is no topic orders"), "There is no topic orders"),
    ],
)
def test_an_error_that_only_names_a_thing_says_what_is_wrong_with_it(error: KafkaError, says: str) -> None:
    shown = as_user_error(error)
    assert str(shown) == f"{says} ({error.code.name.upper()})"
