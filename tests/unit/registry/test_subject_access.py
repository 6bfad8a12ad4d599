"""What users of the registry may do, where the subject is known only later."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.http.app import Request
from ottla.registry.errors import RegistryError
from ottla.registry.formats import Reference
from ottla.registry.rest.access import SubjectAccess, check_references, found_subject
from ottla.registry.state import RegistryState
from ottla.security.acls import Operation


class OwnSubjects:
    """ACLs by which everybody may do everything with subjects that begin with `mine`."""

    def allows(self, principal: str, host: str, operation: Operation, name: str) -> bool:
        return name.startswith(("Subject:mine", "Subject::.c:mine"))

    def allows_on_cluster(self, principal: str, host: str, operation: Operation) -> bool:
        return False


def let_in(state: RegistryState, subject: str, method: str = "GET", route: str = "/versions") -> Request:
    request = Request(method, [], Headers(), QueryParams(""), params={"subject": subject})
    request.route = "/subjects/{subject}" + route
    SubjectAccess(OwnSubjects(), lambda: state)(request)
    return request


def test_an_alias_that_changes_after_the_check_is_checked_again() -> None:
    request = let_in(RegistryState(), "mine")
    newer = RegistryState()
    newer.configs["mine"] = {"alias": "secret"}
    assert found_subject(request, RegistryState()) == "mine"
    with pytest.raises(RegistryError, match="denied operation Read on Subject: secret"):
        found_subject(request, newer)


def test_a_schema_refers_only_to_what_its_author_may_read() -> None:
    request = let_in(RegistryState(), ":.c:mine", "POST")
    check_references(request, ":.c:mine", [Reference("a", "mine-too", 1), Reference("b", ":.:mine", 1)])
    for subject in ("secret", ":.:secret", ":.c:secret"):
        with pytest.raises(RegistryError, match="denied operation Read"):
            check_references(request, ":.c:mine", [Reference("a", subject, 1)])
