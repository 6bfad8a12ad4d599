"""The connection to ZooKeeper: kazoo's calls as coroutines, its errors as ours.

kazoo runs three threads: one for the connection, one that completes calls, one that runs watches. The only
code of ours in them posts to the event loop. The states of a connection:

    connected     calls are answered
    suspended     the connection is lost, the session may be alive; calls wait, and fail after a timeout
    session over  ZooKeeper reported it when it was reached again; a new session follows automatically
    refused       ZooKeeper rejects our credentials; kazoo gives up, and so do we during `open`. Later we
                  retry: a server that stops during authentication looks the same

With SASL a connection is reported before it is authenticated: `open` waits for a first response. A ZooKeeper
without a JAAS file answers every token with an empty one, and kazoo with pure-sasl would send empty tokens
forever; `StrictDigestMD5` allows only the first challenge to be empty.

A call during which the connection was lost may have been applied or not. `retrying` repeats it, which is
correct for reads and for changes that detect their own earlier success; `once` leaves that to the caller.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
    build_transaction,
)

try:
    from kazoo import exceptions as kz
    from kazoo.client import KazooClient, KazooState
    from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
    from kazoo.protocol.states import KeeperState
    from puresasl import SASLProtocolException, mechanisms  # type: ignore[import-untyped]
except ImportError as error:  # pragma: no cover
    raise MetadataError(
        "a cluster on ZooKeeper needs the package kazoo: pip install 'ottla[zookeeper]'"
    ) from error

logger = logging.getLogger(__name__)


DISCONNECTED = (
    kz.ConnectionLoss,
    kz.SessionExpiredError,
    kz.SessionMovedError,
    kz.OperationTimeoutError,
    kz.ConnectionClosedError,
    kz.AuthFailedError,  # it ended the connection; `authentication_error` is the error of `open`
)
"""After these it is unknown whether the call was applied."""

_TRANSLATED: dict[type[Exception], type[MetadataError]] = {
    kz.NoNodeError: NoNode,
    kz.NodeExistsError: NodeExists,
    kz.BadVersionError: NodeChanged,
}
_AUTHENTICATION_ERRORS = (kz.AuthFailedError, kz.SessionClosedRequireSaslError, kz.SASLException)


def translate_error(error: Exception, settings: ZooKeeperSettings) -> Exception:
    """Return our exception for one that kazoo raised."""
    for theirs, ours in _TRANSLATED.items():
        if isinstance(error, theirs):
            return ours(str(error) or theirs.__name__)
    if isinstance(error, KazooTimeoutError):
        return StoreUnavailable("ZooKeeper does not answer")
    if isinstance(error, _AUTHENTICATION_ERRORS):
        return authentication_error(error, settings)
    if isinstance(error, kz.NoAuthError):
        return MetadataError(
            f"ZooKeeper at {settings.connect} keeps the nodes of this cluster for another user than "
            f"{_user(settings)}. Set zookeeper.sasl.username and zookeeper.sasl.password to those of the "
            "brokers that made them (with zookeeper.set.acl=true), or use another path in zookeeper.connect"
        )
    return MetadataError(f"ZooKeeper refused: {error!r}")


def authentication_error(error: Exception, settings: ZooKeeperSettings) -> StoreUnavailable:
    """Return why there will be no connection; `error` is what kazoo gave up with."""
    where = f"ZooKeeper at {settings.connect}"
    if not isinstance(error, _AUTHENTICATION_ERRORS):
        return StoreUnavailable(f"{where} cannot be talked to: {error!r}")
    if "sasl_options" not in settings.options:
        return NotAuthenticated(
            f"{where} serves only those who authenticate. Set zookeeper.sasl.mechanism=DIGEST-MD5, "
            "zookeeper.sasl.username and zookeeper.sasl.password"
        )
    return NotAuthenticated(
        f"{where} did not accept {_user(settings)}. Compare zookeeper.sasl.username and "
        "zookeeper.sasl.password with the users in its JAAS file (without one it refuses every user); "
        "its log says more"
    )


def _user(settings: ZooKeeperSettings) -> str:
    """Return the name of the user, never the password."""
    options = settings.options.get("sasl_options")
    if options is None:
        return "an anonymous client (no zookeeper.sasl.mechanism is set)"
    return f"the user {options.get('username', 'of the Kerberos ticket')!r} ({options['mechanism']})"


class KazooThreads(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads; `on_failure` is called with the exception that ended one. kazoo would only print
    it.
    """

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
class WatchCallback:
    """A watch for kazoo. Callbacks of the same watch are equal, so kazoo keeps one of them per node."""

    post: Callable[..., None]
    watch: Callable[[], None]

    def __call__(self, _: Any) -> None:
        """Post the watch to the loop."""
        self.post(self.watch)


