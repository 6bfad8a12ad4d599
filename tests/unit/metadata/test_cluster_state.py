import asyncio
import logging

import pytest

from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import ProducerIdsAllocated
from ottla.metadata.state import ClusterState

NEXT = EMPTY.apply([ProducerIdsAllocated(7)])


async def test_subscribers_see_the_old_and_the_new_image_until_they_stop() -> None:
    state = ClusterState()
    seen: list[tuple[int, int]] = []
    stop = state.subscribe(lambda old, new: seen.append((old.version, new.version)))
    await state.publish(NEXT)
    stop()
    await state.publish(NEXT.apply([]))
    assert seen == [(0, 1)]
    assert state.image.version == 2


async def test_publishing_waits_for_subscribers_that_take_their_time() -> None:
    state = ClusterState()
    may_go_on, steps = asyncio.Event(), []

    async def slow(_old: ClusterImage, new: ClusterImage) -> None:
        steps.append(state.image is new)
        await may_go_on.wait()
        steps.append("done")

    state.subscribe(slow)
    publishing = asyncio.ensure_future(state.publish(NEXT))
    await asyncio.sleep(0)
    assert steps == [True]
    assert not publishing.done()
    may_go_on.set()
    await publishing
    assert steps == [True, "done"]


async def test_a_subscriber_that_fails_does_not_hide_the_change_from_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = ClusterState()
    seen: list[int] = []

    def failing(_old: ClusterImage, _new: ClusterImage) -> None:
        raise OSError("disk gone")

    state.subscribe(failing)
    state.subscribe(lambda _old, new: seen.append(new.version))
    with caplog.at_level(logging.ERROR):
        await state.publish(NEXT)
    assert seen == [1]
    assert "disk gone" in caplog.text
