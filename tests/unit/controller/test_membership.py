"""A broker's session: what it says of itself gets through, whatever happens to sessions meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import cast

import pytest
from tests.waiting import until

from ottla.controller import membership
from ottla.controller.membership import Membership
from ottla.controller.term import ControllerTerm
from ottla.metadata.memory import MemoryServer, MemoryStore
from ottla.metadata.records import Endpoint
from ottla.metadata.registration import BrokerRegistration, SessionInfo
from ottla.metadata.store import Session

STARTING = BrokerRegistration(incarnation_id="i", directory_id="d")
READY = replace(STARTING, endpoints=(Endpoint("PLAINTEXT", "one", 9092),))
SOON_S = 5.0


class Bench:
    """One broker's membership; its notifications are in `lost` and `renewed`."""

    def __init__(self) -> None:
        self.server = MemoryServer(session_timeout_s=0.05)
        self.lost = self.renewed = 0
        self.members = Membership(
            MemoryStore(self.server, 1), 1, _no_term, self._count_lost, self._count_renewed, _trusted
        )

    def _count_lost(self) -> None:
        self.lost += 1

    async def _count_renewed(self) -> None:
        self.renewed += 1

    @property
    def said(self) -> BrokerRegistration | None:
        """What the store knows of the broker."""
        sessions: list[SessionInfo] = self.server.sessions()
        return sessions[0].registration if sessions else None

    until = staticmethod(until)


async def _trusted() -> None:
    """The store has not gone back."""


def _no_term(_: int) -> ControllerTerm:
    raise AssertionError("nobody stands for election here")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    await made.members.open(STARTING)
    yield made
    await made.members.close()


async def test_a_session_that_is_lost_is_replaced_with_a_greater_epoch(bench: Bench) -> None:
    before = bench.members.broker_epoch
    await bench.members.register(READY)
    bench.server.expire_node(1)
    await bench.until(lambda: bench.renewed == 1)
    assert bench.lost == 1
    assert bench.members.broker_epoch > before


async def test_a_process_that_lived_on_has_lost_nothing_with_its_session(bench: Bench) -> None:
    await bench.members.register(replace(READY, after_unclean_stop=True, may_have_lost_records=True))
    bench.members.registration_accepted()
    bench.server.expire_node(1)
    await bench.until(lambda: bench.renewed == 1)
    assert bench.said == replace(READY, after_unclean_stop=False, may_have_lost_records=False)


async def test_what_a_stop_may_have_cost_is_said_until_the_cluster_has_taken_the_broker_in(
    bench: Bench,
) -> None:
    unclean = replace(READY, after_unclean_stop=True, may_have_lost_records=True)
    await bench.members.register(unclean)
    bench.server.expire_node(1)
    await bench.until(lambda: bench.renewed == 1)
    assert bench.said == unclean


async def test_without_a_session_there_is_no_epoch(bench: Bench) -> None:
    bench.server.cut(1)
    await bench.until(lambda: bench.said is None)
    assert bench.members.broker_epoch > 0, "it cannot know yet"
    bench.server.heal(1)
    assert bench.members.broker_epoch == -1
    await bench.until(lambda: bench.members.broker_epoch > 0)


async def test_what_is_said_while_the_session_is_lost_is_said_by_the_next_one(bench: Bench) -> None:
    await bench.members.register(READY)
    bench.server.cut(1)
    await bench.until(lambda: bench.said is None)
    saying = asyncio.create_task(bench.members.set_draining())
    await asyncio.sleep(0)
    bench.server.heal(1)
    await saying
    await bench.until(lambda: bench.said is not None and bench.said.wants_shutdown)
    assert bench.said is not None
    assert bench.said.endpoints == READY.endpoints


async def test_a_short_cut_delays_the_word_but_does_not_lose_it(bench: Bench) -> None:
    await bench.members.register(READY)
    bench.server.session_timeout_s = 60.0
    bench.server.cut(1)
    saying = asyncio.create_task(bench.members.set_draining())
    await asyncio.sleep(0)
    bench.server.heal(1)
    await saying
    assert bench.lost == 0
    assert bench.said == replace(READY, wants_shutdown=True)


