"""An event loop in virtual time: no threads, no sockets, no waiting; one seed fixes a whole run.

    loop = SimLoop(seed)
    loop.run(main())                       # hours pass in milliseconds: waiting jumps the clock

Simulated processes. Whatever a `SimProcess` runs, it runs in a context that names it, and so does all that
follows from it: tasks, timers, callbacks. So a process can be stopped between two callbacks:

    process.kill()       as SIGKILL: nothing of it ever runs again, not even a `finally`
    process.pause()      as SIGSTOP: what is due waits, in order, until `resume`
    process.starve(s)    as with a CPU quota: every callback takes `s` seconds, until `starve(0)`

Ready callbacks run first in, first out, as asyncio promises. What varies with the seed is how long things
take: the network's delays (sim_network.py) and what an executor is asked to do.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from ottla.common.ids import chance_from

if TYPE_CHECKING:
    from ottla.testing.simulation.network import SimNetwork

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PROCESS: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar("process", default=None)
"""The process that runs now; None for the test itself."""

NO_PROCESS = contextvars.Context()
EXECUTOR_S = (0.0001, 0.004)
MAX_CALLBACKS = 5_000_000
MAX_TIME_S = 300.0
CANCELLED_TIMERS = 200


class Deadlock(Exception):
    """Nothing can happen any more, or there is no end."""


class SimProcess:
    """One process on one host. What it runs is started with `spawn`."""

    def __init__(self, loop: SimLoop, host: str) -> None:
        self.loop = loop
        self.host = host
        self.is_dead = False
        self.is_halted = False
        """Nothing runs: dead, or paused."""
        self.callback_s = 0.0
        """How long a callback takes; 0 unless it is starved."""
        self.is_busy = False
        """A callback takes its time: what is due waits for it."""
        self.died: asyncio.Future[None] = loop.create_future()
        self.tasks: list[asyncio.Task[Any]] = []
        """What was running when it died; kept, or the collector would run their `finally`s."""
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)
        self._held: deque[Handle] = deque()

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine in this process."""
        return self.loop.create_task(coroutine, name=name, context=self.context.copy())

    def hold(self, handle: Handle) -> None:
        """Keep what is due until the process runs again, or is buried."""
        self._held.append(handle)

    def starve(self, callback_s: float) -> None:
        """Take so long for every callback from now on."""
        self.callback_s = 0.0 if self.is_dead else callback_s

    def keep_busy(self) -> None:
        """Let the time of one callback pass before the next one runs."""
        self.is_busy = True
        self.loop.call_at(self.loop.now + self.callback_s, self._run_next, context=NO_PROCESS)

    def _run_next(self) -> None:
        """Run the first callback that waits; the others wait for it."""
        self.is_busy = False
        while self._held and not self.is_halted:
            handle = self._held.popleft()
            if not handle._cancelled:
                self.is_busy = True
                handle._run()
                self.keep_busy()
                return

    def pause(self) -> None:
        """Stop running, as by SIGSTOP."""
        self.is_halted = True

    def resume(self) -> None:
        """Resume, as by SIGCONT: first with all callbacks that came due."""
        if not self.is_dead:
            self._run_held()

    def kill(self) -> None:
        """Never run again."""
        self.is_dead = self.is_halted = True
        self.callback_s = 0.0
        if not self.died.done():
            self.died.set_result(None)
        self.tasks = [task for task in self.loop.living_tasks() if task.process is self]

    def bury(self) -> None:
        """At the end of a run, let the tasks of a dead process end in order."""
        self._run_held()

    def _run_held(self) -> None:
        self.is_halted = False
        self.loop.run_held(self._held)
        self._held = deque()


