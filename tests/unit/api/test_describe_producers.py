from types import SimpleNamespace
from typing import Any

from kio.schema.describe_producers.v0 import DescribeProducersRequest
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.errors import ErrorCode

from ottla.protocol.errors import NotLeaderOrFollower


async def test_a_replica_that_does_not_lead_answers_too(bench: Any) -> None:
    followed = bench.partitions.add("orders", 0)
    followed.log.producers = SimpleNamespace(producers={})

    def get(topic: str, index: int) -> Any:
        raise NotLeaderOrFollower(f"{topic}-{index}")

    bench.partitions.get_replica = lambda topic, index: bench.partitions[topic, index]
    bench.partitions.get = get
    topic: Any = TopicRequest(name="orders", partition_indexes=(0,))  # type: ignore[arg-type]
    (found,) = (await bench.ask(DescribeProducersRequest(topics=(topic,)))).topics
    assert found.partitions[0].error_code is ErrorCode.none
