"""The metadata store on a ZooKeeper that serves only those who authenticate (SASL, DIGEST-MD5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from ottla.broker.settings import metadata_store
from ottla.broker.zookeeper_server import ZooKeeperFailed
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.metadata.records import MetadataError, ProducerIdsAllocated
from ottla.metadata.store import MetadataStore, Session, SessionLost, StoreUnavailable
from ottla.metadata.zookeeper.types import NotAuthenticated
from ottla.testing.cluster_process import ZooKeeperProcess

pytest.importorskip("puresasl", reason="SASL needs pure-sasl: pip install 'kazoo[sasl]'")

DEADLINE_S = 40
ONLY_SASL = {
    "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "enforce.auth.enabled": "true",
    "enforce.auth.schemes": "sasl",
    "tickTime": "200",
}


def write_users(jaas: Path, users: Mapping[str, str]) -> None:
    """Write the file that ZooKeeper takes its users from."""
    lines = "\n".join(f'  user_{name}="{password}"' for name, password in users.items())
    module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    jaas.write_text(f"Server {{\n  {module}\n{lines};\n}};\n")


@pytest.fixture(scope="module")
def jaas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    write_users(path, {"broker": "right", "stranger": "also right"})
    return path


@pytest.fixture(scope="module")
def zookeeper(jaas: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    login = f"-Djava.security.auth.login.config={jaas}"
    folder = tmp_path_factory.mktemp("zookeeper")
    server = ZooKeeperProcess(folder, settings=ONLY_SASL, environment={"JAVA_TOOL_OPTIONS": login})
    yield from started(server)


@pytest.fixture
def zookeeper_without_users(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    yield from started(ZooKeeperProcess(tmp_path / "plain"))


def started(server: ZooKeeperProcess) -> Iterator[ZooKeeperProcess]:
    try:
        server.start()
    except ZooKeeperFailed as error:
        if "pyspark" in str(error) or "Java" in str(error):
            pytest.skip(str(error))
        raise
    yield server
    server.kill()


def store_of(connect: str, user: str | None, password: str | None = None, **more: str) -> MetadataStore:
    """Return the store that a broker with these credentials uses."""
    raw = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": "2000"}
    raw["zookeeper.connection.timeout.ms"] = "10000"
    if user is not None:
        raw["zookeeper.sasl.mechanism"] = "DIGEST-MD5"
        raw["zookeeper.sasl.username"] = user
    if password is not None:
        raw["zookeeper.sasl.password"] = password
    return metadata_store(BrokerConfig({**raw, **more}), Path("unused"))


async def test_the_right_password_opens_the_store(zookeeper: ZooKeeperProcess) -> None:
    store = store_of(f"{zookeeper.address}/right", "broker", "right")
    await store.open()
    session = await store.open_session(1)
    assert [each.node_id for each in await store.sessions()] == [1]
    epoch = await store.stand_for_election(session)
    record = ProducerIdsAllocated(1_000)
    version = await store.append([record], expected_version=0, controller_epoch=epoch)
    assert version == 1
    await store.close()
    again = store_of(f"{zookeeper.address}/right", "broker", "right")
    await again.open()
    assert [entry.records for entry in await again.read(0)] == [(record,)]
    assert await again.sessions() == []
    await again.close()


@pytest.mark.parametrize("path", ["", "/wrong"])
@pytest.mark.parametrize(("user", "password"), [("broker", "guess-1"), ("nobody", "guess-2")])
async def test_a_wrong_password_or_user_is_refused_at_once_and_named(
    zookeeper: ZooKeeperProcess, user: str, password: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_of(zookeeper.address + path, user, password)
    async with asyncio.timeout(4):  # much less than a call may take
        with pytest.raises(NotAuthenticated) as refused:
            await store.open()
    said = str(refused.value)
    assert f"did not accept the user '{user}' (DIGEST-MD5)" in said
    assert "zookeeper.sasl.username and zookeeper.sasl.password" in said
    assert password not in said
    assert caplog.records == [], "the error says it all"


async def test_clients_without_credentials_are_refused(zookeeper: ZooKeeperProcess) -> None:
    with pytest.raises(NotAuthenticated, match=r"Set zookeeper.sasl.mechanism=DIGEST-MD5"):
        await store_of(f"{zookeeper.address}/none", None).open()


def test_other_users_of_the_machine_do_not_see_the_files(zookeeper_without_users: ZooKeeperProcess) -> None:
    """They have the credentials of SCRAM users."""
    assert zookeeper_without_users.data.stat().st_mode & 0o777 == 0o700


async def test_a_zookeeper_that_has_no_users_is_not_asked_forever(
    zookeeper_without_users: ZooKeeperProcess,
) -> None:
    store = store_of(zookeeper_without_users.address, "broker", "right")
    async with asyncio.timeout(4):
        with pytest.raises(NotAuthenticated, match="without one it refuses every user"):
            await store.open()


async def test_with_acls_another_user_can_neither_read_nor_write(zookeeper: ZooKeeperProcess) -> None:
    acls = {"zookeeper.set.acl": "true"}
    connect = f"{zookeeper.address}/acls"
    ours = store_of(connect, "broker", "right", **acls)
    await ours.open()
    await ours.stand_for_election(await ours.open_session(1))
    with pytest.raises(MetadataError, match="for another user than the user 'stranger'"):
        await store_of(connect, "stranger", "also right", **acls).open()
    await ours.close()


@pytest.mark.parametrize("enforced", ["true", "false"])  # ZooKeeper says no in two different ways
async def test_a_broker_that_was_refused_while_it_ran_returns(
    zookeeper: ZooKeeperProcess, jaas: Path, enforced: str, caplog: pytest.LogCaptureFixture
) -> None:
    users = jaas.read_text()
    store = store_of(f"{zookeeper.address}/later", "broker", "right")
    await store.open()
    lost = (await store.open_session(1)).lost
    refused = asyncio.Event()
    listening = partial(_set_if_refused, refused)
    caplog.handler.addFilter(listening)
    try:
        zookeeper.kill()
        zookeeper.settings["enforce.auth.enabled"] = enforced
        write_users(jaas, {"broker": "changed"})
        await asyncio.to_thread(zookeeper.start)
        async with asyncio.timeout(DEADLINE_S):
            await refused.wait()
            await lost
    finally:
        caplog.handler.removeFilter(listening)
        zookeeper.kill()
        zookeeper.settings["enforce.auth.enabled"] = "true"
        jaas.write_text(users)
        await asyncio.to_thread(zookeeper.start)
    async with asyncio.timeout(DEADLINE_S):
        session = await _open_session(store)
        assert await store.stand_for_election(session) >= 1
    await store.close()


def _set_if_refused(refused: asyncio.Event, record: logging.LogRecord) -> bool:
    if "did not accept the user 'broker'" in record.getMessage():
        refused.set()
    return True


async def _open_session(store: MetadataStore) -> Session:
    """Open a session as a broker does: again until it is there."""
    while True:
        try:
            return await store.open_session(1)
        except (StoreUnavailable, SessionLost):
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"username": "broker", "password": "right"}, "mechanism"),
        ({"mechanism": "PLAIN", "username": "broker", "password": "right"}, "mechanism"),
        ({"mechanism": "DIGEST-MD5", "password": "right"}, "username"),
        ({"mechanism": "DIGEST-MD5", "username": "broker"}, "password"),
    ],
)
def test_half_a_configuration_is_refused_before_anybody_is_asked(keys: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=f"^zookeeper.sasl.{key}: "):
        more = {f"zookeeper.sasl.{name}": value for name, value in keys.items()}
        store_of("127.0.0.1:1", None, **more)
