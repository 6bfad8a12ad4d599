"""The leader plans: the configs of the tasks of each connector, written when they change.

Also where a sink's query starts, and the topics of a source, which are created before it writes to them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.client import ClientError, KafkaError
from ottla.client.admin.groups import Groups
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.common.tasks import cancel_and_wait
from ottla.connect.config.keys import java_regex
from ottla.connect.config.providers import resolve, without_values
from ottla.connect.errors import ConnectError
from ottla.connect.group.protocol import CONNECTOR, TaskId
from ottla.connect.herder.cluster_state import STOPPED, Config, commit_key, task_key
from ottla.connect.herder.statuses import FAILED
from ottla.connect.sdk import SOURCE
from ottla.protocol.errors import TopicAlreadyExists, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.connect.herder.herder import Herder

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 30.0
EARLIEST, LATEST = -2, -1


class TaskPlanner:
    """Plans tasks while this worker leads the group."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._broken: set[str] = set()
        self._admin_cluster: Cluster | None = None
        self.alarms: dict[str, list[str]] = {}
        """Of each source: what an operator must know."""

    def start(self) -> None:
        """Begin to plan in the background."""
        self._task = asyncio.create_task(self._run(), name="connect planner")

    async def stop(self) -> None:
        """Stop planning."""
        await cancel_and_wait(self._task)
        if self._admin_cluster is not None:
            await self._admin_cluster.close()

    def due(self, name: str) -> None:
        """Plan a connector soon."""
        self._due.put_nowait(name)

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_AGAIN_S):
                    names = [await self._due.get()]
                while not self._due.empty():
                    names.append(self._due.get_nowait())
            except TimeoutError:
                names = list(self._herder.state.connectors)  # topics and tables may have been added
                await self._look_for_alarms()
            for name in dict.fromkeys(names):
                if self._herder.is_leader and name in self._herder.state.connectors:
                    await self._plan(name)

    async def _plan(self, name: str) -> None:
        herder = self._herder
        what = TaskId(name, CONNECTOR)
        try:
            tasks = await self._tasks(name)
            if tasks != herder.state.tasks.get(name) and name in herder.state.connectors:
                await self.write_tasks(name, tasks)
            if name in self._broken:
                self._broken.discard(name)
                herder.runner.report(name)
        except (KafkaError, ClientError) as error:
            log.warning("%s: its tasks cannot be planned now: %s", name, error)
        except Exception as error:
            if not isinstance(error, ConnectError):
                log.exception("%s: its tasks cannot be planned", name)
            self._broken.add(name)
            text = without_values(
                f"{type(error).__name__}: {error}",
                herder.state.connectors.get(name, {}),
                herder.options.providers,
            )
            herder.runner.put_status(what, FAILED, text)

    async def _tasks(self, name: str) -> list[Config]:
        """Return the configs of a connector's tasks; none while it is stopped."""
        herder = self._herder
        stored = herder.state.connectors[name]
        if herder.state.targets.get(name) == STOPPED:
            return []
        config = resolve(stored, herder.options.providers)
        kind: Any = herder.plugins.connector(config.get("connector.class"))
        most = int(config.get("tasks.max", "1"))
        connector = kind(name, config)
        if kind.kind == SOURCE:
            await self._create_topics(config, connector.topics())
            made = await asyncio.to_thread(connector.task_configs, most)
        else:
            made = await self._sink_tasks(config, most)
        if len(made) > most and config.get("tasks.max.enforce", "true").lower() == "true":
            raise ConnectError(
                f"The connector {name} has generated {len(made)} tasks, which is greater than {most}, the "
                "maximum number of tasks it is configured to create."
            )
        return [_own_part(stored, config, each) for each in made]

    async def _look_for_alarms(self) -> None:
        """Ask the sources for alarms, also those that do not run."""
        if not self._herder.is_leader:
            self.alarms = {}
            return
        found: dict[str, list[str]] = {}
        for name, stored in list(self._herder.state.connectors.items()):
            try:
                kind: Any = self._herder.plugins.connector(stored.get("connector.class"))
                if kind.kind == SOURCE:
                    config = resolve(stored, self._herder.options.providers)
                    found[name] = await asyncio.to_thread(kind(name, config).alarms)
            except Exception as error:
                log.info("%s: no alarms can be looked for: %s", name, error)
        for name, texts in found.items():
            for text in texts:
                if text not in self.alarms.get(name, []):
                    log.error("%s: ALARM: %s", name, text)
        self.alarms = found

    async def write_tasks(self, name: str, tasks: list[Config]) -> None:
        """Write the configs of a connector's tasks."""
        records: list[tuple[str, Any]] = [
            (task_key(name, number), {"properties": each}) for number, each in enumerate(tasks)
        ]
        await self._herder.configs.put([*records, (commit_key(name), {"tasks": len(tasks)})])

    async def _create_topics(self, config: Mapping[str, str], topics: list[str]) -> None:
        admin = TopicAdmin(await self._topic_cluster())
        for topic in topics:
            try:
                await admin.cluster.topic(topic)
                continue
            except UnknownTopicOrPartition:
                pass
            partitions, replicas, more = topic_settings(config, topic)
            try:
                await admin.create_topic(
                    topic, partitions=partitions, replication_factor=replicas, configs=more
                )
                log.info("the topic %s is created", topic)
            except TopicAlreadyExists:
                pass

    async def _topic_cluster(self) -> Cluster:
        """Return the connections that create topics: the worker's, or those of the settings `admin.*`."""
        options = self._herder.options.admin_client
        if options is None:
            return self._herder.cluster
        if self._admin_cluster is None:
            cluster = Cluster(options=options, waits_for_brokers=True)
            await cluster.start()
            self._admin_cluster = cluster
        return self._admin_cluster

    # Sinks.

    async def _sink_tasks(self, config: Mapping[str, str], most: int) -> list[Config]:
        """Return the tasks of a sink: one reads all topics, several share their partitions."""
        places = [] if most == 1 else await self._places(config)
        count = min(most, len(places))
        if count <= 1:
            return [dict(config)]
        found = []
        for number in range(count):
            share: dict[str, list[int]] = {}
            for topic, partition in places[number::count]:
                share.setdefault(topic, []).append(partition)
            found.append({**config, "task.partitions": json.dumps(share, sort_keys=True)})
        return found

    async def _places(self, config: Mapping[str, str]) -> list[tuple[str, int]]:
        cluster = self._herder.cluster
        names = [each.strip() for each in config.get("topics", "").split(",") if each.strip()]
        if not names:
            pattern = java_regex(config["topics.regex"])
            names = [each for each in await TopicAdmin(cluster).list_topics() if pattern.fullmatch(each)]
        found = []
        for name in sorted(names):
            try:
                topic = await cluster.topic(name)
            except UnknownTopicOrPartition:
                continue
            found += [(name, number) for number in range(len(topic.partitions))]
        return found

    async def starting_offsets(self, config: Mapping[str, str], group: str) -> dict[str, Any]:
        """Return where a new query of a sink starts: what its group has committed; empty if nothing."""
        committed = await Groups(self._herder.cluster).committed(group)
        if not committed:
            return {}
        reset = config.get("consumer.override.auto.offset.reset", "earliest")
        rest = LATEST if reset == "latest" else EARLIEST
        share = json.loads(config["task.partitions"]) if config.get("task.partitions") else None
        found: dict[str, dict[str, int]] = {}
        for topic, partition in await self._places(config):
            if share is None or partition in share.get(topic, ()):
                found.setdefault(topic, {})[str(partition)] = rest
        for place, offset in committed.items():
            if str(place.partition) in found.get(place.topic, {}):
                found[place.topic][str(place.partition)] = offset.offset
        return found


