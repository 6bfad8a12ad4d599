"""What is decided about exporters, and which schemas they copy under which names."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.entities import Definition, StoredSchema
from ottla.registry.errors import RegistryError
from ottla.registry.exporters import decisions
from ottla.registry.exporters.plan import Names, configs, copies, is_selected
from ottla.registry.exporters.records import (
    ERROR,
    PAUSED,
    RUNNING,
    STARTING,
    Exporter,
    ExporterState,
    Status,
    decode,
)
from ottla.registry.formats.parsed import Reference
from ottla.registry.state import RegistryState

CONFIG = {"schema.registry.url": "http://there:8081", "basic.auth.user.info": "me:secret"}


def applied(state: ExporterState, decision: decisions.ExporterDecision) -> Any:
    """Write what was decided, through the bytes of the log, and return the answer."""
    for record in decision.records:
        state.replay(decode(*record.encode()), state.position)
    return decision.answer


def code_of(call: Any, *arguments: Any) -> int:
    with pytest.raises(RegistryError) as caught:
        call(*arguments)
    return caught.value.code


@pytest.fixture
def state() -> ExporterState:
    found = ExporterState()
    applied(found, decisions.create(found, {"name": "dr", "config": CONFIG}))
    return found


def test_an_exporter_starts_and_hides_its_password(state: ExporterState) -> None:
    assert state.status("dr").state == STARTING
    assert state.exporters["dr"].config == CONFIG
    assert state.exporters["dr"].shown() == {
        "name": "dr",
        "contextType": "AUTO",
        "context": ".",
        "subjects": ["*"],
        "subjectRenameFormat": "${subject}",
        "config": {"schema.registry.url": "http://there:8081", "basic.auth.user.info": "[hidden]"},
    }


def test_what_confluents_registry_refuses_is_refused_with_its_codes(state: ExporterState) -> None:
    assert code_of(decisions.create, state, {"config": CONFIG}) == 40950
    assert code_of(decisions.create, state, {"name": "a/b", "config": CONFIG}) == 40950
    assert code_of(decisions.create, state, {"name": "x"}) == 40951
    assert code_of(decisions.create, state, {"name": "x", "config": {"schema.registry.url": "ftp:"}}) == 40951
    assert code_of(decisions.create, state, {"name": "x", "config": CONFIG, "subjects": [1]}) == 40952
    assert code_of(decisions.create, state, {"name": "dr", "config": CONFIG}) == 40960
    assert code_of(decisions.pause, state, "other") == 40450
    assert code_of(decisions.resume, state, "dr") == 40961
    assert code_of(decisions.reset, state, "dr") == 40963
    assert code_of(decisions.update, state, "dr", {}) == 40963
    for number in range(decisions.MAX_EXPORTERS - 1):
        applied(state, decisions.create(state, {"name": f"e{number}", "config": CONFIG}))
    assert code_of(decisions.create, state, {"name": "more", "config": CONFIG}) == 40964


def test_pause_change_reset_and_delete(state: ExporterState) -> None:
    applied(state, decisions.report(state, "dr", Status(RUNNING, 7, 1)))
    assert state.status("dr").offset == 7
    applied(state, decisions.pause(state, "dr"))
    assert state.status("dr") == Status(PAUSED, 7, 1)
    changed = {
        "context": "c",
        "contextType": "custom",
        "config": {**CONFIG, "basic.auth.user.info": "[hidden]"},
    }
    applied(state, decisions.update(state, "dr", changed))
    found = state.exporters["dr"]
    assert (found.context, found.context_type, found.config) == (".c", "CUSTOM", CONFIG)
    late = decisions.report(state, "dr", Status(ERROR, 9, 2, "the old one failed"))
    assert late.records == []
    applied(state, decisions.resume(state, "dr"))
    assert state.status("dr").state == STARTING
    applied(state, decisions.delete(state, "dr"))
    assert state.exporters == {}


def test_a_hidden_secret_is_not_sent_to_another_server(state: ExporterState) -> None:
    applied(state, decisions.pause(state, "dr"))
    stolen = {"schema.registry.url": "http://mine:8081", "basic.auth.user.info": "[hidden]"}
    assert code_of(decisions.update, state, "dr", {"config": stolen}) == 40951
    shown = {"schema.registry.url": "http://me:secret@there:8081"}
    assert code_of(decisions.update, state, "dr", {"config": shown}) == 40951
    again = {**stolen, "basic.auth.user.info": "you:other"}
    applied(state, decisions.update(state, "dr", {"config": again}))
    assert state.exporters["dr"].config == again


@pytest.mark.parametrize(
    ("kind", "context", "names"),
    [
        ("NONE", ".", ["dc_orders", ":.a:dc_orders"]),
        ("DEFAULT", ".", ["dc_orders", "dc_orders"]),
        ("CUSTOM", ".c", [":.c:dc_orders", ":.c.a:dc_orders"]),
        ("AUTO", ".", [":.here:dc_orders", ":.here.a:dc_orders"]),
    ],
)
def test_names_in_the_other_registry(kind: str, context: str, names: list[str]) -> None:
    exporter = Exporter("x", kind, context, rename_format="dc_${subject}")
    assert [Names(exporter, "here").of(each) for each in ("orders", ":.a:orders")] == names


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        (("*",), ["orders", "other"]),
        (("or*",), ["orders"]),
        (("other",), ["other"]),
        ((":.a:*",), [":.a:orders"]),
        ((":.a:",), [":.a:orders"]),
        ((":*:or*",), ["orders", ":.a:orders"]),
        ((":*:",), ["orders", "other", ":.a:orders"]),
    ],
)
def test_patterns_of_subjects(patterns: tuple[str, ...], selected: list[str]) -> None:
    exporter = Exporter("x", subjects=patterns)
    assert [each for each in ("orders", "other", ":.a:orders") if is_selected(exporter, each)] == selected


def test_references_are_copied_first_under_their_new_names() -> None:
    schemas = RegistryState()
    inner = Definition('"int"')
    outer = Definition('{"type":"record"}', references=(Reference("Inner", "inner", 1),))
    schemas._put(StoredSchema("outer", 1, 2, outer.md5, outer))
    schemas._put(StoredSchema("inner", 1, 1, inner.md5, inner, deleted=True))
    found = copies(schemas, Names(Exporter("x", "CUSTOM", ".c", ("outer",)), "here"))
    assert [(each.subject, each.version, each.is_deleted) for each in found] == [
        (":.c:inner", 1, True),
        (":.c:outer", 1, False),
    ]
    assert found[1].body["references"] == [{"name": "Inner", "subject": ":.c:inner", "version": 1}]
    assert (found[1].body["id"], found[1].body["version"]) == (2, 1)


def test_configs_of_selected_subjects_are_copied_but_no_alias_that_would_divert_copies() -> None:
    schemas = RegistryState()
    text = Definition('"int"')
    schemas._put(StoredSchema("orders", 1, 1, text.md5, text))
    schemas.configs = {
        None: {"compatibilityLevel": "NONE"},
        ":.a:": {"compatibilityLevel": "NONE"},
        "orders": {"compatibilityLevel": "FULL", "alias": "elsewhere"},
        "short": {"alias": "orders"},
        "other": {"compatibilityLevel": "FORWARD"},
    }
    exporter = Exporter("x", "CUSTOM", ".c", ("orders", "short", ":.a:*"))
    assert configs(schemas, Names(exporter, "here")) == {
        ":.c:orders": {"compatibilityLevel": "FULL"},
        ":.c:short": {"alias": ":.c:orders"},
    }


def test_the_same_error_is_not_written_again(state: ExporterState) -> None:
    applied(state, decisions.report(state, "dr", Status(ERROR, 0, 1, "away")))
    assert decisions.report(state, "dr", Status(ERROR, 0, 2, "away")).records == []
    assert len(decisions.report(state, "dr", Status(ERROR, 0, 2, "another")).records) == 1
