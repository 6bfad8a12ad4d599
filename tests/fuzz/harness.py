"""A real broker in this process, fed with frames past the network, and watched while it takes them.

Every frame goes through `Dispatcher.handle` as the network would give it. What is watched:

- nothing but a KafkaError comes out, and the broker logs no error: those are our own bugs;
- an answer is one whole frame, carries the request's correlation id, and can be decoded;
- no turn of the event loop takes more than MAX_BLOCKED_S of processor time;
- what waits (JoinGroup, Fetch) goes away with its connection.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self, TypeVar, cast
from uuid import UUID

import pytest
import uvloop
from tests.fuzz.messages import request_frame
from tests.fuzz.verdicts import Complaints, Problem, TooSlow, check_reply, describe
from tests.fuzz.world import World
from tests.integration.wire import build

from ottla.api.dispatcher import Dispatcher
from ottla.broker.broker import Broker
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.controller.machine import ConfigAlteration, NewTopic, TopicSelector, topics
from ottla.metadata.records import ConfigResource
from ottla.protocol.errors import KafkaError
from ottla.protocol.schema.messages import request_class
from ottla.security.sasl import SaslSession

T = TypeVar("T")

MAX_BLOCKED_S = 0.2
TIMEOUT_S = 0.01
"""How long a request may wait for something before its client is taken away."""

RELEASE_S = 30.0
ANSWER_S = 60.0
TOPICS: dict[str, dict[str, str]] = {
    "fuzz-plain": {},
    "fuzz-compact": {"cleanup.policy": "compact"},
    "fuzz-both": {"cleanup.policy": "compact,delete", "message.timestamp.type": "LogAppendTime"},
    "fuzz-recompressed": {"compression.type": "zstd"},
    "fuzz-dated": {"message.timestamp.before.max.ms": "3600000"},
    "fuzz-flushed": {"flush.messages": "1"},
}
PARTITIONS = 2
MAX_PARTITIONS = 16
"""A flipped bit asks for 4,097 partitions of a new topic: this saves the disk."""

SETTINGS = {
    "node.id": str(World.NODE_ID),
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.session.timeout.ms": "1000",
    "log.segment.delete.delay.ms": "0",
    "connection.failed.authentication.delay.ms": "0",
    "max.incremental.fetch.session.cache.slots": "20",
}


class Client:
    """Who a frame comes from, as far as handlers can see."""

    listener_name = "PLAINTEXT"
    principal = "User:ANONYMOUS"
    is_token_authenticated = False
    sasl: SaslSession | None = None
    software = ""
    has_fetched = has_queued_request = False
    host = "127.0.0.1"
    peer = "127.0.0.1:1"

    def close(self, reason: str) -> None:
        """Do nothing: there is no socket."""

    def hold(self) -> None:
        """Do nothing: what is sent is not read from a socket."""

    def release(self) -> None:
        """Do nothing, as in `hold`."""

    def mute(self, duration_ms: int) -> None:
        """Do nothing, as in `hold`."""


class Waiting(NamedTuple):
    """A frame that was not answered at once."""

    frame: bytes
    client: Client
    answer: asyncio.Future[Any]


class FuzzBroker:
    """One broker on one event loop, both in this thread. Use as a context manager."""

    def __init__(self, data: Path, most_partitions: int = MAX_PARTITIONS) -> None:
        self.data = data
        self._most_partitions = most_partitions
        self.complaints = Complaints()
        self.world = World()
        self.answered = 0
        self.slowest_s = 0.0
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._patches = pytest.MonkeyPatch()
        self._ids = Random()
        self._resets = 0

    def __enter__(self) -> Self:
        self.complaints.listen()
        self._patches.setattr(topics, "MAX_PARTITIONS_PER_REQUEST", self._most_partitions)
        # The topics have the same ids every time: a frame that names them can be fed again.
        for module in ("controller.runner", "api.join_group", "api.consumer_group_heartbeat"):
            self._patches.setattr(f"ottla.{module}.new_uuid", self._new_id)
        self.start()
        self.reset()
        gc.collect()
        gc.freeze()  # as `ottla serve` does when it is ready
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            gc.unfreeze()
            self._runner.close()
            self._patches.undo()
            self.complaints.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something on the broker's loop."""
        return self._runner.run(coroutine)

    def start(self) -> None:
        """Start the broker on its data."""
        self.run(self._start())

    def stop(self) -> None:
        """Stop the broker cleanly."""
        self.run(self.broker.stop())

    async def _start(self) -> None:
        self.broker = Broker({**SETTINGS, "log.dirs": str(self.data)})
        await self.broker.start()
        self.dispatcher = cast(Dispatcher, self.broker.server.handler)

    def reset(self) -> None:
        """Undo what inputs may have done to topics, configs and groups."""
        self.run(self._reset())

    def _new_id(self) -> UUID:
        return UUID(int=self._ids.getrandbits(128), version=4)

    async def _reset(self) -> None:
        controller, image = self.broker.controller, self.broker.cluster.image
        for resource, name in list(image.configs):
            if resource != ConfigResource.TOPIC:
                await controller.active_controller.alter_configs(
                    [ConfigAlteration(resource, name, ())], replacing=True
                )
        await controller.active_controller.delete_topics([TopicSelector(name=name) for name in image.topics])
        self._ids.seed("ids")
        await self.create_topics(TOPICS)
        self._resets += 1
        self._ids.seed(f"after {self._resets}")
        await self.broker.groups.find("any")  # makes the topic of committed offsets
        assert CONSUMER_OFFSETS_TOPIC in self.broker.cluster.image.topics
        self.broker.services.fetch_sessions._sessions.clear()
        self.broker.services.fetch_sessions._cached_partitions = 0
        self.world.forget()

    async def create_topics(self, configs: dict[str, dict[str, str]], partitions: int = PARTITIONS) -> None:
        """Create topics, and let requests be about them."""
        new = [NewTopic(name, partitions, 1, configs=tuple(each.items())) for name, each in configs.items()]
        for result in await self.broker.controller.create_topics(new):
            if isinstance(result, KafkaError):
                raise Problem(f"a topic cannot be made: {result!r}")
            self.world.topics[result.name] = result.topic_id

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Send a request that is in order and return the response; structs are given as dictionaries."""
        (response,) = self.pipelined(api_key, version, [fields])
        return response

    def pipelined(self, api_key: int, version: int, requests: Sequence[dict[str, Any]]) -> list[Any]:
        """Send requests on one connection without waiting in between; the loop is watched meanwhile."""
        schema = request_class(api_key, version)
        frames = [request_frame(api_key, version, build(schema, fields)) for fields in requests]
        return self.run(self._pipelined(frames))

    async def _pipelined(self, frames: list[bytes]) -> list[Any]:
        client, answers = Client(), []
        for frame in frames:
            started = time.thread_time()
            reply = self.dispatcher.handle(client, memoryview(bytearray(frame)))
            self._took(time.thread_time() - started, frame)
            answers.append(asyncio.ensure_future(reply if isinstance(reply, Awaitable) else _now(reply)))
        await self._watch(set(answers), ANSWER_S, frames)
        self.complaints.check(*frames)
        return [check_reply(frame, answer.result()) for frame, answer in zip(frames, answers, strict=True)]

    def feed(self, frames: Sequence[bytes]) -> None:
        """Give the frames to the broker; Problem, with the frame that caused it, if it does harm."""
        try:
            self.run(self._feed(frames))
        except TooSlow:
            # Once may be the machine's fault. One by one shows which it is; together, whether it is all.
            for frame in frames:
                self.run(self._feed([frame]))
            self.run(self._feed(frames))

    async def _feed(self, frames: Sequence[bytes]) -> None:
        waiting: list[Waiting] = []
        for frame in frames:
            client = Client()
            buffer = memoryview(bytearray(frame))
            started = time.thread_time()
            try:
                reply = self.dispatcher.handle(client, buffer)
            except KafkaError:
                reply = None
            except BaseException as error:
                raise Problem(describe(f"{type(error).__name__} escaped: {error}", frame)) from error
            self._took(time.thread_time() - started, frame)
            if isinstance(reply, Awaitable):
                waiting.append(Waiting(frame, client, asyncio.ensure_future(reply)))
            else:
                self._take(frame, reply)
            self.complaints.check(frame)
        if waiting:
            await self._settle(waiting)

    async def _settle(self, waiting: list[Waiting]) -> None:
        """Wait for the answers; whoever has none after a while loses his connection."""
        frames = [each.frame for each in waiting]
        await self._watch({each.answer for each in waiting}, TIMEOUT_S, frames)
        late = [each for each in waiting if not each.answer.done()]
        for each in late:
            self.dispatcher.connection_lost(each.client)
        await self._watch({each.answer for each in late}, RELEASE_S, frames)
        for frame, _, answer in waiting:
            if not answer.done():
                raise Problem(describe("still waits, long after its client has gone", frame))
            if answer.cancelled():
                continue
            error = answer.exception()
            if error is None:
                self._take(frame, answer.result())
            elif not isinstance(error, KafkaError):
                raise Problem(describe(f"{type(error).__name__} escaped later: {error}", frame)) from error
        self.complaints.check(*frames)

    def _take(self, frame: bytes, reply: Any) -> None:
        if reply is not None:
            self.answered += 1
            self.world.learn(check_reply(frame, reply))

    async def _watch(self, pending: set[asyncio.Future[Any]], timeout_s: float, frames: list[bytes]) -> None:
        """Wait for the futures, and meanwhile measure every turn of the loop."""
        deadline = time.monotonic() + timeout_s
        idle = 0
        before = time.thread_time()
        while pending and time.monotonic() < deadline:
            # A turn that does nothing is a poll; after a few of them, leave the processor to others.
            await asyncio.sleep(0 if idle < 5 else 0.001)
            now = time.thread_time()
            self._took(now - before, *frames)
            idle = idle + 1 if now - before < 0.0001 else 0
            before = now
            pending = {each for each in pending if not each.done()}

    def _took(self, seconds: float, *frames: bytes) -> None:
        self.slowest_s = max(self.slowest_s, seconds)
        if seconds > MAX_BLOCKED_S:
            raise TooSlow(describe(f"the loop was blocked for {seconds:.3f} s", *frames))


async def _now(reply: Any) -> Any:
    return reply
