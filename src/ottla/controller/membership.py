"""This broker's session in the metadata store, and its candidacy for the controller.

A lost session is replaced by a new one, with a new broker epoch, as soon as the store responds again. In
between the broker leads no partition and is not the controller: others may be. A candidacy belongs to one
session and ends with it; the next session starts the next candidacy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ottla.common.tasks import cancel_and_wait
from ottla.controller.term import ControllerTerm
from ottla.metadata.records import MetadataError
from ottla.metadata.registration import BrokerRegistration, GroupedReplicas
from ottla.metadata.store import MetadataStore, NodeIdInUse, Session, SessionLost, StoreRolledBack

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""How long to wait after the store failed."""


class Membership:
    """Keeps a session alive, and stands for election with it. `new_term` creates a controller term."""

    def __init__(
        self,
        store: MetadataStore,
        node_id: int,
        new_term: Callable[[int], ControllerTerm],
        on_lost: Callable[[], None],
        on_renewed: Callable[[], Awaitable[None]],
        verify: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._new_term = new_term
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self._verify = verify
        self._registration = BrokerRegistration()
        self._session: Session | None = None
        self._is_candidate = False
        self._is_stopping = False
        self._keeper: asyncio.Task[None] | None = None
        self._candidacy: asyncio.Task[None] | None = None
        self.term: ControllerTerm | None = None
        """The controller term, while this broker is the controller."""

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of the session; -1 while there is none."""
        session = self._session
        return -1 if session is None or session.lost.done() else session.broker_epoch

    async def open(self, registration: BrokerRegistration) -> None:
        """Open a session, with which the broker may become the controller but is not part of the cluster
        yet.
        """
        self._registration = registration
        self._session = await self._store.open_session(self._node_id, registration)
        self._keeper = asyncio.create_task(self._keep_session(), name="keep the session")

    async def register(self, registration: BrokerRegistration) -> None:
        """Publish the broker's addresses, which makes it a part of the cluster."""
        self._registration = registration
        assert self._session is not None, "open the session first"
        await self._publish_registration(self._session)

    def registration_accepted(self) -> None:
        """Clear the flags of the unclean stop: the cluster knows them, and later sessions must not repeat
        them.
        """
        self._registration = replace(
            self._registration,
            after_unclean_stop=False,
            may_have_lost_records=False,
            seems_whole=False,
            lost_replicas=(),
        )

    async def set_draining(self) -> None:
        """Request that other brokers lead this broker's partitions, because it is stopping."""
        self._is_stopping = True  # a disk that has space again, or is full, changes nothing about it
        if not self._registration.wants_shutdown:
            await self.register(replace(self._registration, wants_shutdown=True))

    async def set_full(self, *, draining: bool, replicas: GroupedReplicas) -> None:
        """Request that other brokers lead all partitions of this broker, or these, because disks are full."""
        is_leaving = draining or self._is_stopping
        wanted = replace(self._registration, wants_shutdown=is_leaving, full_replicas=replicas)
        if wanted != self._registration:
            await self.register(wanted)

    async def set_offline_replicas(self, replicas: GroupedReplicas) -> None:
        """Publish the replicas whose log directory is offline: others lead them."""
        if self._registration.offline_replicas != replicas:
            await self.register(replace(self._registration, offline_replicas=replicas))

    def stand_for_election(self) -> None:
        """Become a candidate for the controller, with this session and later ones."""
        self._is_candidate = True
        self._begin_candidacy()

    async def close(self) -> None:
        """Withdraw the candidacy and end the controller term, after finishing its queued changes."""
        if self.term is not None:
            await self.term.stop()
            self.term = None
        for task in (self._keeper, self._candidacy):
            await cancel_and_wait(task)
        self._keeper = self._candidacy = None

    async def _keep_session(self) -> None:
        while True:
            assert self._session is not None
            await asyncio.shield(self._session.lost)
            logger.warning("lost the session with the metadata store: this broker leads nothing without one")
            try:
                self._on_lost()
            except Exception:
                logger.exception("cannot stop leading the partitions of this broker")
            try:
                await self._end_term()
            except Exception:
                logger.exception("cannot end the controller term")
            self._session = await self._reopen_session()
            logger.info("new session with the metadata store: broker epoch %d", self._session.broker_epoch)
            self._begin_candidacy()
            try:
                # The controller may have been faster: the image with this epoch may already be published.
                await self._on_renewed()
            except Exception:
                logger.exception("cannot apply the new session in this broker")

    def _begin_candidacy(self) -> None:
        """Stand for election with the session, if it is alive; otherwise the next one does."""
        session = self._session
        if self._is_candidate and self._candidacy is None and session is not None and not session.lost.done():
            self._candidacy = asyncio.create_task(self._run_terms(session), name="stand for election")

    async def _publish_registration(self, session: Session) -> None:
        """Publish the current registration with the session; if it is lost, the next one does."""
        while not session.lost.done():
            published = self._registration
            try:
                await self._store.update_registration(session, published)
            except SessionLost:
                return
            except MetadataError as error:
                logger.warning("cannot publish the broker's registration, retrying: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                if published is self._registration:
                    return

    async def _reopen_session(self) -> Session:
        while True:
            published = self._registration
            try:
                await self._verify()  # a store that went back must not count this broker as alive
                session = await self._store.open_session(self._node_id, published)
                if published is not self._registration:
                    await self._publish_registration(session)
                return session
            except NodeIdInUse as error:
                logger.error("cannot open a session, retrying: %s", error)
            except StoreRolledBack:
                pass  # the follower has logged it
            except MetadataError as error:
                logger.warning("cannot open a session, retrying: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _end_term(self) -> None:
        term, candidacy = self.term, self._candidacy
        if candidacy is not None:
            candidacy.cancel()
        try:
            if term is not None:
                # This ends the candidacy, too, should it not hear that it is cancelled.
                await term.step_down()
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
                logger.warning("cannot stand for election, retrying: %s", error)
                await asyncio.sleep(RETRY_S)
            except Exception:
                logger.exception("the controller failed, resigning so that another broker can be elected")
                await asyncio.sleep(RETRY_S)

    async def _run_term(self, session: Session) -> None:
        """Wait to be elected, and be the controller until another broker is."""
        epoch = await self._store.stand_for_election(session)
        logger.info("elected controller, epoch %d", epoch)
        term = self.term = self._new_term(epoch)
        try:
            await term.run()
        except Exception:
            logger.exception("the controller failed, resigning so that another broker can be elected")
            await asyncio.sleep(RETRY_S)
        finally:  # also if the broker stops just after it was elected
            await term.step_down()
            if self.term is term:
                self.term = None
        logger.info("the controller term of epoch %d has ended", epoch)
        try:
            await self._store.resign(session)
        except MetadataError:
            pass  # without a session this broker is not the controller
