"""A run of the demo, from start to end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ottla.cli.demo.own_broker import answers, own_broker
from ottla.cli.demo.pipeline import python_pipeline, spark_pipeline
from ottla.cli.demo.screen import as_line, as_panel, ending
from ottla.cli.demo.state import (
    DemoState,
    Names,
    follow_progress,
    follow_results,
    free_names,
    measure_lag,
    orders,
    register_schema,
)
from ottla.cli.support import session
from ottla.cli.support.options import is_terminal, same_cluster
from ottla.cli.support.output import echo_err, print_json
from ottla.cli.support.problems import Problem
from ottla.client.admin.groups import Groups
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.common.tasks import cancel_and_wait
from ottla.protocol.errors import KafkaError

STARTS_WITHIN_S = 300.0
CAUGHT_UP_WITHIN_S = 20.0
TICK_S = 0.05
SHOWN_EVERY_S = 0.25
LINE_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run, and for how long."""

    seconds: float | None
    rate: int
    seed: int
    uses_spark: bool
    began: float
    """When the command was started, on the monotonic clock."""
    keeps_topics: bool = False


def run_demo(options: DemoOptions, bootstrap: str, is_named: bool) -> DemoState:
    """Run the demo and print how it ended."""
    try:
        state = asyncio.run(_run(options, bootstrap, is_named))
    except ClientError as error:
        raise session.no_response(error) from None
    except KafkaError as error:
        raise session.error_response(error) from None
    echo_err(ending(state))
    if not state.is_own_broker and options.keeps_topics:
        topics = f"{state.names.orders} {state.names.results}"
        echo_err(f"its topics remain; to delete them:  ottla topic delete {topics}{same_cluster()}")
    return state


def print_totals(state: DemoState) -> None:
    """Print the final results as JSON."""
    print_json(
        {
            "sent": {"orders": state.sent, "cents": state.sent_cents},
            "counted": {"orders": state.counted, "cents": state.counted_cents},
            "countries": {k: {"orders": v.orders, "cents": v.cents} for k, v in state.totals.items()},
            "complete": state.is_complete,
        }
    )


async def _run(options: DemoOptions, bootstrap: str, is_named: bool) -> DemoState:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        is_own = not is_named and not await answers(bootstrap)
        services: Mapping[str, str] = {}
        if is_own:
            echo_err("no broker is running: starting a temporary one, with schema registry and console")
            bootstrap, services = await stack.enter_async_context(own_broker())
        cluster = await stack.enter_async_context(Cluster(options=session.options_of(bootstrap)))
        names = await _make_topics(cluster)
        if not is_own and not options.keeps_topics:
            stack.push_async_callback(_delete, cluster, names)
        if options.uses_spark:
            from importlib.metadata import version

            what = f"Spark {version('pyspark')}"
            echo_err(f"starting {what}: the first results take a few seconds")
            failing = await stack.enter_async_context(spark_pipeline(cluster, names))
        else:
            what = "Python"
            failing = await stack.enter_async_context(python_pipeline(cluster, names))
        state = DemoState(names, bootstrap, is_own, what, services)
        if "registry" in services:
            await asyncio.to_thread(register_schema, services["registry"], names)
        await stack.enter_async_context(_in_background(follow_results(cluster, state)))
        await stack.enter_async_context(_in_background(follow_progress(cluster, state)))
        await stack.enter_async_context(_in_background(_show(state)))
        await _feed(cluster, state, options, stopping, failing)
        await _catch_up(cluster, state, stopping, failing)
    return state


async def _delete(cluster: Cluster, names: Names) -> None:
    """Delete what the demo has made on a broker that was running before."""
    admin = TopicAdmin(cluster)
    for name in (names.orders, names.results):
        await admin.delete_topic(name)
    with suppress(KafkaError):  # there is none if nothing was read yet
        await Groups(cluster).delete(names.group)


async def _make_topics(cluster: Cluster) -> Names:
    """Create topics with unused names; those of an earlier demo remain."""
    admin = TopicAdmin(cluster)
    names = free_names(await admin.list_topics())
    await admin.create_topic(names.orders, partitions=3)
    await admin.create_topic(names.results, partitions=1, configs={"cleanup.policy": "compact"})
    return names


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        await cancel_and_wait(task)


async def _feed(
    cluster: Cluster,
    state: DemoState,
    options: DemoOptions,
    stopping: asyncio.Event,
    failing: asyncio.Future[None],
) -> None:
    """Send orders at the given rate until the end; flush at the end."""
    feed = orders(options.seed)
    began = time.monotonic()
    async with AsyncProducer.on(cluster, session.settings_for(ProducerOptions, linger_ms=5)) as producer:
        while not stopping.is_set():
            now = time.monotonic()
            while state.sent < (now - began) * options.rate:
                order = next(feed)
                value = order.as_json(int(time.time() * 1000))
                await producer.send(state.names.orders, value, order.customer.encode())
                state.sent += 1
                state.sent_cents += order.cents
            if failing.done():
                failing.result()
            if not state.totals and now - began > STARTS_WITHIN_S:
                raise Problem(f"the pipeline had no results within {STARTS_WITHIN_S:g} s", "try: --no-spark")
            is_over = options.seconds is not None and now - options.began >= options.seconds
            if is_over and state.totals:  # never without results: Spark takes its time to start
                break
            await asyncio.sleep(TICK_S)


async def _catch_up(
    cluster: Cluster, state: DemoState, stopping: asyncio.Event, failing: asyncio.Future[None]
) -> None:
    """Wait until the pipeline has caught up; after Ctrl-C, only if it has started."""
    if stopping.is_set() and not state.totals:
        return
    stopping.clear()
    deadline = time.monotonic() + CAUGHT_UP_WITHIN_S
    while not state.is_complete and not stopping.is_set() and time.monotonic() < deadline:
        if failing.done():
            failing.result()
        await asyncio.sleep(TICK_S)
    await measure_lag(cluster, state)


async def _show(state: DemoState) -> None:
    """Redraw the screen until cancelled; without a terminal, print a line now and then."""
    if not is_terminal(sys.stderr):
        while True:
            await asyncio.sleep(LINE_EVERY_S)
            echo_err(as_line(state))
    from rich.console import Console
    from rich.live import Live

    with Live(as_panel(state), console=Console(stderr=True), auto_refresh=False) as live:
        try:
            while True:
                await asyncio.sleep(SHOWN_EVERY_S)
                live.update(as_panel(state), refresh=True)
        finally:
            live.update(as_panel(state), refresh=True)