def _own_part(stored: Config, config: Mapping[str, str], task: Mapping[str, str]) -> Config:
    """Return what a task's config adds, without values of providers; `task.class` names what runs it."""
    added = {key: value for key, value in task.items() if config.get(key) != value}
    return {**stored, **added, "task.class": stored.get("connector.class", "")}


def topic_settings(config: Mapping[str, str], topic: str) -> tuple[int, int, dict[str, str]]:
    """Return partitions, replicas and configs of a new topic, by the rules `topic.creation.*`."""
    rules = [each.strip() for each in config.get("topic.creation.groups", "").split(",") if each.strip()]
    chosen = "default"
    for rule in rules:
        prefix = f"topic.creation.{rule}."
        if _matches(config.get(prefix + "include", ""), topic) and not _matches(
            config.get(prefix + "exclude", ""), topic
        ):
            chosen = rule
            break
    settings = {
        key[len("topic.creation.default.") :]: value
        for key, value in config.items()
        if key.startswith("topic.creation.default.")
    }
    prefix = f"topic.creation.{chosen}."
    settings |= {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}
    for name in ("include", "exclude"):
        settings.pop(name, None)
    partitions = int(settings.pop("partitions", "-1"))
    replicas = int(settings.pop("replication.factor", "-1"))
    return partitions, replicas, settings


def _matches(patterns: str, topic: str) -> bool:
    return any(re.fullmatch(each.strip(), topic) for each in patterns.split(",") if each.strip())
