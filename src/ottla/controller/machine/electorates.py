"""The electorate of each topic: who of the cluster lives, and what the topic's configs ask for."""

from __future__ import annotations

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.topic import TopicConfig
from ottla.controller.machine.election import Electorate
from ottla.metadata.image import ClusterImage

ELECTION_KEYS = ("min.insync.replicas", "unclean.leader.election.enable")
"""The configs of a topic that decide who may lead."""


class Electorates:
    """Makes electorates, each once; topics without configs of their own share one."""

    def __init__(self, image: ClusterImage, config: BrokerConfig) -> None:
        self._image = image
        self._config = config
        self._alive = frozenset(each.node_id for each in image.brokers.values() if not each.fenced)
        self._staying = frozenset(each.node_id for each in image.brokers.values() if each.can_lead)
        self._directories = {each.node_id: each.directory_id for each in image.brokers.values()}
        self._known: dict[tuple[str | None, ...], Electorate] = {}

    def of(self, topic: str) -> Electorate:
        """Return the electorate of a topic."""
        overrides = self._image.topic_overrides(topic)
        own = tuple(overrides.get(key) for key in ELECTION_KEYS)
        known = self._known.get(own)
        if known is None:
            set_here = {
                key: value for key, value in zip(ELECTION_KEYS, own, strict=True) if value is not None
            }
            asked = TopicConfig(set_here, self._config)
            known = self._known[own] = Electorate(
                self._alive,
                self._staying,
                asked.min_insync_replicas,
                asked.unclean_leader_election_enable,
                self._directories,
            )
        return known
