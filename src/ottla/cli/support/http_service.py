"""Run a service that listens on HTTP until Ctrl-C or SIGTERM: what registry, Connect and console share."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import click

from ottla.cli.support import session
from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem


class RunningService(Protocol):
    """What a service is once it has started."""

    @property
    def url(self) -> str:
        """Where it listens."""


def run_http_service(
    what: str,
    where: tuple[str, int],
    make: Callable[[], AbstractAsyncContextManager[RunningService]],
    refusals: tuple[type[Exception], ...] = (),
) -> int:
    """Start what `make` returns, print where it is ready, and stop it when a signal says so.

    `refusals` are errors of its start whose text says everything; they are shown without a traceback.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return session.run_service(lambda: _until_stopped(what, where, make, refusals))


async def _until_stopped(
    what: str,
    where: tuple[str, int],
    make: Callable[[], AbstractAsyncContextManager[Any]],
    refusals: tuple[type[Exception], ...],
) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        async with make() as service:
            click.echo(f"ready: {what} at {service.url}")
            await stopped.wait()
            echo_err("stopping")
    except refusals as error:
        raise Problem(str(error)) from None
    except OSError as error:
        host, port = where
        raise Problem(
            f"cannot listen at {host}:{port}: {error.strerror or error}",
            "choose another:  --listen HOST:PORT",
        ) from None
    return 0
