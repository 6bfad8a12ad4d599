"""The harness: feeds the pipeline, strikes it, starts it again, and ends it when all is written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from tests.spark.fault_injection.brokers import Brokers, start_brokers
from tests.spark.fault_injection.checkpoint import Checkpoint
from tests.spark.fault_injection.driver import Driver
from tests.spark.fault_injection.feed import Feed
from tests.spark.fault_injection.job import COPIES, WINDOWS
from tests.spark.fault_injection.ledger import Verdict, verdict
from tests.spark.fault_injection.plan import Fault, Kind

POLL_INTERVAL_S = 0.02
PROGRESS_WITHIN_S = 180.0
MAX_FAILURES = 40


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
    say: Callable[[str], None] = print

    def run(self) -> Report:
        """Run all of it."""
        began = time.monotonic()
        brokers = start_brokers(self.brokers, self.folder)
        try:
            pipeline = Pipeline(self, brokers)
            try:
                pipeline.inject_faults()
                pipeline.finish()
            except AssertionError as error:
                error.add_note(pipeline.driver.log_tail())
                raise
            finally:
                pipeline.driver.end_everything()
            report = pipeline.report
            report.verdict = verdict(brokers.bootstrap, self.records)
            report.batches = sum(each.committed() for each in pipeline.checkpoints)
            report.seconds = time.monotonic() - began
            return report
        finally:
            brokers.stop()


class Pipeline:
    """The driver and its input, while they run."""

    def __init__(self, plan: FaultInjectionRun, brokers: Brokers) -> None:
        self.plan = plan
        self.brokers = brokers
        self.report = Report()
        root = plan.folder / "checkpoints"
        self.checkpoints = [Checkpoint(root / COPIES), Checkpoint(root / WINDOWS)]
        self.feed = Feed(brokers.bootstrap, brokers.replicas)
        arguments = ["--bootstrap", brokers.bootstrap, "--format", plan.connector, "--checkpoints", str(root)]
        arguments += ["--per-trigger", str(plan.per_trigger)]
        self.driver = Driver(arguments, plan.folder / "driver.log")

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

    def finish(self) -> None:
        """Let everything be read, close every window, and stop the driver as users do."""
        self.feed.send_up_to(self.plan.records)
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

    def wait_until_all_is_read(self) -> None:
        """Return when both queries have ended a batch that ends where the input ends."""
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
