"""Broker sessions and the controller election in ZooKeeper.

    /ottla/brokers/1     ephemeral: the registration of broker 1 (registration.py)
    /ottla/controller    ephemeral: {"node_id":1,"controller_epoch":7}

A broker's epoch is the transaction id (zxid) that created its node: ZooKeeper never reuses one, and they only
grow. An election is one multi-operation: create the ephemeral node, and increment the epoch; from then on no
append with an older epoch can succeed, whatever the former controller believes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from ottla.metadata.records import MetadataError
from ottla.metadata.registration import (
    BrokerRegistration,
    SessionInfo,
    decode_registration,
    encode_registration,
    may_take_over,
)
from ottla.metadata.store import NodeIdInUse, Session, SessionLost, StoreUnavailable
from ottla.metadata.zookeeper.client import ZooKeeperClient
from ottla.metadata.zookeeper.log import EPOCH, ROOT
from ottla.metadata.zookeeper.types import Create, Delete, Node, NoNode, Operation, Put, RolledBack

BROKERS = f"{ROOT}/brokers"
CONTROLLER = f"{ROOT}/controller"

POLL_INTERVAL_S = 0.2
"""How often to check whether the session of another broker with our id has ended."""
WITHDRAW_TIMEOUT_S = 1.0


class ZooKeeperSessions:
    """This broker's session, the sessions of all brokers, and the election."""

    def __init__(self, client: ZooKeeperClient, session_timeout_ms: int) -> None:
        self._client = client
        self._session_timeout_s = session_timeout_ms / 1000
        self._session: Session | None = None
        self._zookeeper_session = 0
        self._had_session = False
        self._controller_changed = asyncio.Event()

    async def prepare(self) -> None:
        """Create the permanent nodes."""
        await self._client.ensure(BROKERS)

    # Our session

    async def open(self, node_id: int, registration: BrokerRegistration) -> Session:
        """Open a session; take over that of a dead process of ours; raise NodeIdInUse while another one is
        alive.
        """
        self.lose()
        path = f"{BROKERS}/{node_id}"
        # A dead broker's session ends within its timeout, plus the tick of the server that notices.
        deadline = asyncio.get_running_loop().time() + 2 * self._session_timeout_s
        while not await self._try_create_node(path, registration):
            if asyncio.get_running_loop().time() > deadline:
                raise NodeIdInUse(
                    f"another broker with node.id {node_id} is alive. Every broker needs its own: --node-id N"
                )
            await asyncio.sleep(POLL_INTERVAL_S)
        node = await self._client.get(path)
        if node.owner != self._client.session_id:
            raise SessionLost(f"the session of broker {node_id} ended as soon as it began")
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session = Session(node_id, node.created_zxid, lost)
        self._zookeeper_session = node.owner
        self._had_session = True
        return self._session

    async def _try_create_node(self, path: str, registration: BrokerRegistration) -> bool:
        """Try to create our node; return whether it exists."""
        operations: list[Operation] = [Create(path, encode_registration(registration), is_ephemeral=True)]
        if (holder := await self._get_or_none(path)) is not None:
            is_ours = holder.owner == self._client.session_id
            theirs = decode_registration(holder.data)
            if not is_ours and not may_take_over(
                registration, theirs, is_first_session=not self._had_session
            ):
                return False
            operations.insert(0, Delete(path, holder.version))
        try:
            await self._client.transact(operations)
        except (RolledBack, StoreUnavailable):
            return False  # somebody was faster, or nobody knows: look again
        return True

    async def update(self, session: Session, registration: BrokerRegistration) -> None:
        """Change our broker's registration."""
        self._check(session)
        try:
            await self._client.put(f"{BROKERS}/{session.node_id}", encode_registration(registration))
        except NoNode:
            self.lose()
            raise SessionLost(f"the session of broker {session.node_id} is over") from None

    def lose(self) -> None:
        """Mark the session as lost."""
        session, self._session = self._session, None
        if session is not None and not session.lost.done():
            session.lost.set_result(None)
        self._controller_changed.set()

    def connected(self, session_id: int) -> None:
        """Handle a new connection, with the same session or another one."""
        if self._session is not None and session_id != self._zookeeper_session:
            self.lose()
        self._controller_changed.set()

    async def verify(self, watch: Callable[[], None]) -> None:
        """Lose the session if its node is gone, or belongs to another process; `watch` is called when that
        may change.
        """
        if (session := self._session) is None:
            return
        node = await self._get_or_none(f"{BROKERS}/{session.node_id}", watch)
        if session is self._session and (node is None or node.owner != self._zookeeper_session):
            self.lose()

    # All sessions

    async def all(self, watch: Callable[[], None] | None = None) -> list[SessionInfo]:
        """Return the live sessions; `watch` is called when they change."""
        found = []
        for name in sorted(await self._client.children(BROKERS, watch), key=int):
            try:
                node = await self._client.get(f"{BROKERS}/{name}", watch)
            except NoNode:
                continue
            found.append(SessionInfo(int(name), node.created_zxid, decode_registration(node.data)))
        return found

    # The election

    async def elect(self, session: Session) -> int:
        """Wait until the session's broker is the controller; return its controller epoch."""
        try:
            while True:
                self._check(session)
                self._controller_changed.clear()
                try:
                    epoch = await self._try_to_be_elected(session)
                except StoreUnavailable:
                    epoch = None  # the next connection makes us look again
                if epoch is not None:
                    return epoch
                await self._wait_for_change(session)
        except asyncio.CancelledError:
            await self._withdraw_in_time()
            raise

    async def resign(self, session: Session) -> None:
        """Stop being the controller."""
        self._check(session)
        await self._withdraw()

    async def _try_to_be_elected(self, session: Session) -> int | None:
        """Return our controller epoch; None if another broker is the controller, or is about to be."""
        if await self._client.exists(CONTROLLER, self._controller_changed.set):
            node = await self._get_or_none(CONTROLLER)
            if node is not None and node.owner == self._zookeeper_session:
                return int(_decode(node)["controller_epoch"])  # elected, but the answer was lost
            if node is not None:
                return None
        epoch_node = await self._client.get(EPOCH)
        epoch = int(epoch_node.data) + 1
        claim = json.dumps({"node_id": session.node_id, "controller_epoch": epoch}).encode()
        try:
            await self._client.transact(
                [Create(CONTROLLER, claim, is_ephemeral=True), Put(EPOCH, b"%d" % epoch, epoch_node.version)]
            )
        except RolledBack:
            self._controller_changed.set()
            return None
        self._check(session)
        return epoch

    async def _withdraw_in_time(self) -> None:
        """Withdraw from an election that we may just have won; if that takes too long, the end of the session
        does it.
        """
        try:
            async with asyncio.timeout(WITHDRAW_TIMEOUT_S):
                await self._withdraw()
        except (TimeoutError, MetadataError):
            pass

    async def _withdraw(self) -> None:
        node = await self._get_or_none(CONTROLLER)
        if node is not None and node.owner == self._zookeeper_session:
            await self._client.delete(CONTROLLER, node.version)

    async def _wait_for_change(self, session: Session) -> None:
        changed = asyncio.ensure_future(self._controller_changed.wait())
        waiting: list[asyncio.Future[Any]] = [changed, session.lost]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()

    async def _get_or_none(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        try:
            return await self._client.get(path, watch)
        except NoNode:
            return None

    def _check(self, session: Session) -> None:
        if session.lost.done() or session is not self._session:
            raise SessionLost(f"the session of broker {session.node_id} is over")


def _decode(node: Node) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(node.data)
    return values
