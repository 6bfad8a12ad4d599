"""The controller's decisions about ACLs and delegation tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.common.config.broker import BrokerConfig
from ottla.common.units import DAY_MS, MAX_LONG
from ottla.controller.machine import (
    create_acls,
    create_token,
    delete_acls,
    expire_token,
    remove_expired_tokens,
    renew_token,
)
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
)
from ottla.security.acls import AclBinding, AclFilter
from ottla.security.delegation_tokens import DelegationToken, token_hmac, token_password, usable_token

CONFIG = BrokerConfig({"delegation.token.secret.key": "secret"})
NOW_MS = 1_700_000_000_000
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
READ = AclBinding(2, "orders", 3, ALICE, "*", 3, 3)


def test_an_acl_is_created_once_and_deleted_by_filters() -> None:
    decision = create_acls(EMPTY, [READ, READ])
    assert decision.results == (None, None)
    image = EMPTY.apply(decision.records)
    assert list(image.acls) == [READ]
    assert create_acls(image, [READ]).records == ()
    everything, of_bob = AclFilter(), AclFilter(principal=BOB)
    decision_to_delete = delete_acls(image, [everything, of_bob, everything])
    assert decision_to_delete.results == ((READ,), (), (READ,))
    assert image.apply(decision_to_delete.records).acls == {}
    assert EMPTY.apply(image.records()).acls == image.acls


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (READ._replace(resource_name=""), "Invalid empty resource name"),
        (READ._replace(resource_type=4), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (READ._replace(resource_type=1), "Invalid resourceType ANY"),
        (READ._replace(resource_type=99), "Invalid resourceType UNKNOWN"),
        (READ._replace(pattern_type=2), "Invalid patternType MATCH"),
        (READ._replace(operation=1), "Invalid operation ANY"),
        (READ._replace(operation=0), "Invalid operation UNKNOWN"),
        (READ._replace(permission=1), "Invalid permissionType ANY"),
        (READ._replace(principal="alice"), "Could not parse principal from `alice`"),
        (READ._replace(host=""), "Invalid empty host"),
    ],
)
def test_an_acl_that_makes_no_sense_is_refused_alone(wrong: AclBinding, message: str) -> None:
    decision = create_acls(EMPTY, [wrong, READ])
    error, fine = decision.results
    assert isinstance(error, InvalidRequest)
    assert str(error).startswith(message)
    assert fine is None
    assert list(EMPTY.apply(decision.records).acls) == [READ]


def test_a_filter_with_unknown_numbers_deletes_nothing() -> None:
    image = EMPTY.apply(create_acls(EMPTY, [READ]).records)
    decision = delete_acls(image, [AclFilter(operation=77)])
    assert isinstance(decision.results[0], InvalidRequest)
    assert decision.records == ()


class Tokens:
    """An image with one token of alice's, which bob may renew."""

    def __init__(self, max_lifetime_ms: int = -1) -> None:
        decision = create_token(EMPTY, "id", ALICE, ALICE, (BOB,), max_lifetime_ms, NOW_MS, CONFIG)
        (made,) = decision.results
        assert isinstance(made, DelegationToken)
        self.token = made
        self.image = self.after(EMPTY, decision.records)
        self.hmac = token_hmac("id", "secret")

    @staticmethod
    def after(image: ClusterImage, records: tuple[MetadataRecord, ...]) -> ClusterImage:
        new = image.apply(records)
        assert EMPTY.apply(new.records()).tokens == new.tokens
        return new


def test_a_token_lives_a_day_and_can_be_renewed_for_a_week() -> None:
    tokens = Tokens()
    assert tokens.token.expiry_ms == NOW_MS + DAY_MS
    assert tokens.token.max_ms == NOW_MS + 7 * DAY_MS
    assert Tokens(1_000).token.max_ms == Tokens(1_000).token.expiry_ms == NOW_MS + 1_000
    assert Tokens(MAX_LONG).token.max_ms == NOW_MS + 7 * DAY_MS
    late = NOW_MS + DAY_MS - 1
    assert renew_token(tokens.image, tokens.hmac, BOB, -1, late, CONFIG).results == (late + DAY_MS,)
    assert renew_token(tokens.image, tokens.hmac, ALICE, 5, late, CONFIG).results == (late + 5,)
    assert renew_token(tokens.image, tokens.hmac, ALICE, MAX_LONG, late, CONFIG).results == (late + DAY_MS,)


