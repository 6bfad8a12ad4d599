import json
from pathlib import Path

import pytest

from ottla.common.clock import ManualClock
from ottla.console.access.audit import AuditLog
from ottla.console.access.oidc import role_of
from ottla.console.access.roles import ADMIN, OPERATOR, VIEWER, role_from_operations
from ottla.console.access.sessions import MAX_SESSIONS, Sessions


def test_sessions_end_when_they_are_old_or_idle() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, lifetime_s=100, idle_s=10)
    session = sessions.begin("alice", VIEWER)
    assert sessions.find(session.token) is session
    assert sessions.find("guess") is None
    assert session.fits(session.csrf)
    assert not session.fits("guess")
    assert not session.fits(None)
    for _ in range(12):
        clock.advance(9_000)
        found = sessions.find(session.token)
    assert found is None, "it is used all the time, but too old"
    idle = sessions.begin("bob")
    clock.advance(10_001)
    assert sessions.find(idle.token) is None
    assert [each.user for each in sessions.ended()] == ["alice", "bob"]


def test_what_an_open_page_asks_by_itself_keeps_no_session_open() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, lifetime_s=100, idle_s=10)
    session = sessions.begin("alice", VIEWER)
    for _ in range(2):
        assert sessions.find(session.token, is_use=False) is session
        clock.advance(6_000)
    assert sessions.find(session.token, is_use=False) is None


def test_a_user_with_many_sessions_displaces_their_own_which_end() -> None:
    sessions = Sessions(ManualClock(), lifetime_s=100, idle_s=10)
    alice = sessions.begin("alice")
    first = sessions.begin("mallory")
    for _ in range(MAX_SESSIONS):
        sessions.begin("mallory")
    assert sessions.find(alice.token) is alice
    assert sessions.find(first.token) is None
    assert first in list(sessions.ended())
    assert not list(sessions.ended())


@pytest.mark.parametrize(
    ("operations", "role"),
    [(0, VIEWER), (1 << 8, VIEWER), (1 << 5, OPERATOR), (1 << 7, ADMIN), (1 << 11, ADMIN), (-(2**31), ADMIN)],
)
def test_roles_come_from_what_the_cluster_allows(operations: int, role: int) -> None:
    assert role_from_operations(operations) == role


@pytest.mark.parametrize(
    ("claim", "role"),
    [(None, VIEWER), ("admin", ADMIN), (["x", "ottla-operator"], OPERATOR), ({"a": 1}, VIEWER)],
)
def test_roles_come_from_claims(claim: object, role: int) -> None:
    assert role_of(claim) == role


def test_the_audit_log_keeps_no_secrets(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit = AuditLog(ManualClock(), file)
    fields = {"name": "orders", "password": "hunter2", "value": "message", "_csrf": "t", "note": "n" * 1000}
    audit.add(user="a", client="c", cluster="x", action="Do", target="t", fields=fields, error=None)
    audit.close()
    text = file.read_text()
    assert "hunter2" not in text
    assert "message" not in text
    assert '"name": "orders"' in text
    assert len(text) < 600
    assert file.stat().st_mode & 0o077 == 0
    again = AuditLog(ManualClock(), file)
    assert again.lines()[0]["action"] == "Do"
    again.close()
    assert json.loads(text)["fields"]["password"] == "***"


def test_the_audit_log_keeps_no_secrets_of_connectors() -> None:
    audit = AuditLog(ManualClock())
    config = {"connection.password": "hunter2", "topics": "orders", "sasl.jaas.config": "hunter3"}
    fields = {"name": "sink", "config": config, "config.basic.auth.user.info": "me:hunter4"}
    audit.add(user="a", client="c", cluster="x", action="Save", target="", fields=fields, error=None)
    assert "hunter" not in json.dumps(audit.lines())
    assert "orders" in audit.lines()[0]["fields"]["config"]


def test_the_audit_log_has_the_values_of_configs_but_not_those_of_secrets() -> None:
    audit = AuditLog(ManualClock())
    line = {"user": "a", "client": "c", "cluster": "x", "action": "Change", "target": "", "error": None}
    audit.add(**line, fields={"name": "retention.ms", "value": "60000"}, shows_value=True)
    audit.add(**line, fields={"name": "ssl.keystore.password", "value": "hunter2"}, shows_value=True)
    audit.add(**line, fields={"name": "k", "value": "a message"})
    audit.add(
        **line, fields={"config": {"connection.url": "jdbc:x://me:hunter2@host/db"}, "more": "p=hunter2"}
    )
    kept = [each["fields"] for each in reversed(audit.lines())]
    assert kept[0] == {"name": "retention.ms", "value": "60000"}
    assert kept[1]["value"] == kept[2]["value"] == "***"
    assert "host/db" in kept[3]["config"]
    assert "hunter2" not in json.dumps(kept)
