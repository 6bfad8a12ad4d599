"""The conditions of live schedules: jumping clocks, a ZooKeeper ensemble, links that lose packets.

    def test_kill_9_of_the_leader(under_conditions: ClusterMaker) -> None:
        with under_conditions() as cluster, Trial(cluster) as trial:
            ...

Every run deals the conditions anew, so that a fifth of all schedules have each of them; some have several.
OTTLA_TEST_CONDITIONS=clocks,ensemble,loss (or "none") repeats what a failure printed.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Protocol, Self

import pytest
from tests.cluster.lossy_proxy import LossyProxies, Weather

from ottla.testing.broker_process import BrokerProcess
from ottla.testing.cluster_process import ClusterProcess, ZooKeeperProcess, ensemble

SHARE = 2 / 5
"""Of the schedules that take conditions, which are half of all."""
JUMP_EVERY_S, JUMP_S = (0.2, 1.5), 3_000
"""Less than an hour: a broker refuses records that are from further in its future."""
DELAY_MS, LOSS = (0.5, 10.0), 0.01
CALM = ((0.0, 0.0), 0.0)


@dataclass(frozen=True)
class Conditions:
    """What holds during a schedule."""

    clocks: bool = False
    """Wall clocks of brokers jump by most of an hour, each by itself, again and again."""
    ensemble: bool = False
    """ZooKeeper is an ensemble of three."""
    loss: bool = False
    """Links between brokers and to clients delay, and lose packets."""

    @classmethod
    def named(cls, text: str) -> Self:
        """Return the conditions that OTTLA_TEST_CONDITIONS names."""
        return cls(**{word: True for word in text.split(",") if word != "none"})

    def __str__(self) -> str:
        return ",".join(each.name for each in fields(self) if getattr(self, each.name)) or "none"


def deal(count: int, seed: str) -> list[Conditions]:
    """Give each of so many schedules its conditions: each condition to its share of them."""
    chance = random.Random(seed)
    chosen = []
    for _ in fields(Conditions):
        share = int(count * SHARE + chance.random())  # on average, however few there are
        chosen.append(set(chance.sample(range(count), share)))
    return [Conditions(*(number in those for those in chosen)) for number in range(count)]


class Ensemble(ZooKeeperProcess):
    """Three ZooKeeper servers with the face of one."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.servers = ensemble(data, 3)
        for each in self.servers:
            each.settings["tickTime"] = "200"

    @property
    def address(self) -> str:
        """Where clients reach them."""
        return ",".join(each.address for each in self.servers)

    @property
    def is_running(self) -> bool:
        """Whether any of them runs."""
        return any(each.is_running for each in self.servers)

    def start(self, ready_within_s: float = 30.0) -> None:
        """Start those that do not run, and wait until all serve."""
        for each in self.servers:
            if not each.is_running:
                each.launch()
        for each in self.servers:
            each.wait_until_ready(ready_within_s)

    def stop(self, within_s: float = 30.0) -> None:
        """End all of them."""
        for each in self.servers:
            each.stop(within_s)

    def kill(self) -> None:
        """End all of them without warning."""
        for each in self.servers:
            each.kill()

    def pause(self) -> None:
        """Pause all of them (SIGSTOP)."""
        for each in self.servers:
            each.pause()

    def resume(self) -> None:
        """Resume all of them (SIGCONT)."""
        for each in self.servers:
            each.resume()


