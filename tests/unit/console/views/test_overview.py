"""The overview shows what the person may see, although the console measures more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.console.access.roles import ADMIN, VIEWER, Role
from ottla.console.views.overview import history, visible_lags


def context(role: Role, series: str = "") -> Any:
    """Return a person with own connections, who sees the topic and the group `mine`."""

    async def list_groups() -> list[Any]:
        return [SimpleNamespace(group_id="mine")]

    async def snapshot() -> Any:
        return SimpleNamespace(info=SimpleNamespace(topics={"mine": None}))

    live = SimpleNamespace(name="one", snapshot=snapshot, clock=SimpleNamespace(wall_ms=lambda: 0))
    shared = SimpleNamespace(lags={"mine": 1, "secret": 2})
    read = SimpleNamespace(read=lambda cluster, names, since, until: {name: [] for name in names})
    return SimpleNamespace(
        live=live,
        role=role,
        admin=SimpleNamespace(list_groups=list_groups),
        console=SimpleNamespace(clusters={"one": shared}, history=read),
        query=lambda name: series,
        number=lambda name, default, **bounds: default,
    )


async def test_groups_that_may_not_be_seen_are_left_out() -> None:
    assert await visible_lags(context(VIEWER)) == {"mine": 1}
    assert await visible_lags(context(ADMIN)) == {"mine": 1, "secret": 2}


async def test_samples_of_what_may_not_be_seen_are_left_out() -> None:
    series = "records|topic.mine.records|topic.secret.bytes|group.mine.lag|group.secret.lag"
    found = await history(context(VIEWER, series))
    assert found["series"] == ["records", "topic.mine.records", "group.mine.lag"]
    assert len((await history(context(ADMIN, series)))["series"]) == 5
