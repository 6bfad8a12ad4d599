"""Statistics of a topic, from a scan of all its records."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ottla.console import sse
from ottla.console.context import Context
from ottla.console.messages.positions import ranges_of
from ottla.console.messages.statistics import Statistics, analyze
from ottla.console.render import render
from ottla.console.table import Data, Download, Section, Stream, View
from ottla.console.views.topics import the_topic, topic_row


async def statistics(ctx: Context) -> Data:
    """Return what the page needs; the numbers come as a stream, because the topic is scanned."""
    snapshot, found = await the_topic(ctx)
    return {
        "tab": "statistics",
        "topic": topic_row(snapshot, found),
        "partition_count": len(found.partitions),
    }


async def scan(ctx: Context) -> Download:
    """Send what was counted, as the topic is scanned."""
    _, found = await the_topic(ctx)
    ranges = await ranges_of(ctx.admin.cluster, found.name)
    counted = analyze(ctx.admin.cluster, found.name, ranges, ctx.live.clock)
    return Download(sse.CONTENT_TYPE, None, sse.kept_alive(sse.reported(_events(ctx, counted))))


async def _events(ctx: Context, counted: AsyncIterator[Statistics]) -> AsyncIterator[bytes]:
    async for each in counted:
        numbers = each.as_json()
        shown = render("parts/statistics.html", statistics=numbers)
        yield sse.event("statistics", {"numbers": numbers, "html": shown})


SECTION = Section(
    "statistics",
    "Statistics",
    "",
    "",
    views=(View("/topics/{topic}/statistics", "Statistics of a topic", "topic_statistics.html", statistics),),
    streams=(
        Stream(
            "/topics/{topic}/scan",
            "Scan a topic for its statistics (server-sent events)",
            scan,
        ),
    ),
)
