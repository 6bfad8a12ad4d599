"""What the REST calls do: read the state, or change it by writing to Connect's topics.

Calls that change something are for the group's leader; rest/forwarding.py brings them there.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from ottla.client.admin.groups import Groups
from ottla.common.ids import TopicPartition
from ottla.connect.config.secrets import masked, unmasked
from ottla.connect.config.validation import Validation, validate
from ottla.connect.errors import ConnectError, WrongConfig, bad_request, conflict, internal, not_found
from ottla.connect.group.protocol import CONNECTOR, TaskId
from ottla.connect.herder.cluster_state import (
    PAUSED,
    STARTED,
    STOPPED,
    Config,
    connector_key,
    logger_key,
    restart_key,
    target_key,
    target_value,
)
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.statuses import FAILED, RESTARTING, Status, topic_key
from ottla.connect.sdk import SOURCE
from ottla.spark.checkpoint_lock import LOCK_FILE, CheckpointInUse, CheckpointLock

REBALANCING = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
STOP_FIRST = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
    "specified connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)
STILL_ENDING = (
    "The tasks of connector {} have not stopped completely yet. This operation can be safely retried."
)
SETTLE_WAIT_S = 10.0
END_WAIT_S = 30.0
VALIDATE_WAIT_S = 30.0


class Requests:
    """The operations of one worker."""

    def __init__(self, herder: Herder) -> None:
        self.herder = herder
        self._changes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """Have the changes of a connector one after the other: each reads what it changes."""
        lock = self._changes.setdefault(name, asyncio.Lock())
        async with lock:
            yield

    async def settle(self) -> None:
        """Wait briefly for the end of a rebalance; raise 409 if it does not end."""
        try:
            async with asyncio.timeout(SETTLE_WAIT_S):
                await self.herder.settled.wait()
        except TimeoutError:
            raise conflict(REBALANCING) from None

    # Reading.

    def _known(self, name: str, text: str = "Connector {} not found") -> Config:
        config = self.herder.state.connectors.get(name)
        if config is None:
            raise not_found(text.format(name))
        return config

    def kind_of(self, name: str) -> str:
        """Return source, sink or unknown."""
        try:
            return self.herder.plugins.connector(
                self.herder.state.connectors.get(name, {}).get("connector.class")
            ).kind
        except WrongConfig:
            return "unknown"

    def config(self, name: str) -> Config:
        """Return a connector's config without its secrets."""
        return masked(self.herder.plugins, self._known(name))

    def info(self, name: str) -> dict[str, Any]:
        """Return what GET /connectors/NAME answers."""
        tasks = self.herder.state.tasks.get(name, [])
        return {
            "name": name,
            "config": self.config(name),
            "tasks": [{"connector": name, "task": number} for number in range(len(tasks))],
            "type": self.kind_of(name),
        }

    def status(self, name: str) -> dict[str, Any]:
        """Return what GET /connectors/NAME/status answers."""
        status = self.herder.statuses.states.get(TaskId(name, CONNECTOR))
        if status is None or name not in self.herder.state.connectors:
            raise not_found(f"No status found for connector {name}")
        count = len(self.herder.state.tasks.get(name, []))
        tasks = self.herder.statuses.tasks_of(name)
        return {
            "name": name,
            "connector": status.as_json(),
            "tasks": [{"id": number, **each.as_json()} for number, each in tasks.items() if number < count],
            "type": self.kind_of(name),
        }

    def task_status(self, name: str, task: int) -> dict[str, Any]:
        """Return the state of a task."""
        status = self.herder.statuses.states.get(TaskId(name, task))
        if status is None:
            raise not_found(f"No status found for task {name}-{task}")
        return {"id": task, **status.as_json()}

    def tasks(self, name: str) -> list[dict[str, Any]]:
        """Return the tasks with their configs."""
        self._known(name)
        return [
            {"id": {"connector": name, "task": number}, "config": masked(self.herder.plugins, config)}
            for number, config in enumerate(self.herder.state.tasks.get(name, []))
        ]

    def topics(self, name: str) -> dict[str, Any]:
        """Return the topics that a connector uses."""
        return {name: {"topics": sorted(self.herder.statuses.topics.get(name, ()))}}

    # Changing.

    async def validated(self, config: Mapping[str, str | None]) -> Validation:
        """Validate a config; outside systems may be asked."""
        try:
            async with asyncio.timeout(VALIDATE_WAIT_S):
                return await asyncio.to_thread(
                    validate, self.herder.plugins, config, self.herder.options.providers
                )
        except TimeoutError:
            raise internal("Request timed out") from None

    async def put(
        self, name: str, config: dict[str, str], *, replace: bool, target: str | None = None
    ) -> tuple[bool, dict[str, Any]]:
        """Create or change a connector; return whether it is new, and what to answer."""
        await self.settle()
        async with self._alone(name):
            return await self._put(name, config, replace=replace, target=target)

    async def _put(
        self, name: str, config: dict[str, str], *, replace: bool, target: str | None = None
    ) -> tuple[bool, dict[str, Any]]:
        stored = self.herder.state.connectors.get(name)
        if not config.get("connector.class"):
            raise bad_request(
                f"Connector config with the keys {', '.join(sorted(config))} contains no connector type"
            )
        try:
            config = unmasked(config, stored)
        except WrongConfig as error:
            raise bad_request(str(error)) from None
        try:
            found = await self.validated(config)
        except WrongConfig:
            raise bad_request(self.herder.plugins.unknown_text(config["connector.class"])) from None
        if found.error_count:
            raise bad_request(found.text())
        if stored is not None and not replace:
            raise conflict(f"Connector {name} already exists")
        records: list[tuple[str, Any]] = []
        if target is not None:
            records.append((target_key(name), target_value(target)))
        await self.herder.configs.put([*records, (connector_key(name), {"properties": config})])
        return stored is None, self.info(name)

    async def patch(self, name: str, changes: Mapping[str, str | None]) -> dict[str, Any]:
        """Change some keys of a connector; null removes one."""
        await self.settle()
        async with self._alone(name):
            merged: dict[str, str | None] = {**masked(self.herder.plugins, self._known(name)), **changes}
            config = {key: value for key, value in merged.items() if value is not None}
            _, info = await self._put(name, config, replace=True)
        return info

    async def delete(self, name: str) -> None:
        """Delete a connector."""
        await self.settle()
        async with self._alone(name):
            self._known(name)
            await self.herder.configs.put([(connector_key(name), None), (target_key(name), None)])

    async def set_target(self, name: str, target: str) -> None:
        """Pause or resume a connector."""
        async with self._alone(name):
            self._known(name, "Unknown connector {}")
            await self.herder.configs.put([(target_key(name), target_value(target))])

    async def stop(self, name: str) -> None:
        """Stop a connector: it has no tasks any more."""
        await self.settle()
        async with self._alone(name):
            self._known(name, "Unknown connector {}")
            await self.herder.planner.write_tasks(name, [])
            await self.herder.configs.put([(target_key(name), target_value(STOPPED))])

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any] | None:
        """Restart a connector; return the states that follow, unless only the connector is restarted."""
        await self.settle()
        self._known(name, "Unknown connector: {}")
        if not include_tasks and not only_failed:
            await self._ask_restart(name, include_tasks, only_failed)
            return None
        answer = self.status(name)
        states = self.herder.statuses

        def after(status: Status | None, shown: dict[str, Any]) -> dict[str, Any]:
            restarts = status is not None and (not only_failed or status.state == FAILED)
            return {**shown, "state": RESTARTING} if restarts else shown

        answer["connector"] = after(states.states.get(TaskId(name, CONNECTOR)), answer["connector"])
        if include_tasks:
            tasks = states.tasks_of(name)
            answer["tasks"] = [after(tasks.get(each["id"]), each) for each in answer["tasks"]]
        await self._ask_restart(name, include_tasks, only_failed)
        return answer

    async def _ask_restart(self, name: str, include_tasks: bool, only_failed: bool) -> None:
        value = {"include-tasks": include_tasks, "only-failed": only_failed}
        await self.herder.configs.put([(restart_key(name), value)])

    def check_task(self, name: str, task: int) -> TaskId:
        """Return a task that there is; raise 404."""
        self._known(name, "Unknown connector: {}")
        if task >= len(self.herder.state.tasks.get(name, [])) or task < 0:
            raise not_found(f"Unknown task: {name}-{task}")
        return TaskId(name, task)

    async def reset_topics(self, name: str) -> None:
        """Forget the topics that a connector uses."""
        topics = sorted(self.herder.statuses.topics.get(name, ()))
        await self.herder.status_table.put([(topic_key(each, name), None) for each in topics])

    async def set_logger(self, name: str, level: str) -> None:
        """Set a logger's level on all workers."""
        await self.herder.configs.put([(logger_key(name), {"level": level})])

    # Offsets.

    async def offsets(self, name: str) -> dict[str, Any]:
        """Return where a connector is."""
        self._known(name)
        if self.kind_of(name) == SOURCE:
            await self.herder.offset_table.read_to_end()
            stored = self.herder.offsets.get(name, {})
            pairs = [(json.loads(partition), offset) for partition, offset in sorted(stored.items())]
        else:
            committed = await Groups(self.herder.cluster).committed(self._group(name))
            pairs = [
                (
                    {"kafka_topic": each.topic, "kafka_partition": each.partition},
                    {"kafka_offset": found.offset},
                )
                for each, found in sorted(committed.items())
            ]
        return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in pairs]}

    def _group(self, name: str) -> str:
        config = self.herder.state.connectors[name]
        return config.get("consumer.override.group.id") or f"connect-{name}"

    async def _check_stopped(self, name: str) -> None:
        """Wait until the tasks have ended: they store their last offsets then."""
        self._known(name)
        state = self.herder.state
        if state.targets.get(name) != STOPPED or state.tasks.get(name):
            raise bad_request(STOP_FIRST.format(name))
        folder = self.herder.options.checkpoints_of(name)
        try:
            async with asyncio.timeout(END_WAIT_S):
                await self.herder.runner.until_ended(name)
            await asyncio.to_thread(wait_until_unused, folder, END_WAIT_S)
        except (TimeoutError, CheckpointInUse):
            raise internal(STILL_ENDING.format(name)) from None

    async def alter_offsets(self, name: str, given: Any) -> dict[str, str]:
        """Set offsets of a stopped connector."""
        if not isinstance(given, dict) or not isinstance(given.get("offsets"), list) or not given["offsets"]:
            raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
        for each in given["offsets"]:
            if not isinstance(each, dict) or not isinstance(each.get("partition"), dict):
                raise bad_request("each of the offsets needs a partition and an offset")
        await self.settle()
        pairs = [(each["partition"], each.get("offset")) for each in given["offsets"]]
        async with self._alone(name):
            await self._check_stopped(name)
            if self.kind_of(name) == SOURCE:
                await self._alter_source(name, pairs)
            else:
                await self._alter_sink(name, pairs)
            self._drop_checkpoints(name)
        return {"message": "The offsets for this connector have been altered successfully"}

    async def reset_offsets(self, name: str) -> dict[str, str]:
        """Delete the offsets of a stopped connector: it starts from the beginning."""
        await self.settle()
        async with self._alone(name):
            await self._check_stopped(name)
            if self.kind_of(name) == SOURCE:
                await self.herder.offset_table.read_to_end()
                pairs = [(json.loads(each), None) for each in self.herder.offsets.get(name, {})]
                await self._alter_source(name, pairs)
            else:
                groups = Groups(self.herder.cluster)
                committed = await groups.committed(self._group(name))
                if committed:
                    await groups.delete_offsets(self._group(name), list(committed))
            self._drop_checkpoints(name)
        return {"message": "The offsets for this connector have been reset successfully"}

    async def _alter_source(self, name: str, pairs: list[tuple[dict[str, Any], Any]]) -> None:
        config = self.herder.state.connectors[name]
        kind: Any = self.herder.plugins.connector(config.get("connector.class"))
        texts = {
            json.dumps(partition, sort_keys=True, separators=(",", ":")): offset
            for partition, offset in pairs
        }
        try:
            kind(name, config).check_offsets({key: each for key, each in texts.items() if each is not None})
        except ConnectError as error:
            raise bad_request(str(error)) from None
        await self.herder.offset_table.put(
            [(json.dumps([name, partition], separators=(",", ":")), offset) for partition, offset in pairs]
        )

    async def _alter_sink(self, name: str, pairs: list[tuple[dict[str, Any], Any]]) -> None:
        groups, group = Groups(self.herder.cluster), self._group(name)
        new, gone = {}, []
        for partition, offset in pairs:
            place = _sink_place(partition)
            if offset is None:
                gone.append(place)
                continue
            value = offset.get("kafka_offset") if isinstance(offset, dict) else None
            try:
                new[place] = int(value)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                raise bad_request(
                    f"The offset for partition {partition} must have the key kafka_offset with a number"
                ) from None
        if new:
            await groups.commit(group, new)
        if gone:
            await groups.delete_offsets(group, gone)

    def _drop_checkpoints(self, name: str) -> None:
        """Have the next start of the connector begin at the offsets that were set."""
        shutil.rmtree(self.herder.options.checkpoints_of(name), ignore_errors=True)


def wait_until_unused(folder: Path, wait_s: float) -> None:
    """Wait until no worker runs a query on a checkpoint of a connector; or raise CheckpointInUse."""
    for each in folder.glob(f"*/{LOCK_FILE}"):
        lock = CheckpointLock(each.parent)
        lock.acquire(wait_s)
        lock.release()


def _sink_place(partition: dict[str, Any]) -> TopicPartition:
    try:
        return TopicPartition(str(partition["kafka_topic"]), int(partition["kafka_partition"]))
    except (KeyError, TypeError, ValueError):
        raise bad_request(
            "The partition for a sink connector offset must have the keys kafka_topic and kafka_partition"
        ) from None


TARGETS = {"RUNNING": STARTED, "PAUSED": PAUSED, "STOPPED": STOPPED}
"""The initial states of a new connector, as requests name them."""
