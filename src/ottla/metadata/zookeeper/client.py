"""The connection to ZooKeeper: kazoo's calls as coroutines (zookeeper_threads.py, zookeeper_errors.py).

kazoo runs three threads: one for the connection, one that completes calls, one that runs watches. None
of them runs anything of ours except the few lines that post to the loop.

What the states of a connection mean here:

    connected     calls are answered
    suspended     the connection is lost, the session may live on; calls wait, and fail after a while
    session over  ZooKeeper said so when it was reached again; a new session follows by itself
    refused       ZooKeeper does not accept who we are; kazoo gives up, and so do we while we open. Later
                  we try again: a server that stops while it looks at a password looks just like that

With SASL a connection is reported before anyone has authenticated: `open` waits for a first answer.

A call during which the connection was lost may have happened or not. `retrying` repeats it, which is right
for reads and for changes that notice their own earlier success; `once` leaves the question to the caller.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kazoo import exceptions as kz
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from puresasl import SASLProtocolException, mechanisms  # type: ignore[import-untyped]

from ottla.metadata.records import MetadataError
from ottla.metadata.store import StoreUnavailable
from ottla.metadata.zookeeper.types import (
    Node,
    NodeChanged,
    NodeExists,
    NoNode,
    NotAuthenticated,
    Operation,
    RolledBack,
    ZooKeeperSettings,
    transaction_of,
)

# What kazoo raises, in our words: what went wrong, and what to do about it.

DISCONNECTED = (
    kz.ConnectionLoss,
    kz.SessionExpiredError,
    kz.SessionMovedError,
    kz.OperationTimeoutError,
    kz.ConnectionClosedError,
    kz.AuthFailedError,  # the connection ended with it; `refusal` says so to whoever opens the store
)
"""After these nobody knows whether the call happened."""

_TRANSLATED: dict[type[Exception], type[MetadataError]] = {
    kz.NoNodeError: NoNode,
    kz.NodeExistsError: NodeExists,
    kz.BadVersionError: NodeChanged,
}
_REFUSALS = (kz.AuthFailedError, kz.SessionClosedRequireSaslError, kz.SASLException)


def translated(error: Exception, settings: ZooKeeperSettings) -> Exception:
    """Return our exception for what a call of kazoo raised."""
    for theirs, ours in _TRANSLATED.items():
        if isinstance(error, theirs):
            return ours(str(error) or theirs.__name__)
    if isinstance(error, KazooTimeoutError):
        return StoreUnavailable("ZooKeeper does not answer")
    if isinstance(error, _REFUSALS):
        return refusal(error, settings)
    if isinstance(error, kz.NoAuthError):
        return MetadataError(
            f"ZooKeeper at {settings.connect} keeps the nodes of this cluster for another user than "
            f"{_user(settings)}. Set zookeeper.sasl.username and zookeeper.sasl.password to those of the "
            "brokers that made them (with zookeeper.set.acl=true), or use another path in zookeeper.connect"
        )
    return MetadataError(f"ZooKeeper refused: {error!r}")


def refusal(error: Exception, settings: ZooKeeperSettings) -> StoreUnavailable:
    """Return why there will be no connection: `error` is what kazoo gave up with."""
    where = f"ZooKeeper at {settings.connect}"
    if not isinstance(error, _REFUSALS):
        return StoreUnavailable(f"{where} cannot be talked to: {error!r}")
    if "sasl_options" not in settings.options:
        return NotAuthenticated(
            f"{where} serves only those who authenticate. Set zookeeper.sasl.mechanism=DIGEST-MD5, "
            "zookeeper.sasl.username and zookeeper.sasl.password"
        )
    return NotAuthenticated(
        f"{where} did not accept {_user(settings)}. Compare zookeeper.sasl.username and "
        "zookeeper.sasl.password with the users in its JAAS file (without one it accepts nobody); "
        "its log says more"
    )


def _user(settings: ZooKeeperSettings) -> str:
    """Name the user, never the password."""
    options = settings.options.get("sasl_options")
    if options is None:
        return "nobody (no zookeeper.sasl.mechanism is set)"
    return f"the user {options.get('username', 'of the Kerberos ticket')!r} ({options['mechanism']})"


# Between kazoo's threads and the loop: what they run of ours, and how it gets across.


class Threads(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads; `on_failure` is told what ended one. kazoo itself would only print it."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        super().__init__()
        self._on_failure = on_failure

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:
        """Run the function in a thread."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:
                self._on_failure(error)

        thread: threading.Thread = super().spawn(run)
        return thread


