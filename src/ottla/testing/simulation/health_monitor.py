"""An operator's view of a simulated cluster: health, readiness, metrics and logs, compared with the truth.

The truth is the history of the producers: a partition can be written if records are acknowledged. Two rules
hold at every moment. Never green while a write fails: while nothing was acknowledged for BLOCKED_S, the
verdict of `ottla cluster health` is red. Never red when all is well: where a day says so, the verdict becomes
green and stays green.

The verdict is that of the product's own client code, which runs in the simulation as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

from ottla.broker.broker import Broker
from ottla.client.admin.cluster_health import WRONG, Examination, examine_cluster
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.metrics import jmx_metrics, partition_source
from ottla.metrics.health import RUNNING, readiness
from ottla.metrics.samples import Samples
from ottla.metrics.view import BrokerView
from ottla.protocol.errors import KafkaError
from ottla.testing.checker import Violation
from ottla.testing.history import Acked, History, Sent
from ottla.testing.simulation.client import PORT, SimClient, host_of
from ottla.testing.simulation.cluster import SimCluster
from ottla.wire.address import Address

T = TypeVar("T")

BLOCKED_S = 9.0
"""After so long a partition is blocked: a finding needs five seconds of silence, a verdict some more."""
WRITES_WITHIN_S = 6.0
GREEN_WITHIN_S = 30.0
STAYS_S = 4.0
POLL_S = 0.5
LOOKS_EVERY_S = 2.0
RETRIED_WITHIN_S = 1.5
"""So soon a client tries again what was refused."""


class HealthMonitor:
    """Looks at a cluster, and adds to `violations` what it should not say."""

    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        places: Collection[TopicPartition],
        violations: list[Violation],
    ) -> None:
        self.violations = violations
        self.looks = 0
        self._cluster = cluster
        self._history = history
        self._places = tuple(places)
        self._client: SimClient = cluster.new_client()
        self._log_from = 0
        self._read = 0
        self._sent: dict[int, TopicPartition] = {}
        self._unanswered: dict[TopicPartition, float] = {}
        """Since when nothing that was sent has been acknowledged."""
        self._acks: dict[TopicPartition, int] = dict.fromkeys(self._places, 0)

    # The truth

    def _take_history(self) -> None:
        for event in self._history.events[self._read :]:
            if isinstance(event, Sent):
                self._sent[event.number] = event.place
                self._unanswered.setdefault(event.place, event.at_s)
            elif isinstance(event, Acked):
                place = self._sent.pop(event.number)
                self._acks[place] += 1
                self._unanswered.pop(place, None)
        self._read = len(self._history.events)

    def _blocked(self) -> set[TopicPartition]:
        """Return the partitions to which records were sent for BLOCKED_S, and none was acknowledged."""
        self._take_history()
        now_s = self._cluster.loop.now
        return {place for place, since_s in self._unanswered.items() if now_s - since_s > BLOCKED_S}

    async def writes_work(self, within_s: float = WRITES_WITHIN_S) -> bool:
        """Return whether records are acknowledged on every partition."""
        self._take_history()
        before = dict(self._acks)

        def all_acked() -> bool:
            self._take_history()
            return all(self._acks[place] > number for place, number in before.items())

        return await self._cluster.wait_until(all_acked, within_s)

    # What operators see

    async def run(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """Do something with the product's client, in the process of the operator."""
        return await self._client.process.spawn(self._with_cluster(work))

    async def _with_cluster(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        addresses = tuple(Address(host_of(node_id), PORT) for node_id in self._cluster.nodes)
        options = ClientOptions(default_api_timeout_ms=8_000, socket_connection_setup_timeout_ms=1_000)
        async with Cluster(addresses, options=options, waits_for_brokers=True) as connected:
            return await work(connected)

    async def examine(self) -> Examination | None:
        """Return the verdict; None if no broker answers."""
        try:
            return await self.run(examine_cluster)
        except (ClientError, KafkaError):
            return None

    async def readiness(self) -> dict[int, bool]:
        """Return what /readyz says, of every broker that runs."""
        found = {}
        for broker in self._running():
            found[broker.config.node_id] = (await readiness(_view(broker), RUNNING)).status == 200
        return found

    def active_controllers(self) -> int:
        """Return the sum of activecontrollercount."""
        total = 0
        for broker in self._running():
            samples = Samples()
            for _ in partition_source.cluster(_view(broker), samples):
                pass
            total += int(samples.columns[jmx_metrics.ACTIVE_CONTROLLER.name].values[0])  # type: ignore[arg-type]
        return total

    def _running(self) -> list[Broker]:
        nodes = self._cluster.nodes.values()
        return [node.broker for node in nodes if node.broker is not None and not node.is_paused]

    # Expectations

    async def watch(self) -> None:
        """Look again and again, until cancelled: never green while a write fails."""
        while True:
            blocked = self._blocked()
            found = await self.examine()
            if found is not None:
                self.looks += 1
                if found.is_healthy and blocked:
                    await asyncio.sleep(RETRIED_WITHIN_S)
                    if still := blocked & self._blocked():
                        self.report("green-while-blocked", f"{', '.join(map(str, still))} cannot be written")
            await asyncio.sleep(LOOKS_EVERY_S)

    async def expect_green(self, what: str) -> None:
        """Expect that all is well, soon, and that it stays so; and that everything can be written."""
        deadline = self._cluster.loop.now + GREEN_WITHIN_S
        found = await self.examine()
        while (found is None or not found.is_healthy) and self._cluster.loop.now < deadline:
            await asyncio.sleep(POLL_S)
            found = await self.examine()
        if not await self.writes_work():
            self.report("not-written", what)
        await asyncio.sleep(STAYS_S)
        found = await self.examine()
        if found is None or not found.is_healthy:
            self.report("red-while-well", f"{what}: {_wrong(found)}")
        not_ready = [node_id for node_id, is_ready in (await self.readiness()).items() if not is_ready]
        if not_ready:
            self.report("red-while-well", f"{what}: {not_ready} not ready")
        if self.active_controllers() != 1:
            self.report("red-while-well", f"{what}: {self.active_controllers()} controllers")

    async def expect_red(
        self, what: str, *codes: str, not_ready: Collection[int] = (), within_s: float = GREEN_WITHIN_S
    ) -> None:
        """Expect that health names these problems, soon, and that these brokers are not ready."""
        deadline = self._cluster.loop.now + within_s
        while True:
            found = await self.examine()
            missing = set(codes) - {each.code for each in found.findings} if found is not None else set(codes)
            ready = await self.readiness()
            unready = {node_id for node_id in not_ready if ready.get(node_id)}
            if found is not None and not found.is_healthy and not missing and not unready:
                if any(not each.fix for each in found.findings):
                    self.report("no-advice", f"{what}: {found.findings}")
                return
            if self._cluster.loop.now >= deadline:
                seen = "no answer" if found is None else _wrong(found)
                self.report("not-reported", f"{what}: {missing} missing, {unready} ready; seen: {seen}")
                return
            await asyncio.sleep(POLL_S)

    async def expect_warning(self, what: str, code: str) -> None:
        """Expect that health is green, with this warning."""
        found = await self.examine()
        if found is None or code not in {each.code for each in found.findings} or not found.is_healthy:
            self.report("not-reported", f"{what}: no warning {code}: {found and found.findings}")

    def expect_log(self, what: str, *texts: str) -> None:
        """Expect that brokers have logged these texts since the last call of `start_day`."""
        lines = self._cluster.log[self._log_from :]
        for text in texts:
            if not any(text in line for line in lines):
                self.report("not-logged", f"{what}: {text!r}")

    def start_day(self) -> None:
        """Begin a day: what was logged before does not count."""
        self._log_from = len(self._cluster.log)

    def expect(self, what: str, is_so: bool) -> None:
        """Expect something."""
        if not is_so:
            self.report("not-so", what)

    def report(self, name: str, detail: str) -> None:
        """Add a violation."""
        self.violations.append(Violation(name, f"at {self._cluster.loop.now:.1f} s: {detail}"))


def _view(broker: Broker) -> BrokerView:
    return BrokerView(broker.services, broker.server, broker.dispatcher, broker.flusher, "test", "")


def _wrong(found: Examination | None) -> str:
    if found is None:
        return "no broker answers"
    return "; ".join(f"{each.code}: {each.what}" for each in found.findings if each.severity == WRONG)


Day = Callable[[], Coroutine[Any, Any, None]]