class SimTask(asyncio.Task[Any]):
    """A task hashed by its number, so that a set of tasks has the same order in every run."""

    def __init__(self, number: int, *args: Any, **kwargs: Any) -> None:
        self.number = number
        self.process = PROCESS.get() if kwargs.get("context") is None else kwargs["context"].get(PROCESS)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.BaseEventLoop):
    """The loop; see the top of this file."""

    network: SimNetwork
    """Set by the network that is made for this loop."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.now = 0.0
        self.chance = Random(seed)
        self.problems: list[str] = []
        """Unhandled exceptions."""
        self.callbacks = 0
        self._numbers = itertools.count()
        self._ready: deque[Handle]
        self._timers: list[tuple[float, int, TimerHandle]] = []
        """A heap by time, and for one time in the order in which they were set."""
        self._timers_set = 0
        self._timers_cancelled = 0
        self.set_task_factory(self._new_task)
        self.set_exception_handler(self._on_exception)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to the end; what the product takes from `ottla.common.ids` comes from the seed, too."""
        with chance_from(self.chance.randbytes):
            return self.run_until_complete(coroutine)

    def time(self) -> float:
        """Return the virtual time, in seconds since the start."""
        return self.now

    def living_tasks(self) -> list[SimTask]:
        """Return the tasks that are not done, oldest first."""
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)]
        return sorted(tasks, key=lambda task: task.number)

    def run_held(self, handles: deque[Handle]) -> None:
        """Run what a process had to hold."""
        self._ready.extend(handles)

    # What asyncio calls

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Handle:
        """Call back in this round or the next."""
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> TimerHandle:
        """Call back at a time."""
        timer = TimerHandle(when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined]
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, timer))
        return timer

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Handle:
        """Call back soon: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call `func` after a while, and say so after a while more."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                outcome = func(*args)
            except BaseException as error:
                self.call_later(self.chance.uniform(*EXECUTOR_S), _fail, future, error)
            else:
                self.call_later(self.chance.uniform(*EXECUTOR_S), _finish, future, outcome)

        self.call_later(self.chance.uniform(*EXECUTOR_S), work)
        return future

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        """Listen in the simulated network."""
        return self.network.listen(protocol_factory, host, port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """Connect through the simulated network."""
        return await self.network.connect(protocol_factory, host, port)

    def _new_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **kwargs: Any) -> asyncio.Task[Any]:
        return SimTask(next(self._numbers), coroutine, loop=loop, **kwargs)

    def _on_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        process = PROCESS.get()
        if process is None or not process.is_dead:
            self.problems.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _write_to_self(self) -> None:
        """Do nothing: no thread has to be woken."""

    def _timer_handle_cancelled(self, _: TimerHandle) -> None:
        """A timer that is set was cancelled."""
        self._timers_cancelled += 1

    def _run_once(self) -> None:
        """Run what is ready; if nothing is, it becomes the time of the next timer."""
        ready = self._ready
        if self._timers_cancelled > CANCELLED_TIMERS:
            self._drop_cancelled_timers()
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            self._timers_cancelled -= 1
            heapq.heappop(timers)[2]._scheduled = False  # type: ignore[attr-defined]
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Deadlock("every task waits, and no timer is set")
            self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        count = len(ready)
        self.callbacks += count
        if self.callbacks > MAX_CALLBACKS or self.now > MAX_TIME_S:
            raise Deadlock(f"no end after {self.callbacks} callbacks, at {self.now:.3f} s")
        for _ in range(count):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
            if process is not None and (process.is_halted or process.is_busy):
                process.hold(handle)
                continue
            handle._run()
            if process is not None and process.callback_s:
                process.keep_busy()

    def _drop_cancelled_timers(self) -> None:
        living = []
        for entry in self._timers:
            if entry[2].cancelled():
                entry[2]._scheduled = False  # type: ignore[attr-defined]
            else:
                living.append(entry)
        heapq.heapify(living)
        self._timers = living
        self._timers_cancelled = 0


def _finish(future: asyncio.Future[T], outcome: T) -> None:
    if not future.done():
        future.set_result(outcome)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


# The clocks of a simulated host: monotonic time is the loop's, wall time may be wrong.

EPOCH_MS = 1_760_000_000_000
"""When every simulation begins."""


class SimClock:
    """A host's clocks; `skew_ms` is how far its wall clock is off, and may be changed at any time."""

    def __init__(self, loop: SimLoop, skew_ms: int = 0) -> None:
        self.skew_ms = skew_ms
        self._loop = loop

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, as this host believes."""
        return EPOCH_MS + int(self._loop.now * 1000) + self.skew_ms

    def mono_ms(self) -> int:
        """Return milliseconds since the start of the simulation."""
        return int(self._loop.now * 1000)