async def test_who_stood_aside_may_lead_again(bench: Bench) -> None:
    await bench.members.register(READY)
    await bench.members.set_full(draining=True, replicas=())
    assert bench.said == replace(READY, wants_shutdown=True)
    await bench.members.set_full(draining=False, replicas=(("t", (0,)),))
    assert bench.said == replace(READY, full_replicas=(("t", (0,)),))
    await bench.members.set_full(draining=False, replicas=())
    assert bench.said == READY


async def test_who_stops_does_not_lead_again_because_a_disk_has_space(bench: Bench) -> None:
    await bench.members.register(READY)
    await bench.members.set_full(draining=False, replicas=(("t", (0,)),))
    await bench.members.set_draining()
    await bench.members.set_full(draining=False, replicas=(("t", (0,)),))
    assert bench.said == replace(READY, wants_shutdown=True, full_replicas=(("t", (0,)),))
    await bench.members.set_full(draining=False, replicas=())
    assert bench.said == replace(READY, wants_shutdown=True)


class Candidate(Bench):
    """A membership whose times in office do nothing; `epochs` are those that it was elected with."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []
        self.members = Membership(
            MemoryStore(self.server, 1), 1, self._new_term, self._count_lost, self._count_renewed, _trusted
        )

    def _new_term(self, epoch: int) -> ControllerTerm:
        self.epochs.append(epoch)
        return cast(ControllerTerm, IdleTerm())


class IdleTerm:
    """A time in office that ends when it is told to."""

    def __init__(self) -> None:
        self._over = asyncio.Event()

    async def run(self) -> None:
        await self._over.wait()

    async def step_down(self) -> None:
        self._over.set()

    stop = step_down


@pytest.fixture
async def candidate(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Candidate]:
    monkeypatch.setattr(membership, "RETRY_S", 0.001)
    made = Candidate()
    await made.members.open(STARTING)
    yield made
    await made.members.close()


async def test_who_stands_while_the_session_is_being_replaced_is_a_candidate_with_the_next_one(
    candidate: Candidate,
) -> None:
    candidate.server.expire_node(1)
    candidate.server.cut(1)  # the next session has to wait
    await candidate.until(lambda: candidate.lost == 1)
    await candidate.members.register(READY)
    candidate.members.stand_for_election()
    candidate.server.heal(1)
    await candidate.until(lambda: bool(candidate.epochs))


async def test_a_candidacy_follows_every_session(candidate: Candidate) -> None:
    candidate.members.stand_for_election()
    for count in (1, 2, 3):
        await candidate.until(lambda: len(candidate.epochs) == count)  # noqa: B023
        candidate.server.expire_node(1)


async def test_an_unexpected_failure_ends_neither_the_sessions_nor_the_candidacies(
    candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    candidate.members.stand_for_election()
    await candidate.until(lambda: len(candidate.epochs) == 1)
    monkeypatch.setattr(candidate.members, "_on_lost", fail)
    monkeypatch.setattr(candidate.members, "_on_renewed", fail)
    monkeypatch.setattr(IdleTerm, "step_down", fail)
    candidate.server.expire_node(1)
    await candidate.until(lambda: len(candidate.epochs) == 2)
    monkeypatch.undo()
    candidate.server.expire_node(1)
    await candidate.until(lambda: len(candidate.epochs) == 3)


class EndlessTerm:
    """A term that lasts until it is cancelled."""

    def __init__(self) -> None:
        self.is_running = self.has_stepped_down = False

    async def run(self) -> None:
        self.is_running = True
        await asyncio.Event().wait()

    async def stop(self) -> None:
        self.has_stepped_down = True

    step_down = stop


async def test_a_broker_that_is_elected_while_it_stops_steps_down(monkeypatch: pytest.MonkeyPatch) -> None:
    async def elected_at_once(_: Session) -> int:
        return 1

    term = EndlessTerm()
    store = MemoryStore(MemoryServer(), 1)
    monkeypatch.setattr(store, "stand_for_election", elected_at_once)
    member = Membership(store, 1, lambda _: cast(ControllerTerm, term), lambda: None, _trusted, _trusted)
    await member.open(STARTING)
    member.stand_for_election()
    assert member.term is None
    await member.close()
    assert (term.is_running, term.has_stepped_down, member.term) == (True, True, None)
