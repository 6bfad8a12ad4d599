"""DescribeCluster: the brokers, the controller and the id of the cluster.

v1 lets the client ask for controllers instead of brokers, which only a controller listener could answer; v2
adds fenced brokers (registered, but not alive) on request.
"""

from __future__ import annotations

from kio.schema.describe_cluster.v2 import DescribeClusterRequest, DescribeClusterResponse
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import NOT_ASKED, cluster_operations
from ottla.api.support.context import RequestContext
from ottla.api.support.forwarding import controller_id_for_clients
from ottla.protocol.errors import MismatchedEndpointType, UnsupportedEndpointType
from ottla.protocol.types import NO_THROTTLE, BrokerId, i8, i32

BROKERS = 1
CONTROLLERS = 2


def describe_cluster(request: DescribeClusterRequest, ctx: RequestContext) -> DescribeClusterResponse:
    """Describe the cluster, with the addresses of this listener."""
    if request.endpoint_type == CONTROLLERS:
        raise MismatchedEndpointType("this is a broker listener, not a controller listener")
    if request.endpoint_type != BROKERS:
        raise UnsupportedEndpointType(f"unknown endpoint type {request.endpoint_type}")
    image = ctx.services.cluster.image
    brokers = tuple(
        DescribeClusterBroker(
            broker_id=BrokerId(broker.node_id),
            host=endpoint.host,
            port=i32(endpoint.port),
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in image.brokers.values()
        if not broker.fenced or request.include_fenced_brokers
        if (endpoint := broker.endpoint(ctx.connection.listener_name)) is not None
    )
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        endpoint_type=i8(BROKERS),
        cluster_id=image.cluster_id,
        controller_id=BrokerId(controller_id_for_clients(image, ctx)),
        brokers=brokers,
        cluster_authorized_operations=i32(cluster_operations(ctx) if asked else NOT_ASKED),
    )
