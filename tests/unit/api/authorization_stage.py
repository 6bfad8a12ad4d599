"""A broker with an authorizer, driven through its dispatcher by clients with any principal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from inspect import isawaitable
from typing import Any

from kio.schema.errors import ErrorCode
from tests.unit.api.authorization_requests import GROUP, OTHER_USER, TOPIC, TXN, build
from tests.unit.coordinator.coordinator_bench import Client

from ottla.api.table import Need
from ottla.broker.broker import Broker
from ottla.common.config.authorization_keys import STANDARD_AUTHORIZER
from ottla.controller.machine import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import RequestHeader, decode_response_header, encode_request_header
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.security.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, Permission, ResourceType

_K = ApiKey
BROKER = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:root",
    "delegation.token.secret.key": "secret",
    "transaction.two.phase.commit.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "ottla.metrics.listen": "off",
}
ALICE = "User:alice"
NAMES = {
    ResourceType.TOPIC: (TOPIC,),
    ResourceType.GROUP: (GROUP, "consumers"),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.TRANSACTIONAL_ID: (TXN,),
    ResourceType.USER: (f"User:{OTHER_USER}",),
    ResourceType.DELEGATION_TOKEN: ("*",),
}


class Stage:
    """A broker with an authorizer, and a client called alice."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client = Client()
        self.client.principal = ALICE

    @property
    def topic_id(self) -> Any:
        """Return the id of the topic."""
        return self.broker.cluster.image.topics[TOPIC].topic_id

    async def send(self, key: ApiKey, version: int, **override: Any) -> Any:
        """Build a request of this version and send it as alice."""
        return await self.ask(build(key, version, **override), version)

    def allow(self, *needs: Need, deny: tuple[AclBinding, ...] = ()) -> None:
        """Allow alice exactly this, and everybody else nothing."""
        assert self.broker.authorizer is not None
        self.broker.authorizer.update([*(acl for need in needs for acl in acls_of(need)), *deny])

    def use(self, acls: list[AclBinding]) -> None:
        """Decide by these ACLs."""
        assert self.broker.authorizer is not None
        self.broker.authorizer.update(acls)

    @staticmethod
    def acls(principal: str, *allowed: tuple[ResourceType, str, Operation]) -> list[AclBinding]:
        """Return ACLs that allow operations on single resources."""
        return [
            AclBinding(kind, name, PatternType.LITERAL, principal, "*", operation, Permission.ALLOW)
            for kind, name, operation in allowed
        ]

    async def ask(self, request: Any, version: int, client: Client | None = None) -> Any:
        """Send a request through the dispatcher; return the response."""
        key, newest = int(request.__api_key__), int(request.__version__)
        header = encode_request_header(RequestHeader(key, version, 99, "app"))
        body = request_encoder(key, version, newest)(request)
        reply = self.broker.dispatcher.handle(
            client or self.client,  # type: ignore[arg-type]
            memoryview(bytearray(header + body)),
        )
        if isawaitable(reply):
            reply = await reply
        assert reply is not None
        frame = reply if isinstance(reply, bytes) else b"".join(map(bytes, reply))  # type: ignore[arg-type]
        _, at = decode_response_header(frame[4:], key, version)
        return response_decoder(key, version, newest)(frame[4:], at)

    async def prepare(self) -> None:
        """Have the topic, the groups, the transactional id and a token of bob's there."""
        controller, image = self.broker.controller.active_controller, self.broker.cluster.image
        if TOPIC not in image.topics:
            await controller.create_topics([NewTopic(TOPIC, 1)])
        if not image.tokens:
            await controller.create_token(f"User:{OTHER_USER}", f"User:{OTHER_USER}", (), -1)
        root = Client()
        root.principal = "User:root"
        if "__transaction_state" not in image.topics:
            for key_type in (0, 1):
                await self.ask(build(_K.FIND_COORDINATOR, 6, key_type=key_type), 6, root)
        for key, version, more in (
            (_K.OFFSET_COMMIT, 9, {"generation_id_or_member_epoch": -1, "member_id": ""}),
            (_K.CONSUMER_GROUP_HEARTBEAT, 1, {"rebalance_timeout": timedelta(minutes=1)}),
            (_K.INIT_PRODUCER_ID, 5, {}),
        ):
            async with asyncio.timeout(10):
                while True:
                    done = await self.ask(build(key, version, **more), version, root)
                    if ErrorCode.coordinator_load_in_progress not in codes(done):
                        break
                    await asyncio.sleep(0)
            assert set(codes(done)) == {ErrorCode.none}, done


def acls_of(need: Need, permission: Permission = Permission.ALLOW) -> Iterator[AclBinding]:
    for name in NAMES[need.resource]:
        yield AclBinding(need.resource, name, PatternType.LITERAL, ALICE, "*", need.operation, permission)


def codes(response: Any) -> Iterator[ErrorCode]:
    """Yield every error code of a response, at any depth."""
    if isinstance(response, ErrorCode):
        yield response
    elif isinstance(response, tuple | list):
        for each in response:
            yield from codes(each)
    elif is_dataclass(response):
        for each in fields(response):
            if not each.name.startswith("__"):
                yield from codes(getattr(response, each.name))


def refusals(response: Any) -> set[ErrorCode]:
    return {code for code in codes(response) if code.name.endswith("authorization_failed")}