@dataclass(frozen=True, slots=True)
class Notice:
    """A watch for kazoo. Notices of the same watch are equal, so kazoo keeps one of them per node."""

    post: Callable[..., None]
    watch: Callable[[], None]

    def __call__(self, _: Any) -> None:
        """Tell the loop."""
        self.post(self.watch)


def resolve(answer: asyncio.Future[Any], result: Any) -> None:
    """Give what kazoo answered to whoever waits for it; runs on the loop."""
    if answer.done():
        return
    if result.exception is not None:
        answer.set_exception(result.exception)
    else:
        answer.set_result(result.value)


# DIGEST-MD5 with an end.
#
# A ZooKeeper that has no JAAS file answers every token with an empty one. kazoo and pure-sasl would then
# send empty tokens for ever, as fast as they can, and not even notice that the client is closed. Only the
# very first challenge may be empty.


class DigestWithAnEnd(mechanisms.DigestMD5Mechanism):  # type: ignore[misc]
    """DIGEST-MD5 that refuses a server which does not take part."""

    _has_begun = False

    def process(self, challenge: bytes | None = None) -> bytes | None:
        """Return the answer to a challenge."""
        if not challenge and self._has_begun:
            raise SASLProtocolException("the server sends no challenge: it is not set up for SASL")
        self._has_begun = True
        answer: bytes | None = super().process(challenge)
        return answer


def install() -> None:
    """Let kazoo use it: pure-sasl's registry is the only way in."""
    mechanisms.mechanisms[DigestWithAnEnd.name] = DigestWithAnEnd


try:
    from kazoo import exceptions as kz
    from kazoo.client import KazooClient, KazooState
    from kazoo.protocol.states import KeeperState

except ImportError as error:  # pragma: no cover
    raise MetadataError(
        "a cluster on ZooKeeper needs the package kazoo: pip install 'ottla[zookeeper]'"
    ) from error

logger = logging.getLogger(__name__)

# kazoo speaks of every attempt to connect; we speak of what became of it.
logging.getLogger("kazoo").setLevel(logging.ERROR)
logging.getLogger("kazoo.client").addFilter(lambda each: "connection loop" not in each.getMessage())

RETRY_DELAY_S = 0.05
AFTER_REFUSAL_S = 1.0
CLOSE_WITHIN_S = 3.0
CLOSE_UNHEARD_WITHIN_S = 0.5
"""If there is no connection, nobody hears that the session ends."""
SHORTEST_CALL_TIMEOUT_S = 5.0
RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0, "max_jitter": 0.2}


_Request = Callable[[Any], Any]


