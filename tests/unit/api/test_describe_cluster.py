from typing import Any

import pytest
from kio.schema.describe_cluster.v2 import DescribeClusterRequest
from kio.schema.errors import ErrorCode

from ottla.protocol.errors import MismatchedEndpointType, UnsupportedEndpointType


def request(endpoint_type: int = 1, *, operations: bool = False) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=operations,
        endpoint_type=endpoint_type,  # type: ignore[arg-type]
        include_fenced_brokers=True,
    )


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described_in_every_version(bench: Any, version: int) -> None:
    response = await bench.ask(request(), version)
    assert response.error_code == ErrorCode.none
    assert response.cluster_id == bench.image.cluster_id
    assert response.controller_id == 1
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, "broker.example", 9092, "rack-1")
    assert not broker.is_fenced
    assert response.cluster_authorized_operations == -(2**31)


async def test_the_operations_are_reported_if_asked_for(bench: Any) -> None:
    operations = (await bench.ask(request(operations=True))).cluster_authorized_operations
    assert [bit for bit in range(32) if operations >> bit & 1] == [5, 7, 8, 9, 10, 11, 12]


async def test_other_kinds_of_endpoints_are_refused(bench: Any) -> None:
    with pytest.raises(MismatchedEndpointType):
        await bench.ask(request(2))
    with pytest.raises(UnsupportedEndpointType):
        await bench.ask(request(3))
