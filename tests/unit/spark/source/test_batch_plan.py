"""Where a batch begins and ends, when its log has moved."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.common.ids import TopicPartition
from ottla.spark.errors import DataLoss, WrongOption
from ottla.spark.source.batch_reader import _plan
from ottla.spark.source.options import Bound, read_source_options

AT = TopicPartition("orders", 0)


class Watch:
    """The topic `orders`, whose log has the offsets 200 to 300: retention has deleted the others."""

    def __init__(self) -> None:
        self.partitions = [AT]
        self.topic_ids: dict[str, Any] = {}

    async def refresh(self) -> None:
        pass

    def check_all_there(self) -> None:
        pass

    async def offsets_at(self, bound: Bound, _: Any) -> dict[TopicPartition, int]:
        return {AT: (bound.offsets or {}).get(AT, 200)}

    async def ends(self, _: Any) -> dict[TopicPartition, int]:
        return {AT: 300}


async def plan(**more: str) -> list[Any]:
    given = {"subscribe": "orders", "kafka.bootstrap.servers": "h:1", **more}
    watch: Any = Watch()
    return await _plan(watch, read_source_options(given, is_stream=False))


async def test_a_batch_that_retention_has_deleted_is_lost_data_and_no_wrong_option() -> None:
    ending = {"endingOffsets": '{"orders":{"0":100}}'}
    with pytest.raises(DataLoss, match="begins at offset 200, after endingOffsets 100"):
        await plan(**ending)
    assert await plan(**ending, failOnDataLoss="false") == []


async def test_a_start_after_the_end_is_a_wrong_option() -> None:
    with pytest.raises(WrongOption, match="after the end of the batch"):
        await plan(startingOffsets='{"orders":{"0":250}}', endingOffsets='{"orders":{"0":220}}')
