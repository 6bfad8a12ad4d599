"""This broker's place in the cluster: its session in the store, and its candidacy for the controller.

A session that is lost is replaced by a new one, with a new broker epoch, as soon as the store
answers again. In between the broker neither leads nor is the controller: others may be. A candidacy belongs
to one session and ends with it; the next session brings the next candidacy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ottla.controller.term import ControllerTerm
from ottla.metadata.records import MetadataError
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store import MetadataStore, NodeIdInUse, Session, SessionLost

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""How long to wait before the store is asked again after it failed."""


class Membership:
    """Keeps a session alive, and stands for election with it. `new_term` makes a time in office."""

    def __init__(
        self,
        store: MetadataStore,
        node_id: int,
        new_term: Callable[[int], ControllerTerm],
        on_lost: Callable[[], None],
        on_renewed: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._new_term = new_term
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self._registration = BrokerRegistration()
        self._session: Session | None = None
        self._is_candidate = False
        self._keeper: asyncio.Task[None] | None = None
        self._candidacy: asyncio.Task[None] | None = None
        self.term: ControllerTerm | None = None
        """The time in office, while this broker is the controller."""

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of the session; -1 while there is none."""
        session = self._session
        return -1 if session is None or session.lost.done() else session.broker_epoch

    async def open(self, registration: BrokerRegistration) -> None:
        """Take a session, with which the broker may be the controller but is not yet in the cluster."""
        self._registration = registration
        self._session = await self._store.open_session(self._node_id, registration)
        self._keeper = asyncio.create_task(self._keep(), name="keep the session")

    async def register(self, registration: BrokerRegistration) -> None:
        """Say where the broker is, which makes it a part of the cluster."""
        self._registration = registration
        assert self._session is not None, "open the session first"
        await self._say(self._session)

    def registration_accepted(self) -> None:
        """The cluster knows what the last stop may have cost: of this process no session says it again."""
        self._registration = replace(
            self._registration, after_unclean_stop=False, may_have_lost_records=False, seems_whole=False
        )

    async def set_draining(self, aside: bool = True) -> None:
        """Ask for this broker's partitions to be led by others, or say that it may lead again."""
        if self._registration.wants_shutdown != aside:
            await self.register(replace(self._registration, wants_shutdown=aside))

    def stand_for_election(self) -> None:
        """Be a candidate for the controller from here on: with this session, and with those that follow."""
        self._is_candidate = True
        self._begin_candidacy()

    async def close(self) -> None:
        """Be no candidate, and the controller no longer; finish what was asked of it."""
        if self.term is not None:
            await self.term.stop()
            self.term = None
        for task in (self._keeper, self._candidacy):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._keeper = self._candidacy = None

    async def _keep(self) -> None:
        while True:
            assert self._session is not None
            await asyncio.shield(self._session.lost)
            logger.warning("the session in the store is lost: this broker leads nothing until it has another")
            try:
                self._on_lost()
            except Exception:
                logger.exception("this broker could not stop leading its partitions")
            try:
                await self._leave_office()
            except Exception:
                logger.exception("the controller could not leave office")
            self._session = await self._reopened()
            logger.info("a new session in the store: broker epoch %d", self._session.broker_epoch)
            self._begin_candidacy()
            try:
                # The controller may have been faster: the image that shows this epoch can be here already.
                await self._on_renewed()
            except Exception:
                logger.exception("the new session could not be made known in this broker")

    def _begin_candidacy(self) -> None:
        """Stand for election with the session, if it lives; if not, the next one is on its way."""
        session = self._session
        if self._is_candidate and self._candidacy is None and session is not None and not session.lost.done():
            self._candidacy = asyncio.create_task(self._run_terms(session), name="stand for election")

    async def _say(self, session: Session) -> None:
        """Let the session say what the broker last said of itself; if it is lost, the next one does."""
        while not session.lost.done():
            said = self._registration
            try:
                await self._store.update_registration(session, said)
            except SessionLost:
                return
            except MetadataError as error:
                logger.warning("the store does not take this broker's word, trying again: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                if said is self._registration:
                    return

    async def _reopened(self) -> Session:
        while True:
            said = self._registration
            try:
                session = await self._store.open_session(self._node_id, said)
                if said is not self._registration:
                    await self._say(session)
                return session
            except NodeIdInUse as error:
                logger.error("no new session, trying again: %s", error)
            except MetadataError as error:
                logger.warning("no new session, trying again: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _leave_office(self) -> None:
        term, candidacy = self.term, self._candidacy
        if candidacy is not None:
            candidacy.cancel()
        try:
            if term is not None:
                await (
                    term.step_down()
                )  # which ends the candidacy, too, should it not hear that it is cancelled
            if candidacy is not None:
                await asyncio.gather(candidacy, return_exceptions=True)
        finally:
            self.term = self._candidacy = None

    async def _run_terms(self, session: Session) -> None:
        """Stand for election until the session ends."""
        while not session.lost.done():
            try:
                await self._run_term(session)
            except SessionLost:
                return
            except MetadataError as error:
                logger.warning("no election, trying again: %s", error)
                await asyncio.sleep(RETRY_S)
            except Exception:
                logger.exception("the controller failed: another broker may do better")
                await asyncio.sleep(RETRY_S)

    async def _run_term(self, session: Session) -> None:
        """Wait to be elected, and be the controller until another one is."""
        epoch = await self._store.stand_for_election(session)
        logger.info("elected controller, epoch %d", epoch)
        term = self.term = self._new_term(epoch)
        try:
            await term.run()
        except Exception:
            logger.exception("the controller failed: another broker may do better")
            await asyncio.sleep(RETRY_S)
        logger.info("the controller of epoch %d has left office", epoch)
        await term.step_down()
        if self.term is term:
            self.term = None
        try:
            await self._store.resign(session)
        except MetadataError:
            pass  # whoever lost the session cannot be in office