def resolve(answer: asyncio.Future[Any], result: Any) -> None:
    """Complete a future with kazoo's result; runs on the loop."""
    if answer.done():
        return
    if result.exception is not None:
        answer.set_exception(result.exception)
    else:
        answer.set_result(result.value)


class StrictDigestMD5(mechanisms.DigestMD5Mechanism):  # type: ignore[misc]
    """DIGEST-MD5 that rejects a server which does not take part."""

    _has_begun = False

    def process(self, challenge: bytes | None = None) -> bytes | None:
        """Return the response to a challenge."""
        if not challenge and self._has_begun:
            raise SASLProtocolException("the server sends no challenge: it is not set up for SASL")
        self._has_begun = True
        answer: bytes | None = super().process(challenge)
        return answer


def install_strict_digest_md5() -> None:
    """Make kazoo use it, through pure-sasl's registry."""
    mechanisms.mechanisms[StrictDigestMD5.name] = StrictDigestMD5


# kazoo logs every attempt to connect; we log the result.
logging.getLogger("kazoo").setLevel(logging.ERROR)
logging.getLogger("kazoo.client").addFilter(lambda each: "connection loop" not in each.getMessage())

RETRY_DELAY_S = 0.05
RECONNECT_DELAY_S = 1.0
CLOSE_TIMEOUT_S = 3.0
CLOSE_OFFLINE_TIMEOUT_S = 0.5
"""Without a connection, ZooKeeper does not learn that the session ends."""
MIN_CALL_TIMEOUT_S = 5.0
RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0, "max_jitter": 0.2}


_Request = Callable[[Any], Any]


