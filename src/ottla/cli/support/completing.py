"""Shell completion of topics, groups and profiles; nothing if the broker does not answer quickly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

TIMEOUT_MS = 1_000


def topic_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics with this prefix; internal ones only if the prefix names them."""

    async def ask(cluster: Cluster) -> Iterable[str]:
        found = await cluster.refresh(None)
        return [name for name, each in found.items() if incomplete.startswith("_") or not each.is_internal]

    return _asked(ctx, ask, incomplete)


def group_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the groups with this prefix."""

    async def ask(cluster: Cluster) -> Iterable[str]:
        from ottla.client.admin.groups import Groups

        return [each.group_id for each in await Groups(cluster).list()]

    return _asked(ctx, ask, incomplete)


def profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the profiles with this prefix."""
    from ottla.cli.support.problems import Problem
    from ottla.cli.support.profiles import profiles_file, read_profiles

    try:
        names = read_profiles(profiles_file())[0]
    except Problem:
        return []
    return [name for name in names if name.startswith(incomplete)]


def _asked(
    ctx: click.Context, ask: Callable[[Cluster], Awaitable[Iterable[str]]], incomplete: str
) -> list[str]:
    """Return the broker's answer; nothing if there is none in time: completion must not print errors."""
    import asyncio

    from ottla.cli.support.session import options_of
    from ottla.client.cluster import Cluster

    async def names() -> Iterable[str]:
        options = options_of(ctx.params.get("bootstrap") or "127.0.0.1:9092", patience_ms=TIMEOUT_MS)
        async with asyncio.timeout(TIMEOUT_MS / 1000), Cluster(options=options) as cluster:
            return await ask(cluster)

    try:
        found = asyncio.run(names())
    except Exception:
        return []
    return sorted(name for name in found if name.startswith(incomplete))
