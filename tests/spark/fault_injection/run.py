"""The harness: feeds the pipeline, strikes it, starts it again, and ends it when all is written."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from tests.spark.fault_injection.brokers import Brokers, start_brokers
from tests.spark.fault_injection.checkpoint import Checkpoint
from tests.spark.fault_injection.driver import Driver
from tests.spark.fault_injection.feed import Feed
from tests.spark.fault_injection.job import queries_of
from tests.spark.fault_injection.ledger import Verdict, verdict
from tests.spark.fault_injection.plan import Fault, Kind
from tests.spark.standalone import StandaloneCluster

POLL_INTERVAL_S = 0.02
PROGRESS_WITHIN_S = 300.0
MAX_FAILURES = 40
STEADY_BATCHES = 3
"""How many batches every query ends between two faults of a steady run."""


class NoProgress(AssertionError):
    """The pipeline does not go on, although nothing strikes it."""


@dataclass
class Report:
    """What was done to the pipeline, and what it has made of it."""

    kills: Counter[Kind] = field(default_factory=Counter)
    failures: int = 0
    """How often the driver ended by itself, and was started again."""
    batches: int = 0
    seconds: float = 0.0
    verdict: Verdict | None = None


@dataclass(frozen=True)
class FaultInjectionRun:
    """One run."""

    folder: Path
    records: int
    faults: Sequence[Fault]
    connector: str = "ottla"
    brokers: int = 1
    per_trigger: int = 20_000
    seconds: float = inf
    """After so long there are no more faults; what is left of the input is still worked on."""
    steady: Iterator[Fault] | None = None
    """Faults for a pipeline in its steady state: for `seconds`, while records flow at `rate` a second."""
    rate: int = 2_000
    executors: int = 0
    """Run on a standalone cluster with so many executors; 0: all in the driver."""
    say: Callable[[str], None] = print

    def run(self) -> Report:
        """Run all of it."""
        began = time.monotonic()
        brokers = start_brokers(self.brokers, self.folder)
        with ExitStack() as stack:
            stack.callback(brokers.stop)
            cluster = None
            if self.executors:
                (self.folder / "spark").mkdir(parents=True)
                new = StandaloneCluster(
                    self.folder / "spark", python=Path(sys.executable), workers=self.executors
                )
                cluster = stack.enter_context(new)
            pipeline = Pipeline(self, brokers, cluster)
            try:
                if self.steady is None:
                    pipeline.inject_faults()
                    pipeline.feed.send_up_to(self.records)
                else:
                    pipeline.strike_in_steady_state(self.steady)
                pipeline.finish()
            except AssertionError as error:
                error.add_note(pipeline.driver.log_tail())
                raise
            finally:
                pipeline.driver.end_everything()
            report = pipeline.report
            has_totals = self.connector == "ottla"
            report.verdict = verdict(brokers.bootstrap, pipeline.feed.sent, with_totals=has_totals)
            report.batches = sum(each.committed() for each in pipeline.checkpoints)
            report.seconds = time.monotonic() - began
            return report


class Pipeline:
    """The driver and its input, while they run."""

    def __init__(
        self, plan: FaultInjectionRun, brokers: Brokers, cluster: StandaloneCluster | None = None
    ) -> None:
        self.plan = plan
        self.brokers = brokers
        self.report = Report()
        root = plan.folder / "checkpoints"
        self.checkpoints = [Checkpoint(root / name) for name in queries_of(plan.connector)]
        self.feed = Feed(brokers.bootstrap, brokers.replicas)
        arguments = ["--bootstrap", brokers.bootstrap, "--format", plan.connector, "--checkpoints", str(root)]
        arguments += ["--per-trigger", str(plan.per_trigger)]
        if cluster is not None:
            arguments += ["--master", cluster.url]
        environment = {"SPARK_LOCAL_IP": "127.0.0.1"}
        self.driver = Driver(arguments, plan.folder / "driver.log", environment=environment)
        self._cluster = cluster

    def inject_faults(self) -> None:
        """Strike with every fault of the plan, each while a slice of the input is being worked on."""
        faults = self.plan.faults
        stop_at = time.monotonic() + self.plan.seconds
        for number, fault in enumerate(faults, 1):
            self.feed.send_up_to(self.plan.records * number // len(faults))
            self.wait_for_a_batch()
            if time.monotonic() > stop_at:
                self.plan.say(f"no more faults after {self.plan.seconds:g} s")
                return
            time.sleep(fault.delay_s)
            self.strike(fault)
            self.report.kills[fault.kind] += 1
            self.plan.say(f"{number:3} of {len(faults)}: {fault.kind}, {fault.delay_s:.2f} s into a batch")

    def strike_in_steady_state(self, faults: Iterator[Fault]) -> None:
        """Strike while records flow, each time when all queries have done some batches since the last."""
        stop_at = time.monotonic() + self.plan.seconds
        with self.feed.flowing(self.plan.rate):
            for number, fault in enumerate(faults, 1):
                self.wait_for_batches(STEADY_BATCHES)
                if time.monotonic() > stop_at:
                    return
                time.sleep(fault.delay_s)
                self.strike(fault)
                self.report.kills[fault.kind] += 1
                self.plan.say(f"{number:3}: {fault.kind}, after {self.feed.sent:,} records")

    def finish(self) -> None:
        """Let everything be read, close every window, and stop the driver as users do."""
        self.wait_until_all_is_read()
        for _ in range(2):  # the first moves the watermark, the second makes a batch that heeds it
            self.feed.send_closing()
            self.wait_until_all_is_read()
        self.driver.terminate()

    def strike(self, fault: Fault) -> None:
        """Do what the fault says, to something that is there."""
        if fault.kind is Kind.BROKER:
            self.brokers.strike(fault.choice, fault.away_s)
        elif fault.kind is Kind.DRIVER:
            self.wait_until(self.driver.kill_jvm)
        elif fault.kind is Kind.EXECUTOR:
            self.wait_until(lambda: self._kill_one_of(self._executors(), fault.choice))
        elif fault.kind is Kind.WORKER and self._cluster is not None and fault.away_s > 1:
            self.wait_until(lambda: self._kill_one_of(self._python_workers(), fault.choice))
        elif fault.kind is Kind.WORKER:
            self.wait_until(lambda: self.driver.kill_worker(fault.choice))
        else:
            self.wait_until(lambda: self.driver.is_running)
            self.driver.terminate()

    def wait_for_a_batch(self) -> None:
        """Return when a batch has begun that had not when this was called."""
        before = [each.begun() for each in self.checkpoints]
        self.wait_until(
            lambda: any(each.begun() > was for each, was in zip(self.checkpoints, before, strict=True))
        )

    def wait_for_batches(self, count: int) -> None:
        """Return when every query has ended so many batches since this was called."""
        before = [each.committed() for each in self.checkpoints]
        self.wait_until(
            lambda: all(
                each.committed() >= was + count for each, was in zip(self.checkpoints, before, strict=True)
            )
        )

    def _executors(self) -> list[int]:
        return self._cluster.executors() if self._cluster is not None else []

    def _python_workers(self) -> list[int]:
        return self._cluster.python_workers() if self._cluster is not None else []

    @staticmethod
    def _kill_one_of(processes: Sequence[int], choice: float) -> bool:
        """End one of them without warning; whether there was one."""
        if not processes:
            return False
        try:
            os.kill(sorted(processes)[int(choice * len(processes))], signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def wait_until_all_is_read(self) -> None:
        """Return when all queries have ended a batch that ends where the input ends."""
        self.wait_until(
            lambda: all(self.feed.is_covered_by(each.committed_offsets()) for each in self.checkpoints)
        )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait while there is progress; start the driver again whenever it has ended."""
        seen, deadline = -1, 0.0
        while not condition():
            if not self.driver.is_running:
                self._start_again()
            now = time.monotonic()
            done = sum(each.begun() + each.committed() for each in self.checkpoints)
            if done > seen:
                seen, deadline = done, now + PROGRESS_WITHIN_S
            if now > deadline:
                raise NoProgress(f"no batch began or ended within {PROGRESS_WITHIN_S:g} s")
            time.sleep(POLL_INTERVAL_S)

    def _start_again(self) -> None:
        strikes = self.report.kills[Kind.DRIVER] + self.report.kills[Kind.TERMINATE]
        self.driver.start()
        self.report.failures = self.driver.runs - 1 - strikes
        if self.report.failures > MAX_FAILURES:
            raise NoProgress(f"the driver has ended by itself {self.report.failures} times")
