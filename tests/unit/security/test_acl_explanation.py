"""An explanation decides as the authorizer does, and names the ACL that decides."""

from __future__ import annotations

from random import Random

from tests.unit.security.acl_oracle import SUPER_USERS, random_acls, random_question

from ottla.security.acl_explanation import explain
from ottla.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from ottla.security.authorizer import Authorizer

TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED


def test_an_explanation_decides_as_the_authorizer() -> None:
    chance = Random(18)
    verdicts = set()
    for _ in range(300):
        acls, allow_if_no_acl = random_acls(chance), chance.random() < 0.5
        authorizer = Authorizer(SUPER_USERS, allow_if_no_acl=allow_if_no_acl)
        authorizer.update(acls)
        for _ in range(10):
            asked = random_question(chance)
            explanation = explain(acls, *asked, super_users=SUPER_USERS, allow_if_no_acl=allow_if_no_acl)
            assert explanation.is_allowed == authorizer.allows(*asked)
            verdicts.add(explanation.reason.split(",")[0].split(" is ")[-1])
    assert len(verdicts) >= 5, "every kind of reason occurs"


def acl(
    operation: Operation, permission: Permission, name: str = "orders", principal: str = "alice"
) -> AclBinding:
    return AclBinding(TOPIC, name, LITERAL, f"User:{principal}", "*", operation, permission)


def test_the_acl_that_decides_is_named() -> None:
    allow, deny = acl(Operation.READ, Permission.ALLOW), acl(Operation.ALL, Permission.DENY)
    told = explain([allow], "User:alice", "10.0.0.1", Operation.DESCRIBE, TOPIC, "orders")
    assert told.is_allowed
    assert told.reason == "an ACL allows READ, which implies DESCRIBE"
    assert told.acl == allow
    told = explain([allow, deny], "User:alice", "10.0.0.1", Operation.READ, TOPIC, "orders")
    assert not told.is_allowed
    assert told.acl == deny


def test_a_denial_without_an_acl_has_a_reason() -> None:
    others = [acl(Operation.READ, Permission.ALLOW, principal="bob")]
    told = explain(others, "User:alice", "10.0.0.1", Operation.READ, TOPIC, "orders")
    assert told.reason == "there are ACLs on this resource, but none for User:alice from 10.0.0.1"
    own = [acl(Operation.READ, Permission.ALLOW)]
    told = explain(own, "User:alice", "10.0.0.1", Operation.WRITE, TOPIC, "orders")
    assert told.reason == "the ACLs for User:alice on this resource are for other operations"