class ZooKeeperClient:
    """A connection to ZooKeeper that comes back by itself, and its session.

    `on_connected(session_id)` is called on the loop with every new connection, `on_session_over()` when
    ZooKeeper ended the session.
    """

    def __init__(
        self,
        settings: ZooKeeperSettings,
        on_connected: Callable[[int], None],
        on_session_over: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._on_connected = on_connected
        self._on_session_over = on_session_over
        self._connected = asyncio.Event()
        self._refused: asyncio.Future[None] | None = None
        """While we open: fails if ZooKeeper does not accept us."""
        self._kazoo: Any = None
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._call_timeout_s = max(settings.session_timeout_ms / 1000, SHORTEST_CALL_TIMEOUT_S)

    @property
    def session_id(self) -> int:
        """The id of the session that the connection has now; 0 if it has none."""
        identity = self._kazoo.client_id
        return 0 if identity is None else int(identity[0])

    async def open(self) -> None:
        """Connect; raise StoreUnavailable if that takes too long, NotAuthenticated if we are refused."""
        self._loop = asyncio.get_running_loop()
        if "sasl_options" in self._settings.options:
            install()
        try:
            self._kazoo = KazooClient(
                self._settings.connect,
                timeout=self._settings.session_timeout_ms / 1000,
                connection_retry=RECONNECT,
                handler=Threads(lambda error: self._post(self._take_refusal, error)),
                **self._settings.options,
            )
        except (kz.ConfigurationError, ValueError, TypeError) as error:
            raise MetadataError(f"zookeeper.connect={self._settings.connect}: {error}") from error
        self._kazoo.add_listener(self._on_state)
        self._refused = self._loop.create_future()
        entering = asyncio.ensure_future(self._enter())
        try:
            await asyncio.wait([entering, self._refused], return_when=asyncio.FIRST_COMPLETED)
            await (self._refused if self._refused.done() else entering)
        except BaseException:
            entering.cancel()
            await self.close()
            raise
        finally:
            self._refused = None

    async def _enter(self) -> None:
        assert self._loop is not None
        await self._loop.run_in_executor(None, self._start, self._kazoo)
        try:
            async with asyncio.timeout(self._settings.connection_timeout_ms / 1000):
                await self._connected.wait()
        except TimeoutError:
            raise StoreUnavailable(
                f"no ZooKeeper at {self._settings.connect} within {self._settings.connection_timeout_ms} ms. "
                "Is it running? `ottla zookeeper start` runs one on this machine"
            ) from None
        await self._make_chroot()

    def _start(self, kazoo: Any) -> None:
        """Let kazoo connect, and reconnect by itself. Runs in a thread: it waits for kazoo's."""
        with self._starting:
            if self._kazoo is kazoo:
                try:
                    kazoo.start_async()
                except Exception as error:
                    self._post(self._take_refusal, error)

    async def _make_chroot(self) -> None:
        """Create the path that all others are below; kazoo cannot name it while it is the chroot."""
        chroot, self._kazoo.chroot = self._kazoo.chroot, ""
        try:
            await self.retrying(lambda kazoo: kazoo.ensure_path_async(chroot or "/"))
        finally:
            if self._kazoo is not None:
                self._kazoo.chroot = chroot

    async def close(self) -> None:
        """End the session and the connection."""
        kazoo, self._kazoo = self._kazoo, None
        if kazoo is None or self._loop is None:
            return
        kazoo.remove_listener(self._on_state)
        within_s = CLOSE_WITHIN_S if self._connected.is_set() else CLOSE_UNHEARD_WITHIN_S
        self._connected.clear()
        ended = asyncio.Event()

        def stop() -> None:
            try:
                with self._starting:
                    kazoo.stop()
                    kazoo.close()
            except Exception as error:
                logger.warning("the session with ZooKeeper could not be ended: %r", error)
            self._post(ended.set)

        # A thread that the process does not wait for: without ZooKeeper this can take very long.
        threading.Thread(target=stop, name="end zookeeper session", daemon=True).start()
        try:
            async with asyncio.timeout(within_s):
                await ended.wait()
        except TimeoutError:
            logger.warning("ZooKeeper does not answer: it will end the session by itself")

    # Calls

    async def get(self, path: str, watch: Callable[[], None] | None = None) -> Node:
        """Return a node; `watch` is called on the loop at its next change, or when the connection is lost."""
        data, stat = await self.retrying(lambda kazoo: kazoo.get_async(path, self._watch(watch)))
        return Node(data, stat.version, stat.czxid, stat.ephemeralOwner)

    async def exists(self, path: str, watch: Callable[[], None] | None = None) -> bool:
        """Return whether there is such a node; `watch` as for `get`, also if there is none yet."""
        request: _Request = lambda kazoo: kazoo.exists_async(path, self._watch(watch))  # noqa: E731
        return await self.retrying(request) is not None

    async def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the names of a node's children; `watch` is called when one comes or goes."""
        request: _Request = lambda kazoo: kazoo.get_children_async(path, self._watch(watch))  # noqa: E731
        return sorted(await self.retrying(request))

    async def ensure(self, path: str, data: bytes = b"") -> None:
        """Create a node and its parents where they are missing."""
        parent = path.rpartition("/")[0]
        await self.retrying(lambda kazoo: kazoo.ensure_path_async(parent or "/"))
        try:
            await self.retrying(lambda kazoo: kazoo.create_async(path, data))
        except NodeExists:
            pass

    async def put(self, path: str, data: bytes) -> None:
        """Set the data of a node, whatever its version."""
        await self.retrying(lambda kazoo: kazoo.set_async(path, data))

    async def delete(self, path: str, version: int = -1) -> None:
        """Delete a node if it is there."""
        try:
            await self.retrying(lambda kazoo: kazoo.delete_async(path, version))
        except NoNode:
            pass

    async def all_of(self, operations: Sequence[Operation], *, retrying: bool = False) -> list[Any]:
        """Do all of the operations or none; raise RolledBack. A `Put` returns the node's new version."""

        def commit(kazoo: Any) -> Any:
            return transaction_of(kazoo.transaction(), operations).commit_async()

        results = await (self.retrying(commit) if retrying else self.once(commit))
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(
                result, kz.RolledBackError | kz.RuntimeInconsistency
            ):
                raise RolledBack(index, translated(result, self._settings))
        return [getattr(each, "version", each) for each in results]

    async def retrying(self, request: _Request) -> Any:
        """Make a call, again and again while the connection is lost in the middle of it."""
        try:
            async with asyncio.timeout(self._call_timeout_s):
                while True:
                    try:
                        return await self.once(request)
                    except NotAuthenticated:
                        raise
                    except StoreUnavailable:
                        await asyncio.sleep(RETRY_DELAY_S)
                        await self._connected.wait()
        except TimeoutError:
            raise StoreUnavailable(f"ZooKeeper at {self._settings.connect} does not answer") from None

    async def once(self, request: _Request) -> Any:
        """Make a call; StoreUnavailable means that nobody knows whether it happened."""
        if self._kazoo is None or self._loop is None:
            raise StoreUnavailable("the connection to ZooKeeper is closed")
        answer: asyncio.Future[Any] = self._loop.create_future()
        request(self._kazoo).rawlink(lambda result: self._post(resolve, answer, result))
        try:
            async with asyncio.timeout(self._call_timeout_s):
                return await answer
        except TimeoutError:
            raise StoreUnavailable(f"ZooKeeper at {self._settings.connect} does not answer") from None
        except DISCONNECTED as error:
            raise StoreUnavailable(f"the connection to ZooKeeper was lost: {error!r}") from error
        except kz.KazooException as error:
            raise translated(error, self._settings) from error

    # What kazoo's threads call

    def _watch(self, watch: Callable[[], None] | None) -> Callable[[Any], None] | None:
        return None if watch is None else Notice(self._post, watch)

    def _on_state(self, state: str) -> None:
        kazoo = self._kazoo
        session_id = self.session_id if kazoo is not None else 0
        self._post(self._take_state, state, session_id)
        if kazoo is not None and kazoo.client_state == KeeperState.AUTH_FAILED:
            self._post(self._take_refusal, kz.AuthFailedError())

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to be told

    def _take_state(self, state: str, session_id: int) -> None:
        if self._kazoo is None:
            return
        if state == KazooState.CONNECTED:
            self._connected.set()
            self._on_connected(session_id)
            return
        was_connected = self._connected.is_set()
        self._connected.clear()
        if self._refused is not None:
            return  # not open yet: there was no session to lose
        if was_connected:
            logger.warning("ZooKeeper at %s: connection lost", self._settings.connect)
        if state == KazooState.LOST:
            self._on_session_over()

    def _take_refusal(self, error: Exception) -> None:
        """kazoo has given up."""
        if self._kazoo is None or self._loop is None:
            return
        reason = refusal(error, self._settings)
        if self._refused is None:
            logger.error("%s. Trying again", reason)
            kazoo, loop = self._kazoo, self._loop
            loop.call_later(AFTER_REFUSAL_S, lambda: loop.run_in_executor(None, self._start, kazoo))
        elif not self._refused.done():
            self._refused.set_exception(reason)
