"""What the broker under test has: the names and ids that requests can be about."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, ClassVar
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.topic import TopicConfig

REMEMBERED = 4
"""How many of the ids that the broker has given out are still used."""


class World:
    """The topics and groups there are, and what the broker has said about them."""

    NODE_ID: ClassVar[int] = 1
    GROUPS: ClassVar[tuple[str, ...]] = ("group-a", "group-b")
    CONFIG_KEYS: ClassVar[tuple[str, ...]] = (*BrokerConfig.KEYS, *TopicConfig.KEYS, "no.such.key")

    def __init__(self) -> None:
        self.topics: dict[str, UUID] = {}
        self.members: deque[str] = deque(maxlen=REMEMBERED)
        self.epochs: deque[int] = deque(maxlen=REMEMBERED)
        self.session_ids: deque[int] = deque(maxlen=REMEMBERED)
        self.forget()

    def forget(self) -> None:
        """Forget all ids."""
        self.members.extend(["nobody"] * REMEMBERED)
        self.epochs.extend([1] * REMEMBERED)
        self.session_ids.extend([0] * REMEMBERED)

    def learn(self, response: Any) -> None:
        """Take up the ids that a response has given out."""
        if member_id := getattr(response, "member_id", ""):
            self.members.append(member_id)
            self.epochs.append(getattr(response, "generation_id", getattr(response, "member_epoch", 0)))
        if session_id := getattr(response, "session_id", 0):
            self.session_ids.append(session_id)

    def topic(self, random: Random) -> str:
        """Return the name of a topic; now and then of one that is not there."""
        if random.random() < 0.9:
            return random.choice(list(self.topics))
        return random.choice(("fuzz-new", "fuzz.new", "__consumer_offsets", "", "..", "a b", "x" * 250))

    def topic_id(self, random: Random) -> UUID | None:
        """Return a topic's id; now and then of a topic that is not there."""
        if random.random() < 0.9:
            return random.choice(list(self.topics.values()))
        return random.choice((None, UUID(int=random.getrandbits(128) | 1)))

    def group(self, random: Random) -> str:
        """Return the id of a group; seldom the empty one."""
        return "" if random.random() < 0.03 else random.choice(self.GROUPS)
