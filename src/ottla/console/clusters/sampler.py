"""Measures a cluster every few seconds: rates, lag and sizes, for the plots and for the health.

It takes at most a twentieth of the time: where a sample takes long, they are taken less often.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from ottla.client.admin import Measured
from ottla.client.admin.health import broker_reports
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.common.lag import Lag
from ottla.common.tasks import cancel_and_wait
from ottla.console.clusters.history import KEPT_MS, History
from ottla.console.clusters.live import LiveCluster
from ottla.console.clusters.snapshot import Snapshot
from ottla.protocol.errors import KafkaError

log = logging.getLogger(__name__)

SHARE = 20
RETRY_S = 1.0
TOPICS_EVERY_MS = 60_000
FORGET_EVERY_MS = 600_000
MAX_TOPIC_SERIES = 2_000


class Sampler:
    """Takes samples of one cluster in the background; use it as `async with Sampler(...)`."""

    def __init__(
        self,
        live: LiveCluster,
        history: History,
        every_s: float,
        more: Callable[[], dict[str, float]] | None = None,
    ) -> None:
        """Take a cluster, where its samples are kept, how often, and what gives further series."""
        self._more = more
        self._live = live
        self._history = history
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._before: tuple[int, Mapping[TopicPartition, int], int] | None = None
        self._topics_at_ms = 0
        self._forgot_at_ms = 0
        self.sampled = asyncio.Condition()
        """Notified after each sample, and when the cluster is lost."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"sampler of {self._live.name}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cancel_and_wait(self._task)

    async def _run(self) -> None:
        clock = self._live.clock
        while True:
            began = clock.mono_ms()
            pause_s = self._every_s
            try:
                await self.sample()
                self._live.problem = None
                pause_s = max(pause_s, SHARE * (clock.mono_ms() - began) / 1000)
            except ClientError as error:
                if self._live.problem is None:
                    log.warning("cluster %s: %s", self._live.name, error)
                self._live.problem = str(error) or type(error).__name__
                pause_s = RETRY_S
            except KafkaError as error:  # brokers are there, but refuse something
                self._live.problem = None
                log.warning("a sample of cluster %s was refused: %s", self._live.name, error)
            except Exception:
                log.exception("a sample of cluster %s failed", self._live.name)
            async with self.sampled:
                self.sampled.notify_all()
            await asyncio.sleep(pause_s)

    async def sample(self) -> None:
        """Take one sample."""
        snapshot = await self._live.full_snapshot()
        now = self._live.clock.wall_ms()
        values = self._rates(snapshot, now)
        self._live.reports = await broker_reports(self._live.admin.cluster, snapshot.info.alive)
        lags = await self._lags()
        self._live.lags = lags
        for name, lag in lags.items():
            values[f"group.{name}.lag"] = lag.records
            if lag.seconds is not None:
                values[f"group.{name}.seconds"] = lag.seconds
        values["lag"] = sum(lag.records for lag in lags.values())
        if self._more is not None:
            values |= await asyncio.to_thread(self._more)
        self._history.add(self._live.name, now, values)
        if now - self._forgot_at_ms > FORGET_EVERY_MS:
            self._forgot_at_ms = now
            self._history.forget_before(now - KEPT_MS)

    def _rates(self, snapshot: Snapshot, now: int) -> dict[str, float]:
        """Return the series of this sample; rates need the one before."""
        total = sum(snapshot.sizes.values())
        values: dict[str, float] = {"bytes": total}
        before, self._before = self._before, (now, snapshot.ends, total)
        if before is None or now <= before[0]:
            return values
        seconds = (now - before[0]) / 1000
        rates: dict[str, float] = dict.fromkeys(snapshot.info.topics, 0.0)
        for at, end in snapshot.ends.items():
            grown = end - before[1].get(at, 0)
            if grown > 0:
                rates[at.topic] = rates.get(at.topic, 0.0) + grown / seconds
        snapshot.rates = rates
        values["records"] = sum(rates.values())
        values["bytes_in"] = max(0.0, (total - before[2]) / seconds)
        for node_id, directories in snapshot.directories.items():
            held = sum(replica.size_bytes for each in directories for replica in each.replicas.values())
            values[f"broker.{node_id}.bytes"] = held
        if now - self._topics_at_ms >= TOPICS_EVERY_MS or len(rates) <= 50:
            self._topics_at_ms = now
            for topic in list(rates)[:MAX_TOPIC_SERIES]:
                values[f"topic.{topic}.records"] = rates[topic]
                values[f"topic.{topic}.bytes"] = snapshot.sizes.get(topic, 0)
        return values

    async def _lags(self) -> dict[str, Lag]:
        admin = self._live.admin
        found: dict[str, Lag] = {}
        for group in await admin.list_groups():
            try:
                found[group.group_id] = total_lag(await admin.group_lag(group.group_id))
            except KafkaError:
                continue  # it was deleted a moment ago, or may not be seen
        return found


def total_lag(measured: Mapping[TopicPartition, Measured]) -> Lag:
    """Return the lag of a group: all its records, and the largest of its seconds."""
    lags = [each.lag for each in measured.values() if each.lag is not None]
    seconds = [each.seconds for each in lags if each.seconds is not None]
    return Lag(sum(each.records for each in lags), max(seconds) if seconds else (0.0 if not lags else None))
