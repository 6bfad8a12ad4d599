"""The authorizer decides as Kafka's StandardAuthorizer: named cases, and random ones against an oracle."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.security.acl_oracle import (
    SUPER_USERS,
    expected,
    expected_any,
    random_acls,
    random_question,
)

from ottla.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.security.authorizer import MAX_DECISIONS, Authorizer

ALICE, BOB = "User:alice", "User:bob"
HERE, THERE = "10.0.0.1", "10.0.0.2"
QUESTIONS_PER_SET = 20


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    principal: str = ALICE,
    *,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    return AclBinding(resource_type, name, pattern, principal, host, operation, permission)


def may(
    acls: list[AclBinding],
    operation: Operation = Operation.READ,
    name: str = "orders",
    principal: str = ALICE,
    host: str = HERE,
    *,
    allow_if_no_acl: bool = False,
) -> bool:
    authorizer = Authorizer({"User:root"}, allow_if_no_acl=allow_if_no_acl)
    authorizer.update(acls)
    return authorizer.allows(principal, host, operation, ResourceType.TOPIC, name)


def test_without_acls_only_super_users_may_do_anything() -> None:
    assert not may([])
    assert may([], allow_if_no_acl=True)
    assert may([], principal="User:root")
    assert may([acl(permission=Permission.DENY, principal="User:root")], principal="User:root")


def test_an_acl_is_for_one_principal_host_and_operation() -> None:
    assert may([acl()])
    assert not may([acl()], principal=BOB)
    assert not may([acl()], Operation.WRITE)
    assert not may([acl()], name="payments")
    assert may([acl(host=HERE)])
    assert not may([acl(host=THERE)])
    assert may([acl(principal="User:*")], principal=BOB)


def test_an_address_matches_however_it_is_written() -> None:
    assert may([acl(host="0:0:0:0:0:0:0:1")], host="::1")
    assert may([acl(host=HERE)], host=f"::ffff:{HERE}")


def test_patterns_are_literal_prefixed_or_for_all() -> None:
    assert may([acl("*")])
    assert may([acl("ord", pattern=PatternType.PREFIXED)])
    assert not may([acl("ord")])
    assert not may([acl("*", pattern=PatternType.PREFIXED)])


def test_a_denial_wins_over_any_permission() -> None:
    for denial in (acl(), acl("*"), acl("o", pattern=PatternType.PREFIXED), acl(operation=Operation.ALL)):
        assert not may([acl(), denial._replace(permission=Permission.DENY)])
    assert may([acl(), acl(host=THERE, permission=Permission.DENY)])


def test_describe_is_implied_by_permission_not_by_denial() -> None:
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        assert may([acl(operation=operation)], Operation.DESCRIBE)
        both = [acl(operation=Operation.DESCRIBE), acl(operation=operation, permission=Permission.DENY)]
        assert may(both, Operation.DESCRIBE)
    assert not may([acl(operation=Operation.CREATE)], Operation.DESCRIBE)
    assert may([acl(operation=Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS)
    assert not may([acl(operation=Operation.DESCRIBE)], Operation.DESCRIBE_CONFIGS)


def test_a_resource_with_any_acl_is_not_open_to_everyone() -> None:
    assert not may([acl(principal=BOB)], allow_if_no_acl=True)
    assert may([acl("payments", principal=BOB)], allow_if_no_acl=True)


def test_a_change_of_acls_is_seen_at_once() -> None:
    authorizer = Authorizer()
    question = (ALICE, HERE, Operation.READ, ResourceType.TOPIC, "orders")
    assert not authorizer.allows(*question)
    authorizer.update([acl()])
    assert authorizer.allows(*question)
    authorizer.update([])
    assert not authorizer.allows(*question)


def test_the_cache_is_bounded() -> None:
    authorizer = Authorizer()
    for number in range(MAX_DECISIONS + 10):
        authorizer.allows(ALICE, HERE, Operation.READ, ResourceType.TOPIC, str(number))
    authorizer.allows(ALICE, HERE, Operation.READ, ResourceType.TOPIC, "x" * 32_000)
    assert len(authorizer._decisions) <= MAX_DECISIONS
    assert max(len(decision[4]) for decision in authorizer._decisions) < 32_000


def test_authorized_operations_are_those_that_are_allowed() -> None:
    authorizer = Authorizer()
    authorizer.update([acl(operation=Operation.WRITE)])
    found = authorizer.operations(ALICE, HERE, ResourceType.TOPIC, "orders")
    assert found == 1 << Operation.WRITE | 1 << Operation.DESCRIBE
    assert authorizer.operations(ALICE, HERE, ResourceType.CLUSTER, CLUSTER_NAME) == 0


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ([acl(operation=Operation.WRITE)], True),
        ([acl()], False),
        ([acl(operation=Operation.ALL)], True),
        ([acl(operation=Operation.WRITE, host=THERE)], False),
        ([acl(operation=Operation.WRITE), acl("*", Operation.WRITE, permission=Permission.DENY)], False),
        ([acl("*", Operation.WRITE), acl("h", Operation.WRITE, permission=Permission.DENY)], True),
        ([acl(operation=Operation.WRITE), acl(operation=Operation.WRITE, permission=Permission.DENY)], False),
        (
            [
                acl("ord", Operation.WRITE, pattern=PatternType.PREFIXED),
                acl("o", Operation.WRITE, pattern=PatternType.PREFIXED, permission=Permission.DENY),
            ],
            False,
        ),
    ],
)
def test_who_may_write_to_some_topic(acls: list[AclBinding], is_allowed: bool) -> None:
    authorizer = Authorizer()
    authorizer.update(acls)
    assert authorizer.allows_any(ALICE, HERE, Operation.WRITE, ResourceType.TOPIC) is is_allowed


def test_filters_match_as_kafkas_do() -> None:
    literal, every, prefixed = acl(), acl("*"), acl("ord", pattern=PatternType.PREFIXED)
    acls = [literal, every, prefixed]

    def found(**wanted: object) -> list[AclBinding]:
        return [each for each in acls if AclFilter(**wanted).matches(each)]  # type: ignore[arg-type]

    assert found() == acls
    assert found(resource_name="orders") == [literal]
    assert found(resource_name="orders", pattern_type=PatternType.MATCH) == acls
    assert found(resource_name="other", pattern_type=PatternType.MATCH) == [every]
    assert found(pattern_type=PatternType.PREFIXED) == [prefixed]
    assert found(principal=BOB) == found(operation=Operation.WRITE) == found(host=HERE) == []
    assert found(permission=Permission.ALLOW, resource_type=ResourceType.TOPIC) == acls


def compare_with_the_oracle(seed: int, sets: int) -> None:
    random = Random(seed)
    for _ in range(sets):
        acls = random_acls(random)
        is_open = random.random() < 0.3
        authorizer = Authorizer(SUPER_USERS, allow_if_no_acl=is_open)
        authorizer.update(acls)
        for _ in range(QUESTIONS_PER_SET):
            asked = random_question(random)
            assert authorizer.allows(*asked) is expected(acls, asked, is_open), (seed, acls, asked, is_open)
        some = authorizer.allows_any(*asked[:4])
        assert some is expected_any(acls, asked, is_open), (seed, acls, asked, is_open)


@pytest.mark.parametrize("seed", range(4))
def test_random_decisions_equal_the_oracles(seed: int) -> None:
    compare_with_the_oracle(seed, sets=500)


@pytest.mark.slow
def test_a_million_random_decisions_equal_the_oracles() -> None:
    compare_with_the_oracle(seed=18, sets=1_000_000 // QUESTIONS_PER_SET)
