"""Kafka's keys of the authorizer: the class names that are understood, and super users."""

from __future__ import annotations

import pytest

from ottla.broker.settings import authorizer
from ottla.common.config.authorization_keys import AUTHORIZERS, parse_super_users
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError


@pytest.mark.parametrize("name", sorted(AUTHORIZERS))
def test_kafkas_authorizers_turn_acls_on(name: str) -> None:
    config = BrokerConfig({"authorizer.class.name": name, "super.users": "User:a; User:CN=b,O=c"})
    made = authorizer(config)
    assert made is not None
    assert made.is_super_user("User:a")
    assert made.is_super_user("User:CN=b,O=c")
    assert not made.is_super_user("User:b")


def test_without_a_name_there_is_no_authorizer() -> None:
    assert authorizer(BrokerConfig({})) is None
    assert authorizer(BrokerConfig({"authorizer.class.name": ""})) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("authorizer.class.name", "com.example.Mine"), ("super.users", "admin"), ("super.users", "User:")],
)
def test_what_would_not_protect_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        BrokerConfig({key: value})


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_super_users(" User:a;;User:b ;") == ("User:a", "User:b")