class ZooKeeperClient:
    """A connection to ZooKeeper that reconnects automatically, and its session.

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
        self._silent_since_s = 0.0
        self._refused: asyncio.Future[None] | None = None
        """During `open`: fails if ZooKeeper rejects our credentials."""
        self._kazoo: Any = None
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._call_timeout_s = max(settings.session_timeout_ms / 1000, MIN_CALL_TIMEOUT_S)

    @property
    def session_id(self) -> int:
        """Return the id of the current session; 0 if there is none."""
        identity = self._kazoo.client_id
        return 0 if identity is None else int(identity[0])

    @property
    def silent_ms(self) -> int:
        """Return for how long there has been no connection; 0 if there is one."""
        if self._connected.is_set() or self._loop is None:
            return 0
        return max(1, int((self._loop.time() - self._silent_since_s) * 1000))

    async def open(self) -> None:
        """Connect; raise StoreUnavailable after a timeout, NotAuthenticated if our credentials are
        rejected.
        """
        self._loop = asyncio.get_running_loop()
        self._silent_since_s = self._loop.time()
        if "sasl_options" in self._settings.options:
            install_strict_digest_md5()
        try:
            self._kazoo = KazooClient(
                self._settings.connect,
                timeout=self._settings.session_timeout_ms / 1000,
                connection_retry=RECONNECT,
                handler=KazooThreads(lambda error: self._post(self._handle_failure, error)),
                **self._settings.options,
            )
        except (kz.ConfigurationError, ValueError, TypeError) as error:
            raise MetadataError(f"zookeeper.connect={self._settings.connect}: {error}") from error
        self._kazoo.add_listener(self._on_state)
        self._refused = self._loop.create_future()
        entering = asyncio.ensure_future(self._connect())
        try:
            await asyncio.wait([entering, self._refused], return_when=asyncio.FIRST_COMPLETED)
            await (self._refused if self._refused.done() else entering)
        except BaseException:
            entering.cancel()
            await self.close()
            raise
        finally:
            self._refused = None

    async def _connect(self) -> None:
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
        """Start kazoo, which reconnects automatically. Runs in a thread, because it waits for kazoo's
        threads.
        """
        with self._starting:
            if self._kazoo is kazoo:
                try:
                    kazoo.start_async()
                except Exception as error:
                    self._post(self._handle_failure, error)

    async def _make_chroot(self) -> None:
        """Create the chroot path; kazoo cannot address it while it is the chroot."""
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
        within_s = CLOSE_TIMEOUT_S if self._connected.is_set() else CLOSE_OFFLINE_TIMEOUT_S
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
        """Return whether a node exists; `watch` as for `get`, also if it does not exist yet."""
        request: _Request = lambda kazoo: kazoo.exists_async(path, self._watch(watch))  # noqa: E731
        return await self.retrying(request) is not None

    async def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the names of a node's children; `watch` is called when one is added or removed."""
        request: _Request = lambda kazoo: kazoo.get_children_async(path, self._watch(watch))  # noqa: E731
        return sorted(await self.retrying(request))

    async def ensure(self, path: str, data: bytes = b"") -> None:
        """Create a node and its parents if they do not exist."""
        parent = path.rpartition("/")[0]
        await self.retrying(lambda kazoo: kazoo.ensure_path_async(parent or "/"))
        try:
            await self.retrying(lambda kazoo: kazoo.create_async(path, data))
        except NodeExists:
            pass

    async def sync(self, path: str) -> None:
        """Wait until the server that we are connected to has all that the leader has."""
        await self.retrying(lambda kazoo: kazoo.sync_async(path))

    async def put(self, path: str, data: bytes) -> None:
        """Set the data of a node, regardless of its version."""
        await self.retrying(lambda kazoo: kazoo.set_async(path, data))

    async def delete(self, path: str, version: int = -1) -> None:
        """Delete a node if it exists."""
        try:
            await self.retrying(lambda kazoo: kazoo.delete_async(path, version))
        except NoNode:
            pass

    async def transact(self, operations: Sequence[Operation], *, retrying: bool = False) -> list[Any]:
        """Apply all of the operations or none; raise RolledBack. A `Put` returns the node's new version."""

        def commit(kazoo: Any) -> Any:
            return build_transaction(kazoo.transaction(), operations).commit_async()

        results = await (self.retrying(commit) if retrying else self.once(commit))
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(
                result, kz.RolledBackError | kz.RuntimeInconsistency
            ):
                raise RolledBack(index, translate_error(result, self._settings))
        return [getattr(each, "version", each) for each in results]

    async def retrying(self, request: _Request) -> Any:
        """Make a call, and repeat it while the connection is lost during it."""
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
        """Make a call; StoreUnavailable means that it may or may not have been applied."""
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
            raise translate_error(error, self._settings) from error

    # What kazoo's threads call

    def _watch(self, watch: Callable[[], None] | None) -> Callable[[Any], None] | None:
        return None if watch is None else WatchCallback(self._post, watch)

    def _on_state(self, state: str) -> None:
        kazoo = self._kazoo
        session_id = self.session_id if kazoo is not None else 0
        self._post(self._handle_state, state, session_id)
        if kazoo is not None and kazoo.client_state == KeeperState.AUTH_FAILED:
            self._post(self._handle_failure, kz.AuthFailedError())

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # the loop is closed

    def _handle_state(self, state: str, session_id: int) -> None:
        if self._kazoo is None:
            return
        if state == KazooState.CONNECTED:
            self._connected.set()
            self._on_connected(session_id)
            return
        was_connected = self._connected.is_set()
        self._connected.clear()
        if was_connected and self._loop is not None:
            self._silent_since_s = self._loop.time()
            self._loop.call_later(self._settings.session_timeout_ms / 1000, self._accept_any_state)
        if self._refused is not None:
            return  # not open yet: there was no session to lose
        if was_connected:
            logger.warning("ZooKeeper at %s: connection lost", self._settings.connect)
        if state == KazooState.LOST:
            self._on_session_over()

    def _accept_any_state(self) -> None:
        """After a session timeout without a connection, connect to servers with an older state too.

        A server refuses clients that have seen a newer transaction than it has; without this, a broker would
        never learn that ZooKeeper was restored from an older snapshot. Readers check versions (log.py).
        """
        if self._kazoo is not None and not self._connected.is_set():
            self._kazoo.last_zxid = 0

    def _handle_failure(self, error: Exception) -> None:
        """Handle that kazoo has given up."""
        if self._kazoo is None or self._loop is None:
            return
        reason = authentication_error(error, self._settings)
        if self._refused is None:
            logger.error("%s. Trying again", reason)
            kazoo, loop = self._kazoo, self._loop
            loop.call_later(RECONNECT_DELAY_S, lambda: loop.run_in_executor(None, self._start, kazoo))
        elif not self._refused.done():
            self._refused.set_exception(reason)