class ConditionedCluster(ClusterProcess):
    """A cluster under conditions. `disks` are where some brokers have their data; what they say is elsewhere.

    With a seed, clocks jump and links lose packets from `begin` to `calm`; without, the test sees to that.
    """

    def __init__(
        self,
        data: Path,
        conditions: Conditions,
        seed: str | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        disks: Mapping[int, Path] | None = None,
    ) -> None:
        self.conditions = conditions
        self.weather = Weather()
        self._library = skewed_clock() if conditions.clocks else None
        self._disks = dict(disks or {})
        self._changes_by_itself = seed is not None
        self._chance = random.Random(seed)
        self._ending = threading.Event()
        self._jumping = threading.Thread(target=self._jump, name="clocks", daemon=True)
        super().__init__(data, settings=settings)
        targets = {number: broker.listen for number, broker in self.brokers.items()}
        self.proxies = LossyProxies(self.weather, targets, self._chance.randrange(1 << 30))

    def make_zookeeper(self, data: Path) -> ZooKeeperProcess:
        """Return ZooKeeper, or the ensemble, not yet started."""
        return Ensemble(data) if self.conditions.ensemble else super().make_zookeeper(data)

    def make_broker(
        self, number: int, settings: dict[str, str], arguments: list[str], environment: dict[str, str]
    ) -> BrokerProcess:
        """Return a broker on its disk, with its clock."""
        if self._library is not None:
            self._skew_file(number).parent.mkdir(parents=True, exist_ok=True)
            self._skew_file(number).write_bytes(struct.pack("=q", 0))
            clock = {"LD_PRELOAD": str(self._library), "OTTLA_SKEW": str(self._skew_file(number))}
            environment = {**environment, **clock}
        return BrokerProcess(
            self._disks.get(number, self.data) / f"broker-{number}",
            settings=settings,
            arguments=arguments,
            environment=environment,
            stderr_path=self.data / f"broker-{number}.stderr",
        )

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: those of the proxies, if links lose packets."""
        if not self.conditions.loss:
            return super().bootstrap
        return ",".join(self.proxies.address(number) for number in self.brokers)

    def within(self, seconds: float) -> float:
        """Return how long something may take that takes so long while links are good."""
        return seconds * 2 if self.conditions.loss else seconds

    def move_clock(self, number: int, seconds: int) -> None:
        """Have the wall clock of a broker be ahead by this much (behind, if negative)."""
        with self._skew_file(number).open("r+b") as file:
            file.write(struct.pack("=q", seconds))

    def begin(self) -> None:
        """Let clocks jump and links lose packets, if it is up to the cluster."""
        if self._changes_by_itself and self.conditions.clocks:
            self._jumping.start()
        if self._changes_by_itself and self.conditions.loss:
            self.weather.delay_ms, self.weather.loss = DELAY_MS, LOSS

    def calm(self) -> None:
        """Let clocks be as they are, and links be good."""
        self._ending.set()
        self.weather.delay_ms, self.weather.loss = CALM

    def __enter__(self) -> Self:
        if self.conditions.loss:
            self.proxies.__enter__()
            for number, broker in self.brokers.items():
                broker.settings["advertised.listeners"] = f"PLAINTEXT://{self.proxies.address(number)}"
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.calm()
        try:
            super().__exit__(kind, error, trace)
        finally:
            if self._jumping.ident is not None:
                self._jumping.join()
            if self.conditions.loss:
                self.proxies.__exit__()

    def _skew_file(self, number: int) -> Path:
        return self.data / f"skew-{number}"

    def _jump(self) -> None:
        while not self._ending.wait(self._chance.uniform(*JUMP_EVERY_S)):
            self.move_clock(self._chance.choice(list(self.brokers)), self._chance.randint(-JUMP_S, JUMP_S))


@cache
def skewed_clock() -> Path:
    """Return the library that moves clocks, compiled; skip the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = Path(mkdtemp(prefix="skewed-clock-")) / "skewed_clock.so"
    source = Path(__file__).with_name("skewed_clock.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(made), str(source), "-ldl"], check=True
    )
    return made


class ClusterMaker(Protocol):
    """The fixture `under_conditions`: makes the cluster of a schedule."""

    def __call__(
        self, *, settings: Mapping[str, str] | None = None, disks: Mapping[int, Path] | None = None
    ) -> ConditionedCluster:
        """Return the cluster, not yet started."""
        ...


def conditions_of(items: list[pytest.Item], run: str) -> dict[str, Conditions]:
    """Return the conditions of every schedule that takes any, in this run."""
    taking = sorted(each.nodeid for each in items if "under_conditions" in getattr(each, "fixturenames", ()))
    if chosen := os.environ.get("OTTLA_TEST_CONDITIONS"):
        return dict.fromkeys(taking, Conditions.named(chosen))
    return dict(zip(taking, deal(len(taking), run), strict=True))