def test_the_secret_is_derived_as_kafka_derives_it() -> None:
    # echo -n id | openssl dgst -sha512 -hmac secret -binary | base64 -w0
    assert token_password("id", "secret") == (
        "Kqsj84D2HvmnERp8qX9vArB3GxbAuhDMEIr1tUmF+G2LDc2MvQOsR0wzsnmFNi7dP/oFGK58nkU+HO7dU1F2tQ=="
    )


@pytest.mark.parametrize(
    ("hmac", "principal", "after_ms", "error"),
    [
        (b"wrong", ALICE, 0, DelegationTokenNotFound),
        (None, CAROL, 0, DelegationTokenOwnerMismatch),
        (None, ALICE, DAY_MS + 1, DelegationTokenExpired),
    ],
)
def test_a_token_is_changed_by_its_owner_and_renewers_while_it_is_valid(
    hmac: bytes | None, principal: str, after_ms: int, error: type[KafkaError]
) -> None:
    tokens = Tokens()
    for change in (renew_token, expire_token):
        now_ms = NOW_MS + after_ms
        decision = change(tokens.image, hmac or tokens.hmac, principal, 1_000, now_ms, CONFIG)
        assert isinstance(decision.results[0], error)
        assert decision.records == ()


def test_who_created_a_token_for_another_may_change_it() -> None:
    made = create_token(EMPTY, "id", ALICE, CAROL, (), -1, NOW_MS, CONFIG)
    image = EMPTY.apply(made.records)
    assert renew_token(image, token_hmac("id", "secret"), CAROL, 1_000, NOW_MS, CONFIG).results == (
        NOW_MS + 1_000,
    )


def test_tokens_of_one_user_do_not_fill_the_memory_of_the_brokers() -> None:
    image = Tokens().image
    long = create_token(image, "long", ALICE, ALICE, ("User:" + "x" * 2_000,) * 3, -1, NOW_MS, CONFIG)
    assert isinstance(long.results[0], InvalidRequest)
    usual = create_token(image, "usual", ALICE, ALICE, ("User:etl@EXAMPLE.ORG",) * 100, -1, NOW_MS, CONFIG)
    assert isinstance(usual.results[0], DelegationToken)
    made = image.tokens["id"]
    full = replace(image, tokens={str(at): made._replace(token_id=str(at)) for at in range(10_000)})
    refused = create_token(full, "new", ALICE, ALICE, (), -1, NOW_MS, CONFIG)
    assert isinstance(refused.results[0], PolicyViolation)
    of_bob = create_token(full, "new", BOB, BOB, (), -1, NOW_MS, CONFIG)
    assert isinstance(of_bob.results[0], DelegationToken)


def test_a_token_is_expired_later_or_at_once() -> None:
    tokens = Tokens()
    soon = expire_token(tokens.image, tokens.hmac, BOB, 1_000, NOW_MS, CONFIG)
    assert soon.results == (NOW_MS + 1_000,)
    image = tokens.after(tokens.image, soon.records)
    assert usable_token(image.tokens, "id", NOW_MS + 1_000) is not None
    assert usable_token(image.tokens, "id", NOW_MS + 1_001) is None
    now = expire_token(image, tokens.hmac, ALICE, -1, NOW_MS + DAY_MS, CONFIG)
    assert now.results == (NOW_MS + DAY_MS,)
    assert tokens.after(image, now.records).tokens == {}


def test_expired_tokens_are_removed() -> None:
    tokens = Tokens()
    assert remove_expired_tokens(tokens.image, NOW_MS + DAY_MS).records == ()
    removal = remove_expired_tokens(tokens.image, NOW_MS + DAY_MS + 1)
    assert tokens.after(tokens.image, removal.records).tokens == {}


def test_without_a_secret_key_there_are_no_tokens() -> None:
    plain = BrokerConfig({})
    made = create_token(EMPTY, "id", ALICE, ALICE, (), -1, NOW_MS, plain)
    assert isinstance(made.results[0], DelegationTokenAuthDisabled)
    tokens = Tokens()
    renewed = renew_token(tokens.image, tokens.hmac, ALICE, -1, NOW_MS, plain)
    assert isinstance(renewed.results[0], DelegationTokenAuthDisabled)
