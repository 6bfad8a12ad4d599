"""kill -9 of the client and of the broker at every step of a transaction: what comes out is what went in.

A pipeline (tests/integration/transaction_pipeline.py) copies a topic in transactions, offsets included. The
tests walk the steps of the protocol: at each, a process is killed and restarted, and the work continues. In
the end the sink must hold every record of the source once, and the committed offsets must be its end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cluster.fault_proxy import FaultProxy, Step
from tests.cluster.faulty_broker import FaultyBroker, compile_library
from tests.integration.clients import Refused, wait_until
from tests.integration.transaction_libraries import ALL, CLASSIC
from tests.integration.transaction_pipeline import Pipeline, PipelineProcess
from tests.integration.transaction_stage import Stage
from tests.integration.transactions import END
from tests.integration.wire import Wire
from tests.integration.wire_transactions import fetch_offsets

from ottla.protocol.api_keys import ApiKey
from ottla.testing.broker_process import BrokerProcess

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
FAULT_WITHIN_S = 30
DONE_WITHIN_S = 40
APIS = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
LEFT_OUT = dict.fromkeys(
    ALL.keys() - CLASSIC.keys(), (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN)
)
"""What is not asked for with transaction.version=2."""

WALKS = int(os.environ.get("OTTLA_WALKS", "1"))
"""How often to walk all steps; records of one walk are aborted and written again now and then."""


class Walk:
    """A pipeline of one library through a proxy, and the source that feeds it."""

    def __init__(self, stage: Stage, broker: BrokerProcess, folder: Path) -> None:
        self.stage = stage
        self.broker = broker
        self.source, self.sink = stage.topic(2), stage.topic(3)
        self.values: list[list[bytes]] = [[], []]
        self.proxy = FaultProxy(broker.address)
        self._folder = folder

    def __enter__(self) -> Walk:
        self.proxy.__enter__()
        stage = self.stage
        self.pipeline = Pipeline(
            stage.library.name,
            self.proxy.address,
            *(self.source, 2, self.sink, 3, stage.name(), stage.name()),
            abort_every=4,
        )
        self.process = PipelineProcess(self.pipeline, self._folder / "pipeline.stderr")
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.proxy.__exit__()

    @property
    def steps(self) -> list[Step]:
        """All steps of the protocol as the library speaks it."""
        asked = [key for key in APIS if key not in LEFT_OUT.get(self.stage.library.name, ())]
        return [Step(key, when) for key in asked for when in ("before", "after")]

    def feed(self, name: str) -> None:
        """Give the pipeline something to do; the values tell which step it was for."""
        for partition, known in enumerate(self.values):
            more = [f"{name} {partition}:{len(known) + number}".encode() for number in range(3)]
            self.stage.fill(self.source, partition, more)
            known += more

    def fault(self, step: Step, action: Callable[[], None]) -> None:
        """Wait until the action was taken at a step."""
        self.proxy.arm(step, action)
        if step.api_key == ApiKey.INIT_PRODUCER_ID:
            self.process.kill()
            self.process.start()
        wait_until(lambda: self.proxy.is_firing or self.is_done(), f"{step}", FAULT_WITHIN_S)
        assert self.proxy.is_firing, f"the pipeline was done before {step}"
        wait_until(self.proxy.has_fired.is_set, f"the end of {step}", FAULT_WITHIN_S)

    def is_done(self) -> bool:
        """Return whether the pipeline has ended by itself."""
        try:
            return self.process.is_done()
        except AssertionError:
            if self.proxy.is_firing:  # since it was asked
                return False
            raise

    def is_idle(self) -> bool:
        """Return whether the pipeline has done all that it was given so far."""
        assert not self.process.is_done()
        wanted = {place: len(known) for place, known in zip(self.pipeline.places, self.values, strict=True)}
        with Wire(self.broker.address) as wire:
            try:
                return fetch_offsets(wire, self.pipeline.group, require_stable=True) == wanted
            except Refused:
                return False  # the coordinator is still loading

    def restart_broker(self) -> None:
        if not self.broker.is_running:
            self.broker.start()

    def restart_client(self) -> None:
        self.process.kill()
        self.process.start()

    def finish(self) -> None:
        """Let the pipeline come to its end, and check what came of it."""
        for partition in range(2):
            self.stage.fill(self.source, partition, [END])
        self.process.wait(DONE_WITHIN_S)
        assert self.pipeline.problems(self.values, self.stage.read(self.sink, 3)) == []
        ends = [len(each) + 1 for each in self.values]
        assert self.stage.committed(self.pipeline.group, *self.pipeline.places) == ends
        assert "Traceback" not in self.broker.stderr_path.read_text()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(params=ALL)
def walk(request: pytest.FixtureRequest, stack: ExitStack, tmp_path: Path) -> Walk:
    """Each library in turn, with a broker of its own."""
    broker = stack.enter_context(BrokerProcess(tmp_path / "data", settings=SETTINGS))
    stage = Stage(broker, ALL[request.param], stack)
    return stack.enter_context(Walk(stage, broker, tmp_path))


@pytest.mark.parametrize("victim", ["client", "broker"])
def test_the_client_or_the_broker_is_killed_at_every_step(walk: Walk, victim: str) -> None:
    for number in range(WALKS):
        for step in walk.steps:
            walk.feed(f"{number} {victim} {ApiKey(step.api_key).name} {step.when}")
            if victim == "client":
                walk.fault(step, walk.process.kill)
                walk.restart_client()
            else:
                walk.fault(step, walk.broker.kill)
                walk.restart_broker()
    walk.finish()


WRITES = 12
"""As many as a transaction with offsets takes, from its first record to its last marker."""


@pytest.fixture(scope="module")
def faulty_io(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize("library", ["aiokafka", "wire-v2"])
def test_the_broker_dies_before_every_write_of_a_transaction(
    library: str, faulty_io: Path, stack: ExitStack, tmp_path: Path
) -> None:
    """Between the decision and its markers too, and between one marker and the next."""
    broker = stack.enter_context(FaultyBroker(tmp_path / "data", faulty_io, SETTINGS))
    walk = stack.enter_context(Walk(Stage(broker, ALL[library], stack), broker, tmp_path))
    names = ("__transaction_state", "__consumer_offsets", walk.sink)
    for number in range(1, WRITES + 1):
        with ExitStack() as fault:
            with walk.proxy.holding():
                walk.feed(f"write {number}")
                fault.enter_context(broker.failing(*(f"write KILL{number} /{name}-" for name in names)))
            wait_until(
                lambda: not broker.is_running or walk.process.is_done(), f"write {number}", FAULT_WITHIN_S
            )
        walk.restart_broker()
        wait_until(walk.is_idle, "the work to be done", DONE_WITHIN_S)
    walk.finish()
