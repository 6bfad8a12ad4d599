"""The audit log: who was denied what and who changed what, in a file and in a topic, without values."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.api.authorization_requests import TOPIC, build
from tests.unit.api.authorization_stage import BROKER, Stage
from tests.unit.coordinator.coordinator_bench import Client

from ottla.api.support.audit_log import MAX_USERS_WITH_DENIALS, AuditFile, AuditLog
from ottla.api.support.context import RequestContext
from ottla.api.table import APIS, NEEDS
from ottla.api.write_txn_markers import write_txn_markers
from ottla.broker.broker import Broker
from ottla.common.clock import ManualClock
from ottla.common.topic_names import AUDIT_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.batch import iter_batches
from ottla.protocol.records.records import iter_records
from ottla.security.acls import Operation, ResourceType

SECRET = "do-not-write-me"


@pytest.fixture
async def audited(tmp_path: Path) -> AsyncIterator[Stage]:
    raw = {
        **BROKER,
        "log.dirs": str(tmp_path / "data"),
        "delegation.token.secret.key": SECRET,
        "ottla.audit.file": str(tmp_path / "audit.log"),
        "ottla.audit.topic": "true",
    }
    async with Broker(raw) as broker:
        stage = Stage(broker)
        stage.client.principal = "User:root"
        yield stage


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]


async def test_changes_and_denials_are_written_to_the_file_and_to_the_topic(
    audited: Stage, tmp_path: Path
) -> None:
    await audited.send(ApiKey.CREATE_TOPICS, 7, name=TOPIC)
    await audited.send(ApiKey.CREATE_TOPICS, 7, name=TOPIC, validate_only=True)
    await audited.send(ApiKey.CREATE_ACLS, 3, operation=3, permission_type=3)
    audited.client.principal = "User:mallory"
    await audited.send(ApiKey.DELETE_TOPICS, 6, name=TOPIC)
    found = lines_of(tmp_path)
    assert [(each["event"], each["principal"], each["api"], each["name"]) for each in found] == [
        ("changed", "User:root", "CREATE_TOPICS", TOPIC),
        ("changed", "User:root", "CREATE_ACLS", "ALLOW User:x READ on TOPIC:LITERAL:new from *"),
        ("denied", "User:mallory", "DELETE_TOPICS", TOPIC),
    ]
    denied = found[-1]
    assert (denied["host"], denied["client_id"], denied["broker"]) == ("10.0.0.7", "app", 1)
    assert (denied["operation"], denied["resource"], denied["allowed"]) == ("DELETE", "TOPIC", False)
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600
    topic = audited.broker._audit_topic
    assert topic is not None
    await topic.stop()
    partition = audited.broker.partitions.get(AUDIT_TOPIC, 0)
    read = partition.log.read(0, 1 << 20, partition.log.log_end_offset).records
    data = read if isinstance(read, bytes) else read.read()
    values = [each.value for _, batch in iter_batches(data) for each in iter_records(batch)]
    assert [json.loads(each or b"") for each in values] == found


@pytest.mark.parametrize("max_bytes", [1_048_588, 5_000])
async def test_long_lines_do_not_stop_the_topic(audited: Stage, max_bytes: int) -> None:
    topic = audited.broker._audit_topic
    assert topic is not None
    topic.write("first")
    await asyncio.wait_for(topic._idle.wait(), 5)
    partition = audited.broker.partitions.get(AUDIT_TOPIC, 0)
    partition.log.set_config(replace(partition.log.config, max_message_bytes=max_bytes))
    sizes = [4_000] * 3 + [8_000] * 200 + [4_000]
    for size in sizes:
        topic.write("x" * size)
    await asyncio.wait_for(topic._idle.wait(), 5)
    assert partition.log.log_end_offset == 1 + sum(size < max_bytes for size in sizes)


CHANGING: dict[ApiKey, dict[str, Any]] = {
    ApiKey.METADATA: {"name": "new"},
    ApiKey.DELETE_ACLS: {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    },
}
"""What makes a request change something, if not what authorization_requests.py says."""


def administrative_apis() -> list[Any]:
    """Return the APIs that change something for others.

    UpdateFeatures accepts only what is; the request of RestoreMetadata here restores nothing.
    """
    changing = {Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS}
    changing.add(Operation.CREATE_TOKENS)
    found = [key for key, needs in NEEDS.items() if changing & {need.operation for need in needs}]
    changed_nothing = {ApiKey.UPDATE_FEATURES, ApiKey.RESTORE_METADATA}
    return [pytest.param(key, id=key.name) for key in found if key not in changed_nothing]


@pytest.mark.parametrize("key", administrative_apis())
async def test_every_administrative_change_has_a_line(audited: Stage, tmp_path: Path, key: ApiKey) -> None:
    await audited.prepare()
    await audited.send(ApiKey.CREATE_ACLS, 3, operation=3, permission_type=3)
    (tmp_path / "audit.log").unlink()
    await audited.send(key, APIS[key].max_version, **CHANGING.get(key, {}))
    lines = lines_of(tmp_path)
    assert {(each["event"], each["api"], each["principal"]) for each in lines} == {
        ("changed", key.name, "User:root")
    }, lines


@pytest.mark.parametrize("client_id", ["broker-x", "broker-77", "broker-" + "7" * 5_000])
async def test_no_client_id_keeps_a_transaction_that_an_administrator_ends_out_of_the_log(
    audited: Stage, tmp_path: Path, client_id: str
) -> None:
    await audited.prepare()
    services, client = audited.broker.services, audited.client
    request = build(ApiKey.WRITE_TXN_MARKERS, 2)
    ctx = RequestContext(services, client, ApiKey.WRITE_TXN_MARKERS, 2, 1, client_id)  # type: ignore[arg-type]
    await write_txn_markers(request, ctx)
    assert [each["client_id"] for each in lines_of(tmp_path)[-1:]] == [client_id[:300]]


async def test_a_topic_that_metadata_no_longer_waits_for_has_a_line(
    audited: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, going_on = audited.broker.services.controller, []
    create = controller.create_topics

    async def create_late(*args: Any) -> Any:
        going_on.append(asyncio.create_task(create(*args)))  # as on another broker
        await asyncio.Event().wait()

    monkeypatch.setattr(controller, "create_topics", create_late)
    audited.client.has_queued_request = True
    await audited.send(ApiKey.METADATA, 12, name="new")
    await asyncio.gather(*going_on)
    assert "new" in audited.broker.cluster.image.topics
    assert [(each["principal"], each["name"], each["error"]) for each in lines_of(tmp_path)] == [
        ("User:root", "new", "REQUEST_TIMED_OUT")
    ]


async def test_records_that_could_not_be_deleted_are_not_in_the_log_as_deleted(
    audited: Stage, tmp_path: Path
) -> None:
    await audited.prepare()
    for offset in (0, 1_000):
        await audited.send(ApiKey.DELETE_RECORDS, 2, name=TOPIC, offset=offset)
    lines = [each for each in lines_of(tmp_path) if each["api"] == "DELETE_RECORDS"]
    assert [each.get("error") for each in lines] == [None, "OFFSET_OUT_OF_RANGE"]


async def test_a_line_names_the_token_that_was_renewed_or_expired(audited: Stage, tmp_path: Path) -> None:
    token = await audited.send(ApiKey.CREATE_DELEGATION_TOKEN, 3, owner_principal_name=None)
    await audited.send(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period=timedelta(hours=1))
    await audited.send(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period=timedelta(-1))
    assert [(each["api"], each["name"]) for each in lines_of(tmp_path)[1:]] == [
        ("RENEW_DELEGATION_TOKEN", f"{token.token_id} of User:root"),
        ("EXPIRE_DELEGATION_TOKEN", f"{token.token_id} of User:root"),
    ]


async def test_who_may_not_renew_a_token_is_in_the_log(audited: Stage, tmp_path: Path) -> None:
    token = await audited.send(ApiKey.CREATE_DELEGATION_TOKEN, 3, owner_principal_name=None)
    audited.client.principal = "User:mallory"
    await audited.send(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period=timedelta(hours=1))
    line = lines_of(tmp_path)[-1]
    assert (line["principal"], line["name"], line["error"]) == (
        *("User:mallory", f"{token.token_id} of User:root"),
        "DELEGATION_TOKEN_OWNER_MISMATCH",
    )


async def test_values_of_configs_and_secrets_of_tokens_are_nowhere(audited: Stage, tmp_path: Path) -> None:
    from kio.schema.incremental_alter_configs.v1.request import AlterableConfig

    await audited.send(ApiKey.CREATE_TOPICS, 7, name=TOPIC)
    change: Any = AlterableConfig(name="retention.ms", config_operation=0, value="123456789")  # type: ignore[arg-type]
    await audited.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, configs=(change,))
    token = await audited.send(ApiKey.CREATE_DELEGATION_TOKEN, 3, owner_principal_name=None)
    assert token.error_code is ErrorCode.none
    described = await audited.send(ApiKey.DESCRIBE_CONFIGS, 4, resource_type=4, resource_name="1")
    text = (tmp_path / "audit.log").read_text()
    assert f"{TOPIC}: retention.ms" in text
    assert "123456789" not in text
    assert token.token_id in text
    assert token.hmac.hex() not in text
    assert SECRET not in text
    assert SECRET not in repr(described)
    sensitive = {each.name: each for each in described.results[0].configs}["delegation.token.secret.key"]
    assert (sensitive.value, sensitive.is_sensitive) == (None, True)
    assert SECRET not in repr(list(audited.broker.cluster.image.records()))


async def test_only_brokers_write_to_the_topic(audited: Stage) -> None:
    await audited.send(ApiKey.CREATE_TOPICS, 7, name=AUDIT_TOPIC)
    audited.client.principal = "User:writer"
    audited.use(audited.acls("User:writer", (ResourceType.TOPIC, "*", Operation.ALL)))
    audited.use(
        [
            *audited.acls("User:writer", (ResourceType.TOPIC, "*", Operation.ALL)),
            *audited.acls("User:writer", (ResourceType.TRANSACTIONAL_ID, "*", Operation.ALL)),
        ]
    )
    response = await audited.ask(build(ApiKey.PRODUCE, 9, name=AUDIT_TOPIC, transactional_id=None), 9)
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.invalid_topic_exception


def test_denials_are_bounded_and_counted() -> None:
    written: list[str] = []
    clock = ManualClock()
    audit = AuditLog(1, clock, [written.append], denials_per_second=2)
    client: Any = Client()
    ctx = RequestContext(None, client, ApiKey.PRODUCE, 9, 1, "app")  # type: ignore[arg-type]
    for _ in range(5):
        audit.denied(ctx, Operation.WRITE, ResourceType.TOPIC, "orders")
    assert len(written) == 2
    clock.advance(1_000)
    audit.denied(ctx, Operation.WRITE, ResourceType.TOPIC, "orders")
    assert json.loads(written[2])["left_out"] == 3
    audit.changed(ctx, "TOPIC", "x" * 10_000, None)
    assert len(written[3]) < 1_000


def test_denials_of_one_user_do_not_hide_those_of_another() -> None:
    written: list[str] = []
    clock = ManualClock()
    audit = AuditLog(1, clock, [written.append], denials_per_second=2)

    def deny(user: str, times: int) -> None:
        client: Any = Client()
        client.principal = user
        ctx = RequestContext(None, client, ApiKey.PRODUCE, 9, 1, "app")  # type: ignore[arg-type]
        for _ in range(times):
            audit.denied(ctx, Operation.WRITE, ResourceType.TOPIC, "orders")

    deny("User:noisy", 1000)
    deny("User:quiet", 1)
    assert [json.loads(each)["principal"] for each in written] == ["User:noisy", "User:noisy", "User:quiet"]
    assert json.loads(written[-1])["left_out"] == 998
    for number in range(1000):
        deny(f"User:{number}", 5)
    assert len(written) <= 2 * MAX_USERS_WITH_DENIALS, "the file must not fill the disk"
    clock.advance(1_000)
    deny("User:late", 1)
    assert json.loads(written[-1])["principal"] == "User:late"


def test_failed_logins_from_many_addresses_do_not_hide_what_a_user_was_denied() -> None:
    written: list[str] = []
    audit = AuditLog(1, ManualClock(), [written.append], denials_per_second=2)
    client: Any = Client()
    ctx = RequestContext(None, client, ApiKey.SASL_AUTHENTICATE, 2, 1, "app")  # type: ignore[arg-type]
    for number in range(1000):
        client.host = f"2001:db8::{number:x}"
        audit.login_failed(ctx, "PLAIN", "wrong")
    assert len(written) == MAX_USERS_WITH_DENIALS
    audit.denied(ctx, Operation.WRITE, ResourceType.TOPIC, "orders")
    assert json.loads(written[-1])["operation"] == "WRITE"


def test_a_rotated_file_that_cannot_be_opened_again_leaves_other_descriptors_alone(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    file = AuditFile(str(folder / "audit"))
    (folder / "audit").unlink()
    folder.rmdir()  # where the broker may not create files
    file.write("one")
    others = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(20)]
    file.write("two")
    for each in others:
        os.fstat(each)  # still open
        os.close(each)
    folder.mkdir()
    file.write("three")
    assert (folder / "audit").read_text() == "three\n"
    file.close()
