"""Shell completion of topics, groups, profiles and config keys; nothing if no broker answers quickly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ottla.client.cluster import Cluster
    from ottla.common.config.declaration import Config

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


def topic_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete `key=` of a topic's configs, with what each means."""
    from ottla.common.config.topic import TopicConfig

    return _keys(TopicConfig, incomplete, "=")


def unset_topic_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a topic's config."""
    from ottla.common.config.topic import TopicConfig

    return _keys(TopicConfig, incomplete, "")


def broker_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete `key=` of a broker's configs."""
    from ottla.common.config.broker import BrokerConfig

    return _keys(BrokerConfig, incomplete, "=")


def config_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete `key=` of a topic's configs if a topic is named, else of a broker's."""
    return (topic_keys if ctx.params.get("topic") else broker_keys)(ctx, param, incomplete)


def client_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete `key=` of the options that every client has."""
    from ottla.client.client_options import ClientOptions

    names = (name.replace("_", ".") for name in ClientOptions.declared())
    return sorted(f"{name}=" for name in names if name.startswith(incomplete))


def _keys(declared: type[Config], incomplete: str, after: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(f"{name}{after}", help=" ".join(key.doc.split()))
        for name, key in sorted(declared.KEYS.items())
        if name.startswith(incomplete)
    ]


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
